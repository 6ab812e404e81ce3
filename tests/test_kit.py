"""The kit: the same bytes each time, and all that its suite needs."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark import kit
from trainmark.errors import SiteError, UserError


def test_the_same_input_gives_the_same_bytes(cli: Cli, tmp_path: Path) -> None:
    for name in ("one.tar.gz", "two.tar.gz"):
        cli("kit", "-o", name, "--suite", "noop")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        names = archive.getnames()
        start = archive.getmember("trainmark-kit/trainmark-kit")
    assert {"trainmark-kit/log", "trainmark-kit/result", "trainmark-kit/suite.yaml"} <= set(names)
    assert start.mode == 0o755 and start.mtime == 0
    assert not [name for name in names if "__pycache__" in name]


def test_a_suite_brings_its_workloads_and_its_site(
    cli: Cli, tmp_path: Path, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload("print(1)")
    suite = make_suite("  - thing:none:cpu:1:1:1")
    (tmp_path / "site.yaml").write_text("schema: 1\nname: here\n")
    cli("kit", "-o", "kit.tar.gz", "--suite", str(suite), "--site", "site.yaml")
    with tarfile.open(tmp_path / "kit.tar.gz") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    top = tmp_path / "out" / "trainmark-kit"
    assert (top / "site.yaml").read_text() == "schema: 1\nname: here\n"
    assert "thing" in cli("plan", str(top / "suite.yaml")).stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--suite", "no-such"], "no built-in suite"), (["--extra", "nothing", "--suite", "noop"], "no such extra")],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    cli: Cli, tmp_path: Path, options: list[str], said: str
) -> None:
    assert said in cli("kit", "-o", "kit.tar.gz", *options, code=2).stderr
    assert not (tmp_path / "kit.tar.gz").exists()


def test_help_needs_no_environment(cli: Cli, tmp_path: Path) -> None:
    cli("kit", "-o", "kit.tar.gz", "--suite", "noop")
    with tarfile.open(tmp_path / "kit.tar.gz") as archive:
        archive.extractall(tmp_path / "a place", filter="data")
    script = tmp_path / "a place/trainmark-kit/trainmark-kit"
    for words in ([], ["--help"]):
        done = subprocess.run([script, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "") and "./trainmark-kit run" in done.stdout
    assert not (script.parent / "env").exists()


def test_no_secret_goes_into_a_kit(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    text = "schema: 1\nname: lab\nlauncher: ssh\nhosts: [n1]\n"
    text += "redfish: {url: https://b, user: u, password_file: /etc/own}\n"
    site.write_text(text + "container: {image: x, options: ['-e', 'HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz123456']}\n")
    with pytest.raises(UserError, match=r"site\.yaml:6: looks like a secret"):
        kit.make(tmp_path / "kit.tar.gz", "noop", site, "x86_64", [], wheels=False)
    assert not (tmp_path / "kit.tar.gz").exists()
    site.write_text(text)
    assert kit.make(tmp_path / "kit.tar.gz", "noop", site, "x86_64", [], wheels=False).files > 100


def test_pip_is_not_taken_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text("open('taken', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SiteError, match="pip could not get the packages"):
        kit.make(tmp_path / "kit.tar.gz", "noop", None, "no-such-machine", ["torch"], wheels=True)
    assert not (tmp_path / "taken").exists()
