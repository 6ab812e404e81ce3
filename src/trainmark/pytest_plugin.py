"""A plug-in of pytest: a test that measures training, and fails when it became slower beyond doubt.

    @pytest.mark.trainmark("mnist:pytorch:cpu:1:1:5", preset="smoke", fail_over=0.05)
    def test_speed(trainmark_run):
        assert trainmark_run.state == "SUCCEEDED"

What is measured is a suite, a case, or `command=["python", "train.py"]`. The run is compared with the baseline of this
machine in the folder of runs; the first run, and every run with `--trainmark-baseline`, becomes the baseline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trainmark.api_objects import Run

_MARKER = "trainmark(suite=None, command=None, repeat=5, preset=None, margin=0.03, fail_over=0.05): what is measured"
_NAMES = (
    "suite",
    "command",
    "repeat",
    "preset",
    "margin",
    "fail_over",
    "name",
    "unit",
    "batch",
    "steps",
    "pattern",
    "window",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trainmark")
    group.addoption("--trainmark-runs", metavar="DIR", help="the folder runs are kept in (default: .trainmark)")
    group.addoption("--trainmark-baseline", action="store_true", help="make this run the baseline of this machine")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def trainmark_run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The run that the test's marker asks for, measured now. It is compared when the test itself has passed."""
    import trainmark as tm

    marker = request.node.get_closest_marker("trainmark")
    if marker is None:
        pytest.fail("trainmark_run: the test needs `@pytest.mark.trainmark(SUITE)`, or `command=[…]`", pytrace=False)
    asked = _asked(marker)
    # A baseline belongs to a suite, and each test has one of its own.
    runs = request.config.rootpath / (request.config.getoption("--trainmark-runs") or ".trainmark")
    folder = runs / _plain(request.node.nodeid)
    run = tm.run(_suite(asked, request), runs=folder, preset=asked.get("preset"))
    yield run
    _judge(run, folder, asked, baseline=bool(request.config.getoption("--trainmark-baseline")))


def _asked(marker: pytest.Mark) -> dict[str, Any]:
    given = {**dict(zip(("suite",), marker.args, strict=False)), **marker.kwargs}
    unknown = set(given) - set(_NAMES)
    if unknown or len(marker.args) > 1 or ("suite" in given) == ("command" in given):
        pytest.fail(f"the marker takes a suite or `command`, and {', '.join(_NAMES[2:])}", pytrace=False)
    return given


def _suite(asked: dict[str, Any], request: pytest.FixtureRequest) -> Any:
    if "suite" in asked:
        return asked["suite"]
    entry = {name: asked[name] for name in ("command", "name", "unit", "batch", "steps", "pattern") if name in asked}
    window = {"window": asked["window"]} if "window" in asked else {}
    return {**window, "cases": [{**entry, "cwd": str(request.config.rootpath), "repeat": asked.get("repeat", 5)}]}


def _judge(run: Run, folder: Any, asked: dict[str, Any], *, baseline: bool) -> None:
    import trainmark as tm
    from trainmark.errors import UserError
    from trainmark.report.show import show
    from trainmark.store import baselines
    from trainmark.store.rundir import RunDir

    if run.state != "SUCCEEDED":
        pytest.fail(f"{run.id} is {run.state}\n{tm.report(run, 'text')}", pytrace=False)
    manifest = RunDir(run.path).manifest()
    try:
        known = not baseline and baselines.find(folder, manifest)
    except UserError:
        known = False
    if not known:
        baselines.put(folder, manifest)
        return
    margin, threshold = asked.get("margin", 0.03), asked.get("fail_over", 0.05)
    found = tm.compare("baseline", run, runs=folder, margin=margin, threshold=threshold).record
    if any(one.past_threshold for one in found):
        pytest.fail(show(found), pytrace=False)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
