"""Our own runs, as those who write them for other tools need them: rounds, nodes, every field of every event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.plan.records import CasePlan
from trainmark.reasons import reason
from trainmark.spec.columns import Event
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.files import BROKEN, decode_line, read_json, write_whole
from trainmark.store.rundir import EVENTS, FACTS, SAMPLES, RunDir, node_dir
from trainmark.store.state import RunState

if TYPE_CHECKING:
    from trainmark.score.figures.attempt import RunScore


class Heard(Event, frozen=True):
    """An event with all that docs/events.md lists."""

    wall: int | None = None
    epoch: int | None = None
    unit: str | None = None
    scope: str | None = None


class Done(msgspec.Struct, frozen=True):
    """The last attempt of a round."""

    case: CasePlan
    round: int
    state: JobState
    reason: str
    folder: Path
    # Why none of its case's figures are given, though this round ended well.
    fault: str = ""

    def nodes(self) -> list[tuple[int, str, Path]]:
        """Index, host and folder of each node that left one."""
        found = [(node.index, node.host, node_dir(self.folder, node.host, node.index)) for node in self.case.nodes]
        return [one for one in found if one[2].is_dir()]

    def heard(self, node: Path) -> Iterator[Heard]:
        """Events of a node; a broken line, of which reports tell, is passed over."""
        try:
            with (node / EVENTS).open("rb") as lines:
                for line in lines:
                    try:
                        yield _HEARD.decode(line)
                    except BROKEN:
                        continue
        except FileNotFoundError:
            return

    def samples(self, node: Path) -> Iterator[dict[str, Any]]:
        try:
            with (node / SAMPLES).open("rb") as lines:
                for line in lines:
                    found = decode_line(line)
                    if isinstance(found, dict) and isinstance(found.get("t"), int):
                        yield found
        except FileNotFoundError:
            return

    def score(self) -> RunScore:
        """Its figures by the rules of every report: those of a case with a round that computed wrongly are withheld."""
        from trainmark.score.figures.attempt import Question, score_run, withheld
        from trainmark.store import columns

        found = score_run(
            columns.read(self.folder, self.case.world), (), Question(world=self.case.world, window=self.case.window)
        )
        invalid = self.reason or str(self.state) if self.state is JobState.INVALID else self.fault
        if not invalid:
            return found
        why = reason("text", text=invalid)
        return msgspec.structs.replace(found, figures={**found.figures, **withheld(found.figures, why)}, reason=why)

    def facts(self) -> dict[str, Any]:
        """What the first node is made of; empty where nobody survey."""
        for _, _, folder in self.nodes():
            found = read_json(folder / FACTS)
            if isinstance(found, dict):
                return found
        return {}


_HEARD = msgspec.json.Decoder(Heard)


def rounds(run: RunDir) -> list[Done]:
    """Every round that was tried, case by case."""
    plan = run.manifest().plan
    state = RunState.replay(plan, journal.read(run.path).records)
    found = []
    for ref in sorted(state.rounds):
        last = state.rounds[ref].last()
        if last is not None:
            case = plan.cases[ref.case]
            folder = run.attempt(case, ref, last.number)
            found.append(Done(case, ref.round, last.state, say(last.reason), folder, fault_of(state, ref.case)))
    return found


def fault_of(state: RunState, case: int) -> str:
    """Why the figures of a case are withheld as a whole; empty when they are not."""
    outcome, why = state.case_outcome(case)
    return say(why) or str(outcome) if outcome is JobState.INVALID else ""


class Clock:
    """From a rank's monotonic clock to the time of day, as its first event tells it."""

    def __init__(self) -> None:
        self._ahead: dict[int, int] = {}

    def hear(self, event: Heard) -> None:
        if event.k == "INIT_START":
            self._ahead[event.rank] = event.wall - event.t if event.wall is not None else 0

    def ms(self, rank: int, t: int) -> int:
        return self.us(rank, t) // 1000

    def us(self, rank: int, t: int) -> int:
        return (t + self._ahead.get(rank, 0)) // 1000


class Losses:
    """Losses by step: told with the step, or after it when they were read from the device."""

    def __init__(self) -> None:
        self.by_step: dict[int, float] = {}

    def hear(self, event: Heard) -> None:
        if event.k == "STEP_END" and event.step is not None and event.loss is not None:
            self._keep(event.step, event.loss)
        elif event.k == "LOSS" and isinstance(event.values, list):
            for step, loss in zip(event.steps, event.values, strict=False):
                self._keep(step, loss)

    def _keep(self, step: int, loss: Any) -> None:
        value = real(loss)
        if value is not None:
            self.by_step[step] = value


def real(value: Any) -> float | None:
    """A number as events spell it; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


class Output:
    """The files that an export writes, below one folder."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.written: list[Path] = []

    def write(self, name: str, data: bytes) -> None:
        file = self.top / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, data)
        except OSError as error:
            raise UserError(f"--output {file}: cannot be written: {error.strerror}") from None
        self.written.append(file)
