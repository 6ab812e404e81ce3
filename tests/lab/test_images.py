"""What hosts lack is brought there once: images pulled or built, packages installed."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import site
from lab.engines import IMAGE
from lab.lab import Lab
from tests.conftest import Cli
from tests.lab.conftest import attempt_dirs, only_case, soon_clean
from trainmark.i18n.speaker import say

pytestmark = pytest.mark.lab


def identities(lab: Lab, engine: str, image: str) -> set[str]:
    ask = (engine, "image", "inspect", "--format", "{{.Id}}", image)
    return {lab.on(host, *ask).stdout.strip() for host in lab.nodes}


def test_pull_what_is_missing(cli: Cli, hosts: Lab, pair: Path, site_file: Callable[..., Path]) -> None:
    """From the lab's own registry, and only where the site allows it."""
    image = f"{hosts.layout.registry}/pulled:1"
    hosts.on("node1", "docker", "tag", IMAGE, image)
    hosts.on("node1", "docker", "push", image)
    hosts.on("node1", "docker", "rmi", image)
    container = {**site.container("docker"), "image": image}
    said = cli("run", str(pair), "--site", str(site_file(container=container)), code=3).stderr
    assert f"image {image} is not here" in said
    cli("run", str(pair), "--site", str(site_file(container={**container, "pull": "missing"})))
    assert only_case(cli)["state"] == "SUCCEEDED" and len(identities(hosts, "docker", image)) == 1
    log = (cli.runs / cli.run_id() / "run.log").read_text()
    assert f"pulling {image} on node1, node2" in log and "node2: " in log
    (case,) = cli.json("goodput", cli.run_id())["cases"]
    assert case["goodput"]["start"]["image"]["value"] > 0
    soon_clean(hosts)


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_build_once_and_copy(cli: Cli, hosts: Lab, pair: Path, site_file: Any, tmp_path: Path, engine: str) -> None:
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    (recipe / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY word /word\n")
    (recipe / "word").write_text(f"made for {engine}")
    where = site_file(container={**site.container(engine), "image": {"build": str(recipe)}})
    for expected in (True, False):
        cli("run", str(pair), "--site", str(where))
        log = (cli.runs / cli.run_id() / "run.log").read_text()
        assert ("building trainmark/built:" in log) is expected and only_case(cli)["state"] == "SUCCEEDED"
    names = hosts.on("node2", engine, "images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split()
    (name,) = [name for name in names if "trainmark/built" in name]
    assert len(identities(hosts, engine, name)) == 1, "the same image everywhere"
    for host in hosts.nodes:
        assert list((hosts.layout.host(host) / "home/root/.trainmark/images").iterdir()) == []
    soon_clean(hosts)


def wheel(folder: Path) -> None:
    """A package made by hand: nothing is fetched."""
    info = "odd_thing-1.0.dist-info"
    with zipfile.ZipFile(folder / "odd_thing-1.0-py3-none-any.whl", "w") as out:
        out.writestr("odd_thing.py", "WORD = 'prepared'\n")
        out.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: odd-thing\nVersion: 1.0\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", "")


@pytest.mark.parametrize("engine", [None, "docker"])
def test_prepare_packages_once(
    cli: Cli, hosts: Lab, make_workload: Any, make_suite: Any, site_file: Any, tmp_path: Path, engine: str | None
) -> None:
    needs = tmp_path / "needs"
    needs.mkdir()
    (needs / "requirements.txt").write_text("odd-thing==1.0\n")
    (tmp_path / "values.env").write_text("# ours\nODD='a $HOME b'\n")
    wheel(needs)
    make_workload(
        "import os, odd_thing\nimport trainmark_probe as probe\nprobe.init(unit='x')\n"
        "print(odd_thing.WORD, os.environ['ODD'])\nprobe.finish()\n"
    )
    suite = make_suite("  - thing:none:cpu:2:1:1", extra="retries: 0")
    more = {"container": site.container(engine)} if engine else {}
    prepare = {"requirements": str(needs / "requirements.txt"), "options": ["--no-index"]}
    where = site_file(prepare=prepare, env_file=str(tmp_path / "values.env"), **more)
    made = []
    for _ in range(2):
        cli("run", str(suite), "--site", str(where))
        logs = [file.read_text() for file in attempt_dirs(cli)[-1].glob("*/rank*.out.log")]
        assert logs == ["prepared a $HOME b\n"] * 2
        folders = [(hosts.layout.host(host) / "home/root/.trainmark/prepared").glob("*/.*") for host in hosts.nodes]
        made.append({file: file.stat().st_mtime_ns for found in folders for file in found})
    assert made[0] == made[1] and len(made[0]) >= 2, "once, not for every run"
    soon_clean(hosts)


BACKEND = """
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "odd_kernels-1.0-py3-none-any.whl"
    info = "odd_kernels-1.0.dist-info"
    with zipfile.ZipFile(folder + "/" + name, "w") as out:
        out.writestr("odd_kernels.py", "WORD = 'built'\\n")
        out.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: odd-kernels\\nVersion: 1.0\\n")
        out.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        out.writestr(info + "/RECORD", "")
    return name
"""
MODULE = 'module() { [ "$2" != "no/such" ] && export LOADED="$LOADED $2"; }\n'


def test_an_extension_is_built_and_modules_are_loaded(
    cli: Cli, hosts: Lab, make_workload: Any, make_suite: Any, site_file: Any, tmp_path: Path
) -> None:
    """By a build of its own, which needs nothing from elsewhere. Caches are cleared, since root asks for it."""
    kernels = tmp_path / "odd kernels"
    kernels.mkdir()
    (kernels / "backend.py").write_text(BACKEND)
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (kernels / "pyproject.toml").write_text(build + '[project]\nname = "odd_kernels"\nversion = "1.0"\n')
    for host in hosts.nodes:
        (hosts.home(host) / ".bash_profile").write_text(MODULE)
    make_workload(
        "import os, odd_kernels\nimport trainmark_probe as probe\nprobe.init(unit='x')\n"
        "print(odd_kernels.WORD, os.environ['LOADED'])\nprobe.finish()\n"
    )
    suite = make_suite("  - thing:none:cpu:2:1:1", extra="retries: 0")
    more: dict[str, Any] = {"prepare": {"extensions": [str(kernels)], "options": ["--no-index"]}, "clear_caches": True}
    try:
        cli("run", str(suite), "--site", str(site_file(modules=["cuda/12.4", "gcc"], **more)))
        logs = [file.read_text() for file in attempt_dirs(cli)[-1].glob("*/rank*.out.log")]
        assert logs == ["built  cuda/12.4 gcc\n"] * 2
        assert not [note for note in [say(one) for one in only_case(cli)["notes"]] if "caches" in note]
        said = cli("run", str(suite), "--site", str(site_file(modules=["no/such"], **more)), code=3).stderr
        assert "no/such" in said, said
    finally:
        for host in hosts.nodes:
            (hosts.home(host) / ".bash_profile").unlink()
    soon_clean(hosts)


def test_an_ordinary_account(cli: Cli, hosts: Lab, pair: Path, site_file: Callable[..., Path]) -> None:
    """No root needed; what only root may do is said to be undone."""
    ssh = {"config": str(hosts.layout.ssh_config), "user": "bench"}
    cli("run", str(pair), "--site", str(site_file(ssh=ssh, python="/usr/bin/python3", clear_caches=True)))
    case = only_case(cli)
    assert case["state"] == "SUCCEEDED" and any(
        "caches were not cleared" in note for note in [say(one) for one in case["notes"]]
    )
    soon_clean(hosts)
    for host in hosts.nodes:
        assert (hosts.layout.host(host) / "home/bench/.trainmark").stat().st_uid != 0
