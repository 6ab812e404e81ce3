"""Goodput of a run's cases, read from all attempts of their longest round."""

from __future__ import annotations

from pathlib import Path

from trainmark.reasons import Reason
from trainmark.report.i18n.speaker import Speaker, say
from trainmark.report.plain import clean
from trainmark.score.figures.figure import Figure
from trainmark.score.records import Goodput
from trainmark.score.studies.goodput import Forecast, Try, goodput
from trainmark.spec.columns import is_number
from trainmark.store import columns, events, journal
from trainmark.store.files import read_json
from trainmark.store.rundir import IMAGE, RunDir
from trainmark.store.state import RunState

NS = 1e-9


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
    told = read_json(folder / IMAGE)
    seconds = told.get("seconds") if isinstance(told, dict) else None
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


def text(found: Goodput, told: Forecast | Reason | None) -> str:
    lines = [f"{found.case}: {found.attempts} attempt(s)", "", "  time to start:"]
    speak = Speaker("en")
    names = {name: speak.text(f"start.{name}") for name in found.start}
    width = max(len(name) for name in names.values())
    lines += [f"    {names[name].ljust(width)}  {_seconds(one)}" for name, one in found.start.items()]
    lines += [
        "",
        f"  from the agent's start to the first step  {_seconds(found.time_to_first_step)}",
        f"  a step                                    {_seconds(found.step_time)}",
        f"  saving a checkpoint                       {_seconds(found.checkpoint_save)}",
        f"  loading a checkpoint                      {_seconds(found.checkpoint_load)}",
        f"  share of training that stalled            {_percent(found.stall_share)}",
    ]
    for one in found.recoveries:
        lines.append(
            f"  recovery: {one.total:.3g} s = {one.until_started:.3g} s until started again + {one.start:.3g} s start "
            f"+ {one.redone:.3g} s for {one.lost_steps} lost steps"
        )
    lines.append(f"  effective training time ratio             {_percent(found.effective_ratio)}")
    if isinstance(told, Reason):
        lines.append(f"  no forecast: {say(told)}")
    elif told is not None:
        lines.append(
            f"  forecast, {told.hours:g} h with {told.failures_per_day:g} failures a day, saving every "
            f"{told.save_every:.3g} s: {100 * told.effective_ratio:.1f} %; best: every {told.best_save_every:.3g} s, "
            f"{100 * told.best_effective_ratio:.1f} %"
        )
    return "\n".join(clean(line) for line in lines) + "\n"


def _seconds(found: Figure) -> str:
    return f"– ({say(found.reason)})" if found.value is None else f"{found.value:.3g} s"


def _percent(found: Figure) -> str:
    return f"– ({say(found.reason)})" if found.value is None else f"{100 * found.value:.2g} %"
