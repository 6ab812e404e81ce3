"""A test from the definition to the verdict, over real sockets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import Cli
from tests.tester.conftest import CASE, TEST, changed_test, codes, link_to, reported, taken
from tests.trust.honest import change_json
from trainmark.cli.main import main
from trainmark.errors import UserError
from trainmark.launch import sites
from trainmark.plan.records import Plan
from trainmark.run import planning
from trainmark.spec.length import Length
from trainmark.spec.rules import RepeatAuto
from trainmark.spec.workload import Target
from trainmark.store.rundir import MANIFEST, TESTER, RunDir
from trainmark.tester import attachment, definition, judging, subject
from trainmark.tester.client import Away
from trainmark.tester.server import Tester as Serving
from trainmark.trust import pack, verify

FILE = f"""\
test: t1
model: noop
subjects: [subject]
free: [batch]
suite: {{preset: smoke, cases: ["{CASE}"]}}
limits: {{runs: 3, heartbeat_seconds: 1}}
"""


def test_a_result_is_verified_recomputed_and_accepted(tester: Serving, tmp_path: Path) -> None:
    link = link_to(tester)
    assert subject.definition(link) == TEST
    run = taken(link, tmp_path / "runs", batch="4")
    verdict = reported(run, link)
    assert verdict.accepted, verdict.findings
    assert verdict.figures[0]["value"] == pytest.approx(_own_figure(run, tmp_path), rel=1e-9)
    row = tester.tickets.rows()[0]
    assert (row.received, row.verdict) == (True, verdict)
    # Reporting again changes nothing, and what the tester said is no part of the run.
    assert reported(run, link) == verdict
    assert attachment.said(run) is not None
    assert not verify.verify(_bundle(run, tmp_path)).faults()


def _bundle(run: RunDir, folder: Path) -> Path:
    from trainmark.trust import keys

    pack.pack([run], folder / "own.tmk", key=keys.load("subject"))
    return folder / "own.tmk"


def _own_figure(run: RunDir, folder: Path) -> float:
    return float(verify.verify(_bundle(run, folder)).figures[0]["value"])


def test_what_the_test_locks_cannot_be_changed(
    serve: Callable[..., Serving], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tester = serve()
    base = ["run", "--tester", tester.url, "--key", "subject", "--runs", str(tmp_path / "runs")]
    changes = ("--set seconds=1", "--seed 1", "--grid 1n1g", "--seconds 30", "--preset full")
    for more in (one.split() for one in changes):
        assert main([*base, *more]) == 2, more
        assert "locks it" in capfd.readouterr().err
    assert main(["run", "quick", *base[1:]]) == 2
    assert not tester.tickets.rows() and not (tmp_path / "runs").exists()


def test_a_subject_that_changes_it_all_the_same_is_found_out(tester: Serving, tmp_path: Path) -> None:
    """Whoever runs a changed program can plan what they like; the tester plans the test itself."""
    link = link_to(tester)
    other = changed_test(suite={"preset": "smoke", "cases": [CASE.replace("steps=120", "steps=110")]})
    verdict = reported(taken(link, tmp_path / "runs", other), link)
    assert not verdict.accepted and codes(verdict) == {"test-case-differs"}


def _forged_case(**fields: object) -> Callable[[Plan], Plan]:
    def change(plan: Plan) -> Plan:
        return replace(plan, cases=tuple(replace(case, **fields) for case in plan.cases))

    return change


def test_a_fingerprint_alone_is_not_believed(tester: Serving, tmp_path: Path) -> None:
    """Id and fingerprint are those of the test, and what is run is something else."""
    link = link_to(tester)

    def shorter(plan: Plan) -> Plan:
        case = plan.cases[0]
        assert case.params["steps"] == 120
        return _forged_case(params={**case.params, "steps": 110})(plan)

    verdict = reported(taken(link, tmp_path / "runs", forged=shorter), link)
    assert not verdict.accepted and "test-value-differs" in codes(verdict)
    retried = reported(taken(link, tmp_path / "runs", forged=lambda plan: replace(plan, retries=9)), link)
    assert codes(retried) == {"test-plan-differs"}


def test_every_value_of_a_plan_is_compared(tmp_path: Path) -> None:
    """With the plan that a subject makes; what its machine decides may differ."""
    site, changed, seed = sites.load_site(None), {"batch": "4"}, 7
    test = changed_test(
        model="mnist",
        suite={"preset": "smoke", "cases": [{"case": "mnist:pytorch:cpu:1:2:3", "checkpoint": "some/where.pt"}]},
    )
    honest = planning.plan_suite(test.loaded(), site, changed, seed)
    wanted = definition.expected(test, site, changed, seed)
    assert not list(judging._differences(wanted, honest))

    def named(plan: Plan) -> list[str]:
        return [str(one.reason.arguments["what"]) for one in judging._differences(wanted, plan)]

    case = honest.cases[0]
    for fields in (
        {"params": {**case.params, "batch": 8}},
        {"preset": "full"},
        {"division": "open"},
        {"data": "synthetic" if case.data != "synthetic" else "/other"},
        {"checkpoint": None},
        {"checkpoint": "/some/other.pt"},
        {"auto": RepeatAuto()},
        {"deadlines": replace(case.deadlines, start=1e6)},
        {"length": Length(seconds=1.0)},
        {"target": None if case.target else Target("loss", 1.0, "down")},
        {"version": "0"},
        {"repeat": 1},
        {"nodes": tuple(replace(node, ranks=node.ranks[:1]) for node in case.nodes)},
    ):
        assert named(_forged_case(**fields)(honest)) == list(fields), fields
    for changes in ({"retries": 9}, {"recover": True}, {"within": 1.0}, {"kind": "fit"}, {"blocks": honest.blocks[:1]}):
        assert named(replace(honest, **changes)) == list(changes), changes
    assert not named(_forged_case(env={"A": "1"}, folder="/elsewhere", checkpoint="/home/x/some/where.pt")(honest))


def test_a_run_from_before_is_no_result(tester: Serving, tmp_path: Path) -> None:
    """The tester draws the seed: a run of another ticket stays one, whatever its papers say."""
    link = link_to(tester)
    first = taken(link, tmp_path / "runs")
    ticket = subject.take(link)
    change_json(first.path / TESTER, ticket=json.loads(_json(ticket)))
    assert codes(reported(RunDir(first.path), link)) == {"test-another-ticket"}
    assert ticket.seed != first.manifest().plan.seed


def _json(value: object) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def test_a_result_that_was_altered_or_signed_by_another_is_not_accepted(tester: Serving, tmp_path: Path) -> None:
    link = link_to(tester)
    altered = taken(link, tmp_path / "runs")
    manifest = json.loads((altered.path / MANIFEST).read_text())
    (altered.path / MANIFEST).write_text(json.dumps({**manifest, "created": manifest["created"] + 1}))
    verdict = reported(RunDir(altered.path), link)
    assert not verdict.accepted and verdict.findings
    foreign = taken(link, tmp_path / "runs")
    assert "test-signed-by-another" in codes(reported(foreign, link, key="stranger"))


def test_a_result_that_comes_too_late_says_so(serve: Callable[..., Serving], tmp_path: Path) -> None:
    from trainmark.tester.definition import Limits

    tester = serve(definition=changed_test(limits=Limits(hours=1e-6)))
    link = link_to(tester)
    assert codes(reported(taken(link, tmp_path / "runs"), link)) == {"test-late"}


def test_a_test_can_be_taken_as_often_as_it_says(tester: Serving) -> None:
    link = link_to(tester)
    asked = {"asked": "x" * 8}
    assert link.ask("/v1/tickets", asked) == link.ask("/v1/tickets", asked), "the answer to a question stays"
    subject.take(link)
    subject.take(link)
    with pytest.raises(UserError, match="taken 3 times"):
        subject.take(link)


def test_the_run_goes_on_without_its_tester_and_reports_later(tmp_path: Path, cli: Cli) -> None:
    """The tester is killed while the run is under way, and comes back at the same port."""
    file, folder, runs = tmp_path / "test.yaml", tmp_path / "tester", str(tmp_path / "runs")
    file.write_text(FILE.replace("steps=120", "steps=120,seconds=4"))
    argv = [sys.executable, "-m", "trainmark", "tester", "serve", str(file), "--dir", str(folder), "--key", "tester"]
    first = subprocess.Popen([*argv, "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    url = first.stdout.readline().split(" at ")[1].split(";")[0]
    taking = subprocess.Popen(
        [sys.executable, "-m", "trainmark", "run", "--tester", url, "--key", "subject", "--runs", runs],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert taking.stderr is not None and "ticket" in taking.stderr.readline()
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    _, said = taking.communicate(timeout=120)
    assert taking.returncode == 3 and "tester report" in said, said
    run = next((tmp_path / "runs").glob("2*"))
    assert "the tester is not heard, the run goes on" in (run / "run.log").read_text()
    again = subprocess.Popen([*argv, "--port", url.rpartition(":")[2]], stdout=subprocess.PIPE, text=True)
    assert again.stdout is not None and again.stdout.readline()
    try:
        done = cli("tester", "report", "--runs", runs)
        assert done.returncode == 0 and "accepted by the tester" in done.stdout, done.stdout + done.stderr
        listed = cli("tester", "list", "--dir", str(folder), "--json")
        assert [one["verdict"]["accepted"] for one in json.loads(listed.stdout)["tickets"]] == [True]
    finally:
        again.send_signal(signal.SIGTERM)
        assert again.wait() == 0


def test_a_result_is_judged_by_the_next_tester_if_this_one_was_killed(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    first = serve()
    link = link_to(first)
    run = taken(link, tmp_path / "runs")
    ticket = subject.attached(run).ticket.ticket
    first.tickets.result(ticket).write_bytes(_bundle(run, tmp_path).read_bytes())
    first.__exit__()
    second = serve()
    later = link_to(second)
    assert reported(run, later).accepted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "mnist"}, "the test's model is `mnist`"),
        ({"object": "cluster"}, "the test's object is `cluster`, the case has 1 node"),
        ({"free": "[lr]"}, "has no parameter `lr`"),
        ({"suite": "{workloads: [x], cases: [x]}"}, "travels without folders"),
        ({"suite": "{cases: [{command: [ls]}]}"}, "a test has no commands"),
        ({"suite": '{cases: ["noop:none:auto:1:1:1"]}'}, "names the device"),
        ({"suite": '{division: open, cases: ["noop:none:cpu:1:1:1"]}'}, "the test says another"),
        ({"limits": "{runs: 0}"}, "limits.runs"),
        ({"test": '"../x"'}, "test"),
        ({"subjects": "[nobody]"}, None),
    ],
)
def test_a_definition_that_is_none_is_refused_with_its_line(
    change: dict[str, str], said: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = {line.partition(":")[0]: line.partition(":")[2] for line in FILE.splitlines()}
    file = tmp_path / "test.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in {**lines, **change}.items()))
    if said is not None:
        with pytest.raises(UserError, match=said) as error:
            definition.load(file)
        assert str(file) in str(error.value)
    assert main(["tester", "serve", str(file), "--dir", str(tmp_path / "d"), "--key", "tester"]) == 2
    assert "test.yaml" in capsys.readouterr().err and not (tmp_path / "d").exists()


def test_an_address_without_a_tester_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(Away, match="no answer"):
        subject.definition(link_to("http://127.0.0.1:9"))
    for url in ("127.0.0.1:9527", "ftp://x", "http://x:port", "http://x/path"):
        with pytest.raises(UserError, match="allowed is"):
            link_to(url)
