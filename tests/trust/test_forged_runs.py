"""Runs that did not happen so, packed by somebody who has the key, with digests that agree: they cannot be true."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trust.forging import codes
from tests.trust.honest import honest_run, lines, nodes, packed, seal, write_lines
from trainmark.cli.main import main
from trainmark.reasons import reason
from trainmark.store import journal, rundir, series
from trainmark.store.rundir import RunDir
from trainmark.testing.synthetic import NS
from trainmark.trust import keys, leaderboard, pack, verify


def drop_round(run: RunDir) -> None:
    shutil.rmtree(next(run.path.glob("*/round2")))


def drop_round_everywhere(run: RunDir) -> None:
    drop_round(run)
    write_lines(run.path / journal.NAME, [one for one in lines(run.path / journal.NAME) if one.get("round") != 2])


def add_attempt(run: RunDir) -> None:
    shutil.copytree(nodes(run)[0].parent, nodes(run)[0].parent.with_name("attempt2"))


def splice(run: RunDir) -> None:
    other = honest_run(run.path.parents[1] / "other", seed=31)
    shutil.rmtree(nodes(run)[1])
    shutil.copytree(nodes(other)[1], nodes(run)[1] if len(nodes(run)) == 3 else _second(run))


def _second(run: RunDir) -> Path:
    return next(run.path.glob("*/round2")) / "attempt1" / "n1_noderank0"


def _events(
    change: Callable[[list[dict[str, Any]]], None], which: tuple[int, ...] = (0, 1, 2)
) -> Callable[[RunDir], None]:
    def forge(run: RunDir) -> None:
        for number in which:
            path = nodes(run)[number] / rundir.EVENTS
            events = lines(path)
            change(events)
            write_lines(path, events)

    return forge


def _faster(events: list[dict[str, Any]]) -> None:
    first = events[0]["t"]
    for event in events:
        event["t"] = first + int((event["t"] - first) * 0.95)


def _later(events: list[dict[str, Any]]) -> None:
    for event in events:
        event["t"] += 3600 * NS


def _no_noise(events: list[dict[str, Any]]) -> None:
    for rank in (0, 1):
        steps = [event for event in events if event["k"] == "STEP_END" and event["rank"] == rank]
        for event in steps:
            event["t"] = steps[0]["t"] + (event["step"] - 1) * 153_000_000


def _smooth(events: list[dict[str, Any]]) -> None:
    for event in events:
        if event["k"] == "STEP_END":
            event["loss"] = 2.0 - event["step"] * 0.001


def _other_host(events: list[dict[str, Any]]) -> None:
    for event in events:
        if event["k"] == "INIT_START":
            event["host"] = "faster"


def _too_fast(events: list[dict[str, Any]]) -> None:
    """More operations a second than its ranks measured that the hardware can do."""
    extra = [
        {"k": "NOTE", "rank": rank, "seq": 0, "t": events[0]["t"], "name": name, "value": value}
        for rank in (0, 1)
        for name, value in (("matmul_flops_per_s", 1e9), ("flops_per_sample", 1e9))
    ]
    events[1:1] = [one for one in extra if one["rank"] == 0]
    at = next(index for index, event in enumerate(events) if event["rank"] == 1)
    events[at + 1 : at + 1] = [one for one in extra if one["rank"] == 1]
    for rank in (0, 1):
        for number, event in enumerate(one for one in events if one["rank"] == rank):
            event["seq"] = number


def copy_round(run: RunDir) -> None:
    """The first round again as the second, its step times changed by half a percent of noise."""
    import random

    draw = random.Random(1)
    events = lines(nodes(run)[0] / rundir.EVENTS)
    late: dict[int, int] = {}
    for event in events:
        if event["k"] == "STEP_END":
            late[event["rank"]] = late.get(event["rank"], 0) + int(draw.gauss(0, 2e-4) * NS)
        event["t"] += late.get(event["rank"], 0)
    write_lines(nodes(run)[1] / rundir.EVENTS, events)
    shutil.copy(nodes(run)[0] / rundir.SAMPLES, nodes(run)[1] / rundir.SAMPLES)


def copy_losses(run: RunDir) -> None:
    losses = {
        (event["rank"], event["step"]): event["loss"]
        for event in lines(nodes(run)[0] / rundir.EVENTS)
        if event["k"] == "STEP_END"
    }
    for node in nodes(run)[1:]:
        events = lines(node / rundir.EVENTS)
        for event in events:
            if event["k"] == "STEP_END":
                event["loss"] = losses[event["rank"], event["step"]]
        write_lines(node / rundir.EVENTS, events)


def _samples(change: Callable[[dict[str, Any], int], None]) -> Callable[[RunDir], None]:
    def forge(run: RunDir) -> None:
        for node in nodes(run):
            samples = lines(node / rundir.SAMPLES)
            for number, sample in enumerate(samples[1:]):
                change(sample, number)
            write_lines(node / rundir.SAMPLES, samples)

    return forge


def _idle(sample: dict[str, Any], _number: int) -> None:
    for rank in sample["ranks"].values():
        rank["cpu"] = 0.0


def _less_power(sample: dict[str, Any], _number: int) -> None:
    trains = 0 < sample["steps"].get("0", 0) < 200
    sample["power_w"] = 120.0 if trains else 200.0


def turn_time_back(run: RunDir) -> None:
    records = lines(run.path / journal.NAME)
    records[-2]["wall"] -= 3600 * NS
    write_lines(run.path / journal.NAME, records)


def shorten_attempt(run: RunDir) -> None:
    """The journal tells of a round that took half as long as its node says."""
    records = lines(run.path / journal.NAME)
    began = next(one["wall"] for one in records if one["k"] == "attempt" and one["round"] == 1)
    ended = next(one for one in records if one["k"] == "ended" and one["round"] == 1)
    ended["wall"] = began + (ended["wall"] - began) // 2
    write_lines(run.path / journal.NAME, records)


def _manifest(change: Callable[[dict[str, Any]], None]) -> Callable[[RunDir], None]:
    def forge(run: RunDir) -> None:
        path = run.path / rundir.MANIFEST
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return forge


def _other_machine(manifest: dict[str, Any]) -> None:
    manifest["provenance"]["facts"]["cpu"]["model"] = "Humble 100"


def _locked(manifest: dict[str, Any]) -> None:
    manifest["plan"]["cases"][0]["params"]["lr"] = 9.9


def _first_of_series(manifest: dict[str, Any]) -> None:
    manifest["series"]["number"] = 2


def _renamed(manifest: dict[str, Any]) -> None:
    manifest["run"] = "another-run"


def shorten_series(run: RunDir) -> None:
    path = run.path.parent / ".series.jsonl"
    path.write_text(path.read_text().replace('"number":1', '"number":0'))


def hide_slow_rounds(run: RunDir) -> None:
    """The slowest round is dropped, and the journal tells of a controller that was killed."""
    drop_round(run)
    records = [one for one in lines(run.path / journal.NAME) if one.get("round") != 2 and one["k"] != "finished"]
    write_lines(run.path / journal.NAME, records)


def hide_first_attempt(run: RunDir) -> None:
    """A second attempt passes for the only one: the first, which went badly, is gone without a trace."""
    attempt = nodes(run)[0].parent
    attempt.rename(attempt.with_name("attempt2"))
    records = lines(run.path / journal.NAME)
    for record in records:
        if record.get("round") == int(attempt.parent.name[5:]):
            record["attempt"] = 2
    write_lines(run.path / journal.NAME, records)


def run_at_once(run: RunDir) -> None:
    """Rounds that shared the machine, which each of them says it had for itself."""
    records = lines(run.path / journal.NAME)
    ended = next(one for one in records if one["k"] == "ended" and one["round"] == 1)
    records.remove(ended)
    records.insert(-2, {**ended, "wall": records[-2]["wall"]})
    write_lines(run.path / journal.NAME, records)


def drop_samples(run: RunDir) -> None:
    """Events made faster, and no samples that would contradict."""
    _events(_faster)(run)
    for node in nodes(run):
        (node / rundir.SAMPLES).unlink()


def drop_tokens(run: RunDir) -> None:
    for node in nodes(run):
        content = json.loads((node / rundir.RESULT).read_text())
        del content["token"]
        (node / rundir.RESULT).write_text(json.dumps(content))


def other_config(run: RunDir) -> None:
    """The ranks were given a smaller model's parameters than the plan tells."""
    content = json.loads((nodes(run)[0] / "config.json").read_text())
    content["params"]["batch"] = 1
    (nodes(run)[0] / "config.json").write_text(json.dumps(content))


