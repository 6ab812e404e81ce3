"""Environments: whole or not there, and found by the cases that need them. Nothing is fetched here."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from trainmark import environments
from trainmark.errors import SiteError, UserError

MAKE = """
import sys
from pathlib import Path
from trainmark import environments
environments._PINS = Path(sys.argv[1])
print(environments.create("tiny", None, lambda text: print(text, flush=True)))
"""


def wheel(folder: Path, program: str) -> Path:
    """A package that does `program` when it is imported."""
    path = folder / "tiny-1.0-py3-none-any.whl"
    folder.mkdir(exist_ok=True)
    about = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny.py", program)
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", f"tiny.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return path


def lock(package: Path, content: bytes | None = None) -> None:
    """What is asked for beside the pins: the package with the hash of its file."""
    found = content or (package.read_bytes() if package.exists() else b"")
    (package.parent / "locks").mkdir(exist_ok=True)
    line = f"tiny @ file://{package} --hash=sha256:{hashlib.sha256(found).hexdigest()}\n"
    (package.parent / "locks" / "tiny.txt").write_text(line)


@pytest.fixture
def pins(tmp_path, monkeypatch):
    def write(package: Path, python: str = f"{sys.version_info[0]}.{sys.version_info[1]}") -> Path:
        file = tmp_path / "pins.yaml"
        about = f'title: tiny, module: tiny, version: "1.0", python: ["{python}"], size: 1 kB'
        file.write_text(f"environments:\n  tiny: {{{about}, packages: [{package}]}}\n")
        lock(package)
        monkeypatch.setattr(environments, "_PINS", file)
        return file

    return write


def test_a_maker_that_is_killed_leaves_nothing_that_is_taken_for_whole(tmp_path, pins):
    package = wheel(tmp_path, "import time; time.sleep(600)")
    file = pins(package)
    maker = subprocess.Popen([sys.executable, "-c", MAKE, str(file)], text=True, start_new_session=True)
    installed = environments.home("tiny") / "lib"
    deadline = time.monotonic() + 60
    while not list(installed.glob("*/site-packages/tiny.py")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(installed.glob("*/site-packages/tiny.py"))
    os.killpg(maker.pid, signal.SIGKILL)
    maker.wait()
    assert environments.python_of("tiny") is None
    lock(wheel(tmp_path, "WORD = 'whole'"))
    done = environments.create("tiny", None, lambda text: None)
    said = subprocess.run([f"{done}/bin/python", "-c", "import tiny; print(tiny.WORD)"], capture_output=True, text=True)
    assert said.stdout == "whole\n"
    assert environments.python_of("tiny") == f"{done}/bin/python"
    assert environments.remove("tiny") == [done]
    assert not done.exists() and environments.python_of("tiny") is None


def test_two_makers_make_one(tmp_path, pins):
    file = pins(wheel(tmp_path, "import time; time.sleep(1)"))
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKE, str(file)], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [maker.communicate(timeout=120)[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0]
    assert sum("1 packages" in text for text in said) == 1, "it was made once"


def test_a_package_that_cannot_be_had_leaves_no_environment(tmp_path, pins):
    pins(tmp_path / "nothing-1.0-py3-none-any.whl")
    with pytest.raises(SiteError, match="failed: "):
        environments.create("tiny", None, lambda text: None)
    assert not environments.home("tiny").exists()


def test_a_package_that_is_not_the_locked_one_is_refused(tmp_path, pins):
    """Same name, same version, other bytes: an index that was taken over."""
    package = wheel(tmp_path, "WORD = 'ours'")
    pins(package)
    wheel(tmp_path, "WORD = 'theirs'")
    with pytest.raises(SiteError, match="DO NOT MATCH THE HASHES"):
        environments.create("tiny", None, lambda text: None)
    assert not environments.home("tiny").exists()


def test_every_environment_has_all_its_packages_locked_by_hash():
    for name, environment in environments.catalogue().items():
        entries = environments.lock(name).read_text().split("\n")
        locked = {line.split()[0] for line in entries if "==" in line}
        assert locked == set(environment.packages)
        assert sum("--hash=sha256:" in line for line in entries) >= len(locked)


def test_the_wrong_python_is_named(tmp_path, pins):
    pins(wheel(tmp_path, ""), "3.2")
    with pytest.raises(UserError, match=r"tiny 1\.0 has no packages for Python 3\.\d+ .*it runs on `3\.2`.*--python"):
        environments.create("tiny", None, lambda text: None)
    with pytest.raises(UserError, match=r"no environment `tinny` .did you mean `tiny`"):
        environments.named("tinny")


def test_a_case_without_its_framework_names_the_command_and_starts_nothing(cli):
    said = cli("run", "mnist:mindspore:cpu:1:2:1", "--preset", "smoke", code=3).stderr
    assert "mindspore is not installed" in said and "trainmark env create mindspore" in said
    assert not cli.runs.exists()


def test_a_site_with_a_python_that_lacks_it_is_told(cli):
    (cli.folder / "site.yaml").write_text(f"schema: 1\nname: here\npythons: {{jax: {sys.executable}}}\n")
    said = cli("run", "mnist:jax:cpu:1:1:1", "--site", "site.yaml", code=3).stderr
    assert f"jax is not installed in {sys.executable}" in said
    assert not cli.runs.exists()


def test_a_site_with_a_python_that_lacks_pytorch_is_told(cli):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(cli.folder / "bare")], check=True)
    python = cli.folder / "bare/bin/python"
    (cli.folder / "site.yaml").write_text(f"schema: 1\nname: here\npython: {python}\n")
    said = cli("run", "mnist:pytorch:cpu:1:1:1", "--preset", "smoke", "--site", "site.yaml", code=3).stderr
    assert f"pytorch is not installed in {python}" in said and "python: /path/to/python" in said
    assert not cli.runs.exists()


def test_a_version_that_the_environment_does_not_have(tmp_path, pins, monkeypatch):
    pins(wheel(tmp_path, ""))
    environments.create("tiny", None, lambda text: None)
    assert environments.choose("tiny", "1.0", None, "case") == environments.python_of("tiny")
    assert environments.choose("tiny", "1", None, "case") == environments.python_of("tiny")
    with pytest.raises(SiteError, match=r"has version 1\.0, the case asks for 2\.3; .*pythons: \{tiny"):
        environments.choose("tiny", "2.3", None, "case")


@pytest.mark.parametrize(
    ("case", "code", "words"),
    [
        ("mnist:pytorch+jax:cpu:1:2:1", 2, "pytorch"),
        ("mnist:pytorch,jax:cpu:1:2:1", 2, "pytorch"),
        ("mnist:pytorch:nvidia:1:64:1", 3, "no nvidia device was found"),
        ("gpt2:jax:cpu:1:1:1", 2, "has no entry for framework `jax`"),
        ("resnet50:mindspore:cpu:1:1:1@compile=true", 2, "`compile` of workload `resnet50` is for `pytorch`"),
        ("resnet50:pytorch:cpu:1:1:1@data_sink_steps=2", 2, "is for `mindspore`, and the case's framework is"),
        ("bert:paddle:cpu:1:1:1@recompute=true", 2, "`recompute` of workload `bert` is for `pytorch`"),
    ],
)
def test_what_cannot_be_run_is_refused(cli, case, code, words):
    assert words in cli("run", case, "--preset", "smoke", code=code).stderr
    assert not cli.runs.exists()


def test_every_pin_is_exact_and_every_framework_with_an_environment_is_known():
    from trainmark.frameworks.protocol import REGISTRY

    for name, environment in environments.catalogue().items():
        REGISTRY.check(name, "pins")
        assert all(package.count("==") == 1 and "://" not in package for package in environment.packages)
        assert any(package.endswith(f"=={environment.version}") for package in environment.packages)
