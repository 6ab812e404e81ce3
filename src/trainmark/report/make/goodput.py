"""Goodput of a run's cases, read from all attempts of their longest round."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trainmark.reasons import Reason
from trainmark.score.records import Goodput
from trainmark.score.studies.goodput import Forecast, Try, goodput
from trainmark.spec.columns import is_number
from trainmark.store import columns, events, journal
from trainmark.store.files import read_json
from trainmark.store.rundir import IMAGE, RunDir
from trainmark.store.state import RunState

NS = 1e-9


class GoodputCase(msgspec.Struct, frozen=True):
    """`forecast`: for a stated rate of failures, or why there is none."""

    goodput: Goodput
    forecast: Forecast | Reason | str | None = None


class GoodputRun(msgspec.Struct, frozen=True):
    """What `trainmark goodput --json` prints."""

    run: str
    dir: str
    cases: list[GoodputCase]


def of_run(run: RunDir, state: RunState) -> list[Goodput]:
    """One for each case that was tried."""
    walls = _walls(run)
    found = []
    for index, case in enumerate(state.plan.cases):
        rounds = [(ref, item) for ref, item in state.rounds.items() if ref.case == index and item.attempts]
        if not rounds:
            continue
        ref, item = max(rounds, key=lambda pair: len(pair[1].attempts))
        tries = []
        for attempt in item.attempts:
            folder = run.attempt(case, ref, attempt.number)
            results = list(events.results(folder))
            began, ended = walls.get((index, ref.round, attempt.number), (0, None))
            first = results[0] if results else {}
            tries.append(
                Try(
                    began=began * NS,
                    ended=None if ended is None else ended * NS,
                    columns=columns.read(folder, case.world),
                    agent_seconds=max((float(one["duration"]) for one in results if "duration" in one), default=None),
                    agent_began=first["started"] * NS if isinstance(first.get("started"), int) else None,
                    container=state.plan.site.container is not None,
                    compiled=bool(case.params.get("compile")),
                    image_seconds=_image(folder),
                )
            )
        found.append(goodput(case.case, tries))
    return found


def _image(folder: Path) -> float | None:
    image = read_json(folder / IMAGE)
    seconds = image.get("seconds") if isinstance(image, dict) else None
    return float(seconds) if is_number(seconds) else None


def _walls(run: RunDir) -> dict[tuple[int, int, int], tuple[int, int | None]]:
    """When the controller began each attempt, and when it saw its end."""
    found: dict[tuple[int, int, int], tuple[int, int | None]] = {}
    for record in journal.read(run.path).records:
        key = (record.case or 0, record.round or 0, record.attempt or 0)
        if record.k == journal.ATTEMPT:
            found[key] = record.wall, None
        elif record.k == journal.ENDED and key in found:
            found[key] = found[key][0], record.wall
    return found
