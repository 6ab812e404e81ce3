"""ais-bench: its folders as runs, our runs as its record, its configuration as a site and a suite."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Cli
from trainmark.errors import UserError
from trainmark.interop.aisbench import config
from trainmark.launch.sites import load_site
from trainmark.testing.formats import FormatContract

# The keys of the record and their types, as the tool's documentation shows them.
RECORD = {
    "accuracy": str,
    "average_power": (int, float),
    "dataload_end_time": "time",
    "dataload_start_time": "time",
    "efficientcy": (int, float),
    "energy_consumption": (int, float),
    "max_power": (int, float),
    "prepare_end_time": "time",
    "prepare_start_time": "time",
    "proc_end_time": "time",
    "proc_start_time": "time",
    "resource_util_ratio": (int, float),
    "throughput_ratio": str,
    "total_end_time": "time",
    "total_start_time": "time",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two servers of two cards, each on its own."""
    top = tmp_path / "result"
    for server, rates in enumerate(([225.25, 225.5], [225.0, 225.375])):
        (top / str(server)).mkdir(parents=True)
        for rank, rate in enumerate(rates):
            (top / str(server) / f"throughput_{rank}.json").write_text(str(rate))
        (top / f"accuracy_{server}.json").write_text(str(0.71 + server / 100))
    return top


class TestAisBench(FormatContract):
    @pytest.fixture
    def name(self) -> str:
        return "aisbench"

    @pytest.fixture
    def sample(self, folder: Path) -> Path:
        return folder


def test_a_folder_gives_the_speed_that_was_reported(cli: Cli, folder: Path) -> None:
    cli("import", "aisbench", str(folder), "--workload", "bert")
    (case,) = cli.json("report", cli.run_id())["cases"]
    assert case["case"].startswith("bert:mindspore:ascend:2:2:1")
    assert case["measurements"]["throughput"]["value"] == pytest.approx(901.125, rel=1e-4)


def test_a_rank_that_left_no_speed_is_no_smaller_sum(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "ranksize.json").write_text("2")
    (tmp_path / "r" / "throughput_0.json").write_text("100.0")
    cli("import", "aisbench", str(tmp_path / "r"), code=None)
    (case,) = cli.json("report", cli.run_id(), code=None)["cases"]
    assert case["state"] == "FAILED" and "1 of 2 ranks" in json.dumps(case)


