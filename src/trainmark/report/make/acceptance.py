"""What the rounds of an acceptance say, judged and put together into a verdict on every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from trainmark.launch.protocol import Finding
from trainmark.reasons import TEXT, Reason, listed, reason
from trainmark.report.make.acceptance_rounds import Measured, Seen
from trainmark.score.accept import contract as promise
from trainmark.score.accept import links
from trainmark.score.accept import nodes as accept
from trainmark.score.accept.contract import FirstStep, PromiseCheck
from trainmark.score.accept.links import LinksResult, PairSpeed
from trainmark.score.accept.nodes import NodeResult, NodeWord, SpeedBlock
from trainmark.score.accept.noise import LEAST_BLOCKS, Rule
from trainmark.score.stats.confidence import median
from trainmark.spec.contract import Criterion, Limits

# With fewer peaks there is no middle to be below.
LEAST_PEAKS = 3
_NARROW = ("bf16", "fp16")


class Stage(msgspec.Struct, frozen=True):
    """One run of an acceptance. `references`: the nodes beside which suspects ran again."""

    run: str
    what: Literal["nodes", "more", "again", "links"]
    references: tuple[str, ...] = ()


class Promises(msgspec.Struct, frozen=True):
    """What nodes and links are held against besides each other."""

    limits: Limits | None = None
    link_limits: Limits | None = None
    criterion: Criterion | None = None
    link_criterion: Criterion | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What an acceptance was asked to do, and which runs it is made of; kept in its first run."""

    schema: Literal[1] = 1
    site: str
    case: str
    fingerprint: str
    unit: str
    dtype: str = ""
    nodes: list[str]
    rule: Rule
    link_case: str = ""
    link_fingerprint: str = ""
    link_margin: float = 0.1
    link_find: float | None = None
    one_at_a_time: bool = False
    # It goes on until a loss of this much would be found, or so many seconds are over; None: no limit.
    aim: float = 0.1
    seconds: float | None = None
    # Whether the case computes on made-up data.
    synthetic: bool = False
    # What was not as it should be on nodes before the start, or differed between them.
    findings: list[Finding] = []
    # Nodes that could not be used from the start, and why.
    unusable: dict[str, str] = {}
    stages: list[Stage] = []
    promises: Promises = Promises()
    # Files to be written at the end.
    learn: str = ""
    output: str = ""


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """What `trainmark accept` says."""

    schema: Literal[1] = 1
    site: str
    case: str
    unit: str
    verdict: NodeWord
    # The smallest loss of speed that would have been found on every node that is not bad, and the one demanded.
    findable: float | None = None
    find: float | None = None
    link_find: float | None = None
    # How long it took, in seconds, and how long it might have.
    seconds: float | None = None
    time: float | None = None
    margin: float
    level: float
    link_margin: float
    nodes: list[NodeResult]
    links: LinksResult | None = None
    held: list[PromiseCheck] = []
    notes: list[Reason] = []
    # What the verdict says nothing of.
    not_tested: list[Reason] = []
    drain: list[str] = []
    scontrol: str = ""
    runs: list[str] = []

    @property
    def crossed(self) -> bool:
        """Whether a threshold of the contract was crossed."""
        return any(not one.kept and one.what != "criterion" for one in self.held)


def look_of(measured: Sequence[Measured], references: tuple[str, ...] = ()) -> list[SpeedBlock]:
    """The blocks of a run, as scoring wants them."""
    blocks: dict[int, dict[str, float]] = {}
    for one in measured:
        if one.speed is not None:
            blocks.setdefault(one.round, {})[one.hosts[0]] = one.speed
    return [SpeedBlock(speeds, references) for _, speeds in sorted(blocks.items())]


class Gathered(msgspec.Struct):
    """All rounds so far: looks at nodes in their order, and the tournament of links."""

    looks: list[list[SpeedBlock]] = []
    nodes: list[Measured] = []
    links: list[Measured] | None = None
    seconds: float = 0.0


def gather(stages: Sequence[tuple[Stage, Seen]]) -> Gathered:
    found = Gathered()
    for stage, seen in stages:
        found.seconds += seen.seconds
        measured = seen.rounds
        if stage.what == "links":
            so_far = found.links or []
            before = max((one.round for one in so_far), default=0)
            found.links = [*so_far, *(msgspec.structs.replace(one, round=before + one.round) for one in measured)]
            continue
        # Blocks are counted on from look to look: those of one number shared a seed.
        before = max((one.round for one in found.nodes), default=0)
        counted = [msgspec.structs.replace(one, round=before + one.round) for one in measured]
        found.looks.append(look_of(counted, stage.references))
        found.nodes += counted
    return found


