"""MLPerf's logs in and out. The log of the test is made after MLCommons' description of its log format (the package
mlperf-logging, whose own checker judges what we write)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop import flagperf_logs
from trainmark.interop.mlperf.export import UNCHECKED, olympic
from trainmark.interop.protocol import REGISTRY, defaults
from trainmark.interop.reading.importing import import_results
from trainmark.interop.reading.records import Begin, End, Flag, LoggedEvent
from trainmark.report import build
from trainmark.report.show import show
from trainmark.store.rundir import RunDir
from trainmark.testing.formats import ExportContract, FormatContract, check, read

START = 1_700_000_000_000


def line(key: str, at: float, value: Any = None, **metadata: Any) -> str:
    record = {"namespace": "", "time_ms": START + round(at * 1000), "event_type": "POINT_IN_TIME", "key": key}
    return (
        "0: :::MLLOG "
        + json.dumps({**record, "value": value, "metadata": {"file": "a.py", "lineno": 1, **metadata}})
        + "\n"
    )


def log(epochs: int = 40, status: str = "success") -> str:
    """An epoch of 1000 images and 10 steps takes 2 s, its evaluation 1 s."""
    rows = [line("submission_benchmark", 0, "resnet"), line("submission_platform", 0, "box"), line("init_start", 0)]
    rows += [
        line("global_batch_size", 1, 100),
        line("train_samples", 1, 1000),
        line("init_stop", 10),
        line("run_start", 10),
    ]
    for epoch in range(1, epochs + 1):
        at = 10 + 3 * epoch
        rows += [line("epoch_start", at - 3, epoch_num=epoch), line("epoch_stop", at - 1, epoch_num=epoch)]
        rows += [line("eval_start", at - 1, epoch_num=epoch), line("eval_stop", at, epoch_num=epoch)]
        rows += [line("eval_accuracy", at, epoch / 50, epoch_num=epoch), "noise\n"]
    return "".join([*rows, line("run_stop", 10 + 3 * epochs, status=status)])


SYSTEM = {"system_name": "box", "number_of_nodes": "2", "accelerators_per_node": "8"}
SYSTEM |= {"accelerator_model_name": "NVIDIA H100 80GB", "framework": "PyTorch 2.4, CUDA 12"}


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    top = tmp_path / "org"
    (top / "results" / "box" / "resnet").mkdir(parents=True)
    (top / "systems").mkdir()
    (top / "systems" / "box.json").write_text(json.dumps(SYSTEM))
    for number in range(2):
        (top / "results" / "box" / "resnet" / f"result_{number}.txt").write_text(log())
    return top


class TestRead(FormatContract):
    @pytest.fixture
    def name(self) -> str:
        return "mlperf"

    @pytest.fixture
    def sample(self, submission: Path) -> Path:
        return submission


class TestReadOne(FormatContract):
    @pytest.fixture
    def name(self) -> str:
        return "mlperf"

    @pytest.fixture
    def sample(self, tmp_path: Path) -> Path:
        (tmp_path / "result_0.txt").write_text(log())
        return tmp_path / "result_0.txt"


def test_speed_and_quality(submission: Path, tmp_path: Path) -> None:
    brought = import_results("mlperf", submission, tmp_path / "runs", defaults(REGISTRY.get("mlperf").import_options))
    (case,) = build.build(RunDir(Path(brought.dir))).cases
    assert case.case == "resnet50:pytorch:NVIDIA-H100-80GB:2:8:2@batch=100,submitter=org,system=box"
    # 1000 images in 2 s; evaluation is left out, and counts in the sustained figure.
    assert case.measurements["throughput"].value == pytest.approx(500.0)
    assert case.measurements["sustained_throughput"].value == pytest.approx(1000 / 3)


def test_bad_lines_and_bad_ends(tmp_path: Path) -> None:
    """Published logs exist whose time_ms was stripped (mlcommons/training, llm_moe_pretraining/nemo/rcp_logs)."""
    file = tmp_path / "result_0.txt"
    file.write_text(log(3, "aborted") + ':::MLLOG {"key": "x"}\n:::MLLOG {"key"\n:::MLLOG []\n')
    items = read(REGISTRY.get("mlperf"), file)
    check(items)
    assert [item.kind for item in items if isinstance(item, Flag)] == ["broken line"] * 3
    (end,) = [item for item in items if isinstance(item, End)]
    assert end.state == "FAILED" and "aborted" in end.reason
    assert sum(isinstance(item, LoggedEvent) and item.k == "EVALUATE" for item in items) == 3
    assert sum(isinstance(item, Begin) for item in items) == 1


def test_systems_of_one_submission_stay_apart(submission: Path, tmp_path: Path) -> None:
    """Two boxes with the same accelerators, as many as each other."""
    other = submission / "results" / "box_v2" / "resnet"
    other.mkdir(parents=True)
    (submission / "systems" / "box_v2.json").write_text(json.dumps({**SYSTEM, "system_name": "box_v2"}))
    (other / "result_0.txt").write_text(log())
    brought = import_results("mlperf", submission, tmp_path / "runs", defaults(REGISTRY.get("mlperf").import_options))
    assert (brought.cases, brought.rounds) == (2, 3)


def kinds(file: Path, text: str) -> list[str]:
    file.write_text(text)
    items = read(REGISTRY.get("mlperf"), file)
    check(items)
    return [item.kind for item in items if isinstance(item, Flag)]


def test_what_cannot_be_is_flagged(tmp_path: Path) -> None:
    file = tmp_path / "result_0.txt"
    assert set(kinds(file, log(3) + log(3))) == {"second run"}
    assert kinds(file, log(3).replace("run_stop", "noise") + line("run_stop", 2, status="success")) == [
        "time backwards"
    ]
    assert kinds(file, log(3).replace('"value": 100,', '"value": -100,')) == ["odd number"]
    assert "line ends" in kinds(file, log(1).replace("\n", "\r"))


OLD = """\
:::MLL 1558637925.000 submission_benchmark: {"value": "resnet", "metadata": {"file": "a.py", "lineno": 1}}
:::MLL 1558637925.100 submission_platform: {"value": "box", "metadata": {}}
:::MLL 1558637926.000 global_batch_size: {"value": 100, "metadata": {}}
:::MLL 1558637926.000 train_samples: {"value": 1000, "metadata": {}}
:::MLL 1558637930.000 init_stop: {"value": null, "metadata": {}}
:::MLL 1558637930.000 run_start: {"value": null, "metadata": {}}
:::MLL 1558637932.000 epoch_stop: {"value": null, "metadata": {"epoch_num": 1}}
:::MLL 1558637933.000 eval_accuracy: {"value": 0.5, "metadata": {"epoch_num": 1}}
:::MLL 1558637934.000 run_stop: {"value": null, "metadata": {"status": "success"}}
"""
OLDEST = """\
:::MLPv0.5.0 resnet 1541710385.139900000 (/root/a/mlperf_log_utils.py:56) input_batch_size: 100
:::MLPv0.5.0 resnet 1541710385.200000000 (/root/a/a.py:1) input_size: "DEFERRED: c63992cb-5a51-4286-a168-1c695a32b2bc"
:::MLPv0.5.0 resnet 1541710386.000000000 (/root/a/a.py:1) run_start
:::MLPv0.5.0 [c63992cb-5a51-4286-a168-1c695a32b2bc][1541710387.5][1000]
:::MLPv0.5.0 resnet 1541710388.000000000 (/root/a/a.py:1) train_epoch: 0
:::MLPv0.5.0 resnet 1541710390.000000000 (/root/a/a.py:2) eval_accuracy: {"epoch": 0, "value": 0.25}
RAW_:::MLPv0.5.0 resnet 1541710391.000000000 (/root/a/a.py:3) run_stop: {"success": true}
:::MLPv0.5.0 resnet 1541710391.100000000 (/root/a/a.py:4) run_final
"""


def test_time_to_train_is_in_the_report(submission: Path, tmp_path: Path) -> None:
    """40 epochs of 3 s, from run_start to run_stop."""
    options = defaults(REGISTRY.get("mlperf").import_options)
    run = RunDir(Path(import_results("mlperf", submission, tmp_path / "runs", options).dir))
    for language, words in (("en", "time to train"), ("zh", "训练用时")):
        text = show(build.build(run), "text", language)
        assert words in text and "120 s" in text, text
    other = RunDir(evaluated(tmp_path / "other", "resnet50:pytorch:A100:1:8:3").path)
    assert "time to train" not in show(build.build(other), "text", "en"), "a number of steps is no target"


@pytest.mark.parametrize(("text", "evaluated"), [(OLD, 0.5), (OLDEST, 0.25)])
def test_logs_of_the_first_versions(tmp_path: Path, text: str, evaluated: float) -> None:
    """Lines of version 0.5 are as the package mlperf_compliance 0.0.10 writes them: nine decimals, the caller's path,
    sometimes a prefix, and values that are told later in a line of their own. Those of 0.6 (`:::MLL`, seconds, a JSON
    object) are as in public logs of submitters; no package of that version is in the registry. All values are made up.
    """
    file = tmp_path / "result_0.txt"
    file.write_text(text)
    items = read(REGISTRY.get("mlperf"), file)
    check(items)
    assert not [item for item in items if isinstance(item, Flag)]
    (begin,) = [item for item in items if isinstance(item, Begin)]
    assert begin.case.workload == "resnet50" and begin.case.params["batch"] == 100
    events = {item.k: item for item in items if isinstance(item, LoggedEvent)}
    assert events["EVALUATE"].more["values"] == {"accuracy": evaluated}
    assert [item.state for item in items if isinstance(item, End)] == ["SUCCEEDED"]
    assert events["TRAIN_END"].t > events["TRAIN_START"].t


def test_olympic_mean() -> None:
    assert olympic([5.0, 1.0, 3.0, 2.0, 4.0]) == 3.0
    assert olympic([1.0, 2.0, None, 3.0]) == 2.5
    assert olympic([1.0, None, None, 3.0]) is None
    assert olympic([1.0, 2.0]) is None


def evaluated(tmp_path: Path, case: str, rounds: int = 3) -> RunDir:
    """A run that evaluated, of five minutes and a bit more with each round."""
    for number in range(1, rounds + 1):
        flagperf_logs.put(tmp_path / "logs", case, flagperf_logs.log(count=600 + 20 * number), round=number)
    options = defaults(REGISTRY.get("flagperf").import_options)
    return RunDir(Path(import_results("flagperf", tmp_path / "logs", tmp_path / "runs", options).dir))


class TestWrite(ExportContract):
    @pytest.fixture
    def name(self) -> str:
        return "mlperf"

    @pytest.fixture
    def runs(self, tmp_path: Path) -> list[RunDir]:
        return [evaluated(tmp_path, "resnet50:pytorch:A100:1:8:3")]


def test_the_score(tmp_path: Path) -> None:
    run = evaluated(tmp_path, "resnet50:pytorch:A100:1:8:3")
    written = REGISTRY.get("mlperf").write([run], tmp_path / "out", {"org": "me"})
    names = sorted(str(file.relative_to(tmp_path / "out")) for file in written)
    folder = "me/results/A100_1x8/resnet"
    assert names == [
        *(f"{folder}/result_{n}.txt" for n in range(3)),
        f"{folder}/score.json",
        "me/systems/A100_1x8.json",
    ]
    score = json.loads((tmp_path / "out" / folder / "score.json").read_text())
    assert score["time_to_train_minutes"] == pytest.approx(640 * 0.5 / 60)
    assert len(json.loads((tmp_path / "out" / "me/systems/A100_1x8.json").read_text())) == 33


@pytest.mark.parametrize(("workload", "ruleset"), [("resnet50", "4.0.0"), ("bert", "5.0.0")])
def test_mlcommons_checker_passes_it(tmp_path: Path, workload: str, ruleset: str) -> None:
    pytest.importorskip(
        "mlperf_logging", reason="MLCOMMONS' CHECKER DID NOT RUN: `pip install mlperf-logging` (extra `mlperf`)"
    )
    from mlperf_logging.compliance_checker import mlp_compliance

    run = evaluated(tmp_path, f"{workload}:pytorch:A100:1:8:3")
    written = REGISTRY.get("mlperf").write([run], tmp_path / "out", {"org": "me"})
    logs = [file for file in written if file.name.startswith("result_")]
    assert len(logs) == 3
    for file in logs:
        checker = mlp_compliance.make_checker("training", ruleset, False, False)
        valid, *_ = mlp_compliance.main(str(file), f"training_{ruleset}/common.yaml", checker)
        assert valid
    score = json.loads(next(file for file in written if file.name == "score.json").read_text())
    assert score["label"] == f"MLLOG format, passes the compliance checker {ruleset}, open division"


def test_a_run_that_did_not_evaluate_is_not_called_checked(tmp_path: Path) -> None:
    text = "".join(row for row in flagperf_logs.log().splitlines(keepends=True) if "EVALUATE" not in row)
    flagperf_logs.put(tmp_path / "logs", "resnet50:pytorch:A100:1:8:1", text)
    options = defaults(REGISTRY.get("flagperf").import_options)
    run = RunDir(Path(import_results("flagperf", tmp_path / "logs", tmp_path / "runs", options).dir))
    written = REGISTRY.get("mlperf").write([run], tmp_path / "out", {})
    score = json.loads(next(file for file in written if file.name == "score.json").read_text())
    assert score["label"] == UNCHECKED == "MLLOG format, not compliance-checked"
