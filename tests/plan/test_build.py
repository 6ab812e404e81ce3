from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.plan.build import Places, build
from trainmark.plan.records import CasePlan, Plan
from trainmark.report.make.attempt import question
from trainmark.run.preflight import unmet_elsewhere
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.site import Site, VendorPeak

Make = Callable[..., Path]
PLACES = Places(python="/python", probe="/probe", data={"fashion-mnist": "/cache/fm"})


def make_plan(file: Path, site: Site | None = None, seed: int = 1) -> Plan:
    site = site or Site(hosts=["n1", "n2"])
    loaded = suites.load(file)
    return build(loaded.suite.name, "closed", 1, suite_cases.expand(loaded, site, {}), site, PLACES, seed)


def test_blocks_are_complete_and_in_random_order(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    repeats = (3, 3, 1, 2, 3, 3)
    file = make_suite("\n".join(f"  - thing:none:cpu:1:{index + 1}:{n}" for index, n in enumerate(repeats)))
    plan = make_plan(file)
    for number, block in enumerate(plan.blocks, 1):
        assert sorted(ref.case for ref in block) == [index for index, n in enumerate(repeats) if n >= number]
        assert {ref.round for ref in block} == {number}
    orders = {tuple(ref.case for ref in make_plan(file, seed=seed).blocks[0]) for seed in range(20)}
    assert len(orders) > 10
    assert make_plan(file) == plan


def test_ranks_know_who_and_where_they_are() -> None:
    from trainmark.frameworks.protocol import REGISTRY, Topology

    start = REGISTRY.get("pytorch").start(Topology(("n1", "n2"), 2, "gloo"), ("python", "x.py"))
    envs = [command.env for node in start.nodes for command in node]
    assert [env["RANK"] for env in envs] == ["0", "1", "2", "3"]
    assert [env["LOCAL_RANK"] for env in envs] == ["0", "1", "0", "1"]
    assert [env["NODE_RANK"] for env in envs] == ["0", "0", "1", "1"]
    assert {(env["WORLD_SIZE"], env["MASTER_ADDR"], env["MASTER_PORT"]) for env in envs} == {("4", "n1", "%PORT0%")}
    assert start.ports == 1


def test_plan_survives_json(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    plan = make_plan(make_suite("  - thing:none:cpu:2:2:2@batch=4"))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("thing:none:cpu:3:1:1", "needs 3 nodes; site `local` has 2"),
        ("thing:none:A100:1:1:1", r"device `A100` is not known.*devices: \{A100: nvidia\}"),
    ],
)
def test_what_a_site_cannot_do_is_said(make_workload: Make, make_suite: Make, case: str, complaint: str) -> None:
    make_workload()
    with pytest.raises(UserError, match=complaint):
        make_plan(make_suite(f"  - {case}"))


def test_cases_that_are_too_large_may_be_skipped(make_workload: Make, make_suite: Make) -> None:
    """Only if that is allowed, and if anything is left to do."""
    make_workload()
    loaded = suites.load(make_suite("  - thing:none:cpu:1:1:2\n  - thing:none:cpu:4:1:1"))
    site = Site(hosts=["n1", "n2"])
    cases = suite_cases.expand(loaded, site, {})
    with pytest.raises(UserError, match="needs 4 nodes; site `local` has 2; with --allow-skip"):
        build("s", "closed", 1, cases, site, PLACES, 1)
    plan = build("s", "closed", 1, cases, site, PLACES, 1, allow_skip=True)
    assert [say(case.skipped) for case in plan.cases] == ["", "it needs 4 nodes; site `local` has 2"]
    assert [unmet_elsewhere(case) is None for case in plan.cases] == [True, False]
    with pytest.raises(UserError, match="needs 4 nodes"):
        build("s", "closed", 1, cases[1:], site, PLACES, 1, allow_skip=True)


def test_sites_map_models_and_data(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    site = Site(hosts=["n1"], devices={"A100": "nvidia"}, data={"mine": "/here"}, master_port=2222)
    plan = make_plan(make_suite("  - case: thing:none:A100:1:1:1\n    data: mine"), site)
    assert (plan.cases[0].vendor, plan.cases[0].visible, plan.cases[0].data) == (
        "nvidia",
        "CUDA_VISIBLE_DEVICES",
        "/here",
    )
    named = make_plan(make_suite("  - case: thing:none:cpu:1:1:1\n    data: fashion-mnist")).cases[0]
    assert (named.data, named.data_name) == ("/cache/fm", "fashion-mnist")


def test_paths_do_not_depend_on_where_ranks_are(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    loaded = suites.load(make_suite("  - {case: thing:none:cpu:1:1:1, data: mine, checkpoint: start.pt}"))
    site = Site(hosts=["n1"])
    places = msgspec.structs.replace(PLACES, here="/home/me")
    (case,) = build("s", "closed", 1, suite_cases.expand(loaded, site, {}), site, places, 1).cases
    assert (case.data, case.checkpoint) == ("/home/me/mine", "/home/me/start.pt")


def test_a_peak_is_the_sites_word_or_unknown(make_suite: Make) -> None:
    site = Site(
        hosts=["n1"],
        devices=dict.fromkeys(("X1", "X2"), "nvidia"),
        vendor_peaks={"X1": {"fp32": VendorPeak(1e13, "the maker's paper")}},
    )
    peaks = [
        question(make_plan(make_suite(f"  - resnet50:pytorch:{name}:1:2:1"), site).cases[0]).peak
        for name in ("X1", "X2")
    ]
    assert [peak.flops for peak in peaks] == [2e13, None]
    assert "the maker's paper" in peaks[0].source
    assert "X2" in say(peaks[1].reason) and "`vendor_peaks:`" in say(peaks[1].reason)


@pytest.mark.parametrize(
    ("case", "preset", "dtype"),
    [
        ("resnet50:pytorch:nvidia:1:1:1", "full", "bf16"),
        ("resnet50:mindspore:ascend:1:1:1", "full", "fp16"),
        ("resnet50:pytorch:cpu:1:1:1", "full", "fp32"),
        ("resnet50:pytorch:nvidia:1:1:1@dtype=fp32", "full", "fp32"),
        ("resnet50:pytorch:nvidia:1:1:1", "quick", "fp32"),
    ],
)
def test_full_size_on_an_accelerator_is_trained_in_a_narrow_format(case: str, preset: str, dtype: str) -> None:
    (found,) = suite_cases.expand(suites.single(case, preset), Site(hosts=["n1"]), {})
    assert found.values["dtype"] == dtype


def test_strong_scaling_of_a_model_with_batch_statistics_has_no_band_made_with_another_batch() -> None:
    def planned(case: str) -> CasePlan:
        loaded, site = suites.single(case, "quick"), Site(hosts=["n1"])
        cases = suite_cases.expand(loaded, site, {})
        return build(loaded.suite.name, "closed", 1, cases, site, PLACES, 1).cases[0]

    assert planned("resnet50:pytorch:cpu:1:1:1").band
    shared = planned("resnet50:pytorch:cpu:1:2:1@batch=2")
    assert not shared.band and shared.band_missing is not None and shared.band_missing.code == "other-batch-per-rank"
