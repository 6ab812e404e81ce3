"""What a program tells through the probe is in the file, in order, as JSON."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

WHOLE_RUN = """
config = probe.config(batch=8)
probe.init(unit="images", world=2)
probe.evaluate(accuracy=0.1)
probe.init_end()
probe.train_start()
probe.epoch_begin(1)
for number in range(3):
    with probe.span("data"):
        pass
    probe.step(config["params"]["batch"], loss=2.5 - number)
probe.epoch_end(1)
with probe.phase("evaluate"):
    pass
probe.evaluate(accuracy=0.9, loss=float("inf"))
probe.note("parameters", 12)
probe.train_end()
probe.finish(converged=True, accuracy=0.9)
"""


def test_a_whole_run_is_told_in_order(program):
    program.run(WHOLE_RUN)
    assert program.kinds() == [
        "INIT_START", "INIT_EVALUATION", "INIT_END", "TRAIN_START", "EPOCH_BEGIN", "STEP_END",
        "STEP_END", "STEP_END", "EPOCH_END", "PHASE_BEGIN", "PHASE_END", "EVALUATE", "NOTE", "TRAIN_END",
        "NOTE", "FINISHED",
    ]  # fmt: skip
    events = program.events()
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert all(event["rank"] == 3 for event in events)
    times = [event["t"] for event in events]
    assert times == sorted(times)
    first = events[0]
    assert (first["unit"], first["device"], first["timing"], first["world"]) == ("images", "cpu", "host", 2)
    assert {"wall", "pid", "host", "python", "prefix"} <= set(first)


def test_steps_carry_number_samples_loss_and_spans(program, only):
    program.run(WHOLE_RUN)
    steps = only("STEP_END")
    assert [step["step"] for step in steps] == [1, 2, 3]
    assert [step["n"] for step in steps] == [8, 8, 8]
    assert [step["loss"] for step in steps] == [2.5, 1.5, 0.5]
    assert all(0 <= step["data"] < 10**9 for step in steps)


def test_a_span_counts_for_the_next_step_only(program, only):
    program.run(
        "import time\nprobe.init()\n"
        "for _ in range(2):\n    with probe.span('da\"ta'):\n        time.sleep(0.02)\n"
        "probe.step(1)\nprobe.step(1)\n"
    )
    first, second = only("STEP_END")
    assert 0.04e9 <= first['da"ta'] < 1e9
    assert set(second) == {"k", "rank", "seq", "t", "step", "n"}


def test_a_span_may_not_hide_a_field_of_the_step(program):
    process = program.start("probe.init()\nprobe.span('loss')", stderr=subprocess.PIPE)
    assert "cannot be called 'loss'" in process.communicate(timeout=30)[1]


def test_evaluation_finish_and_peak_memory(program, only):
    program.run(WHOLE_RUN)
    assert only("INIT_EVALUATION")[0]["values"] == {"accuracy": 0.1}
    assert only("EVALUATE")[0] | {"step": 3, "values": {"accuracy": 0.9, "loss": "Infinity"}} == only("EVALUATE")[0]
    assert only("FINISHED")[0]["values"] == {"converged": True, "accuracy": 0.9}
    notes = {note["name"]: note["value"] for note in only("NOTE")}
    assert notes["parameters"] == 12
    assert 1 << 20 < notes["peak_memory_bytes"] < 1 << 30


@pytest.mark.parametrize(
    ("number", "said"),
    [("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity"), ("1e300", 1e300), ("5e-324", 5e-324)],
)
def test_losses_no_json_number_can_say_are_strings(program, only, number, said):
    program.run(f"probe.init()\nprobe.step(1, float('{number}'))\nprobe.note('x', [float('{number}')])")
    assert only("STEP_END")[0]["loss"] == said
    assert only("NOTE")[0]["value"] == [said]


TENSOR = """
class Tensor:
    '''Behaves like a tensor on a device that runs behind: reading it too early is an error.'''
    ready = False
    def __init__(self, value): self.value = value
    def detach(self): return Tensor(self.value)
    def item(self): raise AssertionError("item() was called")
    def __float__(self):
        assert Tensor.ready, "the device was read before it was synchronised"
        return self.value
    __sub__ = None
def sync(): Tensor.ready = True
"""


def test_tensor_losses_are_read_only_after_the_device_was_synchronised(program, only):
    body = TENSOR + "probe.init(device='nvidia', sync=sync)\nprobe.train_start()\nTensor.ready = False\n"
    program.run(body + "for n in range(25):\n    probe.step(4, Tensor(float(n)))\nprobe.finish()")
    losses = only("LOSS")
    assert [number for loss in losses for number in loss["steps"]] == list(range(1, 26))
    assert [value for loss in losses for value in loss["values"]] == [float(n) for n in range(25)]
    assert [block["step"] for block in only("BLOCK")] == [10, 20, 25]
    assert program.events()[0]["timing"] == "host-enqueue"
    kinds = program.kinds()
    assert kinds.index("BLOCK") == kinds.index("LOSS") - 1
    assert all("loss" not in step for step in only("STEP_END"))


def test_on_a_cpu_tensor_losses_come_in_blocks_and_nothing_is_synchronised(program, only):
    program.run(TENSOR + "sync()\nprobe.init()\nfor n in range(12):\n    probe.step(4, Tensor(1.0))\nprobe.train_end()")
    assert [loss["steps"] for loss in only("LOSS")] == [list(range(1, 11)), [11, 12]]
    assert only("BLOCK") == []


def test_slow_steps_end_blocks_more_often_at_steps_that_all_ranks_know(program, only):
    body = "import time\nprobe.init(device='nvidia', sync=lambda: None)\nprobe.train_start()\n"
    program.run(body + "for wait in (1.05, *[0.0] * 10, 1.05, *[0.0] * 10):\n    time.sleep(wait)\n    probe.step(1)\n")
    # One step took a second: the block ends, and so does the next, whose pace is known afterwards. Steps 11 to 15 took
    # a second together; 16 to 20 are timed as five again.
    assert [block["step"] for block in only("BLOCK")] == [1, 2, 10, 15, 20]


def test_the_device_times_its_own_steps_and_is_read_at_the_end_of_a_block(program, only):
    body = """
