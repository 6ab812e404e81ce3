"""What trainmark is built of: pinned by hashes, with known licences, listed in a bill of materials."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def tool(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(TOP / "tools" / name), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_locks_are_complete_and_name_no_place() -> None:
    assert tool("lock.py", "--check").stderr == ""
    for lock in (TOP / "locks").glob("*.txt"):
        text = lock.read_text()
        entries = re.split(r"(?m)^(?=[a-z0-9])", text)[1:]
        assert entries and all("--hash=sha256:" in entry for entry in entries), lock.name
        assert "://" not in text and "--find-links" not in text and "--index" not in text, lock.name


def test_every_package_has_a_licence_and_is_in_the_bill(tmp_path: Path) -> None:
    said = tool("licences.py")
    assert said.returncode == 0, said.stderr
    assert tool("sbom.py", str(tmp_path / "sbom.json")).returncode == 0
    bill = json.loads((tmp_path / "sbom.json").read_text())
    assert bill["bomFormat"] == "CycloneDX" and len(bill["components"]) == len(said.stdout.splitlines())
    hashed = [one for one in bill["components"] if "externalReferences" in one]
    assert {"msgspec", "PyYAML", "numpy"} <= {one["name"] for one in bill["components"]} and hashed
