"""What every workload must do. Subclass, give `folder` (and `data`, where it needs some), and let pytest collect it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainmark import api
from trainmark.spec import workload

PRESETS = ("smoke", "quick", "full")


class WorkloadContract:
    """Trains the preset smoke, for real, with every framework the workload has."""

    folder: Path
    # A folder, a file, `synthetic`, or None: what `workload.yaml` says.
    data: str | None = None
    # Ranks that train together; one for a workload that cannot.
    ranks = 2

    def test_the_file_says_all_that_a_user_asks(self) -> None:
        found = workload.read(self.folder).workload
        assert set(PRESETS) <= set(found.presets), "presets smoke, quick and full"
        assert found.unit and found.title
        assert all(parameter.help for parameter in found.parameters.values()), "each parameter has a `help:`"

    def test_it_trains_tells_and_ends(self, tmp_path: Path) -> None:
        for framework in workload.read(self.folder).workload.frameworks:
            events = self._events(tmp_path, framework, 1)
            kinds = {event["k"] for event in events}
            wanted = {"INIT_START", "INIT_END", "TRAIN_START", "STEP_END", "TRAIN_END", "FINISHED"}
            assert wanted <= kinds, f"{framework}: nothing was told of {sorted(wanted - kinds)}"
            assert all(event["n"] > 0 for event in events if event["k"] == "STEP_END")
            losses = _losses(events)
            assert losses, f"{framework}: no loss was told"

    def test_ranks_end_with_equal_weights(self, tmp_path: Path) -> None:
        if self.ranks == 1:
            pytest.skip("this workload says that it trains with one rank only")
        for framework in workload.read(self.folder).workload.frameworks:
            events = self._events(tmp_path, framework, self.ranks)
            told = {
                event["rank"]: event["value"]
                for event in events
                if event["k"] == "NOTE" and event["name"] == "weights_sha256"
            }
            assert sorted(told) == list(range(self.ranks)), f"{framework}: `weights_sha256` noted by {sorted(told)}"
            assert len(set(told.values())) == 1, f"{framework}: ranks trained apart"

    def _events(self, place: Path, framework: str, ranks: int) -> list[dict[str, Any]]:
        case: dict[str, Any] = {"case": f"{self.folder.name}:{framework}:cpu:1:{ranks}:1"}
        if self.data is not None:
            case["data"] = self.data
        suite = {"preset": "smoke", "workloads": [str(self.folder.parent)], "cases": [case]}
        ran = api.run(suite, runs=place / "runs")
        assert ran.state == "SUCCEEDED", f"{case['case']}: {ran.report('text')}"
        files = ran.path.glob("*/round1/*/*/events.jsonl")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _losses(events: list[dict[str, Any]]) -> list[float]:
    later = [value for event in events if event["k"] == "LOSS" for value in event["values"]]
    return later + [event["loss"] for event in events if "loss" in event and event["k"] == "STEP_END"]
