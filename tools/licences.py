#!/usr/bin/env python3
"""Lists every package that is installed beside trainmark, with version and licence. Exit code 1 when one has none."""

from __future__ import annotations

import sys
from importlib import metadata

UNKNOWN = "UNKNOWN"
# Where a package says its licence by a classifier, or by a name that is no SPDX identifier.
_SPDX = {
    "MIT License": "MIT", "BSD License": "BSD-3-Clause", "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0", "Apache License, Version 2.0": "Apache-2.0", "BSD": "BSD-3-Clause",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "Python Software Foundation License": "PSF-2.0",
    "ISC License (ISCL)": "ISC", "3-Clause BSD License": "BSD-3-Clause", "MIT license": "MIT", "Apache": "Apache-2.0",
}  # fmt: skip
_LONGEST = 60  # what is longer is the text of a licence


def licence_of(package: metadata.Distribution) -> str:
    """By its SPDX expression, else by a classifier, else by its own short name for it, else by the text it carries."""
    about = package.metadata
    expression = about.get("License-Expression")
    if expression:
        return str(expression)
    classifiers = [
        one.rpartition(" :: ")[2] for one in about.get_all("Classifier") or () if one.startswith("License ::")
    ]
    named = [one for one in classifiers if one != "OSI Approved"]
    if named:
        return " OR ".join(_SPDX.get(one, one) for one in named)
    said = str(about.get("License") or "").strip().splitlines()
    if len(said) == 1 and len(said[0]) <= _LONGEST:
        return _SPDX.get(said[0], said[0])
    return _by_text(package, "\n".join(said)) or UNKNOWN


def _by_text(package: metadata.Distribution, text: str) -> str:
    """From the first lines of the licence file, for the few licences that name themselves there."""
    for file in package.files or ():
        if "LICEN" in file.name.upper() and not text:
            try:
                text = file.read_text()
            except (OSError, UnicodeDecodeError):
                continue
    start = text[:2000]
    marks = {
        "Apache License": "Apache-2.0",
        "MIT License": "MIT",
        "Permission is hereby granted, free of charge": "MIT",
        "Redistribution and use in source and binary forms": "BSD-3-Clause",
        "Mozilla Public License": "MPL-2.0",
    }
    return next((name for mark, name in marks.items() if mark in start), "")


def installed() -> list[tuple[str, str, str]]:
    """Name, version and licence of each package, in order."""
    found = {one.metadata["Name"]: one for one in metadata.distributions() if one.metadata["Name"]}
    return sorted((name, one.version, licence_of(one)) for name, one in found.items() if name != "trainmark")


def main() -> None:
    rows = installed()
    width = max(len(name) + len(version) for name, version, _ in rows) + 2
    for name, version, licence in rows:
        sys.stdout.write(f"{f'{name} {version}':{width}}{licence}\n")
    unknown = [name for name, _, licence in rows if licence == UNKNOWN]
    if unknown:
        sys.exit(f"no licence is known of {', '.join(unknown)}")


if __name__ == "__main__":
    main()
