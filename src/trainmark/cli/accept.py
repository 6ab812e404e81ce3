"""`trainmark accept`: nodes and links held against each other, against a contract, and against what was learnt."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark import __version__
from trainmark.cli import common
from trainmark.errors import CASE_FAILED, OK, STOPPED, THRESHOLD_CROSSED, SiteError, UserError
from trainmark.launch import REGISTRY as LAUNCHERS
from trainmark.plan import fleet
from trainmark.plan.records import Plan
from trainmark.spec import contract as contracts
from trainmark.spec import share
from trainmark.spec import suite as suites
from trainmark.spec.case import Case
from trainmark.spec.case_id import CaseId
from trainmark.spec.site import Site
from trainmark.spec.states import JobState
from trainmark.store import rundir
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import RunDir

if TYPE_CHECKING:
    from trainmark.report.acceptance import Acceptance, Gathered, Measured, Promises, Setting, Stage

LEAST_BLOCKS = 5
LINK_BLOCKS = 3
# Rounds of the tournament where there are more nodes than can all meet in a reasonable time.
MOST_MEETINGS = 15
EPILOG = """\
examples:
  trainmark accept --site my-cluster.yaml                                  who is slower than the others?
  trainmark accept --site my-cluster.yaml --contract promised.yaml         is it as fast as was promised?
  trainmark accept --site my-cluster.yaml --learn good.json                keep how fast these nodes are
  trainmark accept --site my-cluster.yaml --criteria good.json             are they still?
verdicts: good, bad (slower beyond doubt, or computing wrongly), suspect (not proven), untested (failed or missing).
exit codes: 0 all good, 1 something bad, suspect or untested, 2 bad input, 3 site not usable, 4 contract broken.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML; its hosts are named in it")
    parser.add_argument("--case", metavar="CASE", help="what every node runs: a case id for 1 node, whose number of "
                        "rounds is that of blocks (5 and more), or a suite YAML with that case")  # fmt: skip
    parser.add_argument("--preset", metavar="NAME", help="size of a case given by id (default: quick)")
    common.add_set(parser)
    common.add_seed(parser)
    common.add_runs(parser)
    parser.add_argument("--contract", type=Path, metavar="FILE", help="YAML: what was promised of each case")
    learnt = parser.add_mutually_exclusive_group()
    learnt.add_argument("--learn", type=Path, metavar="FILE", help="write how fast these nodes are, as a criterion")
    learnt.add_argument("--criteria", type=Path, metavar="FILE", help="hold the nodes against what was learnt")
    parser.add_argument("--margin", default="3%", metavar="SHARE", help="losses up to this do not matter (3%%)")
    parser.add_argument("--link-margin", default="10%", metavar="SHARE", help="the same of links' bandwidth (10%%)")
    parser.add_argument("--looks", type=int, default=3, metavar="N", help="how often suspects are looked at (3)")
    parser.add_argument("--no-links", action="store_true", help="do not measure the links between nodes")
    parser.add_argument("--pairs", type=int, metavar="N", help="rounds of disjoint pairs (default: everybody meets "
                        f"everybody, at most {MOST_MEETINGS} rounds)")  # fmt: skip
    parser.add_argument("--link-case", metavar="CASE", help="what every pair of nodes runs (default: collectives)")
    parser.add_argument("--one-at-a-time", action="store_true", help="for hosts that share a machine: one runs, the "
                        "others wait")  # fmt: skip
    parser.add_argument("--no-check", action="store_true", help="do not look at the site's hosts before the start")
    parser.add_argument("--from", dest="again", metavar="RUN", help="judge an earlier acceptance again; starts nothing")
    parser.add_argument("--json", action="store_true", help="print as JSON, progress to stderr")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write .html, .md, .json or text to a file")


def call(args: argparse.Namespace) -> int:
    from trainmark.report import acceptance

    if args.again:
        run = rundir.find(args.runs, args.again)
        setting = _setting(run)
        stages = [(stage, acceptance.read(RunDir(run.path.parent / stage.run), stage.what)) for stage in setting.stages]
        return _tell(args, setting, acceptance.gather(stages))
    return _Acceptance(args).go()


def _setting(run: RunDir) -> Setting:
    from trainmark.report import acceptance

    found = read_json(run.path / acceptance.NAME)
    if found is None:
        raise UserError(f"--from {run.id}: it is not the first run of an acceptance; `trainmark accept` makes one")
    return msgspec.convert(found, acceptance.Setting)


