"""What every device must do. Subclass, give `vendor`, and let pytest collect it."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trainmark.devices.node_side import tools
from trainmark.devices.protocol import REGISTRY, Device, container_flags, published

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


class ControlHalfContract:
    """A subclass overrides the fixture `vendor`, by which the device is found as a case finds it."""

    @pytest.fixture
    def vendor(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def device(self, vendor: str) -> Device:
        made: Device = REGISTRY.get(vendor)
        return made

    def test_it_is_found_by_its_own_name(self, device: Device, vendor: str) -> None:
        assert isinstance(device, Device)
        assert device.vendor == vendor == vendor.lower()

    def test_names_of_variables_are_names(self, device: Device) -> None:
        for name in (device.visible, device.container_visible, *device.environment):
            assert name is None or _VARIABLE.fullmatch(name), name

    def test_there_is_a_backend_for_some_framework(self, device: Device) -> None:
        assert device.backends and all(framework and backend for framework, backend in device.backends.items())

    def test_flags_of_containers_are_single_words(self, device: Device) -> None:
        flags = container_flags(device, 2)
        assert all(flag and "\n" not in flag and "\0" not in flag and "{" not in flag for flag in flags)
        assert all(name.islower() and value for name, value in device.ulimits.items())

    def test_pytorch_knows_it_by_a_name(self, device: Device) -> None:
        assert not device.torch_module or device.torch_device
        assert all(script.startswith("/") for script in device.setup)

    def test_every_peak_names_its_source(self, device: Device) -> None:
        for (model, dtype), peak in device.peaks.items():
            assert model and dtype and peak.flops > 0 and peak.source and peak.date
            assert device.peak(model, dtype) == peak
        for row in published(device.vendor):
            assert row.words and row.source and re.fullmatch(r"\d{4}(-\d\d){0,2}", row.date), row
            assert all(0 < flops < 1e17 for flops in row.flops.values())
        assert device.peak("no such model", "fp32") is None

    def test_counting_devices_never_fails(self, device: Device) -> None:
        count = device.count_here()
        assert count is None or count >= 0


class DeviceContract(ControlHalfContract):
    """Both halves. `present` says whether such devices are in this machine: only then must something be detected. The
    node half must never fail where they are not."""

    present = False

    @pytest.fixture
    def node(self, device: Device) -> Any:
        return importlib.import_module(device.node)

    def test_what_is_detected_is_json(self, node: Any) -> None:
        facts = node.detect()
        assert isinstance(facts, dict) and json.loads(json.dumps(facts)) == facts
        assert facts or not self.present

    def test_samples_are_numbers_with_units_or_unknown(self, node: Any) -> None:
        sampler = node.Sampler()
        for sample in (sampler.sample({}), sampler.sample({})):
            assert json.loads(json.dumps(sample)) == sample
            for name, value in _fields(sample):
                assert name in node.UNITS, f"`{name}` has no unit"
                assert value is None or isinstance(value, int | float), f"`{name}` is no number: {value!r}"


def _fields(sample: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every figure of a sample; those of a card or rank by their own name alone."""
    for name, value in sample.items():
        if isinstance(value, dict):
            for inner in value.values():
                yield from ((f"{name}.{key}", one) for key, one in inner.items())
        elif isinstance(value, list):
            for inner in value:
                yield from ((f"{name}.{key}", one) for key, one in inner.items())
        else:
            yield name, value


class RecordedToolContract(DeviceContract):
    """The node half of a device that is read by its vendor's tool. `tool` is its name; `recordings` are texts that it
    wrote, each with what must be read of it: the driver's version, and fields of the devices in order."""

    tool: str
    recordings: ClassVar[Sequence[tuple[str, str | None, Sequence[Mapping[str, Any]]]]]

    @pytest.fixture
    def alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A folder that is the whole PATH, and no device files."""
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("TRAINMARK_SYS", str(tmp_path / "sys"))
        monkeypatch.setattr(tools, "SECONDS", 0.3)
        return tmp_path

    def _write(self, folder: Path, text: str, *, code: int = 0, sleep: int = 0) -> None:
        (folder / "said").write_text(text)
        script = (
            f"#!/bin/sh\n/bin/cat '{folder / 'said'}'\n{f'exec /bin/sleep {sleep}' if sleep else ''}\nexit {code}\n"
        )
        (folder / self.tool).write_text(script)
        (folder / self.tool).chmod(0o755)

    def test_recordings_are_read(self, node: Any, alone: Path) -> None:
        for text, driver, devices in self.recordings:
            self._write(alone, text)
            facts, sample = node.detect(), node.Sampler().sample({})
            assert (facts["driver"], facts["count"], facts["problem"]) == (driver, len(devices), None)
            assert len(sample["devices"]) == len(devices)
            for expected, fact, reading in zip(devices, facts["devices"], sample["devices"], strict=True):
                assert {**dict.fromkeys(expected), **fact, **reading}.items() >= expected.items()
                assert set(reading) <= {name.partition(".")[2] for name in node.UNITS}

    @pytest.mark.usefixtures("alone")
    def test_no_tool_is_no_device(self, node: Any) -> None:
        facts = node.detect()
        assert (facts["count"], facts["devices"]) == (0, []) and node.Sampler().sample({})["devices"] == []

    def test_what_is_not_understood_is_told_and_not_guessed(self, node: Any, alone: Path) -> None:
        self._write(alone, "a tool of another maker\nwith another table\n")
        facts = node.detect()
        assert facts["devices"] == [] and node.Sampler().sample({})["devices"] == []
        assert facts["problem"] is None or facts["problem"]["code"] == "device-tool-not-understood"

    def test_a_tool_that_hangs_is_given_up(self, node: Any, alone: Path) -> None:
        self._write(alone, "", sleep=60)
        facts = node.detect()
        assert facts["devices"] == []
        assert facts["problem"] is None or facts["problem"]["code"] == "device-tool-hangs"