def build(setting: Setting, gathered: Gathered) -> Acceptance:
    """The same rounds give the same verdict."""
    promises = setting.promises
    usable = [node for node in setting.nodes if node not in setting.unusable]
    verdicts = {one.node: one for one in accept.judge(gathered.looks, usable, setting.rule, _failed(gathered.nodes))}
    for node, unusable in setting.unusable.items():
        verdicts[node] = NodeResult(node, "untested", [Reason(TEXT, {"text": unusable})])
    speeds = _speeds(gathered.nodes)
    held = _held(promises.limits, promises.criterion, speeds, setting.unit, setting.rule)
    verdicts = _weighed(verdicts, held, setting.rule, few=len(usable) < 3)
    for node, (sure, why) in _odd(setting, gathered.nodes).items():
        verdicts[node] = _worse(verdicts[node], "bad" if sure else "suspect", why)
    for one in setting.findings:
        if one.good is False and one.host in verdicts:
            verdicts[one.host] = _worse(verdicts[one.host], "suspect", _worded(one.found))
    found, link_held = _links(setting, gathered.links, promises, len(usable))
    for effect in found.effects if found else []:
        if effect.kind == "node":
            verdicts[effect.nodes[0]] = _worse(
                verdicts[effect.nodes[0]], effect.word, reason("its-network", why=effect.reason)
            )
    ordered = [_with_peak(verdicts[node], gathered.nodes) for node in setting.nodes]
    drain = [one.node for one in ordered if one.word == "bad"]
    return Acceptance(
        site=setting.site,
        case=setting.case,
        unit=setting.unit,
        verdict=_overall(ordered, found, [*held, *link_held], setting),
        findable=max((one.findable for one in ordered if one.findable and one.word != "bad"), default=None),
        find=setting.rule.find,
        link_find=setting.link_find,
        seconds=gathered.seconds,
        time=setting.seconds,
        margin=setting.rule.margin,
        level=setting.rule.level,
        link_margin=setting.link_margin,
        nodes=ordered,
        links=found,
        held=[*held, *link_held],
        notes=[*_findings(setting), *_notes(gathered.nodes), *_low_peaks(ordered, setting.rule)],
        not_tested=_not_tested(setting, ordered, found),
        drain=drain,
        scontrol=_scontrol(drain),
        runs=[stage.run for stage in setting.stages],
    )


def _failed(measured: Sequence[Measured]) -> dict[str, list[Reason]]:
    found: dict[str, list[Reason]] = {}
    for one in measured:
        if one.speed is None and one.why is not None:
            found.setdefault(one.hosts[0], []).append(one.why)
    return found


