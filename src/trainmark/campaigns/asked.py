"""A suite and a site as a campaign's record holds them: files may change before a campaign goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trainmark.errors import UserError
from trainmark.launch.sites import for_suite
from trainmark.spec.site import Site
from trainmark.spec.suite import Loaded, Suite
from trainmark.spec.yamlfile import Location

T = TypeVar("T")


class AskedSuite(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and where. `changed`: parameters set on the command line; `site_file`: whose peaks are used."""

    suite: Suite
    file: str
    folders: tuple[str, ...] = ()
    cwd: str | None = None
    site: Site
    site_file: str | None = None
    changed: dict[str, str] = {}
    seed: int | None = None
    seconds: float | None = None

    def loaded(self) -> Loaded:
        folders = tuple(Path(folder) for folder in self.folders)
        cwd = None if self.cwd is None else Path(self.cwd)
        return Loaded(self.suite, Location(self.file), folders, cwd, self.seconds)


def asked_suite(
    loaded: Loaded, site: Site, changed: dict[str, str], seed: int | None = None, site_file: Path | None = None
) -> AskedSuite:
    return AskedSuite(
        suite=loaded.suite,
        # A campaign may go on from another folder; a suite that no file holds has a name of another kind.
        file=str(loaded.file.resolve()) if loaded.file.is_file() else loaded.where.file,
        folders=tuple(str(folder) for folder in loaded.folders),
        cwd=None if loaded.cwd is None else str(loaded.cwd),
        site=for_suite(loaded, site),
        site_file=None if site_file is None else str(site_file.absolute()),
        changed=changed,
        seed=seed,
        seconds=loaded.seconds,
    )


def read(raw: dict[str, Any], kind: type[T], name: str) -> T:
    """What a campaign was asked for, from its record."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{name}: its record is broken: {error}") from None