def test_the_record_has_its_keys_and_true_values(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload("""
import os, time
import trainmark_probe as probe
probe.init(unit="things")
probe.init_end()
probe.train_start()
for step in range(5):
    time.sleep(0.02)
    probe.step(8, loss=1.0 / (step + 1))
probe.evaluate(accuracy=0.75)
probe.train_end()
probe.finish()
""")
    cli("run", str(make_suite("  - thing:none:cpu:1:2:1")))
    out = cli("export", "aisbench", "-o", str(cli.folder / "out")).stdout
    (file,) = (cli.folder / "out").rglob("train_result_info.json")
    record = json.loads(file.read_text())
    assert list(record) == list(RECORD)
    for name, kind in RECORD.items():
        if kind == "time":
            assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", record[name])
        else:
            assert isinstance(record[name], kind), name  # type: ignore[arg-type]
    assert record["accuracy"] == "0.75"
    (case,) = cli.json("report", cli.run_id())["cases"]
    speed = case["measurements"]["throughput"]["value"]
    assert float(record["throughput_ratio"]) == pytest.approx(speed)
    stamps = ["total_start_time", "prepare_start_time", "prepare_end_time", "proc_start_time", "proc_end_time"]
    times = [record[name] for name in stamps]
    assert times == sorted(times) and times[0][:4] >= "2024"
    assert f"report >> throughput_list:[{speed}] average:{speed}" in out
    assert "report >> accuracy_list:[0.75] average:0.75" in out
    if record["energy_consumption"] == 0:
        assert "energy_consumption is not known" in out, "0 is a note, not a measurement"


CONFIG = """
from easydict import EasyDict as ed
import os

access_config = ed({
    'access_key': 'AKAKAK',
    'secret_access_key': 'very-secret-key',
    'server': 'https://obs.cn-central-221.ovaijisuan.com',
    'region_name': 'cn-central-221',
    'project_id': '0123456789abcdef',
    'iam_endpoint': 'https://iam.cn-central-221.ovaijisuan.com',
    'obs_endpoint': 'https://obs.cn-central-221.ovaijisuan.com',
    'modelarts_endpoint': 'https://modelarts.cn-central-221.ovaijisuan.com',
})

session_config = ed({
    'hyperparameters': [
        {'label': 'config_path', 'value': 'resnet50_imagenet2012_Boost_config.yaml'},
        {'label': 'epoch_size', 'value': '90'},
        {'label': 'batch_size', 'value': '256'},
    ],
    'inputs': '/bench/imagenet/',
    'code_dir': '/bench/code/resnet/',
    'boot_file': '/bench/code/resnet/train.py',
    'job_name': "aisbench-debug",
    'framework_type': 'Ascend-Powered-Engine',
    'framework_version': 'MindSpore-1.3-cann_5.0.2-python3.7-euleros2.8-aarch64',
    'pool_id': None,
    'train_instance_type': 'modelarts.kat1.8xlarge',
    'train_instance_count': 2,
    'nas_type': None,
    'nas_mount_path': os.environ['HOME'],
    'out_base_url': "/bench/out/",
    'job_description_prefix': 'lmm-',
})
"""


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    folder = tmp_path / "code" / "config"
    folder.mkdir(parents=True)
    (folder / "modelarts_config.py").write_text(CONFIG)
    (folder / "config.sh").write_text(
        "#!/bin/bash\nexport PYTHON_COMMAND=python3.7\nexport SINGLESERVER_MODE=True\nexport GLOG_v=3\n"
        "export EPOCH_SIZE=90\nexport WHERE=$(pwd)\n"
    )
    (folder.parent / "config.json").write_text('{"testid": "20210126-ljp0IY", "tester_server_port": 9527}')
    return folder.parent


def test_a_configuration_becomes_a_site_and_a_suite(cli: Cli, configuration: Path, tmp_path: Path) -> None:
    said = cli("import", "modelarts-config", str(configuration), "-o", "out")
    site = load_site(cli.folder / "out" / "site.yaml")
    options: dict[str, Any] = site.launcher_options
    assert (options["region"], options["nodes"], options["single_server"]) == ("cn-central-221", 2, True)
    assert (options["flavor"], options["pool"]) == ("modelarts.kat1.8xlarge", None)
    assert options["code"] == "obs://bench/code/resnet/" and options["output"] == "obs://bench/out/"
    assert options["parameters"]["config_path"] == "resnet50_imagenet2012_Boost_config.yaml"
    assert site.data == {"dataset": "obs://bench/imagenet/"} and site.env == {"GLOG_v": "3"}
    suite = yaml.safe_load((cli.folder / "out" / "suite.yaml").read_text())
    assert suite["cases"] == ["resnet50:mindspore:ascend:2:8:1"] and suite["set"] == {"batch": 256}
    cli("plan", "out/suite.yaml", "--site", "out/site.yaml")
    # Keys are in one file that only its owner reads, and nowhere else.
    keys = cli.folder / "out" / "credentials.json"
    assert keys.stat().st_mode & 0o777 == 0o600
    assert json.loads(keys.read_text()) == {"access_key": "AKAKAK", "secret_key": "very-secret-key"}
    others = [
        file for file in cli.folder.rglob("*") if file.is_file() and file != keys and file.parent.name != "config"
    ]
    assert not [file for file in others if b"very-secret-key" in file.read_bytes()]
    assert "very-secret-key" not in said.stdout + said.stderr
    # What has no place is named.
    for name in ("job_name", "boot_file", "nas_mount_path", "EPOCH_SIZE", "WHERE", "testid", "epoch_size"):
        assert name in said.stdout, name


def test_nothing_of_a_configuration_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "modelarts_config.py").write_text(f"access_config = open({str(ran)!r}, 'w')\nsession_config = {{}}\n")
    config.convert(tmp_path)
    assert not ran.exists()


def test_a_folder_without_a_configuration_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no modelarts_config.py" in cli("import", "modelarts-config", "empty", "-o", "out", code=2).stderr
    with pytest.raises(UserError, match="no Python file"):
        (tmp_path / "empty" / "modelarts_config.py").write_text("x = (")
        config.convert(tmp_path / "empty")
