"""Secrets in commands, parameters and sites: programs get them, and nothing that is shown or sent on holds them.

The manifest has `***1***` in their place. What that stands for is in a file of the run that only its owner reads, until
every round is over; so a run can be resumed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.agent import private
from trainmark.agent import secrets as shapes
from trainmark.agent.node_plan import CONFIG
from trainmark.errors import UserError
from trainmark.frameworks.protocol import Command
from trainmark.plan.records import CasePlan, Plan
from trainmark.spec.case import DATA_KEY
from trainmark.spec.site import Container, Prepare, Site
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import NODE_PLAN, RunDir, check_own

NAME = "secrets.json"
_Change = Callable[[str], str]


def hide(run: RunDir, plan: Plan, command: Sequence[str]) -> tuple[Plan, list[str]]:
    """The plan and the command line as the manifest may hold them; the secrets are put away."""
    told, words, known = masked(plan, command)
    if known:
        write_json(run.path / NAME, known, mode=private.FILE)
    return told, words


def masked(plan: Plan, command: Sequence[str] = ()) -> tuple[Plan, list[str], dict[str, str]]:
    """The plan and the command line with `***1***` for each secret, and what that stands for."""
    known: dict[str, str] = {}
    site = _with_options(plan.site, lambda words: shapes.masked(words, known))
    for case in plan.cases if plan.kind != "automl" else ():  # whose parameters are trainmark's own
        for name, value in (*case.params.items(), (DATA_KEY, case.data)):
            if shapes.secret_setting(name, value):
                shapes.mask(str(value), known)
    argvs = {rank.argv for case in plan.cases if case.open for node in case.nodes for rank in node.ranks}
    for argv in argvs:
        shapes.masked([shapes.without(word, known) for word in argv], known)
    words = shapes.masked([shapes.without(word, known) for word in command], known)
    text = shapes.cleaned(shapes.without(plan.suite_text, known))
    if known:
        plan = _changed(msgspec.structs.replace(plan, site=site), lambda word: shapes.without(word, known))
    return msgspec.structs.replace(plan, suite_text=text), words, known


def known(run: RunDir) -> dict[str, str]:
    found = read_json(run.path / NAME)
    return {str(mask): str(secret) for mask, secret in found.items()} if isinstance(found, dict) else {}


def reveal(plan: Plan, secrets: Mapping[str, str]) -> Plan:
    """The plan as it is run."""
    if not secrets:
        return plan
    site = _with_options(plan.site, lambda words: [shapes.filled(word, secrets) for word in words])
    return _changed(msgspec.structs.replace(plan, site=site), lambda word: shapes.filled(word, secrets))


def whole(run: RunDir, plan: Plan) -> Plan:
    """The plan of a run as another run can be made of it."""
    check_own(run.path)
    found = reveal(plan, known(run))
    for case in found.cases:
        words = [
            *map(str, case.params.values()),
            *(word for node in case.nodes for rank in node.ranks for word in rank.argv),
        ]
        if case.open and any(shapes.stands_for_secret(word) for word in words):
            raise UserError(
                f"run {run.id}: case `{case.case}` was given secrets, which are kept only until a run has succeeded; "
                "name the suite or the command again instead of the run"
            )
    return found


def forget(run: RunDir, secrets: Mapping[str, str], *, over: bool) -> None:
    """Takes them out of the plans of nodes, which have done with them; and, when the run is `over`, puts them out of
    the world."""
    if not secrets:
        return
    for name in (NODE_PLAN, CONFIG):  # agents that ended well have seen to the second
        for file in run.path.glob(f"*/round*/attempt*/*/{name}"):
            with contextlib.suppress(OSError):
                _clean(file, secrets)
    if over:
        (run.path / NAME).unlink(missing_ok=True)


def _clean(file: Path, secrets: Mapping[str, str]) -> None:
    found = read_json(file)
    kept = _without(found, secrets)
    if kept != found:
        write_json(file, kept, mode=private.FILE)


# What names and finds things is no place for secrets; a short one could be a part of it by chance.
_NAMES = ("schema", "run", "token", "key", "lease", "case", "workload", "framework", "device", "host", "dir", "workdir")


def _without(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: one if name in _NAMES else _without(one, secrets) for name, one in value.items()}
    if isinstance(value, list):
        return [_without(one, secrets) for one in value]
    return shapes.without(value, secrets) if isinstance(value, str) else value


def _with_options(site: Site, change: Callable[[list[str]], list[str]]) -> Site:
    """The site with words that programs are given changed."""
    replace = msgspec.structs.replace
    container: Container | None = site.container
    prepare: Prepare | None = site.prepare
    if container is not None:
        container = replace(container, options=change(container.options))
    if prepare is not None:
        index = None if prepare.index is None else change([prepare.index])[0]
        prepare = replace(prepare, options=change(prepare.options), index=index)
    return replace(site, container=container, prepare=prepare, mpi_options=change(site.mpi_options))


def _changed(plan: Plan, change: _Change) -> Plan:
    return msgspec.structs.replace(plan, cases=tuple(_changed_case(case, change) for case in plan.cases))


def _changed_case(case: CasePlan, change: _Change) -> CasePlan:
    replace = msgspec.structs.replace

    def of_process(one: Command) -> Command:
        return replace(one, argv=tuple(map(change, one.argv)), env=_texts(one.env, change))

    nodes = [replace(node, ranks=tuple(map(of_process, node.ranks))) for node in case.nodes]
    return replace(
        case,
        params={name: change(value) if isinstance(value, str) else value for name, value in case.params.items()},
        data=None if case.data is None else change(case.data),
        env=_texts(case.env, change),
        nodes=tuple(nodes),
    )


def _texts(values: Mapping[str, str], change: _Change) -> dict[str, str]:
    return {name: change(value) for name, value in values.items()}
