"""A study in a suite: which cases it makes, which series they belong to, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.errors import UserError
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.case import Case
from trainmark.spec.scaling import Fitted
from trainmark.spec.site import Site

Make = Callable[..., Path]
CASE = "  - thing:none:cpu:1:1:3"


def expand(file: Path, fits: dict[str, Fitted] | None = None, **overrides: str) -> list[Case]:
    loaded = suites.load(file)
    loaded = suites.Loaded(loaded.suite, loaded.where, loaded.folders, fits=fits or {})
    return suite_cases.expand(loaded, Site(hosts=["a", "b", "c", "d"]), overrides)


def test_dlperfs_grid_over_batches_and_formats(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    cases = expand(make_suite(CASE, extra="scaling: {grid: dlperf, batch: [8, 32], dtype: [fp32, bf16]}"))
    assert len({case.id.identity for case in cases}) == len(cases) == 24
    first = [str(case.id) for case in cases[:6]]
    assert first == [f"thing:none:cpu:{size}:3" for size in ("1:1", "1:2", "1:4", "1:8", "2:8", "4:8")]
    assert str(cases[-1].id) == "thing:none:cpu:4:8:3@batch=32,dtype=bf16"
    assert len({case.studies for case in cases}) == 4, "each batch and format has a baseline of its own"
    assert {series.baseline for case in cases for series in case.studies} == {"1x1"}


def test_strong_scaling_shares_the_batch(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    grid = "{nodes: [1, 2], procs: [1, 4]}"
    cases = expand(make_suite(CASE, extra=f"scaling: {{grid: {grid}, batch: 64, mode: strong, baseline: 1n4g}}"))
    assert [(case.id.nnodes, case.id.nproc, case.values["batch"]) for case in cases] == [
        (1, 1, 64), (2, 1, 32), (1, 4, 16), (2, 4, 8)
    ]  # fmt: skip
    assert cases[0].studies[0].baseline == "1x4"


def test_studies_that_meet_share_a_case(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    weak, strong = "{grid: [1x1, 1x2], batch: 32}", "{grid: [1x1, 1x2], batch: 32, mode: strong}"
    case = "case: thing:none:cpu:1:1:3"
    cases = expand(make_suite(f"  - {{{case}, scaling: {weak}}}\n  - {{{case}, scaling: {strong}}}"))
    assert [len(case.studies) for case in cases] == [2, 1, 1], "1x1 is the baseline of both and measured once"


def test_the_largest_batch_is_asked_for_before_the_plan(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    file = make_suite(CASE, extra="scaling: {grid: [1x1, 1x2, 2x2], batch: max, batch_step: 16, memory: 1GiB}")
    (wanted,) = suite_cases.wanted_batches(suites.load(file))
    assert (wanted.case.nnodes, wanted.case.nproc, wanted.step, wanted.memory) == (1, 2, 16, 2**30)
    with pytest.raises(UserError, match="only `trainmark run` does"):
        expand(file)
    cases = expand(file, {wanted.key: Fitted(48, "48 fits")})
    assert {case.values["batch"] for case in cases} == {48} and {case.memory for case in cases} == {2**30}
    assert cases[0].studies[0].note == "48 fits"


@pytest.mark.parametrize(
    ("scaling", "complaint"),
    [
        ("{grid: dlpref}", "found 'dlpref', allowed is `dlperf`"),
        ("{grid: [1x1, 1y2]}", "found '1y2', allowed is nodes x processes"),
        ("{grid: [1x1, 1n1g]}", "given twice"),
        ("{grid: {nodes: [0], procs: [1]}}", "allowed are whole numbers from 1"),
        ("{grid: [1x2, 1x4], baseline: 1x1}", "1x1 is not in the grid, so no speed-up could be told"),
        ("{grid: [1x1, 1x3], batch: 32, mode: strong}", "cannot be shared by the 3 processes"),
        ("{grid: [1x1], mode: strong}", "give `batch` as numbers"),
        ("{grid: [1x1], batch: [8, 8]}", "a list of different values"),
        ("{grid: [1x1], batch: 2000}", "allowed is"),
        ("{grid: [1x1], memory: 1GiB}", "`batch: max`"),
        ("{grid: [1x1], batch: max, memory: lots}", "a size such as 4GiB"),
        ("{grid: [1x1], batches: 3}", "did you mean `batch`"),
    ],
)
def test_what_is_refused(make_workload: Make, make_suite: Make, scaling: str, complaint: str) -> None:
    make_workload()
    with pytest.raises(UserError) as error:
        expand(make_suite(CASE, extra=f"scaling: {scaling}"))
    assert complaint in str(error.value) and "suite.yaml" in str(error.value)


def test_nobody_else_sets_what_the_study_varies(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    file = make_suite(CASE, extra="scaling: {grid: [1x1], batch: [8, 16]}")
    with pytest.raises(UserError, match="`batch` is what the study varies"):
        expand(file, batch="4")
    with pytest.raises(UserError, match="write 1:1 in the id"):
        expand(make_suite("  - thing:none:cpu:1:2:3", extra="scaling: {grid: [1x1]}"))
