"""An acceptance: nodes and links compared with each other, with a contract, and with what was learnt before.

`accept_course` decides which runs it is made of.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark import __version__
from trainmark.campaigns import asked as asking
from trainmark.campaigns.accept_course import NODES, PART, Asked, Course, Tell, gather, setting_of
from trainmark.errors import SiteError, UserError
from trainmark.launch import health
from trainmark.launch.protocol import Finding, launcher_of
from trainmark.launch.sites import for_suite
from trainmark.plan import fleet
from trainmark.plan.fleet import Pairs
from trainmark.plan.records import Plan
from trainmark.report.make import acceptance
from trainmark.report.make.acceptance import Acceptance, Gathered, Promises, Setting
from trainmark.report.run_log import drive_quietly
from trainmark.run import campaign, planning
from trainmark.run.campaign import Campaign, Driver, Member, Step
from trainmark.run.stop import Switch
from trainmark.score.accept import noise
from trainmark.score.accept.links import tournament
from trainmark.score.accept.noise import Rule
from trainmark.spec import contract as contracts
from trainmark.spec import suite as suites
from trainmark.spec.case import PRESET_KEY, SYNTHETIC, Case
from trainmark.spec.case_id import CaseId
from trainmark.spec.length import Length
from trainmark.spec.notation import parse_seconds, parse_share
from trainmark.spec.site import Site
from trainmark.spec.suite_cases import expand
from trainmark.store import rundir
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import RunDir

LEAST_BLOCKS = 5
LINK_BLOCKS = 3
# Rounds of disjoint pairs, where measuring every pair would take too long.
MOST_PAIRINGS = 15
# The preset of the default case of links: the largest messages only, which is all that is compared.
LINK_PRESET = "link"
# Rounds of the default case are short, since a verdict needs many rounds more than long ones.
LENGTH = Length(steps=40, seconds=5.0, most=20.0)
# Without a demand it goes on until a loss of this much would be found, or the time is up.
AIM = 0.1
# Files of older versions: what was asked for and the runs so far, the plan for the links, and in every other run
# which one is the first.
_OLD_RECORD, _OLD_LINKS, _OLD_PART = "accept.json", "accept-links.json", "accept-part.json"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How nodes and links are compared; the defaults of `trainmark accept`."""

    # What every node runs, by id or as a suite of one case, and what every pair of nodes runs.
    case: str | None = None
    link_case: str | None = None
    preset: str | None = None
    changed: dict[str, str] = {}
    # How long a node measures in each round. Without it LENGTH for the default case, else what the case does.
    seconds: float | None = None
    seed: int | None = None
    links: bool = True
    # Rounds of disjoint pairs.
    pairs: int | None = None
    margin: str = "3%"
    link_margin: str = "10%"
    # Good only if losses of this much would have been found.
    find: str | None = None
    link_find: str | None = None
    # How long it may take, and how often nodes are looked at in it.
    time: str = "15m"
    looks: int = 6
    one_at_a_time: bool = False
    check: bool = True
    contract: Path | None = None
    criteria: Path | None = None
    learn: Path | None = None
    output: Path | None = None


def create(
    site: Site, runs: Path, options: Options, site_file: Path | None = None, command: Sequence[str] = ()
) -> Campaign:
    """Reads and plans everything, so that bad input is refused before anything starts. Nothing is started."""
    if "" in site.hosts:
        raise UserError(
            f"{site_file}: nodes are judged by name; name them in `hosts`, or by `slurm.nodes: node[1-4]` or `all`"
        )
    case = _case(options, site, options.case or _default_case(site), LEAST_BLOCKS)
    link_case = _link_case(options, site, case)
    places = planning.places(site, {one.data for one in (case, link_case) if one and one.data})
    seed = options.seed if options.seed is not None else planning.random_seed()
    setting = as_asked(options, _setting(options, site, case, link_case))
    together = not options.one_at_a_time
    plan = fleet.on_nodes(case, site, places, site.hosts, int(case.id.repeat), seed, together=together)
    plan = planning.with_kept_peaks(plan, site_file)
    plan = _within(plan, setting, noise.LEAST_BLOCKS)
    launcher_of(site).check_runs(site, runs)
    unusable = _unusable(plan) if options.check else {}
    told = _told(site) if options.check else []
    setting = msgspec.structs.replace(setting, findings=told)
    if unusable:
        site = msgspec.structs.replace(site, hosts=[host for host in site.hosts if host not in unusable])
        setting = msgspec.structs.replace(setting, unusable=unusable)
        plan = fleet.again(plan, site.hosts, seed)
    links = None
    if link_case is not None and len(site.hosts) > 1:
        pairings = _pairings(site.hosts, options.pairs or MOST_PAIRINGS, seed)
        links = fleet.on_pairs(link_case, site, places, pairings, int(link_case.id.repeat), seed, together=together)
        links = _within(links, setting, 1)
    first = rundir.create(runs.resolve(), plan.suite)
    members = [Member("..", Step(NODES))]
    made = campaign.create(first.path / campaign.FOLDER, "acceptance", Asked(setting, links), command, members)
    # Its manifest comes last: without one, a folder is no run.
    made.describe(first, plan)
    return made


