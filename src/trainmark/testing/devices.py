"""What every device must do. Subclass, give `vendor`, and let pytest collect it."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from trainmark.devices.protocol import REGISTRY, Device

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
        assert all(flag and "\n" not in flag and "\0" not in flag for flag in device.container)

    def test_every_peak_names_its_source(self, device: Device) -> None:
        for (model, dtype), peak in device.peaks.items():
            assert model and dtype and peak.flops > 0 and peak.source and peak.date
            assert device.peak(model, dtype) == peak
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
