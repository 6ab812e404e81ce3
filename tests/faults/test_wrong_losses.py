"""A training that computes something else than it should has no speed, however fast it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Cli
from trainmark.i18n.speaker import say

PROGRAM = """
import trainmark_probe as probe

slope = {"down": -0.01, "up": 0.01}[probe.config()["params"]["mode"]]
probe.init(unit="things")
probe.train_start()
for step in range(40):
    probe.step(1, loss=2.0 + slope * step)
probe.train_end()
probe.finish()
"""


def band(low: float, high: float) -> str:
    stretch = {"first": 1, "last": 40, "low": low, "high": high}
    one = {"preset": "smoke", "framework": "none", "data": None, "global_batch": 8, "params": {}, "seeds": 5}
    return json.dumps({"schema": 1, "made": {}, "bands": [{**one, "stretches": [stretch]}]})


def test_a_loss_outside_the_band_makes_the_case_invalid(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    folder = make_workload(PROGRAM)
    suite = str(make_suite("  - thing:none:cpu:1:1:2@mode=down"))
    (folder / "bands.json").write_text(band(1.7, 1.9))
    (good,) = cli.json("run", suite)["cases"]
    assert (good["state"], say(good["band"])) == ("SUCCEEDED", "inside")
    (folder / "bands.json").write_text(band(1.0, 1.2))
    (bad,) = cli.json("run", suite, code=1)["cases"]
    assert (bad["state"], say(bad["band"]), bad["measurements"]) == ("INVALID", "outside", {})
    assert "mean loss over steps 1 to 40 is 1.805; the reference band is 1 to 1.2" in say(bad["reason"])


def test_without_a_band_a_loss_that_rises_is_invalid(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    folder = make_workload(PROGRAM)
    with (folder / "workload.yaml").open("a") as file:
        file.write("loss: falling\n")
    (bad,) = cli.json("run", str(make_suite("  - thing:none:cpu:1:1:1@mode=up")), code=1)["cases"]
    assert bad["state"] == "INVALID"
    assert "the loss does not fall" in say(bad["reason"])
    assert say(bad["band"]) == "not applicable: there is none for preset smoke"
    (good,) = cli.json("run", str(make_suite("  - thing:none:cpu:1:1:1@mode=down")))["cases"]
    assert good["state"] == "SUCCEEDED"
