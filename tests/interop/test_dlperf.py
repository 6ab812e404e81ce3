"""DLPerf: its numbers to the last digit, better ones by default, and its slips told."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.interop import dlperf_logs as logs
from tests.interop import flagperf_logs
from tests.interop.dlperf_logs import Run, put
from trainmark.i18n.speaker import say
from trainmark.interop.dlperf import DlPerf, result
from trainmark.interop.dlperf.scripts import BY_SCRIPT
from trainmark.interop.protocol import defaults
from trainmark.interop.reading.importing import import_results
from trainmark.interop.reading.records import End, Flag, Verbatim
from trainmark.report.make.dlperf import table
from trainmark.testing import synthetic
from trainmark.testing.formats import FormatContract, check, read


def speed(folder: Path, case: str = "1n1g", **options: Any) -> float:
    items = read(DlPerf(), folder, {"method": "dlperf", **options})
    check(items)
    (found,) = [item for item in items if isinstance(item, Verbatim)]
    (model,) = found.content.values()
    return float(model[case]["average_speed"])


def kinds(folder: Path, **options: Any) -> set[str]:
    return {item.kind for item in read(DlPerf(), folder, options) if isinstance(item, Flag)}


# What the original scripts give for these logs.
GOLDEN = [
    ("mindspore-resnet50", logs.mindspore(Run(200)), {"warmup_batches": 100, "train_batches": 200}, 255.49),
    ("mindspore-resnet50", logs.mindspore(Run(200)), {}, 375.37),
    ("mindspore-bert", logs.mindspore(Run(200), bert=True), {}, 375.37),
    ("ngc-mxnet-resnet50", logs.ngc_mxnet(Run(120)), {}, 386.72),
    ("ngc-mxnet-resnet50", logs.ngc_mxnet(Run(120)), {"warmup_batches": 40}, 386.72),
    ("ngc-mxnet-resnet50-time", logs.ngc_mxnet(Run(120)), {}, 375.37),
    ("gluon-resnet50", logs.gluon_resnet(Run(120)), {}, 386.72),
    ("gluon-bert", logs.gluon_bert(Run(200)), {}, 258.97),
    ("arcface", logs.arcface(Run(120)), {}, 364.72),
    ("partialfc", logs.partialfc(Run(130)), {}, 378.77),
    ("ngc-pytorch-resnet50", logs.ngc_pytorch_resnet(Run(150)), {}, 364.67),
    ("ngc-pytorch-bert", logs.ngc_pytorch_bert(Run(150)), {}, 375.37),
    ("ngc-pytorch-bert", logs.ngc_pytorch_bert(Run(150)), {"train_batches": 120}, 364.67),
    ("ngc-tf-resnet50", logs.ngc_tf_resnet(Run(120)), {}, 386.72),
    ("ngc-tf-resnet50", logs.ngc_tf_resnet(Run(120), first=1), {}, 442.02),
    ("ngc-tf-resnet50-time", logs.ngc_tf_resnet(Run(120)), {}, 374.27),
    ("ngc-tf-resnet50-time", logs.ngc_tf_resnet(Run(120), first=1), {}, 423.84),
    ("ngc-tf-bert", logs.ngc_tf_bert(Run(120)), {}, 386.59),
    ("ngc-tf-bert-time", logs.ngc_tf_bert(Run(120)), {}, 375.37),
    ("ngc-tf-bert-time", logs.ngc_tf_bert(Run(120)), {"warmup_batches": 10}, 1672.21),
    ("paddle-resnet50", logs.paddle_resnet(Run(120)), {}, 386.72),
    ("paddle-resnet50-time", logs.paddle_resnet(Run(120)), {}, 375.37),
    ("paddle-bert", logs.paddle_bert(Run(120)), {}, 386.72),
    ("pytorch-resnet50", logs.pytorch_resnet(Run(200)), {}, 362.61),
    ("tf2-resnet50", logs.tf2_resnet(Run(600)), {}, 158.96),
    ("tf2-resnet50-time", logs.tf2_resnet(Run(600)), {}, 142.06),
    ("tf2-bert", logs.tf2_bert(Run(120)), {}, 375.37),
    ("tf2-bert", logs.tf2_bert(Run(120, start="23:59:45")), {}, -0.15),
    ("oneflow-insightface", logs.oneflow_insightface(Run(150)), {}, 376.40),
    ("oneflow-resnet50", logs.oneflow_resnet(Run(120)), {}, 375.37),
    ("oneflow-bert", logs.oneflow_bert(Run(120)), {}, 375.37),
]


@pytest.mark.parametrize(("variant", "log", "options", "expected"), GOLDEN)
def test_its_own_number_to_the_last_digit(
    tmp_path: Path, variant: str, log: str, options: dict[str, int], expected: float
) -> None:
    assert speed(put(tmp_path, log), variant=variant, **options) == expected


@pytest.mark.parametrize(("variant", "log"), [(row[0], row[1]) for row in GOLDEN if "-time" not in row[0]])
def test_kinds_are_told_from_their_content(tmp_path: Path, variant: str, log: str) -> None:
    folder = put(tmp_path, log)
    train = BY_SCRIPT[variant].train - 10
    assert speed(folder, train_batches=train) == speed(folder, variant=variant, train_batches=train)
    assert ("twin" in kinds(folder)) == (f"{variant}-time" in BY_SCRIPT)


@pytest.mark.parametrize(("variant", "log"), [(row[0], row[1]) for row in GOLDEN if row[0] != "arcface"])
def test_our_own_number_is_samples_by_time(tmp_path: Path, variant: str, log: str) -> None:
    """All kinds agree on the same training, whatever they print. (The log of arcface shows single steps of twenty.)"""
    window, steps = {"warmup_batches": 20, "train_batches": 120}, range(21, 121)
    if variant == "oneflow-bert":
        window = {"warmup_batches": 19, "train_batches": 119}
    elif variant.startswith("tf2-resnet50"):
        window, steps = {"warmup_batches": 100, "train_batches": 600}, range(101, 601)
    elif "Iteration: 21 " in log.partition("\n")[0]:
        # The first stamp begins the clock.
        steps = range(22, 121)
    true = 128 * len(steps) / sum(logs.growing(step) for step in steps)
    assert speed(put(tmp_path, log), variant=variant, method="time", **window) == pytest.approx(true, rel=1e-4)


def flat(_step: int) -> float:
    return 0.4


@pytest.mark.parametrize(
    ("variant", "write"),
    [
        ("gluon-resnet50", logs.gluon_resnet),
        ("ngc-pytorch-resnet50", logs.ngc_pytorch_resnet),
        ("tf2-resnet50-time", logs.tf2_resnet),
        ("oneflow-resnet50", logs.oneflow_resnet),
    ],
)
@pytest.mark.parametrize("method", ["time", "dlperf"])
def test_cases_of_many_devices(tmp_path: Path, variant: str, write: Any, method: str) -> None:
    for case, devices in (("1n1g", 1), ("1n8g", 8), ("16n8g", 128)):
        folder = put(tmp_path, write(Run(600, 128 * devices, flat)), case)
    (found,) = [
        item for item in read(DlPerf(), folder, {"variant": variant, "method": method}) if isinstance(item, Verbatim)
    ]
    cells = found.content["rn50"]
    assert [cells[case]["median_speed"] for case in ("1n1g", "1n8g", "16n8g")] == [320.0, 2560.0, 40960.0]
    assert [cells[case]["speedup"] for case in ("1n1g", "1n8g", "16n8g")] == [1.0, 8.0, 128.0]


SEED = """
1n2g {4: 710.96, 2: 710.68, 3: 709.28, 1: 710.7, 5: 709.78}
2n8g {4: 5483.22, 2: 5480.69, 3: 5484.01, 1: 5499.46, 5: 5474.62}
1n1g {4: 369.81, 2: 371.31, 3: 369.02, 1: 371.01, 5: 369.0}
4n8g {4: 10724.0, 2: 10716.94, 3: 10731.78, 1: 10758.88, 5: 10757.37}
1n4g {4: 1418.66, 2: 1419.13, 3: 1419.97, 1: 1418.08, 5: 1417.93}
1n8g {4: 2788.99, 2: 2762.27, 3: 2778.1, 1: 2768.28, 5: 2773.82}
"""
PUBLISHED = {
    "1n1g": (370.03, 369.81, 1.0),
    "1n2g": (710.28, 710.68, 1.92),
    "1n4g": (1418.75, 1418.66, 3.84),
    "1n8g": (2774.29, 2773.82, 7.5),
    "2n8g": (5484.4, 5483.22, 14.83),
    "4n8g": (10737.79, 10731.78, 29.02),
}
TABLE = """\
| node_num | gpu_num | samples/s | speedup |
| -------- | ------- | --------- | ------- |
| 1        | 1       | 369.81    | 1       |
| 1        | 2       | 710.68    | 1.92    |
| 1        | 4       | 1418.66   | 3.84    |
| 1        | 8       | 2773.82   | 7.50    |
| 2        | 16      | 5483.22   | 14.83   |
| 4        | 32      | 10731.78  | 29.02   |
"""


@pytest.mark.parametrize("method", ["time", "dlperf"])
def test_thirty_published_speeds_give_the_published_result(method: str) -> None:
    speeds = [
        result.Speed("rn50", line.split()[0], repeat, 128, "fp32", value)
        for line in SEED.strip().splitlines()
        for repeat, value in ast.literal_eval(line.partition(" ")[2]).items()
    ]
    found = result.result(speeds, method)
    expected = {
        case: {"average_speed": a, "batch_size_per_device": 128, "median_speed": m, "speedup": s}
        for case, (a, m, s) in PUBLISHED.items()
    }
    assert found == {"rn50": expected}
    assert table(found["rn50"]) == TABLE


def test_slips_are_told(tmp_path: Path) -> None:
    good = logs.ngc_pytorch_resnet(Run(150))
    folder = put(tmp_path / "cut", good)
    put(tmp_path / "cut", "".join(good.splitlines(keepends=True)[:60]), repeat=2)
    assert "truncated log" in kinds(folder)
    items = read(DlPerf(), folder)
    assert [item.state for item in items if isinstance(item, End)] == ["SUCCEEDED", "FAILED"]
    assert speed(folder, method="time") == pytest.approx(375.37, abs=0.01), "a cut log has no speed"
    assert speed(folder, method="dlperf") == round((364.67 + 0) / 2, 2), "for DLPerf it has, namely 0"

    folder = put(tmp_path / "base", good, "1n8g")
    assert "missing baseline" in kinds(folder)
    (theirs,) = [item.content for item in read(DlPerf(), folder, {"method": "dlperf"}) if isinstance(item, Verbatim)]
    assert theirs["rn50"]["1n1g"] == {"average_speed": {}} and "median_speed" not in theirs["rn50"]["1n8g"]
    (ours,) = [item.content for item in read(DlPerf(), folder) if isinstance(item, Verbatim)]
    assert ours["rn50"]["1n8g"]["speedup"] is None

    folder = put(tmp_path / "night", logs.tf2_bert(Run(120, start="23:59:45")))
    assert "midnight" in kinds(folder)
    assert speed(folder, method="time") == pytest.approx(375.37, abs=0.01)

    twice = "".join(line * 2 for line in logs.pytorch_resnet(Run(200)).splitlines(keepends=True))
    folder = put(tmp_path / "ranks", twice, "1n2g")
    assert {"mixed ranks", "other rank"} <= kinds(folder)

    folder = put(tmp_path / "mixed", good)
    (folder / "1n1g" / "rn50_b256_fp16_1.log").write_text(good)
    assert "overwritten" in kinds(folder)
    (ours,) = [item.content for item in read(DlPerf(), folder) if isinstance(item, Verbatim)]
    assert set(ours) == {"rn50_b128_fp32", "rn50_b256_fp16"}


@pytest.mark.parametrize("method", ["time", "dlperf"])
def test_a_round_with_a_wrong_loss_has_no_speed_of_anybody(tmp_path: Path, method: str) -> None:
    good = logs.ngc_pytorch_bert(Run(150))
    folder = put(tmp_path / "wrong", good)
    clean = speed(folder, method=method)
    lines = good.splitlines(keepends=True)
    lines[140] = lines[140].replace("average_loss : 11.2", "average_loss : nan")
    put(tmp_path / "wrong", "".join(lines), repeat=2)
    assert "wrong result" in kinds(folder, method=method)
    items = read(DlPerf(), folder, {"method": method})
    (shown,) = [item for item in items if isinstance(item, Verbatim)]
    assert "_2.log" not in shown.text and shown.content["rn50"]["1n1g"]["average_speed"] == clean
    assert any(isinstance(item, Flag) and "the loss is NaN at step" in item.text for item in items)


def test_folders_of_one_name_are_two_results(tmp_path: Path) -> None:
    for model in ("resnet50", "bert"):
        put(tmp_path / "logs" / model, logs.tf2_bert(Run(150)))
    found = [item.name for item in read(DlPerf(), tmp_path / "logs") if isinstance(item, Verbatim)]
    assert found == ["logs_bert_bz128_result.json", "logs_resnet50_bz128_result.json"]


def test_a_bad_name_does_not_hide_the_others(tmp_path: Path) -> None:
    good = logs.tf2_bert(Run(150))
    put(tmp_path, good, "999999n999999g")
    (tmp_path / "bz128" / "1n1g").mkdir()
    (tmp_path / "bz128" / "1n1g" / f"x_b1_{'y' * 220}_1.log").write_text(good)
    items = read(DlPerf(), put(tmp_path, good))
    check(items)
    assert [item.kind for item in items if isinstance(item, Flag)] == ["no such case"] * 2
    assert sum(isinstance(item, End) for item in items) == 1


def test_names_are_read_from_the_right(tmp_path: Path) -> None:
    folder = put(tmp_path, logs.oneflow_bert(Run(150)), "4n8g", name="bert_base", batch=96)
    (found,) = [item for item in read(DlPerf(), folder) if isinstance(item, Verbatim)]
    assert found.name == "bz96_result.json"
    assert found.content["bert_base"]["4n8g"]["batch_size_per_device"] == 96


def test_the_same_bytes_under_another_case_are_another_run(tmp_path: Path) -> None:
    log = logs.ngc_pytorch_resnet(Run(150))
    options = defaults(DlPerf.import_options)
    one, eight, again = (
        import_results("dlperf", put(tmp_path / top, log, case), tmp_path / "runs", options)
        for top, case in (("a", "1n1g"), ("b", "1n8g"), ("c", "1n1g"))
    )
    assert one.run != eight.run and again.run == one.run and again.again


def test_wide_and_deep_gives_latencies(tmp_path: Path) -> None:
    run = Run(1400, 512, lambda step: 0.01)
    folder = tmp_path / "n1g8"
    folder.mkdir()
    (folder / "wdl.log").write_text(logs.every(run, lambda i: f"{i} time {run.unix(i):.6f} loss 0.5", step=100))
    options = {"batch_size_per_device": 64}
    (found,) = [item for item in read(DlPerf(), folder, options) if isinstance(item, Verbatim)]
    assert found.content == {"latency": 10.0}


def test_losses_and_aucs(tmp_path: Path) -> None:
    head = "[HUGECTR][08:17:15.1][INFO][RANK0]:"
    text = "".join(
        f"{head} Iter: {n}00 Time(100 iters): 0.4s Loss: 0.{n} lr:0.001\n{head} Evaluation, AUC: 0.7{n}\n"
        for n in range(1, 5)
    )
    folder = put(tmp_path, text)
    (found,) = [item for item in read(DlPerf(), folder, {"variant": "hugectr-losses"}) if isinstance(item, Verbatim)]
    assert found.text.splitlines() == ["0.1 0.71", "0.2 0.72", "0.3 0.73", "0.4 0.74"]
    (found,) = [item for item in read(DlPerf(), folder) if isinstance(item, Verbatim)]
    assert found.content == {"latency": 4.0}


def test_the_program(cli: Cli) -> None:
    """Import, look at it with the other verbs, export it again."""
    for case, devices in (("1n1g", 1), ("1n2g", 2)):
        for repeat in (1, 2, 3):
            folder = put(
                cli.folder / "logs", logs.mindspore(Run(200, 128 * devices, lambda step: 0.4)), case, repeat=repeat
            )
    printed = cli("import", "dlperf", str(folder), "-o", "out", "--device", "V100").stdout
    assert "6 round(s) of 2 case(s) is now" in printed and "1n2g/rn50_b128_fp32_3.log {1: 640.0, 2: 640.0" in printed
    written = json.loads((cli.folder / "out" / "bz128_result.json").read_text())
    assert cli.json("import", "dlperf", str(folder), "--device", "V100") == written
    assert written["rn50"]["1n2g"]["speedup"] == 2.0
    assert len(list(cli.runs.iterdir())) == 1, "the same logs are one run"

    assert "dlperf (imported)" in cli("list").stdout
    report = json.loads(cli("report", "--format", "json").stdout)
    case = {case["case"]: case for case in report["cases"]}["resnet50:mindspore:V100:1:2:3@batch=128,dtype=fp32"]
    assert case["measurements"]["throughput"]["value"] == pytest.approx(640.0)
    assert case["measurements"]["data_wait"]["value"] is None, "unknown is never 0"
    assert "imported from dlperf" in [say(one) for one in case["notes"]] and report["imported"]["missing"]
    assert "not told: hardware" in cli("report").stdout

    assert "was imported" in cli("resume", code=2).stderr
    cli("stop")
    cli("status")
    assert "epoch time: 4000.000 ms" in cli("logs").stdout
    assert json.loads(cli("report", "--format", "json").stdout) == report, "looking at it changed it"

    files = cli("export", "dlperf", "-o", "again").stdout.split()
    assert "again/logs_fp32/mindspore/resnet50/bz128/1n2g/rn50_b128_fp32_3.log" in files
    assert json.loads((cli.folder / "again" / "bz128_result.json").read_text()) == written
    assert "| 1        | 2       | 640       | 2.00    |" in (cli.folder / "again" / "bz128_result.md").read_text()
    again = cli("import", "dlperf", "again/logs_fp32/mindspore/resnet50/bz128", "--device", "V100").stdout
    assert re.search("was already imported as", again)


def test_runs_of_one_case_are_exported_as_its_repeats(cli: Cli) -> None:
    """And what has no place in DLPerf's table is said."""
    for run, seconds in (("a", 0.4), ("b", 0.2)):
        put(cli.folder / run, logs.mindspore(Run(200, 128, lambda step, s=seconds: s)))
        cli("import", "dlperf", f"{run}/bz128")
    flagperf_logs.put(cli.folder / "fp", "cpm:pytorch:A100:1:1:1", flagperf_logs.log())
    cli("import", "flagperf", "fp")
    done = cli("export", "dlperf", *sorted(path.name for path in cli.runs.iterdir()), "-o", "out")
    assert {Path(file).name for file in done.stdout.split() if file.endswith(".log")} == {
        "rn50_b128_fp32_1.log",
        "rn50_b128_fp32_2.log",
    }
    written = json.loads((cli.folder / "out" / "bz128_result.json").read_text())
    assert written["rn50"]["1n1g"]["average_speed"] == 480.0
    assert "left out: " in done.stderr and "`batch` is not known" in done.stderr