def same_clock_twice(run: RunDir) -> None:
    """One round's time on the machine's clock is given to another."""
    first, second = (lines(node / rundir.EVENTS)[0]["t"] for node in nodes(run)[:2])
    for path in (nodes(run)[1] / rundir.EVENTS, nodes(run)[1] / rundir.SAMPLES):
        records = lines(path)
        for record in records:
            if "t" in record and "units" not in record:
                record["t"] -= second - first
        write_lines(path, records)


def _fewer_rounds(manifest: dict[str, Any]) -> None:
    """Two of three rounds were enough, says a plan that was written afterwards."""
    manifest["plan"]["blocks"] = [[ref for ref in block if ref["round"] != 3] for block in manifest["plan"]["blocks"]]


def _other_series(manifest: dict[str, Any]) -> None:
    manifest["series"]["name"] = "0" * 16


def renumber(run: RunDir) -> None:
    """The third run of its series becomes its first: the two before it are taken out of the list."""
    path = run.path.parent / ".series.jsonl"
    last = json.loads(path.read_text().splitlines()[-1])
    last["series"]["number"] = 1
    path.write_text(json.dumps(last) + "\n")
    _manifest(lambda manifest: manifest["series"].update(number=1))(run)


def another_plan(run: RunDir) -> None:
    """A series of other cases lends its number."""
    path = run.path.parent / ".series.jsonl"
    path.write_text(path.read_text().replace(json.loads(path.read_text())["series"]["name"], "0" * 16))
    _manifest(_other_series)(run)


