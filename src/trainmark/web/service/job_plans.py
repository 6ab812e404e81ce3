"""From what a job asks for to a plan of the library. What users send never names a file of the server."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark.errors import UserError, one_of
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import Plan
from trainmark.run import machine, planning, session
from trainmark.spec import suite as suites
from trainmark.spec import yamlfile
from trainmark.spec.case_id import is_name
from trainmark.spec.site import Site
from trainmark.spec.suite import Loaded
from trainmark.spec.suite_cases import wanted_batches
from trainmark.spec.yamlfile import Location
from trainmark.store.files import write_whole
from trainmark.store.rundir import RunDir
from trainmark.web.home import Home
from trainmark.web.service import sites, workers
from trainmark.web.service.records import JobSpec
from trainmark.web.service.rules import Rules

if TYPE_CHECKING:
    from trainmark.automl.experiment.config import Experiment

COMMAND, WORK = "command.sh", "work"
_CASE = re.compile(r"[A-Za-z0-9._@=,:+-]{1,400}")
# Keys of a suite that name no file and no program.
_SUITE_KEYS = (
    *("schema", "name", "title", "preset", "division", "seed", "retries", "repeat_auto", "set", "deadlines"),
    *("log_level", "window", "seconds", "within", "scaling", "cases"),
)
# The same for a case of it.
_CASE_KEYS = ("case", "repeat", "set", "matrix", "deadlines", "log_level", "scaling", "preset", "seconds", "window")
# Of an experiment: keys that name files or databases.
_EXPERIMENT_PATHS = ("val_data", "weights", "init_models", "ledger")
MOST_SECONDS, MOST_STAY_SECONDS = 2_592_000, 604_800
# Parameters that are paths on the host: data sets have names.
_PATHS = ("data", "checkpoint")


def check(spec: JobSpec) -> None:
    """What no plan is needed for."""
    if sum(one is not None for one in (spec.suite, spec.automl, spec.command)) != 1:
        raise UserError("a job has one of `suite`, `automl` and `command`")
    if not 1 <= spec.limit - spec.stays <= MOST_SECONDS:
        raise UserError("time_limit: allowed is from 1 s to 30 days")
    if spec.stays > MOST_STAY_SECONDS:
        raise UserError("keep_open: allowed is at most 7 days")
    if spec.command is not None and "\0" in spec.command:
        raise UserError("command: holds a zero byte, which no shell reads")
    beyond = spec.env or spec.distributed or spec.stays or spec.secrets or spec.endpoints or spec.ports
    if spec.command is None and beyond:
        raise UserError("env, distributed, keep_open, secrets, endpoints, ports: are for commands")
    if spec.nodes > 1 and spec.command is not None and not spec.distributed:
        raise UserError(f"nodes: found {spec.nodes}; a command for several nodes is `distributed: true`")
    for name, value in spec.env.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name) or "\0" in value:
            raise UserError(f"env: {name!r} is no name of a variable")
        if name.startswith(("LD_", "TRAINMARK_")) or name in ("BASH_ENV", "ENV", "PATH", "HOME"):
            raise UserError(f"env: {name} is not set for a job from outside; set it in the command")


def prepare(home: Home, job: str, spec: JobSpec) -> None:
    """The command, byte for byte, and the folder that it works in."""
    folder = home.job(job)
    folder.mkdir(0o700)
    (folder / WORK).mkdir(0o700)
    if spec.command is not None:
        write_whole(folder / COMMAND, spec.command.encode(), durable=True, mode=0o600)


def plan(
    home: Home,
    rules: Rules,
    owner: str,
    job: str,
    spec: JobSpec,
    slots: Mapping[str, frozenset[int]] | None = None,
) -> Plan:
    """`slots`: those that the queue gave it, by host."""
    site, visible, mounts = _site(home, rules, owner, spec, slots or {})
    if spec.automl is not None:
        from trainmark.automl.experiment import runs

        return runs.make_plan(_experiment(spec), site)
    changed = {name: str(value) for name, value in spec.set.items()}
    _check_values(changed)
    if spec.command is None:
        return planning.plan_suite(_of_suite(spec), site, changed, spec.seed)
    made = planning.plan_suite(_of_command(home.job(job), spec, visible), site, changed, spec.seed)
    launcher = launcher_of(site)
    if spec.secrets and not (launcher.shared_folder or launcher.hands_files):
        raise UserError(f"secrets: launcher `{site.launcher}` cannot hand them to jobs")
    seen = launcher.this_machine or launcher.shared_folder
    places = workers.Places(home.job(job) / WORK if seen else None, home.handed(job), mounts)
    return workers.of_job(made, spec, owner, job, places)


def create_run(
    home: Home,
    rules: Rules,
    owner: str,
    job: str,
    spec: JobSpec,
    slots: Mapping[str, frozenset[int]],
    runs: Path,
    command: Sequence[str],
) -> RunDir:
    """The folder of a job's run, with all that its controller needs. Nothing is started."""
    if spec.automl is not None:
        from trainmark.automl.experiment import runs as experiments

        site, _, _ = _site(home, rules, owner, spec, slots)
        return experiments.create(_experiment(spec), site, runs, check=False, command=command)
    made = plan(home, rules, owner, job, spec, slots)
    launcher_of(made.site).check_runs(made.site, runs)
    return session.create(made, runs, command)