def find(run: RunDir) -> Campaign | None:
    """The acceptance that a run belongs to, if it belongs to one; one of an older version gets a record of today's."""
    known = campaign.of_run(run)
    if known is not None:
        return known if known.record().kind == "acceptance" else None
    part = read_json(run.path / _OLD_PART)
    first = run.path.parent / str(part["first"]) if isinstance(part, dict) else run.path
    folder = first / campaign.FOLDER
    if (folder / campaign.RECORD).is_file():
        return Campaign(folder.resolve())
    raw = read_json(first / _OLD_RECORD)
    if raw is None:
        return None
    setting = asking.read(raw, Setting, str(first / _OLD_RECORD))
    links = read_json(first / _OLD_LINKS)
    plan = None
    if links is not None:
        plan = msgspec.structs.replace(asking.read(links, Plan, str(first / _OLD_LINKS)), kind="acceptance")
    members = [
        Member(
            ".." if stage.run == first.name else f"../../{stage.run}",
            Step(stage.what, {"references": list(stage.references)}),
        )
        for stage in setting.stages
    ]
    wanted = Asked(msgspec.structs.replace(setting, stages=[]), plan)
    return campaign.create(folder, "acceptance", wanted, (), members)


def named(run: RunDir, option: str) -> Campaign:
    """The acceptance that a run belongs to; UserError when it belongs to none."""
    made = find(run)
    if made is None:
        raise UserError(f"{option} {run.id}: it is no run of an acceptance; `trainmark accept` makes one")
    return made


def go(
    made: Campaign, driver: Driver = drive_quietly, switch: Switch | None = None, tell: Tell | None = None
) -> tuple[Setting, Gathered] | None:
    """Goes on to the last round; None if it was stopped. `tell` hears the verdict so far before each further run."""
    shown = made.go(Course(made, tell), driver, switch)
    return None if shown is None else (setting_of(made), gather(shown))


def gathered(made: Campaign) -> tuple[Setting, Gathered]:
    """All rounds so far, to be judged again."""
    return setting_of(made), gather(made.shown(Course(made)))


def _within(plan: Plan, setting: Setting, least: int) -> Plan:
    """Its part of the time; the least number of blocks runs whatever time they take."""
    if setting.seconds is None:
        return plan
    return msgspec.structs.replace(plan, blocks_within=PART * setting.seconds, least_blocks=least)


def _link_case(options: Options, site: Site, case: Case) -> Case | None:
    if not options.links or len(site.hosts) < 2:
        return None
    if options.link_case:
        return _case(options, site, options.link_case, 1, nnodes=2, link=True)
    text = f"collectives:pytorch:{case.id.device}:2:1:{LINK_BLOCKS}"
    return _case(msgspec.structs.replace(options, preset=LINK_PRESET), site, text, 1, nnodes=2, link=True)


def _default_case(site: Site) -> str:
    """Needs no data, and works on every device: a named one of the site, if it names just one."""
    device = next(iter(site.devices)) if len(site.devices) == 1 else "cpu"
    return f"resnet50:pytorch:{device}:1:1:{LEAST_BLOCKS}"


def _case(options: Options, site: Site, text: str, least: int, nnodes: int = 1, *, link: bool = False) -> Case:
    option = "--link-case" if link else "--case"
    if text.endswith((".yaml", ".yml")):
        loaded = suites.load(Path(text))
    else:
        loaded = suites.single(text, options.preset or "quick")
    if options.seconds is not None and not link:
        loaded = suites.measured_for(loaded, options.seconds)
    cases = expand(loaded, for_suite(loaded, site), {} if link else options.changed)
    if len(cases) != 1:
        raise UserError(f"{option} {text}: holds {len(cases)} cases, and nodes are compared by one")
    case = cases[0]
    # Whoever says how many steps there are gets these: such a case has no length.
    if case.length is not None and not link and options.case is None and options.seconds is None:
        case = msgspec.structs.replace(case, length=LENGTH)
    if case.id.nnodes != nnodes:
        raise UserError(f"{option} {text}: is for {case.id.nnodes} node(s), allowed is {nnodes}")
    if not isinstance(case.id.repeat, int) or case.id.repeat < least:
        raise UserError(
            f"{option} {text}: found {case.id.repeat} rounds, which are blocks here; allowed is {least} and more"
        )
    return case


