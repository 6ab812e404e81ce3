"""Every device that ships, through the same tests."""

from __future__ import annotations

import pytest

from trainmark.devices.protocol import REGISTRY, dense_peak, device_of
from trainmark.errors import UserError
from trainmark.testing.devices import ControlHalfContract, DeviceContract


class TestCpu(DeviceContract):
    present = True

    @pytest.fixture
    def vendor(self) -> str:
        return "cpu"


@pytest.mark.parametrize("name", sorted({*REGISTRY.names()} - {"cpu"}))
class TestVendors(ControlHalfContract):
    """Data only: none has a node half yet."""

    @pytest.fixture
    def vendor(self, name: str) -> str:
        return name


def test_an_unknown_device_is_told_with_the_cure() -> None:
    with pytest.raises(UserError, match=r"device `A100` is not known; it is a vendor \(.*`nvidia`"):
        device_of("A100", "A100", "lab")


def test_no_peak_is_guessed() -> None:
    assert dense_peak("nvidia", "A100", "bf16") is None
    assert dense_peak("a vendor of an imported run", "X", "fp32") is None