def _site(
    home: Home, rules: Rules, owner: str, spec: JobSpec, slots: Mapping[str, frozenset[int]]
) -> tuple[Site, dict[str, str], dict[str, str]]:
    """The site as this job uses it; what shows it its own devices; and where it sees the folders it asked for."""
    site = sites.load(home, spec.site)
    here = launcher_of(site).this_machine
    site, mounts = sites.with_mounts(rules, spec.site, site, spec.mounts)
    site = sites.of_user(sites.with_image(rules, spec.site, site, spec.image), spec.site, owner)
    site = sites.for_job(rules, spec.site, site, spec)
    sites.check_ports(rules, spec.site, spec.ports)
    visible = sites.slots_env(sites.device_here(rules)[0] if here else spec.device, slots)
    if spec.command is None:
        site = msgspec.structs.replace(site, env={**site.env, **visible})
    return site, visible, mounts


def _experiment(spec: JobSpec) -> Experiment:
    """What was sent, from which everything is refused that is a path or an address."""
    from trainmark.automl.experiment import config, reading, runs

    given = spec.automl
    if isinstance(given, str):
        if given not in runs.DEMOS:
            raise UserError(
                f"automl: found {given[:100]!r}, allowed is {one_of(runs.DEMOS)} or an experiment's content"
            )
        found, _ = runs.read(runs.DEMOS[given])
    else:
        found = yamlfile.convert(given, config.Experiment, Location("automl"))
        for name in _EXPERIMENT_PATHS:
            if getattr(found, name):
                raise UserError(f"automl: {name}: not allowed in an experiment that is sent")
        if not is_name(found.start):
            raise UserError("automl: start: allowed is the name of a model")
        _check_values({"data": found.data})
        found = reading.check(found, "automl", Path())
    if found.seconds > spec.limit:
        raise UserError(f"time_limit: the experiment itself takes {found.max_duration}; allow it more")
    return found


def needs(rules: Rules, spec: JobSpec, plan: Plan) -> dict[str, int]:
    """Slots by host; empty where the site's own scheduler hands them out."""
    hosts = machine.places_of(plan)
    if list(hosts) != [os.uname().nodename]:
        return dict.fromkeys(hosts, 1)  # a host at a time
    _, count = sites.device_here(rules)
    whole = spec.whole_host if spec.whole_host is not None else spec.command is None
    if not whole and spec.devices > count:
        raise UserError(f"devices: found {spec.devices}, this machine has {count}")
    return dict.fromkeys(hosts, count if whole else spec.devices)


def preview(plan: Plan, spec: JobSpec) -> dict[str, Any]:
    """Exactly what would run: argument vectors and environments, rank by rank; of a command also what its workers find.
    `%PORT0%` and the like stand for what is known when it starts."""
    return {
        "suite": plan.suite,
        "seed": plan.seed,
        "rounds": len(plan.order),
        "cases": [
            {
                "case": case.case,
                "env": dict(case.env),
                "nodes": [
                    {
                        "host": node.host,
                        "ranks": [{"argv": list(rank.argv), "env": dict(rank.env)} for rank in node.ranks],
                    }
                    for node in case.nodes
                ],
            }
            for case in plan.cases
        ],
        "launcher": launcher_of(plan.site).preview(plan),
        "workers": workers.shown(plan, spec) if spec.command is not None else None,
    }


def _of_command(folder: Path, spec: JobSpec, visible: Mapping[str, str]) -> Loaded:
    """`workers` says later what its nodes really start."""
    limit = spec.limit
    entry = {
        "command": ["bash", COMMAND],
        "name": spec.name,
        "device": spec.device,
        "nnodes": spec.nodes,
        "nproc": spec.processes,
        "env": {**visible, **spec.env},
        "deadlines": {"start": limit, "step": limit, "total": limit},
    }
    return suites.of_command(entry, folder / WORK)


def _of_suite(spec: JobSpec) -> Loaded:
    source = spec.suite
    if isinstance(source, dict):
        loaded = suites.of_content(_checked(source), Location("suite"), spec.name)
        if spec.preset is not None:
            raise UserError("preset: a suite names its own preset")
    elif isinstance(source, str) and (source in suites.built_in_names() or _is_case(source)):
        loaded = planning.load_suite(source, spec.preset)
    else:
        raise UserError(
            f"suite: found {str(source)[:100]!r}, allowed is a built-in suite, a case id, or a suite's content"
        )
    if wanted_batches(loaded):
        raise UserError("suite: looking for the largest batch is not done by jobs yet")
    return loaded if spec.seconds is None else suites.measured_for(loaded, spec.seconds)


def _is_case(text: str) -> bool:
    return ":" in text and _CASE.fullmatch(text) is not None and not text.endswith((".yaml", ".yml"))


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    """A suite's content, from which everything is refused that is a path or a program."""
    unknown = sorted(set(content) - set(_SUITE_KEYS))
    if unknown:
        raise UserError(f"suite: {', '.join(map(str, unknown))}: not allowed in a suite that is sent")
    cases = content.get("cases")
    for case in cases if isinstance(cases, list) else []:
        if isinstance(case, dict):
            beyond = sorted(set(case) - set(_CASE_KEYS))
            if beyond:
                raise UserError(f"suite.cases: {', '.join(map(str, beyond))}: not allowed in a suite that is sent")
            _check_values(case.get("set"))
            _check_values(case.get("matrix"))
            case = case.get("case", "")
        if not isinstance(case, str) or not _CASE.fullmatch(case):
            raise UserError("suite.cases: allowed are case ids, or objects with `case`")
        _check_values({one.partition("=")[0]: one.partition("=")[2] for one in case.partition("@")[2].split(",")})
    if not isinstance(cases, list):
        raise UserError("suite.cases: allowed is a list")
    _check_values(content.get("set"))
    return content


def _check_values(values: Any) -> None:
    """Parameters that name files take names of data sets only."""
    for name in _PATHS:
        found = values.get(name) if isinstance(values, dict) else None
        for one in found if isinstance(found, list) else [found]:
            if one is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(one)):
                raise UserError(f"{name}: allowed is the name of a data set")