def strange_numbers(run: RunDir) -> None:
    """Numbers that no file of trainmark's has: enormous, negative, none at all."""
    path = nodes(run)[0] / rundir.EVENTS
    text = path.read_text()
    path.write_text(text.replace('"step": 7,', f'"step": {10**400},').replace('"step": 8,', '"step": NaN,'))
    result = nodes(run)[0] / rundir.RESULT
    result.write_text(result.read_text().replace('"duration": ', '"duration": 1e999, "duration_was": '))


def press_together(run: RunDir) -> None:
    """Everything that a round tells of time, a tenth shorter: events, samples and the node's own account agree."""
    for node in nodes(run):
        events, samples = lines(node / rundir.EVENTS), lines(node / rundir.SAMPLES)
        first = events[0]["t"]
        for record in [*events, *samples[1:]]:
            record["t"] = first + int((record["t"] - first) * 0.9)
        write_lines(node / rundir.EVENTS, events)
        write_lines(node / rundir.SAMPLES, samples)


def _more_samples(events: list[dict[str, Any]]) -> None:
    """A quarter more samples in each step."""
    for event in events:
        if event["k"] == "STEP_END":
            event["n"] += 1


def _rank_ends_early(events: list[dict[str, Any]]) -> None:
    events[:] = [one for one in events if not (one["rank"] == 1 and one["k"] == "STEP_END" and one["step"] > 150)]


def date_back(run: RunDir) -> None:
    """The plan and the journal are a year older than what the node wrote."""
    year = 365 * 86_400 * NS
    _manifest(lambda manifest: manifest.update(created=manifest["created"] - year))(run)
    records = lines(run.path / journal.NAME)
    for record in records:
        record["wall"] -= year
    write_lines(run.path / journal.NAME, records)


def without_parameters(run: RunDir) -> None:
    """A plan with another batch, and nothing that tells what the ranks were given."""
    _manifest(lambda manifest: manifest["plan"]["cases"][0]["params"].update(batch=64))(run)
    for node in nodes(run):
        (node / "config.json").unlink()


def without_facts(run: RunDir) -> None:
    """The manifest of another machine, and nothing that tells which it was."""
    _manifest(_other_machine)(run)
    for node in nodes(run):
        (node / rundir.FACTS).unlink()


def splice_without_tokens(run: RunDir) -> None:
    splice(run)
    records = lines(run.path / journal.NAME)
    for record in records:
        if "token" in record:
            record["token"] = ""
    write_lines(run.path / journal.NAME, records)
    for node in nodes(run):
        content = json.loads((node / rundir.RESULT).read_text())
        (node / rundir.RESULT).write_text(json.dumps({**content, "token": ""}))