class Event:
    # On a device that ends step n after n x n milliseconds, and can be read only when that is over.
    made, ready = 0, False
    def __init__(self):
        self.at = Event.made ** 2
        Event.made, Event.ready = Event.made + 1, False
    def elapsed_time(self, later):
        assert Event.ready
        return float(later.at - self.at)
def sync(): Event.ready = True
probe.init(device='nvidia', sync=sync, event=Event)
probe.train_start()
for n in range(12):
    probe.step(4)
probe.finish()
"""
    program.run(body)
    times = only("TIMES")
    assert [time["steps"] for time in times] == [list(range(1, 11)), [11, 12]]
    assert [value for time in times for value in time["values"]] == [(2 * n - 1) * 10**6 for n in range(1, 13)]


def test_a_device_whose_events_fail_still_trains(program, only):
    body = (
        "class Event:\n    def elapsed_time(self, later): raise RuntimeError('no timing')\n"
        "probe.init(device='x', sync=lambda: None, event=Event)\nprobe.train_start()\n"
    )
    program.run(body + "for n in range(25):\n    probe.step(4)\nprobe.finish()")
    assert only("TIMES") == []
    assert [note["value"] for note in only("NOTE") if note["name"] == "no_device_times"] == ["RuntimeError: no timing"]
    assert [block["step"] for block in only("BLOCK")] == [10, 20, 25]


def test_the_device_is_idle_at_both_edges_of_a_phase(program):
    body = "calls = []\nprobe.init(device='nvidia', sync=lambda: calls.append(1))\nprobe.step(1)\n"
    program.run(
        body + "del calls[:]\nwith probe.phase('evaluate'):\n    assert len(calls) == 1\nassert len(calls) == 2"
    )
    assert program.kinds()[-3:] == ["BLOCK", "PHASE_BEGIN", "PHASE_END"]


def test_a_phase_left_by_an_error_ends_and_the_error_is_seen(program):
    body = (
        "def sync():\n    assert not broken\nbroken = False\nprobe.init(device='nvidia', sync=sync)\n"
        "try:\n    with probe.phase('evaluate'):\n        broken = True\n        raise KeyError('mine')\n"
        "except KeyError:\n    pass\n"
    )
    program.run(body)
    assert program.kinds()[-1] == "PHASE_END"


def test_a_device_without_sync_is_refused(program):
    process = program.start("probe.init(device='nvidia')", stderr=subprocess.PIPE)
    assert "needs sync=" in process.communicate(timeout=30)[1]


def test_resumed_steps_go_on(program, only):
    program.run("probe.init()\nprobe.resume(40)\nprobe.step(1)")
    assert only("NOTE")[0] | {"name": "resumed_from_step", "value": 40} == only("NOTE")[0]
    assert only("STEP_END")[0]["step"] == 41


def test_a_second_process_of_the_rank_goes_on_after_a_torn_line(program):
    program.run("probe.init()\nprobe.step(1)")
    with program.spool.open("a") as file:
        file.write('{"k":"STEP_END","rank":3,"se')
    program.run("probe.init()\nprobe.step(1)")
    lines = program.spool.read_text().splitlines()
    assert lines.pop(2) == '{"k":"STEP_END","rank":3,"se'
    program.spool.write_text("\n".join(lines))
    assert [event["seq"] for event in program.events()] == [0, 1, 2, 3]


def test_without_init_the_first_call_does_it(program):
    program.run("probe.step(5)")
    assert program.kinds() == ["INIT_START", "STEP_END"]


def test_config_is_defaults_updated_by_the_file(program, tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"params": {"batch": 32}, "seed": 7, "data": "/d", "workdir": "/w"}')
    check = "c = probe.config(batch=8, lr=0.1)\nassert c['params'] == {'batch': %d, 'lr': 0.1}, c\n"
    program.env["TRAINMARK_CONFIG"] = str(file)
    program.run(check % 32 + "assert (c['seed'], c['data'], c['workdir'], c['checkpoint']) == (7, '/d', '/w', None)")
    del program.env["TRAINMARK_CONFIG"]
    program.run(check % 8 + "assert c['data'] is None and c['seed'] == 0")


OLD = shutil.which("python3.7") or ""


def _works(python: str) -> bool:
    return bool(python) and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _old_python() -> str:
    """A real Python 3.7, wherever pyenv or the system keeps it."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in [OLD, *map(str, sorted(kept.glob("3.7.*/bin/python")))]:
        if _works(found):
            return found
    return ""


@pytest.mark.skipif(not _old_python(), reason="NOT CHECKED: no Python 3.7 on this machine")
def test_it_works_on_python_3_7(program):
    program.run(WHOLE_RUN, _old_python())
    assert program.events()[0]["python"].startswith("3.7.")
    assert program.kinds()[-1] == "FINISHED"
