"""`trainmark peaks` and `trainmark goodput` as a user runs them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.faults.test_training_goes_on import write_images
from trainmark.i18n.speaker import say
from trainmark.score.figures.attempt import Question, score_run
from trainmark.spec.peaks import Matmul, Peaks
from trainmark.testing.synthetic import Shape, columns_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quiet_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")


@pytest.mark.slow
def test_peaks_are_measured_kept_with_the_site_and_drawn(cli: Cli, tmp_path: Path) -> None:
    import msgspec

    site = tmp_path / "mine.yaml"
    site.write_text("schema: 1\nname: mine\n")
    told = json.loads(cli("peaks", "--site", str(site), "--preset", "smoke", "--json").stdout)
    kept = msgspec.json.decode((tmp_path / "mine.peaks.json").read_bytes(), type=Peaks)
    assert msgspec.to_builtins(kept) == told
    assert [one.dtype for one in kept.matmul if one.dtype == "fp32"] == ["fp32"]
    assert {one.what for one in kept.bandwidths} == {"memory"}, "a CPU copies to nobody"
    assert {one.operation for one in kept.messages} >= {"all_reduce", "all_gather", "reduce_scatter", "send_recv"}
    assert {one.scope for one in kept.messages} == {"within"}
    assert "matmul fp32" in cli("peaks", "--site", str(site), "--show").stdout
    page = Path(cli("report", told["run"], "--format", "html").stdout.strip()).read_text()
    assert "Roofline" in page and "Collectives within a host" in page


def test_a_run_takes_the_peaks_of_its_site_along(
    cli: Cli, tmp_path: Path, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    import msgspec

    make_workload("import trainmark_probe as probe\nprobe.init()\nprobe.finish()\n")
    suite = make_suite("  - thing:none:cpu:1:2:1\n  - thing:none:cpu:1:1:1")
    site = tmp_path / "mine.yaml"
    site.write_text("schema: 1\nname: mine\n")
    host = os.uname().nodename
    matmul = [Matmul(host, 2, "fp32", 3e9, 3e9, 10.0), Matmul(host, 1, "fp32", 1e9, 1e9, 0.5)]
    known = Peaks(1, "mine", "cpu", 0.0, "run", [host], matmul)
    (tmp_path / "mine.peaks.json").write_bytes(msgspec.json.encode(known))
    cli("run", str(suite), "--site", str(site))
    # What is measured later does not change what was.
    (tmp_path / "mine.peaks.json").unlink()
    plan = json.loads((cli.runs / cli.run_id() / "manifest.json").read_text())["plan"]
    assert {case["case"]: case["reachable"] for case in plan["cases"]} == {
        "thing:none:cpu:1:2:1": 3e9,
        "thing:none:cpu:1:1:1": None,
    }
    page = Path(cli("report", "--format", "html").stdout.strip()).read_text()
    assert "What the hardware can reach" in page
    assert "3 GFLOP/s" in page and "1 GFLOP/s" not in page, "half a second shows nobody's peak"


def test_what_was_never_measured_cannot_be_shown(cli: Cli) -> None:
    assert "nothing is kept yet" in cli("peaks", "--show", code=2).stderr
    assert "--nproc: found 'x'" in cli("peaks", "--nproc", "x", code=2).stderr
    assert not cli.runs.exists()


def test_matmul_fraction_is_of_the_sites_peak_where_there_is_one() -> None:
    shape = Shape(steps=400, seconds=0.1, samples=8, notes={"matmul_flops_per_s": 4e3})
    columns = columns_of(shape, ranks=1)
    alone = score_run(columns, (), Question(world=1, flops_per_sample=10.0)).figures["matmul_fraction"]
    known = score_run(columns, (), Question(world=1, flops_per_sample=10.0, reachable=1600.0)).figures[
        "matmul_fraction"
    ]
    # 80 samples of 10 operations a second.
    assert alone.value == pytest.approx(0.2) and say(alone.how) == ""
    assert known.value == pytest.approx(0.5) and say(known.how) == "against the site's peaks"


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_a_killed_rank_is_recovered_and_what_it_cost_is_told(cli: Cli, tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    sets = ("--set", f"data={tmp_path / 'images'}", "--set", "steps=400", "--set", "eval_every=400")
    case = ("mnist:pytorch:cpu:1:2:1", "--preset", "smoke", *sets, "--set", "checkpoint_every=20")
    told = json.loads(cli("goodput", *case, "--kill", "1", "--failures-per-day", "2", "--json").stdout)
    (one,) = told["cases"]
    found, forecast = one["goodput"], one["forecast"]
    assert found["attempts"] == 2 and len(found["recoveries"]) == 1
    recovery = found["recoveries"][0]
    assert 0 <= recovery["lost_steps"] < 400 and recovery["total"] > recovery["redone"]
    for name in ("import", "rendezvous", "build", "first_step", "process", "queue"):
        assert found["start"][name]["value"] is not None, name
    for name in ("checkpoint_save", "checkpoint_load", "stall_share", "effective_ratio"):
        assert found[name]["value"] is not None, name
    assert 0 < found["effective_ratio"]["value"] < 1 and 0 < forecast["effective_ratio"] < 1
    assert "killed by signal 9" in (cli.runs / told["run"] / "run.log").read_text()
    assert "recovery:" in cli("goodput", told["run"]).stdout
    page = Path(cli("report", told["run"], "--format", "html").stdout.strip()).read_text()
    assert "What the job made of its time" in page and "lost steps done again" in page and "Time to start" in page


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("mnist:pytorch:cpu:1:2:1", "--kill", "2"), "has ranks 0 to 1"),
        (("noop:none:cpu:1:1:1", "--kill", "0"), "saves no checkpoints"),
        (("noop:none:cpu:1:1:1", "--failures-per-day", "-1"), "allowed is a number above 0"),
    ],
)
def test_bad_wishes_start_nothing(cli: Cli, words: tuple[str, ...], told: str) -> None:
    assert told in cli("goodput", *words, code=2).stderr
    assert not cli.runs.exists()