RUNS: dict[str, tuple[Callable[[RunDir], None], str]] = {
    "a round dropped": (drop_round, "node-missing"),
    "a round dropped from the journal, too": (drop_round_everywhere, "round-missing"),
    "an attempt that the journal does not know": (add_attempt, "attempt-not-in-journal"),
    "two runs spliced": (splice, "other-attempt"),
    "events scaled by 5 %": (_events(_faster), "speed-differs-from-agent"),
    "time stamps of events shifted": (_events(_later), "events-outside-samples"),
    "step times without noise": (_events(_no_noise), "no-noise"),
    "a loss that is a line": (_events(_smooth), "loss-too-smooth"),
    "a faster machine's log": (_events(_other_host), "hosts-differ"),
    "faster than the peak": (_events(_too_fast), "over-everything"),
    "a round copied with jitter": (copy_round, "rounds-alike"),
    "losses copied": (copy_losses, "losses-copied"),
    "no load while training": (_samples(_idle), "no-load"),
    "less power than idle": (_samples(_less_power), "power-below-idle"),
    "time goes back": (turn_time_back, "time-went-back"),
    "an attempt shorter than its node's": (shorten_attempt, "longer-than-attempt"),
    "another machine's manifest": (_manifest(_other_machine), "other-machine"),
    "a locked parameter": (_manifest(_locked), "locked-parameter"),
    "another number in the series": (_manifest(_first_of_series), "series-broken"),
    "another name": (_manifest(_renamed), "run-renamed"),
    "an edited series": (shorten_series, "series-broken"),
    "a slow round hidden by a controller that was killed": (hide_slow_rounds, "round-missing"),
    "a first attempt hidden": (hide_first_attempt, "attempts-missing"),
    "rounds at one time": (run_at_once, "rounds-overlap"),
    "the samples dropped": (drop_samples, "samples-missing"),
    "tokens dropped": (drop_tokens, "other-attempt"),
    "other parameters for the ranks": (other_config, "config-differs"),
    "two rounds by one clock at one time": (same_clock_twice, "same-time-twice"),
    "a plan of fewer rounds": (_manifest(_fewer_rounds), "plan-differs-from-case"),
    "the number of another series": (another_plan, "series-broken"),
    "all times pressed together": (press_together, "sampled-too-often"),
    "more samples in each step": (_events(_more_samples), "counts-differ"),
    "a rank that ended early": (_events(_rank_ends_early), "counts-differ"),
    "a run dated back": (date_back, "clocks-apart"),
    "the ranks' parameters dropped": (without_parameters, "node-file-missing"),
    "the machine's facts dropped": (without_facts, "node-file-missing"),
    "two runs spliced without tokens": (splice_without_tokens, "other-attempt"),
}


def call_it_another_kind(run: RunDir) -> None:
    """Rounds of other kinds of runs are not held against the names of their cases: so the slowest is left out."""
    _manifest(lambda manifest: (_fewer_rounds(manifest), manifest["plan"].update(kind="live")))(run)
    shutil.rmtree(next(run.path.glob("*/round3")))
    write_lines(run.path / journal.NAME, [one for one in lines(run.path / journal.NAME) if one.get("round") != 3])


def same_clock_of_nobody(run: RunDir) -> None:
    same_clock_twice(run)
    for node in nodes(run):
        content = json.loads((node / rundir.CLAIM).read_text())
        del content["start_ticks"]
        (node / rundir.CLAIM).write_text(json.dumps(content))


def faster_unseen(run: RunDir) -> None:
    """Events made faster, and nothing of how far the agent saw the ranks."""
    _events(_faster)(run)
    _samples(lambda sample, _number: sample.pop("steps"))(run)


def _one_rank_for_all(events: list[dict[str, Any]]) -> None:
    first = [one for one in events if one["rank"] == 0]
    events[:] = [*first, *({**one, "rank": 1} for one in first)]


def hide_program(run: RunDir) -> None:
    _manifest(lambda manifest: manifest["plan"]["cases"][0].update(version="", open=True))(run)


# These may be true: they are said, and no leaderboard lists the first.
SAID: dict[str, tuple[Callable[[RunDir], None], str]] = {
    "another kind of run": (call_it_another_kind, "another-kind-of-run"),
    "a clock of no boot": (same_clock_of_nobody, "clock-not-known"),
    "a speed that no agent saw": (faster_unseen, "one-account-only"),
    "a rank copied": (_events(_one_rank_for_all), "ranks-copied"),
    "a program that nobody knows": (hide_program, "program-not-known"),
}


@pytest.mark.parametrize("kind", SAID)
def test_what_may_be_true_is_said(run: RunDir, tmp_path: Path, kind: str) -> None:
    forge, expected = SAID[kind]
    forge(run)
    made = packed(RunDir(run.path), tmp_path / "forged.tmk")
    assert expected in {one.reason.code for one in verify.verify(made).findings}
    if expected == "another-kind-of-run":
        leaderboard.write([made], tmp_path / "site")
        assert json.loads((tmp_path / "site" / "feed.json").read_text())["items"] == []


def test_devices_that_no_record_names_are_said(tmp_path: Path) -> None:
    """A run on a CPU under the name of another vendor's device."""
    run = honest_run(tmp_path / "runs", case="resnet50:pytorch:nvidia:1:2:3")
    found = verify.verify(packed(run, tmp_path / "x.tmk")).findings
    assert {one.reason.code for one in found} == {"devices-not-told"}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_did_not_happen_so_is_found(run: RunDir, tmp_path: Path, kind: str) -> None:
    forge, expected = RUNS[kind]
    forge(run)
    assert expected in codes(packed(RunDir(run.path), tmp_path / "forged.tmk"))


