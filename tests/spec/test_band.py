"""A reference band holds for what it was made with, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.reasons import Reason
from trainmark.spec import band

BAND = band.Band("quick", "pytorch", "synthetic", 8, {"batch": 8, "dtype": "fp32", "lr": 0.1}, 5, ())


def choose(**changes: Any) -> tuple[band.Band | None, Reason | None]:
    settings: dict[str, Any] = {
        "preset": "quick",
        "framework": "pytorch",
        "data": "synthetic",
        "params": {"batch": 8, "dtype": "fp32", "lr": 0.1},
        "world": 1,
        "checkpoint": None,
    }
    return band.choose((BAND,), **(settings | changes))


def test_it_holds_for_its_own_configuration() -> None:
    assert choose() == (BAND, None)


def test_the_same_global_batch_may_be_split() -> None:
    assert choose(params={"batch": 4, "dtype": "fp32", "lr": 0.1}, world=2) == (BAND, None)
    assert choose(params={"batch": 2, "accumulate": 4, "dtype": "fp32", "lr": 0.1}) == (BAND, None)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"preset": "full"}, "preset full"),
        ({"data": "cifar"}, "the data is not synthetic"),
        ({"world": 2}, "global batch is 16, not 8"),
        ({"params": {"batch": 8, "dtype": "bf16", "lr": 0.1}}, "dtype is bf16, not fp32"),
        ({"checkpoint": "/weights.pt"}, "checkpoint"),
    ],
)
def test_it_does_not_hold_elsewhere_and_says_why(changes: dict[str, Any], why: str) -> None:
    found, reason = choose(**changes)
    assert found is None
    assert why in say(reason)


def test_ranks_that_normalise_by_their_own_samples_need_the_same_batch_each() -> None:
    assert choose(batch_statistics=True) == (BAND, None)
    found, why = choose(batch_statistics=True, params={"batch": 4, "dtype": "fp32", "lr": 0.1}, world=2)
    assert found is None and "each rank trains 4 samples, not 8" in say(why)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    assert band.read(tmp_path) == ()
    (tmp_path / "bands.json").write_text('{"schema": 1, "made": {}, "bands": [{"preset": 3}]}')
    with pytest.raises(UserError, match=r"bands\.json"):
        band.read(tmp_path)


def test_frameworks_train_alike_and_share_a_band() -> None:
    found, _ = choose(framework="jax")
    assert found is not None and found.framework == "pytorch"
