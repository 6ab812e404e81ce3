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
from trainmark.launch.protocol import launcher_of
from trainmark.plan import fleet
from trainmark.plan.fleet import Pairs
from trainmark.plan.records import Plan
from trainmark.run import planning
from trainmark.spec import contract as contracts
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.case import Case
from trainmark.spec.case_id import CaseId
from trainmark.spec.notation import parse_share
from trainmark.spec.site import Site
from trainmark.store import rundir
from trainmark.store.files import write_json
from trainmark.store.rundir import RunDir

if TYPE_CHECKING:
    from trainmark.report.acceptance import Acceptance, Gathered, Promises, Setting

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
  trainmark accept --resume RUN                                            it was killed; go on (so does `resume`)
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
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument("--from", dest="again", metavar="RUN", help="judge an earlier one again; starts nothing")
    earlier.add_argument("--resume", metavar="RUN", help="go on with one that was stopped or killed, to its verdict")
    parser.add_argument("--json", action="store_true", help="print as JSON, progress to stderr")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write .html, .md, .json or text to a file")


def call(args: argparse.Namespace) -> int:
    _check_output(args.output)
    if args.resume:
        return _carry(args, _first(rundir.find(args.runs, args.resume), "--resume"))
    if args.again:
        return _judge_again(args, _first(rundir.find(args.runs, args.again), "--from"))
    return _carry(args, _begin(args))


def go_on(args: argparse.Namespace, first: RunDir) -> int:
    """`trainmark resume` for a run of an acceptance: the whole of it is carried on to its verdict."""
    if args.detach or args.allow_skip:
        raise UserError(f"{first.id} is an acceptance, which goes on here: leave out --detach and --allow-skip")
    asked = dict.fromkeys(("contract", "criteria", "learn", "output"))
    return _carry(argparse.Namespace(**{**vars(args), **asked}), first)


def _judge_again(args: argparse.Namespace, first: RunDir) -> int:
    from trainmark.cli import accept_course
    from trainmark.report import acceptance

    # Files that the acceptance itself wrote are left as they are.
    told = msgspec.structs.replace(accept_course.setting_of(first), learn="", output="")
    stages = [(stage, accept_course.measured(first, stage)) for stage in told.stages]
    return _tell(args, _as_asked(args, told), acceptance.gather(stages))


def _first(run: RunDir, option: str) -> RunDir:
    from trainmark.cli import accept_course

    first = accept_course.first_of(run)
    if first is None:
        raise UserError(f"{option} {run.id}: it is no run of an acceptance; `trainmark accept` makes one")
    return first


def _carry(args: argparse.Namespace, first: RunDir) -> int:
    from trainmark.cli.accept_course import Course

    course = Course(first, args)
    gathered = course.go()
    if gathered is None:
        sys.stderr.write(f"trainmark accept: stopped; `trainmark resume {first.id}` goes on\n")
        return STOPPED
    return _tell(args, _as_asked(args, course.setting), gathered)


def _begin(args: argparse.Namespace) -> RunDir:
    """Reads and plans everything, so that bad input is told before anything starts."""
    from trainmark.cli import accept_course

    site = _site(args)
    case = _case(args, site, args.case or _default_case(site), LEAST_BLOCKS)
    link_case = _links(args, site, case)
    places = planning.places(site, {one.data for one in (case, link_case) if one and one.data})
    seed = args.seed if args.seed is not None else planning.random_seed()
    setting = _as_asked(args, _setting(args, site, case, link_case))
    together = not args.one_at_a_time
    blocks = int(case.id.repeat)
    plan = fleet.on_nodes(case, site, places, site.hosts, blocks, seed, together=together)
    plan = planning.with_kept_peaks(plan, args.site)
    common.check_runs(plan, args)
    unusable = _unusable(args, plan)
    if unusable:
        site = msgspec.structs.replace(site, hosts=[host for host in site.hosts if host not in unusable])
        setting = msgspec.structs.replace(setting, unusable=unusable)
        plan = fleet.again(plan, site.hosts, seed)
    links = None
    if link_case is not None and len(site.hosts) > 1:
        meetings = _meetings(args, site.hosts, seed)
        blocks = int(link_case.id.repeat)
        links = fleet.on_pairs(link_case, site, places, meetings, blocks, seed, together=together)
    return accept_course.create(args.runs.resolve(), setting, plan, links, ["trainmark", *args.argv])