def test_rounds_that_failed_are_said_to_be_left_out(cli: Cli) -> None:
    shapes = [synthetic.Shape(steps=40), None]
    run = synthetic.write_run(cli.runs, "resnet50:pytorch:cpu:1:2:2", shapes)
    done = cli("export", "dlperf", run.id, "-o", "out")
    assert f"left out: {run.id} resnet50:pytorch:cpu:1:2:2 round " in done.stderr and "no speed: made up" in done.stderr
    nothing = synthetic.write_run(cli.runs, "resnet50:pytorch:cpu:1:1:1", [None])
    assert "no speed: made up" in cli("export", "dlperf", nothing.id, "-o", "none", code=2).stderr


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["x.log"], "no such file"),
        (["bz128", "--warmup-batches", "200"], "below the second"),
        (["bz128", "--warmup-batches", "-5"], "must be 0 or more"),
        (["bz128", "-o", "odd/rn50_b128_fp32_1.log/out"], "is no folder"),
        (["bz128/1n1g/rn50_b128_fp32_1.log", "--case", "four"], "--case four"),
        (["odd"], "is not like 4n8g"),
        (["empty"], "nothing to read"),
    ],
)
def test_bad_words(cli: Cli, argv: list[str], complaint: str) -> None:
    put(cli.folder, logs.mindspore(Run(200)))
    (cli.folder / "empty").mkdir()
    (cli.folder / "odd").mkdir()
    (cli.folder / "odd" / "rn50_b128_fp32_1.log").write_text(logs.mindspore(Run(200)))
    assert complaint in cli("import", "dlperf", *argv, code=2).stderr
    assert not cli.runs.exists() or not list(cli.runs.iterdir())


class TestFolder(FormatContract):
    @pytest.fixture
    def name(self) -> str:
        return "dlperf"

    @pytest.fixture
    def sample(self, tmp_path: Path) -> Path:
        put(tmp_path, logs.ngc_mxnet(Run(150)))
        put(tmp_path, logs.tf2_bert(Run(150)), repeat=2)
        return put(tmp_path, logs.mindspore(Run(200, 1024)), "1n8g")


class TestFile(FormatContract):
    @pytest.fixture
    def name(self) -> str:
        return "dlperf"

    @pytest.fixture
    def sample(self, tmp_path: Path) -> Path:
        return put(tmp_path, logs.pytorch_resnet(Run(200))) / "1n1g" / "rn50_b128_fp32_1.log"

    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {"case": "1n1g"}
