"""Speed on a device that runs behind its program, from the probe to the figures."""

from __future__ import annotations

import numpy as np
import pytest

from trainmark.probe import trainmark_probe
from trainmark.score.figures.attempt import RunScore, score_run
from trainmark.store import columns
from trainmark.testing.late_device import LateDevice

SAMPLES = 8


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Trains on late devices, one for each rank; scored, with the device and the file of each."""
    monkeypatch.delenv(trainmark_probe.OWNER, raising=False)

    def run(seconds: list[list[float]], events: bool = True, evaluate_every: int = 0):
        devices = [LateDevice() for _ in seconds]
        node = tmp_path / "n1_noderank0"
        node.mkdir()
        with (node / "events.jsonl").open("ab") as together:
            for rank, (device, steps) in enumerate(zip(devices, seconds, strict=True)):
                spool = tmp_path / f"rank{rank}"
                monkeypatch.setattr(trainmark_probe, "monotonic_ns", device.now)
                _train(trainmark_probe._Recorder(str(spool), rank), device, steps, events, evaluate_every)
                monkeypatch.delenv(trainmark_probe.OWNER)
                together.write(spool.read_bytes())
        return score_run(columns.read(tmp_path, len(seconds))), devices

    return run


def _train(probe, device: LateDevice, steps: list[float], events: bool, evaluate_every: int) -> None:
    event = device.event if events else None
    probe.init("images", "nvidia", device.synchronize, 1, event=event, memory=lambda: 12345)
    probe.train_start()
    for number, seconds in enumerate(steps, 1):
        device.work(seconds)
        probe.step(SAMPLES)
        if evaluate_every and number % evaluate_every == 0:
            with probe.phase("evaluate"):
                device.work(5.0)
    probe.train_end()
    probe.finish()


def _noisy(count: int, seconds: float, seed: int = 0) -> list[float]:
    return list(seconds * np.exp(0.05 * np.random.default_rng(seed).normal(size=count)))


def _inside(found: RunScore, steps: list[float]) -> list[float]:
    assert found.window is not None
    return steps[found.window.before : found.window.last]


def test_the_speed_is_the_devices_and_not_that_of_the_host(train):
    steps = _noisy(200, 0.11)
    found, (device,) = train([steps])
    # The host waits for nothing but the device; after each block it must give it work again.
    inside = _inside(found, steps)
    assert found.value("throughput") == pytest.approx(SAMPLES * len(inside) / sum(inside), rel=1e-3)
    assert found.value("step_time_p50") == pytest.approx(np.median(inside), rel=1e-2)
    assert found.value("step_time_max") == pytest.approx(max(inside), rel=1e-2)
    assert found.value("peak_memory") == 12345
    # Twenty blocks, of which the last is asked for twice more, and the beginning.
    assert device.waits == 1 + 20 + 2


def test_without_events_there_are_no_percentiles_and_no_more_synchronisation(train):
    found, (device,) = train([_noisy(200, 0.11)], events=False)
    assert found.value("throughput") is not None and found.value("step_time_p50") is None
    assert device.waits == 1 + 20 + 2


def test_evaluations_are_out_of_the_percentiles(train):
    steps = _noisy(200, 0.11)
    found, _ = train([steps], evaluate_every=50)
    assert found.value("step_time_max") == pytest.approx(max(_inside(found, steps)), rel=1e-2)
    assert found.value("throughput") == pytest.approx(SAMPLES / 0.11, rel=2e-2)


@pytest.mark.parametrize("seconds", [0.099, 0.11, 0.199, 0.5, 1.001])
def test_eight_ranks_have_a_speed_at_any_pace(train, seconds):
    steps = [_noisy(120, seconds, seed) for seed in range(8)]
    found, _ = train(steps)
    assert found.value("throughput") == pytest.approx(8 * SAMPLES / seconds, rel=3e-2)
    assert found.window is not None and found.window.last == 120
    assert not [flag for flag in found.flags if flag.reason.code == "few-edges"]


def test_the_allocator_of_any_vendors_plugin_is_asked(monkeypatch):
    class Plugin:
        is_initialized = staticmethod(lambda: True)
        max_memory_allocated = staticmethod(lambda: 77)

    class Torch:
        npu = Plugin

    monkeypatch.setitem(trainmark_probe.sys.modules, "torch", Torch)
    assert trainmark_probe._peak_memory() == 77
    Plugin.is_initialized = staticmethod(lambda: False)
    assert trainmark_probe._peak_memory() > 1 << 20


def test_an_event_of_a_vendors_plugin_is_recorded():
    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.timed, self.recorded = enable_timing, False

        def record(self) -> None:
            self.recorded = True

    class Torch:
        class mlu:  # noqa: N801
            pass

    assert trainmark_probe.torch_event(Torch, "mlu") is None
    Torch.mlu.Event = Event
    event = trainmark_probe.torch_event(Torch, "mlu")()
    assert event.timed and event.recorded
