"""FlagPerf's run directories, in and out."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Cli
from tests.interop import flagperf_logs as logs
from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.interop.flagperf import perflog
from trainmark.interop.flagperf.export import FINISHED_KEYS
from trainmark.interop.protocol import REGISTRY, defaults
from trainmark.interop.reading.importing import ImportResult, import_results
from trainmark.interop.reading.records import Begin, Counted, End, Flag, Item, LoggedEvent, LoggedSample
from trainmark.report import build
from trainmark.report.records import CaseReport
from trainmark.store.rundir import RunDir
from trainmark.testing import synthetic
from trainmark.testing.formats import ExportContract, FormatContract, check, read

CASE = "resnet50:pytorch_1.8:A100:1:8:2"


def items(path: Path, **options: Any) -> list[Item]:
    found = read(REGISTRY.get("flagperf"), path, options)
    check(found)
    return found


def imported(path: Path, runs: Path, **options: Any) -> ImportResult:
    return import_results("flagperf", path, runs, {**defaults(REGISTRY.get("flagperf").import_options), **options})


def cases(path: Path, runs: Path, **options: Any) -> list[CaseReport]:
    return build.build(RunDir(Path(imported(path, runs, **options).dir))).cases


def kinds(found: list[Item]) -> dict[str, int]:
    flags: dict[str, int] = {}
    for item in found:
        if isinstance(item, Flag):
            flags[item.kind] = flags.get(item.kind, 0) + 1
    return flags


def speed(case: CaseReport) -> float:
    value = case.measurements["throughput"].value
    assert value is not None
    return value


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two rounds of a case on one node."""
    folder = logs.put(tmp_path / "result", CASE, logs.log())
    logs.monitors(folder)
    logs.put(tmp_path / "result", CASE, logs.log(), round=2)
    return tmp_path / "result"


class TestFolder(FormatContract):
    @pytest.fixture
    def name(self) -> str:
        return "flagperf"

    @pytest.fixture
    def sample(self, tree: Path) -> Path:
        return tree


class TestOneFile(FormatContract):
    @pytest.fixture
    def name(self) -> str:
        return "flagperf"

    @pytest.fixture
    def sample(self, tmp_path: Path) -> Path:
        (tmp_path / "rank0.out.log").write_text(logs.CPM)
        return tmp_path / "rank0.out.log"


class TestExport(ExportContract):
    @pytest.fixture
    def name(self) -> str:
        return "flagperf"

    @pytest.fixture
    def runs(self, tmp_path: Path, tree: Path) -> list[RunDir]:
        return [RunDir(Path(imported(tree, tmp_path / "runs").dir))]


def test_the_real_lines(tmp_path: Path) -> None:
    folder = logs.put(tmp_path, "cpm:pytorch:A100:1:8:1", logs.CPM)
    found = items(folder.parent.parent)
    (begin,) = [item for item in found if isinstance(item, Begin)]
    assert (begin.case.workload, begin.case.nproc, begin.case.unit, begin.hosts) == (
        "cpm",
        8,
        "sequences",
        ("10.1.2.3",),
    )
    told = {item.k: item for item in found if isinstance(item, LoggedEvent)}
    assert told["STEP_END"].more == {"step": 3397, "n": 869632, "loss": 2.679504871368408}
    values = told["FINISHED"].more["values"]
    assert values["converged"] is True
    assert told["STEP_END"].more["n"] / values["raw_train_time"] == pytest.approx(
        values["training_sequences_per_second"]
    )


def test_its_speed_is_that_of_its_running_totals(tree: Path, tmp_path: Path) -> None:
    (case,) = cases(tree, tmp_path / "runs")
    assert (case.case, case.counted) == (CASE, 2)
    assert speed(case) == pytest.approx(16.0)
    assert case.measurements["throughput"].unit == "images/s"


def test_every_node_finishes_and_is_counted_once(tmp_path: Path) -> None:
    case = "bert:pytorch:A100:2:8:1"
    logs.put(tmp_path, case, logs.log())
    folder = logs.put(tmp_path, case, logs.log(converged=False), host="10.1.2.4", node=1, rank=8)
    (folder / "rank16.out.log").write_text(logs.log())
    found = items(tmp_path)
    assert kinds(found) == {"nodes disagree": 1, "other rank": 1, "outside the case": 1}
    told = [item for item in found if isinstance(item, LoggedEvent)]
    assert [item.more["values"]["converged"] for item in told if item.k == "FINISHED"] == [True]
    assert [item.more["value"]["converged"] for item in told if item.more.get("name") == "FINISHED of rank 8"] == [
        False
    ]
    (report,) = cases(tmp_path, tmp_path / "runs")
    assert speed(report) == pytest.approx(16.0)


