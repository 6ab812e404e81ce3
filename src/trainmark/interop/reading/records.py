"""What a format says while it reads: a flat stream of small records, so that a file of any size fits into memory.

Begin, LoggedEvent or LoggedSample …, End        once for each round, in the order rounds are numbered
Flag, Missing, Counted, Verbatim        at any place between
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.plan.build import MOST_RANKS
from trainmark.spec.case_id import CaseId, Value, is_name
from trainmark.spec.states import JobState

UNKNOWN = "unknown"


class Kept(msgspec.Struct, frozen=True):
    """One file of the source: its name there, and the copy that is kept by hash and read."""

    name: str
    path: Path
    sha256: str
    size: int
    # Name of the folder that holds it all: some tools tell things by it.
    above: str = ""


class CaseFields(msgspec.Struct, frozen=True):
    """What was measured, as far as the source tells. `params` become the variant of the case's id."""

    workload: str
    framework: str
    nnodes: int
    nproc: int
    device: str = UNKNOWN
    unit: str = "samples"
    params: dict[str, Value] = {}

    def id(self, repeat: int) -> CaseId:
        """The address of the case. Letters that an id cannot hold become `-`."""
        framework, _, version = clean(self.framework).partition("_")
        found = CaseId(
            clean(self.workload), framework, version, clean(self.device), self.nnodes, self.nproc, repeat
        ).with_variant(self.params)
        # Refused here, with its own message, instead of by whoever reads the run.
        return CaseId.parse(str(found))

    def trouble(self) -> str:
        """Why there can be no such case; empty when there can."""
        if not 1 <= self.nnodes * self.nproc <= MOST_RANKS:
            return f"{self.nnodes} × {self.nproc} ranks, allowed are 1 to {MOST_RANKS}"
        try:
            # As long as it can become.
            self.id(10**8)
        except UserError as error:
            return str(error)
        return ""

    def fingerprint(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:16]


class Begin(msgspec.Struct, frozen=True):
    """A round begins. `label` is what the source calls it; `timing` and `scope` say what its times and samples are.

    timing: `log` (the source's own time stamps or durations) or `derived` (computed from the rates it printed).
    scope: `global` (one record speaks for all ranks) or `rank`.
    raw: hash of the file that is the round's log, if it is one file; `trainmark logs` shows it.
    """

    case: CaseFields
    label: str
    timing: str
    scope: str = "global"
    raw: str = ""
    hosts: tuple[str, ...] = ()


class LoggedEvent(msgspec.Struct, frozen=True):
    """One event of docs/events.md. `t` is in nanoseconds on a clock that starts anywhere."""

    k: str
    t: int
    more: dict[str, Any] = {}
    rank: int = 0
    node: int = 0


class LoggedSample(msgspec.Struct, frozen=True):
    """What a monitor saw of a node at `t`, on the clock of the round's events, by the names of samples.jsonl."""

    t: int
    values: dict[str, Any]
    node: int = 0


class End(msgspec.Struct, frozen=True):
    """The round is over. `last_lines` are shown where it failed."""

    state: JobState
    reason: str = ""
    last_lines: tuple[str, ...] = ()


class Flag(msgspec.Struct, frozen=True):
    """Something that was not taken, or not as it stands. `kind` is counted, `text` is kept for the first few.

    `rows`: how many records were left out because of it; 0 for a remark on records that were taken.
    """

    kind: str
    place: str
    text: str
    rows: int = 0


class Missing(msgspec.Struct, frozen=True):
    """Something that a run of trainmark's own would hold and this source does not say."""

    what: str


class Counted(msgspec.Struct, frozen=True):
    """One file is read: `lines` = `taken` + `other` (no records) + `flagged` (records left out)."""

    place: str
    lines: int
    taken: int
    other: int
    flagged: int


class Verbatim(msgspec.Struct, frozen=True):
    """What the source's own tool would have written: `content` in a file named `….json`, `text` in any other."""

    name: str
    content: Any
    text: str = ""


Item = Begin | LoggedEvent | LoggedSample | End | Flag | Missing | Counted | Verbatim


def clean(text: str) -> str:
    """A name that an id can hold."""
    kept = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in text).lstrip("._-")
    return kept[:80] if is_name(kept[:80]) else UNKNOWN


def printable(text: str) -> str:
    """What foreign lines hold is shown on terminals, which obey control characters."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def number(value: float) -> float | str:
    """A number as events spell it: what is not finite is a text."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def wrong_loss(item: LoggedEvent) -> str | None:
    """That a loss is no finite number, which events spell as a text; None when it is: such a round has
    no speed."""
    if item.k == "STEP_END" and isinstance(item.more.get("loss"), str):
        return f"the loss is {item.more['loss']} at step {item.more.get('step')}"
    values = item.more.get("values") if item.k == "FINISHED" else None
    last = values.get("final_loss") if isinstance(values, dict) else None
    return f"the final loss is {last}" if last in NOT_FINITE else None


_DEEPEST = 16
_MOST = 1 << 63


def tidy(value: Any, depth: int = 0) -> Any:
    """A value from a foreign file that can be written as JSON whatever it is."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -_MOST <= value < _MOST else str(value)
    if isinstance(value, dict | list) and depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {tidy(str(key)): tidy(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [tidy(inner, depth + 1) for inner in value]
    return value