def _setting(options: Options, site: Site, case: Case, link: Case | None) -> Setting:
    for name, number in (("--looks", options.looks), ("--pairs", options.pairs)):
        if number is not None and number < 1:
            raise UserError(f"{name}: found {number}, allowed is 1 and more")
    margins = {
        "margin": parse_share(options.margin, "--margin"),
        "link_margin": parse_share(options.link_margin, "--link-margin"),
    }
    finds = {
        name: _demand(getattr(options, name), f"--{name.replace('_', '-')}", margins[name.replace("find", "margin")])
        for name in ("find", "link_find")
    }
    return Setting(
        site=site.name,
        case=str(case.id),
        fingerprint=case.fingerprint,
        unit=case.found.workload.unit,
        dtype=str(case.values.get("dtype", "")),
        nodes=list(site.hosts),
        rule=Rule(margin=margins["margin"], looks=options.looks, find=finds["find"]),
        aim=finds["find"] or max(AIM, 2 * margins["margin"]),
        seconds=parse_seconds(options.time, "--time"),
        synthetic=case.data == SYNTHETIC,
        link_case=str(link.id) if link else "",
        link_fingerprint=link.fingerprint if link else "",
        link_margin=margins["link_margin"],
        link_find=finds["link_find"],
        one_at_a_time=options.one_at_a_time,
    )


def _demand(text: str | None, option: str, margin: float) -> float | None:
    if text is None:
        return None
    found = parse_share(text, option)
    if found <= margin:
        raise UserError(
            f"{option} {text}: losses up to the margin, {100 * margin:g}%, do not matter; ask for more than it"
        )
    return found


def _unusable(plan: Plan) -> dict[str, str]:
    """Hosts that cannot be used are untested, and do not keep the others from being tested. What is wrong with no host
    in particular may be wrong only because of them."""
    site, found = plan.site, dict[str, str]()
    launcher, left = launcher_of(site), list(site.hosts)
    if launcher.this_machine:
        return found
    while True:
        checked = launcher.check(msgspec.structs.replace(site, hosts=left), fleet.again(plan, left, 0))
        bad = [finding for finding in checked if finding.good is False]
        if not bad:
            return found
        found.update({one.host: f"{one.what}: {one.found}" for one in reversed(bad) if one.host in left})
        still = [host for host in left if host not in found]
        if not still or still == left:
            message = f"site `{site.name}` cannot be used as it is; `--no-check` starts all the same"
            raise SiteError(message, bad)
        left = still


def _told(site: Site) -> list[Finding]:
    """What is not as it should be on the nodes, or differs between them, as `doctor` would find it."""
    return [one for one in health.findings(launcher_of(site).health(site)) if one.good is not True]


def _pairings(hosts: Sequence[str], most: int, seed: int) -> Pairs:
    pairings = tournament(hosts)
    if len(pairings) > most:
        return random.Random(seed).sample(pairings, most)  # noqa: S311 - an order, not a secret
    return pairings


def as_asked(options: Options, setting: Setting) -> Setting:
    """With what these options want it to be held against and written; the rest as it was at the beginning."""
    if options.contract or options.criteria:
        setting = msgspec.structs.replace(setting, promises=_promises(options, setting))
    files = {"learn": options.learn, "output": options.output}
    return msgspec.structs.replace(setting, **{name: str(file.absolute()) for name, file in files.items() if file})


def _plain(link: CaseId) -> CaseId:
    """Without its preset: a contract says what links carry, not how that is measured."""
    return link.with_variant({name: value for name, value in link.variant if name != PRESET_KEY})


def _promises(options: Options, setting: Setting) -> Promises:
    case, link = CaseId.parse(setting.case), CaseId.parse(setting.link_case) if setting.link_case else None
    found: dict[str, Any] = {}
    if options.contract:
        contract = contracts.load_contract(options.contract)
        contracts.check_used(contract, case, options.contract)
        found["limits"] = contract[case.identity]
        found["link_limits"] = contract.get(link.identity, contract.get(_plain(link).identity)) if link else None
    if options.criteria:
        criteria = contracts.load_criteria(options.criteria)
        contracts.check_used(criteria.cases, case, options.criteria)
        found["criterion"] = contracts.of_case(criteria, case, setting.fingerprint, options.criteria)
        if link:
            found["link_criterion"] = contracts.of_case(criteria, link, setting.link_fingerprint, options.criteria)
    return Promises(**found)


def judge(setting: Setting, found: Gathered) -> tuple[Acceptance, bool]:
    """The verdict, and whether what was to be learnt could be: only of a fleet without a flaw, be it one node, since
    later fleets are held against it."""
    verdict = acceptance.build(setting, found)
    if not setting.learn:
        return verdict, True
    if verdict.verdict in ("bad", "suspect") or any(one.speed is None for one in verdict.nodes):
        return verdict, False
    made = time.strftime("%Y-%m-%d", time.gmtime())
    cases = acceptance.learnt(setting, found)
    write_json(Path(setting.learn), contracts.Criteria(1, made, __version__, setting.site, setting.rule.margin, cases))
    return verdict, True