def _links(args: argparse.Namespace, site: Site, case: Case) -> Case | None:
    if args.no_links or len(site.hosts) < 2:
        return None
    text = args.link_case or f"collectives:pytorch:{case.id.device}:2:1:{LINK_BLOCKS}"
    return _case(args, site, text, 1, nnodes=2, link=True)


def _setting(args: argparse.Namespace, site: Site, case: Case, link: Case | None) -> Setting:
    from trainmark.report.acceptance import Setting
    from trainmark.score.accept.nodes import Rule

    for name, number in (("--looks", args.looks), ("--pairs", args.pairs)):
        if number is not None and number < 1:
            raise UserError(f"{name}: found {number}, allowed is 1 and more")
    return Setting(
        site=site.name,
        case=str(case.id),
        fingerprint=case.fingerprint,
        unit=case.found.workload.unit,
        dtype=str(case.values.get("dtype", "")),
        nodes=list(site.hosts),
        rule=Rule(margin=parse_share(args.margin, "--margin"), looks=args.looks),
        link_case=str(link.id) if link else "",
        link_fingerprint=link.fingerprint if link else "",
        link_margin=parse_share(args.link_margin, "--link-margin"),
        one_at_a_time=args.one_at_a_time,
    )


def _unusable(args: argparse.Namespace, plan: Plan) -> dict[str, str]:
    """Hosts that cannot be used are untested, and do not keep the others from being tested. What is wrong with no host
    in particular may be wrong only because of them."""
    site, found = plan.site, dict[str, str]()
    launcher, left = launcher_of(site), list(site.hosts)
    if launcher.this_machine or args.no_check:
        return found
    from trainmark.cli import doctor

    while bad := doctor.bad(launcher.check(msgspec.structs.replace(site, hosts=left), fleet.again(plan, left, 0))):
        found.update({one.host: f"{one.what}: {one.found}" for one in reversed(bad) if one.host in left})
        still = [host for host in left if host not in found]
        if not still or still == left:
            sys.stderr.write(doctor.text(bad))
            raise SiteError(f"site `{site.name}` cannot be used as it is; `--no-check` starts all the same")
        left = still
    return found


def _meetings(args: argparse.Namespace, hosts: list[str], seed: int) -> Pairs:
    import random

    from trainmark.score.accept.links import tournament

    meetings = tournament(hosts)
    most = args.pairs or MOST_MEETINGS
    if len(meetings) > most:
        return random.Random(seed).sample(meetings, most)  # noqa: S311 - an order, not a secret
    return meetings


def _site(args: argparse.Namespace) -> Site:
    site = common.load_site(args)
    if "" in site.hosts:
        raise UserError(f"{args.site}: nodes are judged by name; name them in `hosts` instead")
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
    cases = suite_cases.expand(loaded, site, {} if link else common.overrides(args))
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


def _as_asked(args: argparse.Namespace, setting: Setting) -> Setting:
    """With what this command line wants to be held against and written; the rest as it was at the beginning."""
    if args.contract or args.criteria:
        setting = msgspec.structs.replace(setting, promises=_promises(args, setting))
    files = {"learn": args.learn, "output": args.output}
    return msgspec.structs.replace(setting, **{name: str(file.absolute()) for name, file in files.items() if file})


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


def _check_output(path: Path | None) -> None:
    from trainmark.report import acceptance_views, formats

    if path is not None and formats.chosen(None, path) not in acceptance_views.FORMATS:
        raise UserError(f"--output {path}: an acceptance is written as .html, .md, .json or text")


def _tell(args: argparse.Namespace, setting: Setting, gathered: Gathered) -> int:
    from trainmark.cli.report import write
    from trainmark.report import acceptance, acceptance_views, formats

    found = acceptance.build(setting, gathered)
    if setting.learn:
        _learn(Path(setting.learn), setting, found, acceptance.learnt(setting, gathered))
    if setting.output:
        output = Path(setting.output)
        write(output, acceptance_views.render(found, formats.chosen(None, output)))
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