def test_samples_of_one_device_are_multiplied(tmp_path: Path) -> None:
    """BERT's steps count the samples of one device, its FINISHED those of all."""
    logs.put(tmp_path, "bert:pytorch:A100:1:8:1", logs.log(per_device=8))
    assert kinds(items(tmp_path)) == {"samples per device": 1}
    assert speed(cases(tmp_path, tmp_path / "runs")[0]) == pytest.approx(16.0)


def test_without_samples_the_user_names_the_batch_or_steps_are_counted(tmp_path: Path) -> None:
    text = "".join(line for line in logs.log().splitlines(keepends=True) if "FINISHED" not in line)
    text = text.replace("num_trained_samples", "whatever") + logs.line("FINISHED", 200_000, value={"converged": True})
    logs.put(tmp_path / "r", "glm:pytorch:A100:1:8:1", text)
    (plain,) = cases(tmp_path / "r", tmp_path / "runs")
    assert (speed(plain), plain.measurements["throughput"].unit) == (pytest.approx(2.0), "steps/s")
    (named,) = cases(tmp_path / "r", tmp_path / "runs", batch=8)
    assert (speed(named), named.measurements["throughput"].unit) == (pytest.approx(16.0), "sequences/s")


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("torch.cuda.OutOfMemoryError: CUDA out of memory\n", "out of memory"),
        ("Traceback (most recent call last):\n", "an exception"),
        ("", "no FINISHED"),
    ],
)
def test_a_round_without_an_end_failed(tmp_path: Path, tail: str, reason: str) -> None:
    logs.put(tmp_path, CASE, logs.log(end=False) + tail)
    (end,) = [item for item in items(tmp_path) if isinstance(item, End)]
    assert end.state == "FAILED" and reason in end.reason


