"""Energy of whole rounds equals the integral of what the fakes gave."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.conftest import Cli
from trainmark.score.figures import energy

ROUND = ("--set", "seconds=3", "--set", "steps=60")


def rows(cli: Cli, *options: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = cli.json("energy", cli.run_id(), "--json", *options)
    return {(one["part"], one["over"]): one for one in found}


@pytest.mark.parametrize(("counter", "way"), [(True, "counter"), (False, "power")])
def test_devices(cli: Cli, fake_nvml: Path, monkeypatch: pytest.MonkeyPatch, counter: bool, way: str) -> None:
    """The fake draws 100 W and 150 W, whatever the time."""
    if not counter:
        monkeypatch.setenv("FAKE_NVML_NO_ENERGY", "1")
    cli("run", "noop:none:nvidia:1:2:1", *ROUND)
    found = rows(cli, "--carbon", "360")
    assert {part for part, _ in found} == {"device 0", "device 1"}, "only those that ranks had"
    for (part, _), one in found.items():
        watts = 100.0 if part == "device 0" else 150.0
        assert one["way"] == way and one["coverage"] == pytest.approx(1.0, abs=0.01)
        assert one["joules"] == pytest.approx(watts * one["seconds"], rel=0.01)
        assert (one["mean_w"], one["max_w"]) == (pytest.approx(watts, rel=0.01), watts)
        assert one["carbon_g"] == pytest.approx(one["joules"] / 1e4)
    if counter:
        measured = cli.json("report", cli.run_id(), "--format", "json")["cases"][0]["measurements"]
        window = found["device 0", "window"]["joules"] + found["device 1", "window"]["joules"]
        assert measured["energy"]["value"] == pytest.approx(window)
        assert measured["samples_per_joule"]["value"] == pytest.approx(1 / measured["energy_per_sample"]["value"])
        assert measured["power_max"]["value"] == 250.0
        assert measured["device_utilisation"]["value"] == pytest.approx(0.905)


@pytest.mark.parametrize("counter", [True, False])
def test_a_power_that_swings_is_integrated(counter: bool) -> None:
    """150 W and a swing of 40 W in 6.3 s, read once a second with a jitter: the integral is known exactly."""
    jitter = random.Random(1)

    def integral(t: float) -> float:
        return 150 * t + 40 * (1 - math.cos(t))

    times = [second + jitter.uniform(-0.1, 0.1) for second in range(70)]
    readings = [energy.Reading(round(t * 1e9), 150 + 40 * math.sin(t), integral(t) if counter else None) for t in times]
    begin, end = 4.7, 61.3
    found = energy.account("n", "device 0", readings, round(begin * 1e9), round(end * 1e9))
    assert found is not None and found.way == ("counter" if counter else "power")
    assert found.joules == pytest.approx(integral(end) - integral(begin), rel=0.01) and found.coverage == 1.0


def test_processors_under_another_root(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A powercap tree whose counter grows by 40 W, and wraps around on the way."""
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    span = 100_000_000
    (zone / "max_energy_range_uj").write_text(f"{span}\n")
    began, ended = time.monotonic(), Event()

    def write() -> None:
        part = zone / "part"
        part.write_text(f"{round((60 + 40 * (time.monotonic() - began)) * 1e6) % span}\n")
        part.replace(zone / "energy_uj")

    def grow() -> None:
        while not ended.wait(0.01):
            write()

    write()
    monkeypatch.setenv("TRAINMARK_SYS", str(tmp_path / "sys"))
    thread = Thread(target=grow)
    thread.start()
    try:
        cli("run", "noop:none:cpu:1:1:1", *ROUND)
    finally:
        ended.set()
        thread.join()
    (samples,) = (cli.folder / "runs").glob("*/*/round1/attempt1/*/samples.jsonl")
    read = [json.loads(line) for line in samples.read_text().splitlines()[1:]]
    first, last = read[0], read[-1]
    watts = (last["energy_uj"] - first["energy_uj"]) / (last["t"] - first["t"]) * 1e3
    assert watts == pytest.approx(40.0, rel=0.02), "the clock of this thread is 10 ms coarse"


def test_a_board_and_a_meter(cli: Cli, fake_tool: Callable[..., None], tmp_path: Path) -> None:
    fake_tool("ipmitool", "ipmitool-dcmi.txt")
    tool = tmp_path / "tools" / "ipmitool"
    tool.write_text(tool.read_text().replace("exec", f'echo "$@" >> {tmp_path}/asked\nexec'))
    site = "ipmi: {every: 1, host: '{host}-bmc', user: admin, password_file: /root/bmc}\n"
    (cli.folder / "site.yaml").write_text(site)
    began = time.time()
    cli("run", "noop:none:cpu:1:1:1", "--site", "site.yaml", *ROUND)
    assert (tmp_path / "asked").read_text().splitlines()[0].endswith("-U admin -f /root/bmc dcmi power reading")
    board = rows(cli)["board", "round"]
    assert (board["mean_w"], board["way"]) == (pytest.approx(220.0), "power")
    # A meter whose power rises by 1 W each second: its integral is known at any two moments.
    lines = [f"{began + second},{300 + second}" for second in range(-30, 60)]
    (cli.folder / "plug.csv").write_text("time,watts\n" + "\n".join(lines) + "\n")
    meter = rows(cli, "--meter", "plug.csv")["meter", "round"]
    assert meter["coverage"] == pytest.approx(1.0) and meter["mean_w"] == pytest.approx(303.0, abs=3.0)
    gone = "\n".join(line for second, line in enumerate(lines) if not 31 <= second <= 45)
    (cli.folder / "gap.csv").write_text("time,watts\n" + gone + "\n")
    lost = rows(cli, "--meter", "gap.csv").get(("meter", "round"))
    assert lost is None or (lost["coverage"] < 0.6 and lost["gaps"] == 1), "what was not read is not made up"


@pytest.mark.parametrize(("text", "said"), [("a,b\n1,2\n", "time,watts"), ("time,watts\nnoon,3\n", "line 2")])
def test_a_meter_that_cannot_be_read(cli: Cli, fake_nvml: Path, text: str, said: str) -> None:
    cli("run", "noop:none:cpu:1:1:1", "--set", "seconds=0.1")
    (cli.folder / "m.csv").write_text(text)
    assert said in cli("energy", cli.run_id(), "--meter", "m.csv", code=2).stderr
