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
    left = [item.place for item in items if isinstance(item, Flag) and item.kind == "left out"]
    assert left == [
        "resnet50:pytorch_1.8:A100:1:8:1: dist_backend = 'nccl'", "faster_rcnn:pytorch_1.8:A100:1:8:1",
    ]  # fmt: skip


def test_several_hosts_are_entered_by_ssh(tree: Path, tmp_path: Path) -> None:
    config = tree / "run_benchmarks" / "config" / "cluster_conf.py"
    config.write_text('HOSTS = ["n1", "n2"]\nSSH_PORT = "2222"\nHOSTS[0] = "x; rm -rf /"\n')
    brought = import_results("flagperf-config", tree, tmp_path / "runs", {"preset": "full"})
    (site,) = [one.content for one in brought.verbatim if one.name == "site.yaml"]
    assert yaml.safe_load(site) == {
        "schema": 1, "name": "flagperf", "launcher": "ssh", "hosts": ["n1", "n2"], "ssh": {"port": 2222},
        "container": {
            "image": "flagperf-nvidia-pytorch_1.8:t_v0.1", "ulimits": {"memlock": "-1", "stack": "67108864"},
            "options": ["--gpus", "all"],
        },
        "devices": {"A100": "nvidia"},
    }  # fmt: skip


# As FlagPerf's documentation shows them.
DOCUMENTED_CLUSTER = 'HOSTS = ["10.1.2.3", "10.1.2.4", "10.1.2.5", "10.1.2.6"]\nSSH_PORT = "22"\n'
DOCUMENTED_TEST = """\
VENDOR = "nvidia"
ACCE_CONTAINER_OPT = " --gpus all"
ACCE_VISIBLE_DEVICE_ENV_NAME = "CUDA_VISIBLE_DEVICES"
PIP_SOURCE = "https://mirror.example/pypi/simple"
FLAGPERF_PATH = "/home/FlagPerf/training"
FLAGPERF_LOG_PATH = FLAGPERF_PATH + "/result/"
FLAGPERF_LOG_LEVEL = 'debug'
SHM_SIZE = "32G"
CLEAR_CACHES = True
CASES = {
    "bert:pytorch_1.8:A100:1:8:1": "/home/datasets_ckpt/bert/train/",
    "glm:pytorch_1.8:A100:1:8:1": "/home/datasets_ckpt/glm/train/"
}
"""
# With some other values than the workload's own.
DOCUMENTED_BERT = """\
target_mlm_accuracy = 0.67
gradient_accumulation_steps = 2
max_steps = 10000
start_warmup_step = 0
warmup_proportion = 0
warmup_steps = 2000
learning_rate = 3e-4
weight_decay_rate = 0.01
opt_lamb_beta_1 = 0.9
opt_lamb_beta_2 = 0.999
train_batch_size = 48
eval_batch_size = train_batch_size
max_samples_termination = 45000
cache_eval_data = False
seed = 9031
"""


