"""The built package: its files, and what somebody who installs it can do. Marker `package`: `make test-package`."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import dlperf_logs
from tests.package.installed import BIN, ROOT, VERSIONS, build, call, make, pythons

pytestmark = pytest.mark.package

_STEPS = """\
import time
for i in range(40):
    time.sleep(0.01)
    print(f'step {i} loss {1 / (i + 1):.3f}', flush=True)
"""
_PATTERN = r"step (?P<step>\d+) loss (?P<loss>\S+)"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """From a clone that was worked in: a run in it has a link to the program that it ran."""
    run = ROOT / "build" / "a-run-of-the-tests"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    (run / "code").symlink_to(ROOT / "src" / "trainmark" / "workloads" / "mnist")
    yield build(tmp_path_factory.mktemp("first") / "dist")
    shutil.rmtree(run)


def test_the_package_is_the_same_bytes_each_time(built: tuple[Path, Path], tmp_path: Path) -> None:
    again = build(tmp_path / "dist")
    for first, second in zip(built, again, strict=True):
        assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest(), first.name


def test_the_tools_of_the_index_find_no_fault(built: tuple[Path, Path], tmp_path: Path) -> None:
    call(BIN / "twine", "check", "--strict", *built, cwd=tmp_path)
    call(BIN / "check-wheel-contents", built[1], cwd=tmp_path)


def test_what_is_in_the_package(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "CITATION.cff", "README.md", "Containerfile", "pyproject.toml"} <= names
    source = ROOT / "src"
    files = {one.relative_to(source).as_posix() for one in source.rglob("*") if one.is_file()}
    files = {name for name in files if "__pycache__" not in name and "egg-info" not in name}
    with zipfile.ZipFile(wheel) as archive:
        assert files == {name for name in archive.namelist() if name.startswith("trainmark/")}
        (metadata,) = (name for name in archive.namelist() if name.endswith("dist-info/METADATA"))
        text = archive.read(metadata).decode()
    assert "License-Expression: Apache-2.0" in text and "Requires-Dist: scipy" in text
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links and all(link.startswith(("https://", "#")) for link in links), links


@pytest.mark.parametrize("version", VERSIONS)
def test_the_bare_package_measures_and_reports(version: str, built: tuple[Path, Path], tmp_path: Path) -> None:
    """Without any extra: numbers, comparisons, pages; and a plain word where one is needed."""
    if version not in pythons():
        pytest.skip(f"no Python {version} here")
    # One of them as a machine has it that has nothing but pip.
    plain = pythons()[version] == sys.executable
    programs = make(tmp_path / "environment", pythons()[version], built[1], plain_pip=plain)
    trainmark, here = programs / "trainmark", tmp_path / "empty"
    here.mkdir()
    assert "SUCCEEDED" in call(trainmark, "run", "noop", cwd=here)
    (here / "train.py").write_text(_STEPS)
    for _ in range(2):
        argv = ("exec", "--repeat", "2", "--pattern", _PATTERN, "--batch", "8", "--", programs / "python", "train.py")
        assert "SUCCEEDED" in call(trainmark, *argv, cwd=here)
    first, second = sorted(path.name for path in (here / "runs").glob("*train*"))
    assert "samples/s" in call(trainmark, "report", second, cwd=here)
    call(trainmark, "report", second, "-o", "page.html", cwd=here)
    assert "<svg" in (here / "page.html").read_text()
    assert "overall" in call(trainmark, "compare", first, second, cwd=here)
    (here / "log").mkdir()
    (here / "log" / "resnet50_b128_fp32_1.log").write_text(dlperf_logs.mindspore(dlperf_logs.Run(60)))
    imported = (
        "import",
        "dlperf",
        "log",
        "--variant",
        "mindspore-resnet50",
        "--batch-size-per-device",
        "128",
        "--case",
        "1n1g",
    )
    assert "round(s)" in call(trainmark, *imported, cwd=here)
    for verb in (("run", "smoke"), ("diagnose", "mnist:pytorch:cpu:1:1:1"), ("peaks",), ("goodput", "smoke")):
        said = call(trainmark, *verb, cwd=here, code=3)
        assert "pip install 'trainmark[torch]'" in said and said.count("\n") == 1
    for extra, argv in {
        "automl": ("automl", "run", "demo"),
        "parquet": ("export", "parquet", first, "-o", "x"),
    }.items():
        said = call(trainmark, *argv, cwd=here, code=2)
        assert f"pip install 'trainmark[{extra}]'" in said and said.count("\n") == 1
    assert len(list((here / "runs").glob("*/manifest.json"))) == 4


def test_the_package_with_torch_trains(built: tuple[Path, Path], tmp_path: Path) -> None:
    wheel = f"trainmark[torch] @ {built[1].as_uri()}"
    programs = make(tmp_path / "environment", sys.executable, wheel)
    here = tmp_path / "empty"
    here.mkdir()
    call(programs / "trainmark", "data", "get", "fashion-mnist", "state-of-the-union", cwd=here)
    said = call(programs / "trainmark", "run", "smoke", cwd=here)
    # All but the case that trains nothing have a figure.
    assert "Results  9 of 10" in said


def test_sigstore_is_asked_and_says_that_there_is_no_network(built: tuple[Path, Path], tmp_path: Path) -> None:
    """What can be seen of it without its services: no signature is made, and a wrong one is found."""
    programs = make(tmp_path / "environment", sys.executable, f"trainmark[trust,sigstore] @ {built[1].as_uri()}")
    trainmark, here = programs / "trainmark", tmp_path / "empty"
    here.mkdir()
    shutil.copy(ROOT / "tests" / "trust" / "frozen" / "schema1-measured.tmk", here / "x.tmk")
    # A port that nobody listens at in the place of a way out.
    away = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "HOME": str(here)}
    said = call(
        "env",
        *(f"{name}={value}" for name, value in away.items()),
        trainmark,
        "key",
        "sign",
        "x.tmk",
        "--keyless",
        cwd=here,
        code=2,
    )
    assert "sigstore's services cannot be used from here" in said and said.count("\n") == 1
    assert not (here / "x.tmk.sigstore.json").exists()
    (here / "x.tmk.sigstore.json").write_text("{}")
    assert "the signature beside it is not of this bundle" in " ".join(
        call(trainmark, "verify", "x.tmk", cwd=here, code=4).split()
    )


def test_uvx_and_pipx_run_it(built: tuple[Path, Path], tmp_path: Path) -> None:
    for runner in ((BIN / "uvx", "--from"), (BIN / "pipx", "run", "--spec")):
        assert re.search(r"^trainmark \d", call(*runner, built[1], "trainmark", "--version", cwd=tmp_path), re.M)


def test_the_version_is_one(built: tuple[Path, Path], tmp_path: Path) -> None:
    """In the code, at the top of the changelog, in the citation, and in the tag, if this commit has one."""
    import trainmark

    version = trainmark.__version__
    assert f"-{version}" in built[0].name
    assert re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    if (ROOT / ".git").exists():
        tags = call("git", "-C", ROOT, "tag", "--points-at", "HEAD", cwd=tmp_path).split()
        assert all(tag == f"v{version}" for tag in tags if tag.startswith("v"))
