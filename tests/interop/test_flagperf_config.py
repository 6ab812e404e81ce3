"""FlagPerf's Python configuration, read without running it. The files are made after FlagPerf's documentation of
cluster_conf.py, test_conf.py and config_*.py (training/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.cli import main
from trainmark.errors import UserError
from trainmark.interop.flagperf import static
from trainmark.interop.protocol import REGISTRY
from trainmark.interop.reading.importing import import_results
from trainmark.interop.reading.records import Flag
from trainmark.testing.formats import check, read

CLUSTER = '"""Cluster"""\nHOSTS = ["127.0.0.1"]\nSSH_PORT = "22"\nMASTER_PORT = "29501"\n'
TEST = """\
import os
VENDOR = "nvidia"
ACCE_CONTAINER_OPT = " --gpus all"
FLAGPERF_PATH = "/home/FlagPerf/training"
FLAGPERF_LOG_PATH = FLAGPERF_PATH + "/result/"
SHM_SIZE = os.environ.get("SHM", "32G")
CASES = {
    "resnet50:pytorch_1.8:A100:1:8:1": "/raid/resnet50/train/",
    "faster_rcnn:pytorch_1.8:A100:1:8:1": "/raid/coco/",
}
"""
CONFIG = """\
from config_common import *
train_batch_size = 256 if dist_backend == "nccl" else 32
lr = 0.1 * 2
target_acc1 = 75.5
grad_scaler = GradScaler(init_scale=2.0**10)
open("ran", "w").write("it was run")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    config, case = tmp_path / "training" / "run_benchmarks" / "config", tmp_path / "training" / "nvidia"
    case = case / "resnet50-pytorch" / "config"
    for folder in (config, case):
        folder.mkdir(parents=True)
    (config / "cluster_conf.py").write_text(CLUSTER)
    (config / "test_conf.py").write_text(TEST)
    (case / "config_common.py").write_text('dist_backend = "nccl"\n')
    (case / "config_A100x1x8.py").write_text(CONFIG)
    return tmp_path / "training"


def test_what_it_makes_can_be_planned(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["import", "flagperf-config", str(tree), "-o", "out"]) == 0
    assert main.main(["plan", "out/suite.yaml", "--site", "out/site.yaml"]) == 0
    said = capsys.readouterr().out
    assert "batch=256" in said and "lr=0.2" in said and "target_accuracy=0.755" in said
    assert "data /raid/resnet50/train/" in said and "MASTER_PORT" in said
    assert not (tmp_path / "ran").exists() and not (tmp_path / "runs" / "x").exists()
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_could_not_be_read_is_listed(tree: Path) -> None:
    items = read(REGISTRY.get("flagperf-config"), tree)
    check(items)
    unread = [item.place.rpartition("/")[2] for item in items if isinstance(item, Flag) and item.rows]
    assert unread == ["config_A100x1x8.py:5", "config_A100x1x8.py:6", "test_conf.py:6"]
    (left,) = [item.place for item in items if isinstance(item, Flag) and item.kind == "left out"]
    assert left == "faster_rcnn:pytorch_1.8:A100:1:8:1"


def test_several_hosts_are_entered_by_ssh(tree: Path, tmp_path: Path) -> None:
    config = tree / "run_benchmarks" / "config" / "cluster_conf.py"
    config.write_text('HOSTS = ["n1", "n2"]\nSSH_PORT = "2222"\nHOSTS[0] = "x; rm -rf /"\n')
    brought = import_results("flagperf-config", tree, tmp_path / "runs", {"preset": "full"})
    (site,) = [one.content for one in brought.verbatim if one.name == "site.yaml"]
    assert yaml.safe_load(site) == {
        "schema": 1, "name": "flagperf", "launcher": "ssh", "hosts": ["n1", "n2"], "ssh": {"port": 2222},
        "devices": {"A100": "nvidia"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = 2 * 3 + 1", 7),
        ("a = 4\nx = a if a > 3 else 0", 4),
        ("a = [1, 2]\nx = a + [3]", [1, 2, 3]),
        ("x = {'a': (1, None)}\nx['b'] = -2.5", {"a": [1, None], "b": -2.5}),
        ("p = '/a'\nx = f'{p}/b' + '/c'", "/a/b/c"),
        ("x = 1\nx += 2", 3),
        ("x, y = 5, 6", 5),
        ("x = not 0 and 9", 9),
    ],
)
def test_values(text: str, value: object) -> None:
    found = static.read(text.encode(), {})
    assert found.values["x"] == value and not found.unread


@pytest.mark.parametrize(
    "text",
    [
        "x = f()",
        "x = 9 ** 9 ** 9",
        "x = 'a' * 10 ** 9",
        "x = __import__('os').system('true')",
        "x = 1\nx = y",
        "x = 1\nif True:\n    x = 2",
        "x = 1 / 0",
        "x = [i for i in range(10)]",
        "from elsewhere import *",
        "x = 10 ** 10 * 10 ** 10 * 10 ** 10 * 10 ** 10",
        "x = lambda: 1",
        "x = 1 +",
        "x = " + "(" * 5000,
        "x = " + "-" * 5000 + "1",
        "x = 1\0",
    ],
)
def test_what_would_have_to_be_run_is_unread(text: str) -> None:
    found = static.read(text.encode(), {})
    assert found.unread and "x" not in found.values


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text("x=12[]{}()'\"+-*/%,:\n afor", max_size=60).map(str.encode)))
def test_anything_can_be_read(text: bytes) -> None:
    found = static.read(text, {})
    assert found.statements >= found.passed + len(found.unread)


def test_a_folder_without_configuration_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config_common.py").write_text("a = 1\n")
    with pytest.raises(UserError, match="no round"):
        import_results("flagperf-config", tmp_path, tmp_path / "runs", {})


def test_a_file_whose_compression_is_broken_is_flagged(tree: Path) -> None:
    (tree / "config_common.py").write_bytes(b"\x1f\x8b\x08 no more")
    items = read(REGISTRY.get("flagperf-config"), tree)
    check(items)
    assert [item.place for item in items if isinstance(item, Flag) and item.kind == "cut off"] == ["config_common.py"]