def test_any_other_file_is_no_round(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear reader,\n")
    with pytest.raises(UserError, match="no line of a training in it"):
        import_results("flagperf", tmp_path / "letter.txt", tmp_path / "runs", {})
    assert not list((tmp_path / "runs").glob("*"))


def test_hostile_lines_are_flagged_one_by_one(tmp_path: Path) -> None:
    good = logs.log(count=100)
    nan = logs.line("STEP_END", 60_000, value={"loss": float("nan"), "global_steps": 110, "num_trained_samples": 880})
    assert "NaN" in nan
    odd = [
        '[PerfLog] {"event": "STEP_END", "value": {"global_st\n',
        "[PerfLog] no json\n",
        '[PerfLog] {"value": 1}\n',
        "x" * (perflog.source.LONGEST_LINE + 1) + "\n",
        f'[PerfLog] {{"event": "STEP_END", "value": {{"global_steps": {"9" * 40}}}}}\n',
        "[PerfLog] " + "[" * 100_000 + "\n",
        logs.line("STEP_END", 5000, value={"global_steps": 10, "num_trained_samples": 80}),
        logs.line("FINISHED", 70_000, value={}),
    ]
    both = "tqdm 10% " + logs.line("EPOCH_END", 1).strip() + logs.line("EPOCH_BEGIN", 2)
    folder = logs.put(tmp_path, CASE, "")
    (folder / "rank0.out.log").write_bytes((good + nan + "".join(odd) + both).encode() + b"\xff\xfe[PerfLog] {\xff\n")
    found = items(tmp_path)
    assert kinds(found) == {
        "broken line": 5,
        "long line": 1,
        "odd number": 1,
        "step backwards": 1,
        "second FINISHED": 1,
    }
    (counted,) = [item for item in found if isinstance(item, Counted)]
    whole = good.count("\n") + len(odd) + 3
    assert (counted.lines, counted.flagged) == (whole, 9)
    told = [item for item in found if isinstance(item, LoggedEvent)]
    assert [item.more.get("loss") for item in told if item.k == "STEP_END"][-1] == "NaN"
    assert [item.k for item in told][-2:] == ["EPOCH_END", "EPOCH_BEGIN"]


def test_what_is_shown_of_a_bad_line_commands_no_terminal(tmp_path: Path) -> None:
    logs.put(tmp_path / "in", CASE, logs.log() + "[PerfLog] \x1b]0;title\x07\n")
    found = imported(tmp_path / "in", tmp_path / "runs").imported
    (example,) = [text for text in found.examples if "broken line" in text]
    assert example.endswith("\\x1b]0;title\\x07")


def test_a_log_in_utf_16_is_said_to_be_one(tmp_path: Path) -> None:
    folder = logs.put(tmp_path, CASE, "")
    (folder / "rank0.out.log").write_bytes(logs.log().encode("utf-16"))
    assert kinds(items(tmp_path))["encoding"] == 1


def test_monitors_are_on_the_clock_of_the_events(tree: Path) -> None:
    found = items(tree)
    samples = [item for item in found if isinstance(item, LoggedSample)]
    assert len(samples) == 12
    # They began 30 s before the first step; FlagPerf writes local time, here eight hours ahead.
    assert samples[0].t == (logs.START_MS - 30_000) * 1_000_000
    assert samples[0].values["cpu"] == 0.25
    assert [card["power_w"] for card in samples[0].values["devices"]] == [55.0, 65.0]
    assert kinds(found) == {"monitor line": 1}


def test_a_monitor_without_a_line_format_is_kept_and_said(tmp_path: Path) -> None:
    folder = logs.put(tmp_path, CASE, logs.log())
    (folder / "ascend_monitor.log").write_text("2024-01-01-00:00:00\n+---+\n")
    assert kinds(items(tmp_path)) == {"monitor not read": 1}


def test_megatron_text(tmp_path: Path) -> None:
    """The line is shaped as in https://github.com/epfLLM/Megatron-LLM/issues/11, the figures as FlagPerf's."""
    rows = [
        f" iteration {n:8}/     100 | consumed samples: {n * 512:12} | elapsed time per iteration (ms): 2000.0 | "
        f"learning rate: 3.0E-06 | global batch size:   512 | lm loss: {5 / n:.6E} | loss scale: 1.0 |\n"
        for n in range(1, 101)
    ]
    tail = "System tokens per second:  524288.0\nTokens/p/s:  8192.0\nTheory TFLOPS:  312.0\nMFU:  0.4\n"
    folder = logs.put(tmp_path / "r", "llama2_70B:megatron:A100:4:8:1", "")
    (folder / "rank0.out.log").rename(folder / "rank0.log.txt")
    (folder / "rank0.log.txt").write_text("".join(rows) + tail)
    (report,) = cases(tmp_path / "r", tmp_path / "runs")
    assert report.state == "SUCCEEDED" and speed(report) == pytest.approx(256.0)
    (finished,) = [item for item in items(tmp_path / "r") if isinstance(item, LoggedEvent) and item.k == "FINISHED"]
    assert finished.more["values"]["Tokens/p/s"] == 8192.0 and finished.more["values"]["MFU"] == 0.4


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("GLM_TORCH_DEMO_A100_1X8", "glm:pytorch:A100:1:8:1"),
        ("bert:pytorch_1.8:A100:1:8:3@batch=4", "bert:pytorch_1.8:A100:1:8:1@batch=4"),
        ("no case at all", "no-case-at-all:unknown:unknown:1:1:1"),
    ],
)
def test_names_of_cases(tmp_path: Path, name: str, case: str) -> None:
    logs.put(tmp_path, name, logs.log())
    assert [report.case for report in cases(tmp_path, tmp_path / "runs")] == [case]


def test_there_and_back(tree: Path, tmp_path: Path) -> None:
    first = RunDir(Path(imported(tree, tmp_path / "runs").dir))
    written = REGISTRY.get("flagperf").write([first], tmp_path / "out", {})
    names = {file.name for file in written}
    assert names == {"rank0.out.log", "start_pytorch_task.log", "cpu_monitor.log", "nvidia_monitor.log"}
    log = next(file for file in written if file.name == "rank0.out.log").read_text()
    events = [json.loads(line.removeprefix("[PerfLog] ")) for line in log.splitlines()]
    assert events[-1]["event"] == "FINISHED" and set(events[-1]["value"]) >= set(FINISHED_KEYS)
    assert all(set(event["metadata"]) == {"file", "lineno", "time_ms", "rank"} for event in events)
    (before,) = build.build(first).cases
    (after,) = cases(tmp_path / "out", tmp_path / "again")
    assert after.case == before.case and speed(after) == pytest.approx(speed(before))
    assert [item for item in items(tmp_path / "out") if isinstance(item, LoggedSample)]


_LINES = st.lists(
    st.one_of(
        st.builds(
            lambda step, total, at: logs.line(
                "STEP_END", at, value={"global_steps": step, "num_trained_samples": total, "loss": 0.5}
            ).encode(),
            st.integers(-(2**70), 2**70),
            st.integers(-5, 10**6),
            st.integers(-5, 10**6),
        ),
        st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"") + b"\n"),
        st.binary(max_size=60).map(lambda data: b"[PerfLog] {" + data.replace(b"\n", b"") + b"\n"),
        st.sampled_from(["EVALUATE", "FINISHED", "TRAIN_END", "NEW"]).map(
            lambda event: logs.line(event, 5, value={"time": 1, "x": [float("inf"), "\ud800", 2**80]}).encode()
        ),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(_LINES)
