from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainmark.errors import UserError
from trainmark.launch.sites import for_suite
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.case import Case
from trainmark.spec.site import Site

Make = Callable[..., Path]


def expand(file: Path, overrides: dict[str, str] | None = None, site: Site | None = None) -> list[Case]:
    loaded = suites.load(file)
    return suite_cases.expand(loaded, for_suite(loaded, site or Site(hosts=["here"])), overrides or {})


def ids(file: Path) -> list[str]:
    return [str(case.id) for case in expand(file)]


def test_four_ways_to_name_a_case(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    file = make_suite(
        """
  - thing:none:cpu:1:1:3
  - case: thing:none:cpu:1:2:1
    repeat: 5
    data: /data/mine
    checkpoint: /data/start.pt
    set: {batch: 4}
  - thing:none:A100:1:8:1: /home/data
  - matrix: {workload: thing, framework: none, procs: [4, 5], batch: [8, 32]}
    repeat: 2
"""
    )
    assert ids(file) == [
        "thing:none:cpu:1:1:3",
        "thing:none:cpu:1:2:5@batch=4",
        "thing:none:A100:1:8:1",
        "thing:none:cpu:1:4:2",  # 8 is what smoke has, so it is not part of the id
        "thing:none:cpu:1:4:2@batch=32",
        "thing:none:cpu:1:5:2",
        "thing:none:cpu:1:5:2@batch=32",
    ]
    cases = expand(file)
    assert (cases[1].data, cases[1].checkpoint) == ("/data/mine", "/data/start.pt")
    assert cases[2].data == "/home/data"


def test_flagperf_mapping(make_workload: Make, tmp_path: Path) -> None:
    make_workload()
    file = tmp_path / "flag.yaml"
    file.write_text(
        "schema: 1\nname: flag\npreset: smoke\nworkloads: [workloads]\n"
        "cases:\n  thing:none:A100:1:8:1: /home/data\n  thing:none:A100:1:1:1: /home/data\n"
    )
    assert ids(file) == ["thing:none:A100:1:8:1", "thing:none:A100:1:1:1"]


def test_layers_in_order(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    one = "  - thing:none:A100:1:1:1"
    site = Site(hosts=["here"], devices={"A100": "nvidia"})

    def batch(file: Path, overrides: dict[str, str] | None = None) -> tuple[object, str]:
        setting = expand(file, overrides, site)[0].params["batch"]
        return setting.value, setting.origin

    assert batch(make_suite(one)) == (64, "device nvidia")
    assert batch(make_suite(one, extra="set: {batch: 5}")) == (5, "suite")
    assert batch(make_suite(one + "@batch=6", extra="set: {batch: 5}")) == (6, "case")
    assert batch(make_suite(one + "@batch=6"), {"batch": "7"}) == (7, "--set")
    cpu = expand(make_suite("  - thing:none:cpu:1:1:1"))[0].params
    assert (cpu["batch"].value, cpu["batch"].origin) == (8, "default")


def test_what_is_set_to_its_own_value_is_no_variant(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    assert ids(make_suite("  - thing:none:cpu:1:1:1@batch=8,fused=false")) == ["thing:none:cpu:1:1:1"]
    assert ids(make_suite("  - thing:none:cpu:1:1:1@fused=true")) == ["thing:none:cpu:1:1:1@fused=true"]


def test_locked_parameters(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    with pytest.raises(UserError, match=r"`lr` is locked at 0.1 .*division: open"):
        expand(make_suite("  - thing:none:cpu:1:1:1@lr=0.5"))
    (case,) = expand(make_suite("  - thing:none:cpu:1:1:1@lr=0.5", extra="division: open"))
    assert case.opened == ("lr",)
    expand(make_suite("  - thing:none:cpu:1:1:1@lr=0.1"))  # not a change


def test_fingerprint_changes_with_any_value(make_workload: Make, make_suite: Make) -> None:
    make_workload()
    texts = ["", "@batch=9", "@dtype=bf16", "@fused=true"]
    prints = {expand(make_suite(f"  - thing:none:cpu:1:1:1{text}"))[0].fingerprint for text in texts}
    assert len(prints) == len(texts)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    procs=st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    batch=st.lists(st.integers(1, 99), min_size=1, max_size=3, unique=True),
    fused=st.lists(st.booleans(), min_size=1, max_size=2, unique=True),
    dtype=st.lists(st.sampled_from(["fp32", "bf16"]), min_size=1, max_size=2, unique=True),
)
def test_no_two_cases_of_a_matrix_share_an_id(
    make_workload: Make, make_suite: Make, procs: list[int], batch: list[int], fused: list[bool], dtype: list[str]
) -> None:
    make_workload()
    matrix = {"procs": procs, "batch": batch, "fused": [str(f).lower() for f in fused], "dtype": dtype}
    axes = ", ".join(f"{name}: [{', '.join(map(str, values))}]" for name, values in matrix.items())
    found = ids(make_suite(f"  - matrix: {{workload: thing, framework: none, {axes}}}"))
    assert len(found) == len(set(found)) == len(procs) * len(batch) * len(fused) * len(dtype)


@pytest.mark.parametrize(
    ("cases", "extra", "complaint"),
    [
        (
            "  - thing:none:cpu:1:1:1\n  - case: thing:none:cpu:1:2:1\n    nproc: 3",
            "",
            r"cases\[1\]: unknown key `nproc`",
        ),
        ("  - case: thing:none:cpu:1:2:1\n    dta: x", "", "did you mean `data`"),
        ("  - thing:none:cpu:1:zwei:1", "", r"cases\[0\]: .*nproc is `zwei`, allowed is a whole number"),
        ("  - thng:none:cpu:1:1:1", "", "no workload `thng` .did you mean `thing`"),
        ("  - thing:pytorch:cpu:1:1:1", "", "no entry for framework `pytorch`; it has `none`"),
        ("  - thing:none:cpu:1:1:1@btch=4", "", "no parameter `btch` .did you mean `batch`"),
        ("  - thing:none:cpu:1:1:1@batch=0", "", "batch: found '0', allowed is a whole number from 1 to 1024"),
        ("  - thing:none:cpu:1:1:1@batch=many", "", "batch: found 'many', allowed is a whole number"),
        ("  - thing:none:cpu:1:1:1@dtype=fp31", "", "one of `fp32`, `bf16` .did you mean `fp32`"),
        ("  - thing:none:cpu:1:1:1\n  - thing:none:cpu:1:1:2", "", r"is the same case as .*cases\[0\]"),
        ("  - thing:none:cpu:1:1:1", "presett: quick", "unknown key `presett` .did you mean `preset`"),
        ("  - thing:none:cpu:1:1:1", "seed: x", "seed: expected .* found 'x'"),
        (
            "  - thing:none:cpu:1:1:1",
            "set: {bacth: 3}",
            r"set.bacth: no case has such a parameter .did you mean `batch`",
        ),
        ("  - thing:none:cpu:1:1:1", "deadlines: {stepp: 3}", "unknown key `stepp` .did you mean `step`"),
        ("  - thing:none:cpu:1:1:1", "deadlines: {step: -3}", "deadlines.step: found -3"),
        ("  - matrix: {workload: thing, framework: none, procs: []}", "", r"matrix.procs: an empty list"),
        ("  - matrix: {workload: thing, procs: [1]}", "", "`framework` is missing"),
        ("  - {}", "", "give either `case:` or `matrix:`"),
        ("  - 7", "", "expected a case id or a mapping; found 7"),
        ("  []", "", "cases: none given"),
    ],
)
def test_bad_suites_name_the_place_and_the_cure(
    make_workload: Make, make_suite: Make, cases: str, extra: str, complaint: str
) -> None:
    make_workload()
    file = make_suite(cases, extra=extra)
    with pytest.raises(UserError, match=complaint) as caught:
        expand(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("schema: 1\nname: x\nname: y\ncases: []", "line 3: `name` is given twice"),
        ("schema: [", "line 2: not valid YAML"),
        ("schema: 2\nname: x\ncases: []", "schema"),
        ("just text", "expected `object`"),
        ("a: &a [*a]", "recursive"),
        (
            "a: &a [1]\n" + "".join(f"{k}: &{k} [{', '.join(['*' + chr(ord(k) - 1)] * 9)}]\n" for k in "bcdefghijk"),
            "more than",
        ),
        ("? [1, 2]\n: x", "must be text"),
    ],
)
def test_bad_yaml(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=complaint):
        suites.load(file)


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        suites.load(tmp_path / "none.yaml")
    (tmp_path / "bin.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read"):
        suites.load(tmp_path / "bin.yaml")
    with pytest.raises(UserError, match="did you mean `quick`"):
        suites.find("quik")


def test_built_in_suites_expand() -> None:
    for name in suites.built_in_names():
        assert expand(suites.find(name))


def test_a_suite_needs_nothing_but_cases(tmp_path: Path) -> None:
    file = tmp_path / "my first suite.yaml"
    file.write_text("cases:\n  - noop:none:cpu:1:1:2\n")
    loaded = suites.load(file)
    assert (loaded.suite.schema, loaded.suite.name, loaded.suite.preset) == (1, "my-first-suite", "quick")
    (case,) = suite_cases.expand(loaded, Site(hosts=["here"]), {})
    assert str(case.id) == "noop:none:cpu:1:1:2"


@pytest.mark.parametrize(
    ("text", "line", "path"),
    [
        ("cases:\n  - noop:none:cpu:1:1:1\nrepeats: 3\n", 3, ""),
        ("cases:\n  - noop:none:cpu:1:1:1\nretries: -1\n", 3, "retries"),
        ("name: ok\ncases:\n  - noop:none:cpu:1:1:1\n  - noop:none:cpu:0:1:1\n", 4, "cases[1]"),
        ("cases:\n  - case: noop:none:cpu:1:1:1\n    deadlines:\n      frist_step: 3\n", 2, "cases[0].deadlines"),
        ("cases:\n  - case: noop:none:cpu:1:1:1\n\n    datas: /d\n", 4, "cases[0]"),
        ("set:\n  batch: 1\n  bathc: 2\ncases: [mnist:pytorch:cpu:1:1:1]\n", 3, "set.bathc"),
        ("cases:\n  - noop:none:cpu:1:1:1\n  - noop:none:cpu:1:1:1\n", 3, "cases[1]"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, line: int, path: str) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        suite_cases.expand(suites.load(file), Site(hosts=["here"]), {})
    assert str(error.value).startswith(f"{file}: line {line}: {path}".rstrip())