def documented(tmp_path: Path) -> Path:
    root = tmp_path / "training"
    for name, text in {
        "run_benchmarks/config/cluster_conf.py": DOCUMENTED_CLUSTER,
        "run_benchmarks/config/test_conf.py": DOCUMENTED_TEST,
        "nvidia/bert-pytorch/config/config_A100x1x8.py": DOCUMENTED_BERT,
        "nvidia/glm-pytorch/config/config_A100x1x8.py": "train_batch_size = 8\nseed = 1\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_every_value_of_the_documented_configuration_is_planned_or_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["import", "flagperf-config", str(documented(tmp_path)), "-o", "out"]) == 0
    suite_text = (tmp_path / "out" / "suite.yaml").read_text()
    suite, site = yaml.safe_load(suite_text), yaml.safe_load((tmp_path / "out" / "site.yaml").read_text())
    listed = [line for line in suite_text.splitlines() if line.startswith("# ")]
    bert, glm = suite["cases"]
    for name, value in static.read(DOCUMENTED_BERT.encode(), {}).values.items():
        assert bert["set"].get(name) == value or any(f": {name} = {value!r}:" in line for line in listed), name
    assert (bert["set"]["max_steps"], bert["set"]["train_batch_size"], bert["set"]["learning_rate"]) == (
        10000,
        48,
        3e-4,
    )
    assert glm["set"]
    carried = {
        "CLEAR_CACHES": site["clear_caches"], "FLAGPERF_LOG_LEVEL": site["log_level"],
        "PIP_SOURCE": site["prepare"]["index"], "SHM_SIZE": site["container"]["shm_size"].upper(),
        "ACCE_CONTAINER_OPT": " " + " ".join(site["container"]["options"]), "SSH_PORT": str(site["ssh"]["port"]),
        "HOSTS": site["hosts"], "VENDOR": site["devices"]["A100"],
        "CASES": {one["case"]: one["data"] for one in suite["cases"]},
    }  # fmt: skip
    for text in (DOCUMENTED_CLUSTER, DOCUMENTED_TEST):
        for name, value in static.read(text.encode(), {}).values.items():
            assert carried.get(name) == value or any(f": {name} = {value!r}:" in line for line in listed), name
    assert not any("no such setting" in line for line in listed), listed
    assert site["container"]["image"] == "flagperf-nvidia-pytorch_1.8:t_v0.1"
    assert {"seed = 9031", "seed = 1"} <= {line.partition(": ")[2].partition(":")[0] for line in listed}
    capsys.readouterr()
    assert main.main(["plan", "out/suite.yaml", "--site", "out/site.yaml"]) == 0
    said = capsys.readouterr().out
    assert "max_steps=10000" in said and "train_batch_size=48" in said and "learning_rate=0.0003" in said


def test_a_setting_of_the_users_own_is_listed(tmp_path: Path) -> None:
    """In small letters, too, and data that is no path."""
    root = documented(tmp_path)
    with (root / "run_benchmarks/config/test_conf.py").open("a") as out:
        out.write('retries = 3\nCASES["bert:pytorch_1.8:A100:1:8:1"] = ["/a", "/b"]\n')
    left = {item.place: item.text for item in read(REGISTRY.get("flagperf-config"), root) if isinstance(item, Flag)}
    assert left["test_conf.py: retries = 3"] == "trainmark has no such setting"
    assert "without data" in left["bert:pytorch_1.8:A100:1:8:1: ['/a', '/b']"]


def test_a_case_with_too_many_values_of_its_own_is_listed(tmp_path: Path) -> None:
    root = documented(tmp_path)
    more = "opt_lamb_beta_1 = 0.8\nopt_lamb_beta_2 = 0.99\nweight_decay_rate = 0.02\nwarmup_steps = 1000\n"
    (root / "nvidia/bert-pytorch/config/config_A100x1x8.py").write_text(DOCUMENTED_BERT + more)
    flags = [item for item in read(REGISTRY.get("flagperf-config"), root) if isinstance(item, Flag)]
    assert any("bert" in flag.place and "too long for a folder name" in flag.text for flag in flags)


def test_one_seed_of_all_cases_is_the_suites(tmp_path: Path) -> None:
    root = documented(tmp_path)
    (root / "nvidia/glm-pytorch/config/config_A100x1x8.py").write_text("seed = 9031\n")
    brought = import_results("flagperf-config", root, tmp_path / "runs", {"preset": "full"})
    (suite,) = [one.content for one in brought.verbatim if one.name == "suite.yaml"]
    assert yaml.safe_load(suite)["seed"] == 9031


def test_hosts_that_cannot_be_taken_are_told(tmp_path: Path) -> None:
    root = documented(tmp_path)
    (root / "run_benchmarks/config/cluster_conf.py").write_text('HOSTS = ["n1", "x; rm -rf /", 7, "n2"]\n')
    flags = [item for item in read(REGISTRY.get("flagperf-config"), root) if isinstance(item, Flag)]
    assert [flag.text.partition(",")[0] for flag in flags if flag.place == "cluster_conf.py: HOSTS"] == [
        "found 'x; rm -rf /'", "found 7",
    ]  # fmt: skip


def test_a_suite_without_a_case_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = documented(tmp_path)
    test = root / "run_benchmarks/config/test_conf.py"
    test.write_text('VENDOR = "nvidia"\nCASES = {"swin:pytorch_1.8:A100:1:8:1": "/d"}\n')
    assert main.main(["import", "flagperf-config", str(root), "-o", "out"]) == 2
    said = capsys.readouterr().err
    assert "no case of test_conf.py can be taken over: swin:pytorch_1.8:A100:1:8:1" in said
    assert not (tmp_path / "out").exists()


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


@settings(max_examples=60, deadline=None)
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
