"""How long `plan` says that something takes, beside what is known to take that long."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Cli

_DAY = 86400.0


def seconds_of(text: str) -> float:
    """Of the last line of `trainmark plan`."""
    line = text.splitlines()[-1]
    days = re.match(r"about ([\d,]+) days", line)
    if days:
        return float(days.group(1).replace(",", "")) * _DAY
    found = re.match(r"about (?:(?:(\d+):)?(\d+):(\d+)|(\d+) s)", line)
    assert found, line
    hours, minutes, seconds, alone = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + alone


@pytest.mark.parametrize(
    ("case", "preset", "least", "most"),
    [
        ("mnist:pytorch:cpu:1:1:1", "smoke", 3, 20),
        ("llama:pytorch:cpu:1:1:1", "smoke", 3, 20),
        ("resnet50:pytorch:cpu:1:1:2", "smoke", 6, 40),
        ("noop:none:cpu:1:1:1", "full", 60, 80),
        ("mnist:pytorch:cpu:1:1:1", "full", 20, 200),
        # 90 epochs at 4 pictures per second.
        ("resnet50:pytorch:cpu:1:1:1", "full", 100 * _DAY, 1000 * _DAY),
        # NVIDIA's own: 90 epochs on 8 of them in about one to two hours.
        ("resnet50:pytorch:A100:1:8:1", "full", 1800, 4 * 3600),
        ("bert:pytorch:A100:1:8:1", "full", 1800, 6 * 3600),
    ],
)
def test_every_preset_has_an_estimate_of_time(cli: Cli, case: str, preset: str, least: float, most: float) -> None:
    (cli.folder / "site.yaml").write_text("schema: 1\nname: s\nlauncher: local\ndevices: {A100: nvidia}\n")
    said = cli("plan", case, "--preset", preset, "--site", "site.yaml").stdout
    assert least <= seconds_of(said) <= most


def test_what_nobody_can_tell_is_said_with_the_cure(cli: Cli) -> None:
    said = cli("plan", "llama:pytorch:cpu:1:1:1", "--preset", "full").stdout
    assert "no estimate of time: how many steps it has depends on its data; `--set steps=N` says it" in said
    assert "no estimate" not in cli("plan", "llama:pytorch:cpu:1:1:1", "--preset", "full", "--set", "steps=5").stdout
    said = cli("plan", "resnet50:pytorch:kunlunxin:1:1:1", "--preset", "full").stdout
    assert "no estimate of time: no peak of `kunlunxin` in" in said
