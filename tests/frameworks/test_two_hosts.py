"""Every framework with two ranks on each of two real hosts, which know each other by name; and DLPerf's table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import site
from lab.lab import Lab
from lab.layout import Options
from tests.conftest import Cli
from tests.lab.conftest import make_lab
from tests.workloads.conftest import write_digits
from trainmark import environments

from .conftest import FRAMEWORKS, TEXT

pytestmark = [pytest.mark.frameworks, pytest.mark.lab]


@pytest.fixture(scope="module")
def hosts(cache: Path) -> Iterator[Lab]:
    yield from make_lab(Options(name=f"test{os.getpid()}", nodes=2, binds=(str(cache),)))


@pytest.fixture
def site_file(hosts: Lab, whole_cache: Path, tmp_path: Path) -> Path:
    pythons = {name: environments.python_of(name) for name in FRAMEWORKS}
    file = tmp_path / "site.yaml"
    file.write_text(json.dumps(site.content(hosts.layout, pythons=pythons)))
    return file


@pytest.fixture
def data(hosts: Lab) -> Callable[[str], Path]:
    """Where both hosts see it."""

    def find(workload: str) -> Path:
        folder = hosts.layout.shared / workload
        if not folder.exists():
            folder.mkdir()
            (folder / "text.txt").write_text(TEXT)
            write_digits(folder, 320, 40)
        return folder / "text.txt" if workload == "bert" else folder

    return find


@pytest.mark.parametrize("case", ["mnist:pytorch", "mnist:mindspore", "mnist:tensorflow", "mnist:jax", "bert:paddle"])
def test_two_ranks_on_each_of_two_hosts_train_one_model(cli: Cli, site_file: Path, data, case: str) -> None:
    given = f"data={data(case.partition(':')[0])}"
    cli("run", f"{case}:cpu:2:2:1", "--preset", "smoke", "--site", str(site_file), "--set", given)
    (folder,) = (cli.runs / cli.run_id()).glob("*/round1/attempt1")
    files = sorted(folder.glob("*/events.jsonl"))
    events = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    weights = {event["rank"]: event["value"] for event in events if event.get("name") == "weights_sha256"}
    assert len(files) == 2 and sorted(weights) == [0, 1, 2, 3] and len(set(weights.values())) == 1


def test_one_command_gives_dlperfs_table_over_two_hosts(cli: Cli, site_file: Path) -> None:
    words = ("--grid", "1n1g,1n2g,2n1g,2n2g", "--site", str(site_file), "--dlperf", "out")
    cli("run", "resnet50:mindspore:cpu:1:1:1", "--preset", "smoke", "--set", "classes=10", *words)
    found = json.loads((cli.folder / "out" / "bz4_result.json").read_text())["rn50"]
    assert list(found) == ["1n1g", "1n2g", "2n1g", "2n2g"] and all(one["median_speed"] > 0 for one in found.values())
    table = (cli.folder / "out" / "bz4_result.md").read_text()
    assert table.count("\n| ") >= 5 and "| node_num | gpu_num | samples/s | speedup |" in table