def _speeds(measured: Sequence[Measured]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in measured:
        if one.speed is not None:
            found.setdefault("–".join(one.hosts), []).append(one.speed)
    return found


def _held(
    limits: Limits | None, known: Criterion | None, speeds: Mapping[str, Sequence[float]], unit: str, rule: Rule
) -> list[PromiseCheck]:
    found = promise.contract(speeds, limits, unit, rule) if limits else []
    return [*found, *(promise.criterion(speeds, known, rule) if known else [])]


def _weighed(
    verdicts: dict[str, NodeResult], held: Sequence[PromiseCheck], rule: Rule, *, few: bool
) -> dict[str, NodeResult]:
    """With what was promised of single nodes. Of one node or two, only that decides."""
    found = dict(verdicts)
    for node, verdict in verdicts.items():
        mine = [one for one in held if one.who == node]
        if few and mine and verdict.blocks >= LEAST_BLOCKS:
            kept = msgspec.structs.replace(verdict, word="good", reason=[mine[0].reason])
            found[node] = accept.sure(kept, rule)
        for one in mine:
            if not one.kept:
                found[node] = _worse(found[node], "bad", one.reason)
    return found


_ORDER: tuple[NodeWord, ...] = ("good", "unsure", "untested", "suspect", "bad")


def _worse(verdict: NodeResult, word: NodeWord, why: Reason) -> NodeResult:
    """The worse word of two, with the reasons that speak for it."""
    old, new = _ORDER.index(verdict.word), _ORDER.index(word)
    if new < old:
        return verdict
    joined = [*verdict.reason, why] if new == old and why not in verdict.reason else [why]
    return msgspec.structs.replace(verdict, word=word, reason=joined)


def _odd(setting: Setting, measured: Sequence[Measured]) -> dict[str, tuple[bool, Reason]]:
    rounds: dict[int, dict[str, FirstStep]] = {}
    for one in measured:
        if one.step is not None:
            rounds.setdefault(one.round, {}).setdefault(one.hosts[0], one.step)
    kinds = {one.hosts[0]: one.kind for one in measured if one.kind}
    return promise.differing_first_steps(rounds, kinds, narrow=setting.dtype in _NARROW)


def _links(
    setting: Setting, measured: Sequence[Measured] | None, promises: Promises, nodes: int
) -> tuple[LinksResult | None, list[PromiseCheck]]:
    if measured is None:
        return None, []
    rule = _link_rule(setting)
    found = links.judge(_trials(measured), rule)
    lost = dict.fromkeys(reason("on-host", host="–".join(one.hosts), why=one.why) for one in measured if not one.speed)
    held = _held(promises.link_limits, promises.link_criterion, _speeds(measured), "bytes", rule)
    failed = sorted(lost, key=lambda one: str(one.arguments["host"]))
    return msgspec.structs.replace(found, untested=failed, possible=nodes * (nodes - 1) // 2), held


def _link_rule(setting: Setting) -> Rule:
    return msgspec.structs.replace(setting.rule, margin=setting.link_margin, looks=1, find=setting.link_find)


def _trials(measured: Sequence[Measured]) -> list[PairSpeed]:
    return [PairSpeed(one.hosts[0], one.hosts[1], one.round, one.speed) for one in measured if one.speed is not None]


def links_are_blind(setting: Setting, measured: Sequence[Measured]) -> bool:
    """Whether a loss of bandwidth that must be found would not be."""
    if setting.link_find is None:
        return False
    found = links.judge(_trials(measured), _link_rule(setting)).findable
    return found is not None and found > setting.link_find


def _overall(
    nodes: Sequence[NodeResult], found: LinksResult | None, held: Sequence[PromiseCheck], setting: Setting
) -> NodeWord:
    found_words: list[NodeWord] = [one.word for one in nodes]
    found_words += [effect.word for effect in found.effects] if found else []
    found_words += ["untested"] if found and found.untested else []
    found_words += ["bad"] if any(not one.kept for one in held) else []
    if setting.link_find is not None:
        seen = found.findable if found else None
        found_words += [] if seen is not None and seen <= setting.link_find else ["unsure"]
    return max(found_words, key=_ORDER.index)


def _notes(measured: Sequence[Measured]) -> list[Reason]:
    disturbed = sum(one.disturbed for one in measured)
    return [reason("disturbed-rounds-count", count=disturbed, rounds=len(measured))] if disturbed else []


def _findings(setting: Setting) -> list[Reason]:
    """What several nodes have in common is one line."""
    hosts: dict[tuple[str, Reason], list[str]] = {}
    for one in setting.findings:
        hosts.setdefault((one.what, _worded(one.found)), []).append(one.host)
    return [
        reason("on-host", host=listed(who), why=reason("on-host", host=what, why=why))
        for (what, why), who in hosts.items()
    ]


def _worded(found: str | Reason) -> Reason:
    return Reason(TEXT, {"text": found}) if isinstance(found, str) else found


def _not_tested(setting: Setting, nodes: Sequence[NodeResult], found: LinksResult | None) -> list[Reason]:
    """What nobody may take for good because of this verdict."""
    missing = [one.node for one in nodes if one.word == "untested"]
    notes = [reason("not-tested-nodes", nodes=missing)] if missing else []
    if found is None:
        notes += [reason("not-tested-links")] if len(nodes) > 1 else []
    elif len(found.bandwidth) < found.possible:
        left = found.possible - len(found.bandwidth)
        notes.append(reason("not-tested-pairs", count=left, possible=found.possible))
    if setting.one_at_a_time and len(nodes) > 1:
        notes.append(reason("not-tested-together"))
    promises = setting.promises
    if promises.limits is None and promises.criterion is None:
        notes.append(reason("not-tested-fleet"))
    if setting.synthetic:
        notes.append(reason("not-tested-storage"))
    return notes


def _with_peak(verdict: NodeResult, measured: Sequence[Measured]) -> NodeResult:
    mine = [one for one in measured if one.hosts == (verdict.node,)]
    used = [one.used for one in mine if one.used is not None]
    return msgspec.structs.replace(
        verdict,
        peak=next((one.peak for one in mine if one.peak is not None), None),
        used=sum(used) / len(used) if used else None,
    )


def _low_peaks(nodes: Sequence[NodeResult], rule: Rule) -> list[Reason]:
    """A node's peak is one measurement: too little to be a verdict, enough for a word."""
    known = {one.node: one.peak for one in nodes if one.peak is not None}
    if len(known) < LEAST_PEAKS:
        return []
    middle = median(list(known.values()))
    return [
        reason("low-peak", node=node, percent=100 * (1 - peak / middle))
        for node, peak in known.items()
        if peak < middle * (1 - rule.margin)
    ]


def _scontrol(nodes: Sequence[str]) -> str:
    """The line that keeps Slurm from using them; names were checked when the site was read."""
    if not nodes:
        return ""
    return f'scontrol update NodeName={",".join(nodes)} State=DRAIN Reason="trainmark accept"'


def learnt(setting: Setting, gathered: Gathered) -> dict[str, Criterion]:
    """Criteria of the nodes and links as they are, by what stands for each case in a file."""
    from trainmark.spec.case_id import CaseId

    found = {}
    for case, fingerprint, unit, speeds in (
        (setting.case, setting.fingerprint, setting.unit, _speeds(gathered.nodes)),
        (setting.link_case, setting.link_fingerprint, "bytes", _speeds(gathered.links or [])),
    ):
        made = promise.learn(speeds, fingerprint, unit) if case else None
        if made is not None:
            found[CaseId.parse(case).identity] = made
    return found
