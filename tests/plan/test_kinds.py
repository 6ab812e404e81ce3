"""Plans made from other plans or for a purpose of their own: fleets of nodes, pairs, diagnostic rounds, peaks."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from trainmark.errors import UserError
from trainmark.plan import diagnose, fleet
from trainmark.plan.build import Places, build, with_peaks
from trainmark.plan.records import Plan
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.case import Case
from trainmark.spec.peaks import Peaks
from trainmark.spec.site import Site

PLACES = Places(python="/python", probe="/probe")
HOSTS = ["n1", "n2", "n3", "n4"]
SITE = Site(hosts=HOSTS)


def case_of(text: str) -> Case:
    (case,) = suite_cases.expand(suites.single(text, "smoke"), SITE, {})
    return case


def plan_of(*texts: str, seed: int = 1) -> Plan:
    return build("s", "closed", 1, [case_of(text) for text in texts], SITE, PLACES, seed)


def test_a_case_is_laid_out_on_the_first_hosts() -> None:
    (case,) = plan_of("mnist:pytorch:cpu:2:3:1").cases
    assert [node.host for node in case.nodes] == ["n1", "n2"]
    assert [[rank.rank for rank in node.ranks] for node in case.nodes] == [[0, 1, 2], [3, 4, 5]]
    assert case.world == 6 and case.backend == "gloo" and case.ports == (0,)


def test_ports_that_a_site_fixes_are_neighbours() -> None:
    site = Site(hosts=HOSTS, master_port=29500)
    (case,) = build("s", "closed", 1, [case_of("mnist:mindspore:cpu:1:2:1")], site, PLACES, 1).cases
    assert case.ports == tuple(29500 + number for number in range(len(case.ports)))


def test_what_the_site_says_wins_over_what_is_derived() -> None:
    site = Site(hosts=HOSTS, interface="ib0", env={"GLOO_SOCKET_IFNAME": "eth1", "MINE": "1"})
    (case,) = build("s", "closed", 1, [case_of("mnist:pytorch:cpu:2:1:1")], site, PLACES, 1).cases
    assert case.env == {
        "GLOO_SOCKET_IFNAME": "eth1",
        "NCCL_SOCKET_IFNAME": "ib0",
        "TP_SOCKET_IFNAME": "ib0",
        "MINE": "1",
    }


def test_a_fingerprint_knows_parameters_and_not_repeats() -> None:
    texts = ("mnist:pytorch:cpu:1:1:1", "mnist:pytorch:cpu:1:1:7", "mnist:pytorch:cpu:1:1:1@batch=17")
    plain, again, other = (plan_of(text).cases[0] for text in texts)
    assert plain.fingerprint == again.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("noop:none:cpu:4:99999:1", "ranks, allowed are 100000"),
        ("noop:none:cpu:1:1:100001", "rounds, allowed are 100000"),
    ],
)
def test_numbers_that_nobody_can_have_meant_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        plan_of(text)


def test_every_node_runs_the_same_case_once_in_each_block() -> None:
    plan = fleet.on_nodes(case_of("noop:none:cpu:1:1:1"), SITE, PLACES, HOSTS, blocks=3, seed=7, together=True)
    assert plan.kind == "acceptance" and plan.width == 4
    assert [fleet.hosts_of(case) for case in plan.cases] == [(host,) for host in HOSTS]
    assert len({case.fingerprint for case in plan.cases}) == 1 and len({case.case for case in plan.cases}) == 4
    for number, block in enumerate(plan.blocks, 1):
        assert sorted(ref.case for ref in block) == [0, 1, 2, 3] and {ref.round for ref in block} == {number}
    alone = fleet.on_nodes(case_of("noop:none:cpu:1:1:1"), SITE, PLACES, HOSTS, blocks=3, seed=7, together=False)
    assert alone.width == 1 and alone.blocks == plan.blocks


def test_nodes_are_compared_by_a_case_for_one_node() -> None:
    with pytest.raises(UserError, match="is for 2 nodes"):
        fleet.on_nodes(case_of("noop:none:cpu:2:1:1"), SITE, PLACES, HOSTS, blocks=1, seed=1, together=False)


def test_some_nodes_again_ask_for_no_others() -> None:
    plan = fleet.on_nodes(case_of("noop:none:cpu:1:1:1"), SITE, PLACES, HOSTS, blocks=2, seed=7, together=True)
    again = fleet.again(plan, ["n3", "n1"], seed=8)
    assert (
        again.site.hosts == ["n3", "n1"]
        and [fleet.hosts_of(case) for case in again.cases] == [("n3",), ("n1",)]
        and again.width == 2
    )
    assert {case.case for case in again.cases} <= {case.case for case in plan.cases}


def test_pairs_of_one_meeting_share_no_node_and_stand_in_every_block() -> None:
    meetings = [[("n1", "n2"), ("n3", "n4")], [("n1", "n3"), ("n2", "n4")], [("n1", "n4"), ("n2", "n3")]]
    plan = fleet.on_pairs(case_of("noop:none:cpu:2:1:1"), SITE, PLACES, meetings, blocks=2, seed=3, together=True)
    assert plan.width == 2 and len(plan.cases) == 6 and len(plan.blocks) == 6
    for block in plan.blocks:
        busy = list(itertools.chain.from_iterable(fleet.hosts_of(plan.cases[ref.case]) for ref in block))
        assert len(busy) == len(set(busy)) == 4
    for number in (1, 2):
        met = [ref.case for block in plan.blocks for ref in block if ref.round == number]
        assert sorted(met) == list(range(6))


def test_a_diagnosis_runs_every_case_plain_traced_and_alone() -> None:
    plan = diagnose.diagnostic(
        plan_of("mnist:pytorch:cpu:1:2:1", "mnist:pytorch:cpu:1:1:1"), rounds=3, skip=5, steps=40, seed=2
    )
    modes = [(case.diagnostic.of, case.diagnostic.mode) for case in plan.cases if case.diagnostic]
    assert modes == [
        ("mnist:pytorch:cpu:1:2:1@preset=smoke", "plain"),
        ("mnist:pytorch:cpu:1:2:1@preset=smoke", "trace"),
        ("mnist:pytorch:cpu:1:2:1@preset=smoke", "alone"),
        ("mnist:pytorch:cpu:1:1:1@preset=smoke", "plain"),
        ("mnist:pytorch:cpu:1:1:1@preset=smoke", "trace"),
    ]
    assert plan.kind == "diagnosis" and {case.repeat for case in plan.cases} == {3} and len(plan.blocks) == 3
    assert all(not case.band and not case.loss_falls and case.params["steps"] == 46 for case in plan.cases)
    assert len({case.case for case in plan.cases}) == 5, "no two share an id"


@pytest.mark.parametrize(
    ("text", "numbers", "complaint"),
    [
        ("mnist:pytorch:cpu:1:1:1", {"rounds": 2}, "--rounds: found 2"),
        ("mnist:pytorch:cpu:1:1:1", {"steps": 3}, "--steps: found 3"),
        ("mnist:jax:cpu:1:1:1", {}, "only PyTorch is traced, found jax"),
    ],
)
def test_what_cannot_be_diagnosed_is_said(text: str, numbers: dict[str, int], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        diagnose.diagnostic(plan_of(text), **{"rounds": 3, "skip": 5, "steps": 40, "seed": 1, **numbers})


def test_peaks_are_a_copy_in_the_plan() -> None:
    plan = plan_of("mnist:pytorch:cpu:1:1:1")
    assert with_peaks(plan, None) == plan
    peaks = Peaks(schema=1, site="s", device="other", created=1.0, run="r", hosts=[])
    known = with_peaks(plan, peaks)
    assert known.peaks == msgspec.to_builtins(peaks) and known.cases[0].reachable is None