@pytest.mark.parametrize(("busy", "expected"), [((0.0, 0.0), {"no-device-load"}), ((0.9, 0.8), set())])
def test_devices_that_idle_while_their_ranks_train_are_found(
    tmp_path: Path, busy: tuple[float, float], expected: set[str]
) -> None:
    """The third device is another user's, and idle."""
    run = honest_run(tmp_path / "runs", case="resnet50:pytorch:nvidia:1:2:3")
    devices = [{"index": index, "utilisation": share} for index, share in enumerate((*busy, 0.0))]
    _samples(lambda sample, _number: sample.update(devices=devices))(run)
    for node in nodes(run):
        facts = json.loads((node / rundir.FACTS).read_text())
        facts["accelerators"] = {"used": [0, 1], "devices": []}
        (node / rundir.FACTS).write_text(json.dumps(facts))
    assert codes(packed(RunDir(run.path), tmp_path / "x.tmk")) == expected


def test_the_best_of_many_runs_do_not_pass_as_all(tmp_path: Path) -> None:
    run = honest_run(tmp_path / "runs", number=20)
    found = verify.verify(packed(run, tmp_path / "x.tmk"))
    assert found.verified
    shown = [one.reason for one in found.findings]
    assert [(one.code, one.arguments) for one in shown] == [("runs-of-series", {"shown": 1, "of": 20})]


def test_a_run_is_not_made_the_first_of_its_series(tmp_path: Path) -> None:
    run = honest_run(tmp_path / "runs", number=3)
    renumber(run)
    assert codes(packed(RunDir(run.path), tmp_path / "x.tmk")) == {"series-broken"}


def test_runs_after_those_that_are_shown_count_as_well(tmp_path: Path) -> None:
    """Whoever ran twenty times and packs the first does not show one of one."""
    run = honest_run(tmp_path / "runs")
    for number in range(19):
        series.join(tmp_path / "runs", f"later-{number}", run.manifest().plan, 0)
    (finding,) = verify.verify(packed(run, tmp_path / "x.tmk")).findings
    assert finding.reason == reason("runs-of-series", shown=1, of=20)


def test_numbers_that_nobody_expects_are_no_accident(run: RunDir, tmp_path: Path) -> None:
    strange_numbers(run)
    assert codes(packed(RunDir(run.path), tmp_path / "x.tmk"))


def test_the_same_events_under_two_runs_are_found(run: RunDir, tmp_path: Path) -> None:
    """A run again under another name, an hour later by every clock."""
    twin = RunDir(run.path.with_name(f"{run.id}-b"))
    shutil.copytree(run.path, twin.path)
    series.join(run.path.parent, twin.id, run.manifest().plan, 0)
    place = json.loads((run.path.parent / series.NAME).read_text().splitlines()[-1])["series"]
    _manifest(lambda manifest: manifest.update(run=twin.id, series=place))(twin)
    for one in (run, twin):
        seal(one)
    keys.create("maker") if "maker" not in {one.name for one in keys.listed()} else None
    pack.pack([run, RunDir(twin.path)], tmp_path / "x.tmk", key=keys.load("maker"))
    assert codes(tmp_path / "x.tmk") == {"rounds-alike"}


def test_two_bundles_that_tell_differently_of_one_run_are_found(
    run: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = packed(run, tmp_path / "a.tmk")
    without_logs = packed(run, tmp_path / "b.tmk", logs=False)
    assert verify.in_two_versions([verify.verify(first), verify.verify(without_logs)]) == {}
    log = nodes(run)[0] / "rank0.out.log"
    log.write_text(log.read_text() + "more\n")
    second = packed(run, tmp_path / "c.tmk")
    assert verify.in_two_versions([verify.verify(first), verify.verify(second)]) == {run.id: ["a.tmk", "c.tmk"]}
    assert main(["verify", str(first), str(second)]) == 4
    assert "in several bundles" in capsys.readouterr().out


def test_a_run_that_is_said_to_be_imported_is_on_no_leaderboard(run: RunDir, tmp_path: Path) -> None:
    """What trainmark did not make has no journal to be held against."""
    _manifest(lambda manifest: manifest.update(imported=True))(run)
    made = packed(RunDir(run.path), tmp_path / "x.tmk")
    assert "imported-run" in {one.reason.code for one in verify.verify(made).findings}
    leaderboard.write([made], tmp_path / "site")
    assert "x.tmk" not in (tmp_path / "site" / "index.html").read_text()