def test_any_log_is_accounted_for(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    folder = logs.put(tmp_path_factory.mktemp("log"), CASE, "")
    # Not at its very beginning, where a few bytes may make it an archive.
    data = b"begin\n" + b"".join(lines)
    (folder / "rank0.out.log").write_bytes(data)
    top = folder.parent.parent
    found = items(top)
    (counted,) = [item for item in found if isinstance(item, Counted)]
    assert counted.lines == data.count(b"\n")
    # What was said can also be written.
    imported(top, top / "runs")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["cpu", "nvidia", "mthreads"]))
def test_any_monitor_is_accounted_for(tmp_path_factory: pytest.TempPathFactory, junk: bytes, name: str) -> None:
    folder = logs.put(tmp_path_factory.mktemp("log"), CASE, logs.log(count=20))
    good = b"2022-11-21-20:00:00\n31C 55W 1024MiB 40536MiB 97%\n" if name != "cpu" else b"2022-11-21-20:00:00\t0.5\n"
    (folder / f"{name}_monitor.log").write_bytes(good + junk + good)
    items(folder.parent.parent)


@pytest.mark.parametrize("odd", ["", "noise without end", "broken line in the middle"])
def test_columns_are_the_same_however_they_are_read(tmp_path: Path, odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block, and in many with lines across their edges, from a plain file and from a compressed one."""
    text = logs.log(count=3000)
    if odd == "broken line in the middle":
        text = (
            text.replace('"loss": 0.001,', '"loss": NaN,') + "[PerfLog] {\n" + "y" * 20_000 + "\n" + logs.log(count=50)
        )
    elif odd:
        text += odd
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    whole = _joined(plain)
    monkeypatch.setattr(perflog, "BLOCK", 5000)
    monkeypatch.setattr(perflog, "_SLICE", 1500)
    assert _joined(plain) == _joined(packed) == whole
    assert len(whole[0]) >= 299


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_import_that_is_ended_leaves_nothing(cli: Cli, number: signal.Signals) -> None:
    folder = logs.put(cli.folder / "logs", CASE, logs.log(count=400_000))
    process = cli.start("import", "flagperf", "logs")
    while process.poll() is None and not any(cli.runs.glob(".import-*/raw/*")):
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode in (130, 143, -signal.SIGKILL)
    left = list(cli.runs.iterdir())
    assert len(left) == (number == signal.SIGKILL)
    for part in left:
        os.utime(part, (0, 0))
    # What could not be thrown away then is gone after the next import.
    (folder / "rank0.out.log").write_text(logs.log(count=100))
    cli("import", "flagperf", "logs")
    assert [path.name[0] for path in cli.runs.iterdir()] == ["2"]


def _joined(path: Path) -> tuple[Any, ...]:
    found = list(perflog.blocks(path))
    columns = [b"".join(getattr(block, name) for block in found) for name in ("step", "t_ms", "total", "n")]
    steps = memoryview(columns[0]).cast("q").tolist()
    counts = [sum(getattr(block, name) for block in found) for name in ("lines", "other", "taken")]
    return steps, columns, counts, [payload for block in found for _, _, payload in block.rare]


_STEP = (
    b'[PerfLog] {"event": "STEP_END", "value": {"loss": 1.5, "global_steps": 7, "num_trained_samples": 56}, '
    b'"metadata": {"file": "run.py", "lineno": 12, "time_ms": 1669034171032, "rank": 0}}'
)
_ODD_LINES = [
    _STEP,
    _STEP.replace(b'"STEP_END", ', b'"STEP_END", "epoch": 1, '),
    _STEP.replace(b"PerfLog] ", b"PerfLog]"),
    _STEP.replace(b"[", b"12% [", 1),
    _STEP + b"\r",
    _STEP[:-1] + b', "event": "FINISHED"}',
    _STEP[:-1] + b', "event": "STEP_END"}',
    _STEP[10:],
    _STEP.replace(b'"event": "STEP_END", ', b""),
    _STEP.replace(b'"event": "STEP_END", ', b"")[10:],
    _STEP.replace(b"run.py", b"[PerfLog]"),
    _STEP.replace(b"END", b"BEGIN"),
    _STEP.replace(b": 7", b": 9223372036854775807"),
    _STEP.replace(b": 7", b": 9223372036854775808"),
    _STEP.replace(b"global_steps", b"step").replace(b"num_trained_samples", b"samples"),
    _STEP.replace(b"1.5", b"NaN"),
    _STEP.replace(b"1.5", b"1e999"),
    b'[PerfLog] {"event": "STEP_END", }',
    b'[PerfLog] {"event": "STEP_END", "',
    b'[PerfLog] {"event": "EPOCH_END", "metadata": {"time_ms": 5}}',
    b'"',
    b"{}",
    b" ",
    b"",
]


@st.composite
def _a_line(draw: st.DrawFn) -> bytes:
    line = draw(st.sampled_from(_ODD_LINES))
    if draw(st.booleans()):
        return line
    at = draw(st.integers(0, len(line)))
    other = draw(st.sampled_from([b"", b"\n", b'"', b"}", b"{", b",", b"\x00", b"\xff", b"1"]))
    return line[:at] + other + line[at + 1 :]


@settings(max_examples=100, deadline=None)
@given(st.lists(_a_line(), max_size=12), st.sampled_from([400, 1 << 16]))
def test_the_quick_way_reads_what_the_patient_one_reads(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perflog, "_SLICE", size)
        quick = perflog.parse(data)
        patch.setattr(perflog, "_SLICE", 1)
        patch.setattr(perflog, "_quick", lambda *_: None)
        assert quick == perflog.parse(data)
    assert quick.lines == quick.other + quick.taken + len(quick.rare) + len(quick.long)
    assert quick.lines == data.count(b"\n") + (data[-1:] not in (b"", b"\n"))


def one_log(tmp_path: Path, text: str) -> tuple[ImportResult, CaseReport]:
    logs.put(tmp_path / "logs", "resnet50:pytorch_1.8:A100:1:1:1", text)
    options = defaults(REGISTRY.get("flagperf").import_options)
    brought = import_results("flagperf", tmp_path / "logs", tmp_path / "runs", options)
    (case,) = build.build(RunDir(Path(brought.dir))).cases
    return brought, case


def test_steps_are_steps_and_not_lines(tmp_path: Path) -> None:
    _, case = one_log(tmp_path, logs.log(400))
    assert case.measurements["steps"].value == 400


def test_a_loss_that_is_no_number_is_invalid(tmp_path: Path) -> None:
    _, case = one_log(tmp_path, logs.log(400).replace('"loss": 0.005,', '"loss": NaN,'))
    assert case.state == "INVALID" and "NaN at step 200" in say(case.reason)
    assert not case.measurements or case.measurements["throughput"].value is None


def test_a_final_loss_that_is_no_number_is_invalid(tmp_path: Path) -> None:
    _, case = one_log(tmp_path, logs.log(400).replace('"converged": true', '"converged": true, "final_loss": NaN'))
    assert case.state == "INVALID" and "the final loss is NaN" in say(case.reason)


def test_samples_below_nothing_are_flagged_and_give_no_speed(tmp_path: Path) -> None:
    brought, case = one_log(tmp_path, logs.log(400, -8))
    assert brought.imported.flags["odd number"] == 40
    throughput = case.measurements.get("throughput")
    assert throughput is None or throughput.value is None


def test_a_second_training_in_one_file_is_flagged(tmp_path: Path) -> None:
    brought, case = one_log(tmp_path, logs.log(400) + logs.log(400))
    assert brought.imported.flags["second run"] == 1 and case.measurements["steps"].value == 400


def test_control_characters_of_names_are_spelt_out(tmp_path: Path) -> None:
    logs.put(tmp_path / "logs", "resnet50:pytorch_1.8:A100:1:1:1", logs.log(400), host="n\x1b[31m1")
    brought = import_results(
        "flagperf", tmp_path / "logs", tmp_path / "runs", defaults(REGISTRY.get("flagperf").import_options)
    )
    everything = b"".join(file.read_bytes() for file in Path(brought.dir).rglob("*") if file.suffix == ".json")
    assert b"\x1b" not in everything and not any("\x1b" in str(file) for file in Path(brought.dir).rglob("*"))


def test_what_is_written_has_the_logs_of_all_ranks_and_of_the_start(tmp_path: Path) -> None:
    run = synthetic.write_run(tmp_path / "runs", "mnist:pytorch:cpu:1:2:1", [synthetic.Shape(steps=40)])
    files = REGISTRY.get("flagperf").write([run], tmp_path / "out", {})
    names = {file.name for file in files}
    assert {"rank0.out.log", "rank1.out.log", "start_pytorch_task.log"} <= names
    for file in files:
        if file.name.startswith("rank"):
            assert file.read_text().count('"STEP_END"') > 10
