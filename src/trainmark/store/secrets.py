"""Secrets in the words of a command: the program gets them, and nothing that is shown or sent on holds them.

The manifest has `***1***` in their place. What that stands for is in a file of the run that only its owner reads, until
every round is over; so a run can be resumed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from trainmark.agent import private
from trainmark.agent import secrets as shapes
from trainmark.plan.records import Plan
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import NODE_PLAN, RunDir

NAME = "secrets.json"


def hide(run: RunDir, plan: Plan, command: Sequence[str]) -> tuple[Plan, list[str]]:
    """The plan and the command line as the manifest may hold them; the secrets are put away."""
    known: dict[str, str] = {}
    argvs = {rank.argv for case in plan.cases if case.open for node in case.nodes for rank in node.ranks}
    masks = {argv: tuple(shapes.masked(argv, known)) for argv in argvs}
    told = shapes.masked(command, known)
    if not known:
        return plan, told
    write_json(run.path / NAME, known, mode=private.FILE)
    return _with_words(plan, lambda argv: masks.get(argv, argv)), told


def known(run: RunDir) -> dict[str, str]:
    found = read_json(run.path / NAME)
    return {str(mask): str(secret) for mask, secret in found.items()} if isinstance(found, dict) else {}


def reveal(plan: Plan, secrets: Mapping[str, str]) -> Plan:
    """The plan as it is run."""
    return _with_words(plan, lambda argv: tuple(shapes.filled(word, secrets) for word in argv)) if secrets else plan


def forget(run: RunDir, secrets: Mapping[str, str], *, over: bool) -> None:
    """Takes them out of the plans of nodes, which have done with them; and, when the run is `over`, puts them out of
    the world."""
    if not secrets:
        return
    for file in run.path.glob(f"*/round*/attempt*/*/{NODE_PLAN}"):
        with contextlib.suppress(OSError):
            _clean(file, secrets)
    if over:
        (run.path / NAME).unlink(missing_ok=True)


def _clean(file: Path, secrets: Mapping[str, str]) -> None:
    plan = read_json(file)
    if isinstance(plan, dict) and isinstance(plan.get("ranks"), list):
        for rank in plan["ranks"]:
            if isinstance(rank, dict) and isinstance(rank.get("argv"), list):
                rank["argv"] = [shapes.without(str(word), secrets) for word in rank["argv"]]
        write_json(file, plan, mode=private.FILE)


def _with_words(plan: Plan, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Plan:
    replace = msgspec.structs.replace
    cases = []
    for case in plan.cases:
        if not case.open:
            cases.append(case)
            continue
        nodes = [
            replace(node, ranks=tuple(replace(rank, argv=change(rank.argv)) for rank in node.ranks))
            for node in case.nodes
        ]
        cases.append(replace(case, nodes=tuple(nodes)))
    return replace(plan, cases=tuple(cases))