class _Acceptance:
    """One acceptance as it goes on: look at all nodes, again at suspects, then at links; each is a run of its own."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.site = _site(args)
        self.case = _case(args, self.site, args.case or _default_case(self.site), LEAST_BLOCKS)
        self.blocks = int(self.case.id.repeat)
        self.link_case = self._links()
        self.places = common.places(
            self.site, {case.data for case in (self.case, self.link_case) if case and case.data}
        )
        self.seed = args.seed if args.seed is not None else common.random_seed()
        self.first: RunDir | None = None
        self.stages: list[tuple[Stage, list[Measured]]] = []
        self.setting = self._begin()
        # Bad input is told before anything starts.
        _promises(args, self.setting)

    def _links(self) -> Case | None:
        if self.args.no_links or len(self.site.hosts) < 2:
            return None
        text = self.args.link_case or f"collectives:pytorch:{self.case.id.device}:2:1:{LINK_BLOCKS}"
        return _case(self.args, self.site, text, 1, nnodes=2, link=True)

    def _begin(self) -> Setting:
        from trainmark.report.acceptance import Setting
        from trainmark.score.accept import Rule

        args, link = self.args, self.link_case
        for name, number in (("--looks", args.looks), ("--pairs", args.pairs)):
            if number is not None and number < 1:
                raise UserError(f"{name}: found {number}, allowed is 1 and more")
        return Setting(
            site=self.site.name,
            case=str(self.case.id),
            fingerprint=self.case.fingerprint,
            unit=self.case.found.workload.unit,
            dtype=str(self.case.values.get("dtype", "")),
            nodes=list(self.site.hosts),
            rule=Rule(margin=share.parse(args.margin, "--margin"), looks=args.looks),
            link_case=str(link.id) if link else "",
            link_fingerprint=link.fingerprint if link else "",
            link_margin=share.parse(args.link_margin, "--link-margin"),
            one_at_a_time=args.one_at_a_time,
        )

    def go(self) -> int:
        from trainmark.report import acceptance
        from trainmark.score import accept

        self._leave_out_unusable()
        state = self._run("nodes", self._on_nodes(self.site.hosts, self.seed))
        while state is not JobState.CANCELLED:
            looks = acceptance.gather(self.stages).looks
            again, beside = accept.suspects(looks, self.site.hosts, self.setting.rule)
            if not again:
                break
            plan = self._on_nodes([*again, *beside], self.seed + self.blocks * len(looks))
            state = self._run("again", plan, beside)
        if self.link_case is not None and len(self.site.hosts) > 1 and state is not JobState.CANCELLED:
            state = self._run("links", self._on_pairs(self.link_case))
        gathered = acceptance.gather(self.stages)
        if state is JobState.CANCELLED:
            sys.stderr.write(f"trainmark accept: stopped; `trainmark resume {self.stages[-1][0].run}` would go on\n")
            return STOPPED
        return _tell(self.args, self.setting, gathered)

    def _leave_out_unusable(self) -> None:
        """Hosts that cannot be used are untested, and do not keep the others from being tested."""
        if self.site.launcher == "local" or self.args.no_check:
            return
        from trainmark.cli import doctor

        plan = self._on_nodes(self.site.hosts, self.seed)
        bad = doctor.bad(LAUNCHERS.get(self.site.launcher).check(self.site, plan))
        unusable = {one.host: f"{one.what}: {one.found}" for one in reversed(bad)}
        left = [host for host in self.site.hosts if host not in unusable]
        if not left or any(one.host not in self.site.hosts for one in bad):
            sys.stderr.write(doctor.text(bad))
            raise SiteError(f"site `{self.site.name}` cannot be used as it is; `--no-check` starts all the same")
        self.setting = msgspec.structs.replace(self.setting, unusable=unusable)
        self.site = msgspec.structs.replace(self.site, hosts=left)

    def _on_nodes(self, hosts: list[str], seed: int) -> Plan:
        together = not self.args.one_at_a_time
        plan = fleet.on_nodes(self.case, self.site, self.places, hosts, self.blocks, seed, together=together)
        return common.with_kept_peaks(plan, self.args)

    def _on_pairs(self, case: Case) -> Plan:
        import random

        from trainmark.score.links import tournament

        meetings = tournament(self.site.hosts)
        most = self.args.pairs or MOST_MEETINGS
        if len(meetings) > most:
            meetings = random.Random(self.seed).sample(meetings, most)  # noqa: S311 - an order, not a secret
        together = not self.args.one_at_a_time
        blocks = int(case.id.repeat)
        return fleet.on_pairs(case, self.site, self.places, meetings, blocks, self.seed, together=together)

    def _run(self, what: Any, plan: Plan, references: tuple[str, ...] = ()) -> JobState:
        from trainmark.cli.drive import watched
        from trainmark.report import acceptance
        from trainmark.run import session

        if plan.site.launcher == "slurm":
            from trainmark.launch import slurm_plan

            slurm_plan.check_runs(plan.site, self.args.runs)
        run = session.create(plan, self.args.runs.resolve())
        stage = acceptance.Stage(run.id, what, references)
        self.first = self.first or run
        self.setting = msgspec.structs.replace(self.setting, stages=[*self.setting.stages, stage])
        write_json(self.first.path / acceptance.NAME, self.setting, durable=True)
        state = watched(run, plan, self.args) or JobState.CANCELLED
        self.stages.append((stage, acceptance.read(run, what)))
        return state


def _site(args: argparse.Namespace) -> Site:
    site = common.load_site(args)
    LAUNCHERS.check(site.launcher, f"site `{site.name}`")
    if site.slurm is not None and site.slurm.nodes is not None:
        raise UserError(f"{args.site}: slurm.nodes: nodes are judged by name; name them in `hosts` instead")
    return site


def _default_case(site: Site) -> str:
    """Needs no data, and works on every device: a named one of the site, if it names just one."""
    device = next(iter(site.devices)) if len(site.devices) == 1 else "cpu"
    return f"resnet50:pytorch:{device}:1:1:{LEAST_BLOCKS}"


def _case(args: argparse.Namespace, site: Site, text: str, least: int, nnodes: int = 1, *, link: bool = False) -> Case:
    option = "--link-case" if link else "--case"
    if text.endswith((".yaml", ".yml")):
        loaded = suites.load(Path(text))
    else:
        loaded = suites.single(text, args.preset or "quick")
    cases = suites.expand(loaded, site, {} if link else common.overrides(args))
    if len(cases) != 1:
        raise UserError(f"{option} {text}: holds {len(cases)} cases, and nodes are compared by one")
    case = cases[0]
    if case.id.nnodes != nnodes:
        raise UserError(f"{option} {text}: is for {case.id.nnodes} node(s), allowed is {nnodes}")
    if not isinstance(case.id.repeat, int) or case.id.repeat < least:
        raise UserError(
            f"{option} {text}: found {case.id.repeat} rounds, which are blocks here; allowed is {least} and more"
        )
    return case


def _promises(args: argparse.Namespace, setting: Setting) -> Promises:
    from trainmark.report.acceptance import Promises

    case, link = CaseId.parse(setting.case), CaseId.parse(setting.link_case) if setting.link_case else None
    found: dict[str, Any] = {}
    if args.contract:
        contract = contracts.load_contract(args.contract)
        contracts.check_used(contract, case, args.contract)
        found["limits"] = contract[case.identity]
        found["link_limits"] = contract.get(link.identity) if link else None
    if args.criteria:
        criteria = contracts.load_criteria(args.criteria)
        contracts.check_used(criteria.cases, case, args.criteria)
        found["criterion"] = contracts.of_case(criteria, case, setting.fingerprint, args.criteria)
        if link:
            found["link_criterion"] = contracts.of_case(criteria, link, setting.link_fingerprint, args.criteria)
    return Promises(**found)


def _tell(args: argparse.Namespace, setting: Setting, gathered: Gathered) -> int:
    from trainmark.cli.report import write
    from trainmark.report import acceptance, acceptance_views, formats

    found = acceptance.build(setting, gathered, _promises(args, setting))
    if args.learn:
        _learn(args.learn, setting, found, acceptance.learnt(setting, gathered))
    if args.output:
        kind = formats.chosen(None, args.output)
        if kind not in acceptance_views.FORMATS:
            raise UserError(f"--output {args.output}: an acceptance is written as .html, .md, .json or text")
        write(args.output, acceptance_views.render(found, kind))
    sys.stdout.write(acceptance_views.render(found, "json" if args.json else "text"))
    return THRESHOLD_CROSSED if found.crossed else OK if found.verdict == "good" else CASE_FAILED


def _learn(path: Path, setting: Setting, found: Acceptance, cases: dict[str, contracts.Criterion]) -> None:
    """Only of a fleet without a flaw, be it one node: what is learnt is what later fleets are held against."""
    if found.verdict in ("bad", "suspect") or any(one.speed is None for one in found.nodes):
        sys.stderr.write(f"trainmark accept: nothing was learnt: the verdict is {found.verdict}; drain and try again\n")
        return
    made = time.strftime("%Y-%m-%d", time.gmtime())
    content = contracts.Criteria(1, made, __version__, setting.site, setting.rule.margin, cases)
    write_json(path, content)
