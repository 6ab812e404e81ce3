"""`trainmark accept` from the command line to the verdict, on hosts that only speak."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.fake_hosts import FakeHosts
from tests.report.test_page import Reader
from trainmark.campaigns.accept_course import gather, next_step
from trainmark.cli import drive
from trainmark.cli.main import main
from trainmark.i18n.speaker import say
from trainmark.launch.protocol import REGISTRY, Finding
from trainmark.launch.ssh.launcher import SshLauncher
from trainmark.reasons import reason
from trainmark.report.make import acceptance, acceptance_rounds
from trainmark.report.make.acceptance_rounds import Measured, Seen
from trainmark.report.show import show
from trainmark.run import campaign, loop, session
from trainmark.run.campaign import Step
from trainmark.run.lease import Lease
from trainmark.score.accept.noise import Rule

HOSTS = [f"n{number}" for number in range(1, 6)]
CASE = "noop:none:cpu:1:2:5"


@pytest.fixture
def accept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Any]]:
    fleets: list[FakeHosts] = []
    runs = tmp_path / "runs"

    def call(*words: str, code: int = 0, hosts: list[str] = HOSTS, text: bool = False, **fleet: Any) -> Any:
        def launcher(_name: str, _place: str = "") -> SshLauncher:
            fleets.append(FakeHosts(hosts, seconds=0.0, beat_seconds=0.05, **fleet))
            return SshLauncher(fleets[-1])

        monkeypatch.setattr(REGISTRY, "get", launcher)
        site = tmp_path / "site.yaml"
        site.write_text(json.dumps({"schema": 1, "name": "fake", "launcher": "ssh", "hosts": hosts}))
        fixed = ["accept", "--site", str(site), "--runs", str(runs), "--no-check", "--case", CASE]
        found = main([*fixed, *words, *([] if text else ["--json"])])
        out, err = capsys.readouterr()
        assert found == code, f"{found}\n{out}\n{err}"
        return out + err if text or code == 2 else json.loads(out)

    yield call
    for fleet in fleets:
        fleet.close()


def words(found: Any) -> dict[str, str]:
    return {one["node"]: one["word"] for one in found["nodes"]}


def test_a_slow_node_and_a_slow_link_among_good_ones(accept: Callable[..., Any], tmp_path: Path) -> None:
    """All nodes of a block run at once, pairs meet in a tournament, and the verdict can be had again."""
    slow = {"speeds": {"n3": 0.8}, "bandwidths": {("n1", "n5"): 0.3, ("n5", "n1"): 0.3}}
    found = accept("--seed", "1", "-o", str(tmp_path / "a.html"), code=1, **slow)
    assert words(found) == {**dict.fromkeys(HOSTS, "good"), "n3": "bad"} and found["drain"] == ["n3"]
    said = {(one["kind"], tuple(sorted(one["nodes"]))) for one in found["links"]["effects"]}
    assert ("link", ("n1", "n5")) in said
    assert len(found["links"]["bandwidth"]) == 10
    page = (tmp_path / "a.html").read_text()
    assert "NodeName=n3 State=DRAIN" in page and "to be drained" in page and Reader(page).tags
    again = accept("--from", found["runs"][0], code=1)
    assert again == found
    assert "| n3 | bad |" in _written(accept, found["runs"][0], tmp_path / "a.md")


class Killed(BaseException):
    """Stands for kill -9: nothing that cleans up is meant for it."""


def test_killed_at_any_moment_it_goes_on_to_the_same_verdict(
    accept: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between any two things that it does, in each of its runs; it still holds nodes against what it was given."""
    contract = tmp_path / "contract.yaml"
    contract.write_text(f"{CASE}: {{throughput: {{min: 105}}}}\n")
    fleet = {"hosts": HOSTS[:3], "speeds": {"n3": 0.967}, "code": 4}
    asked = ["--seed", "1", "--looks", "2", "--link-case", "collectives:pytorch:cpu:2:1:1"]
    whole = accept(*asked, "--contract", str(contract), **fleet)
    assert words(whole)["n3"] == "bad" and len(whole["runs"]) == 3, "nodes, suspects again, links"
    before = {path.name for path in (tmp_path / "runs").iterdir()}
    begin = [*asked, "--contract", str(contract), "-o", str(tmp_path / "told.json")]
    found, killed = _killed(monkeypatch, 3, lambda: accept(*begin, **fleet)), 1
    while found is None:
        more = ["--resume", _newest(tmp_path, before)]
        found = _killed(monkeypatch, 1 + killed % 3, lambda: accept(*more, **fleet))  # noqa: B023 - called at once
        killed += 1
    assert killed > 5
    assert {**found, "runs": 3, "seconds": 0} == {**whole, "runs": len(found["runs"]), "seconds": 0}
    assert json.loads((tmp_path / "told.json").read_text()) == found
    made = {path.parent.name for path in (tmp_path / "runs").glob("*/manifest.json")} - before
    assert made == set(found["runs"]), "no run was begun twice"


@pytest.mark.parametrize(
    ("place", "name"),
    [(session, "describe"), (acceptance_rounds, "read"), (Lease, "release")],
    ids=["as the next begins", "between", "as the first ends"],
)
def test_ctrl_c_between_two_runs_is_heard(
    accept: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Any, name: str
) -> None:
    """Also where the run that it came too late for has ended well: no further round, and `resume` goes on."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    work, calls = getattr(place, name), []

    def interrupted(*args: Any, **more: Any) -> Any:
        calls.append(name)
        if len(calls) == (2 if name == "describe" else 1):  # the first run is described before anything runs
            os.kill(os.getpid(), signal.SIGINT)
        return work(*args, **more)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(place, name, interrupted)
            said = accept("--seed", "1", code=130, text=True)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "stopped; `trainmark resume" in said
    runs = list((tmp_path / "runs").glob("*/manifest.json"))
    assert [len(list(run.parent.glob("*/round*"))) for run in runs if "collectives" in run.read_text()] in ([], [0])
    found = accept("--resume", said.rpartition("`trainmark resume ")[2].partition("`")[0])
    assert set(words(found).values()) == {"good"} and len(found["runs"]) == 2


def _newest(folder: Path, before: set[str]) -> str:
    """The last run that was made, be it one that its acceptance forgot; names of one second are in no order."""
    made = [path for path in (folder / "runs").glob("*/manifest.json") if path.parent.name not in before]
    return max(made, key=lambda path: path.stat().st_mtime_ns).parent.name


def _killed(monkeypatch: pytest.MonkeyPatch, actions: int, work: Callable[[], Any]) -> Any:
    """What `work` gives; None if it is killed after so many actions: files and manifests written, runs driven."""
    left = [actions]

    def guarded(action: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return action(*args, **more)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(campaign, "write_json", guarded(campaign.write_json))
        patch.setattr(session, "describe", guarded(session.describe))
        patch.setattr(drive, "watched", guarded(drive.watched))
        try:
            return work()
        except Killed:
            return None


def _written(accept: Callable[..., Any], run: str, file: Path) -> str:
    accept("--from", run, "-o", str(file), code=1)
    return file.read_text()


def test_a_fleet_that_is_slow_together_is_found_by_what_was_learnt(accept: Callable[..., Any], tmp_path: Path) -> None:
    """Nodes that agree are good to each other; a criterion or a contract sees more."""
    good = tmp_path / "good.json"
    accept("--learn", str(good), "--no-links")
    slow = dict.fromkeys(HOSTS, 0.85)
    assert set(words(accept("--no-links", speeds=slow)).values()) == {"good"}
    found = accept("--criteria", str(good), "--no-links", code=1, speeds=slow)
    assert set(words(found).values()) == {"bad"} and "slower than the stored criterion" in say(
        found["nodes"][0]["reason"]
    )
    assert set(words(accept("--criteria", str(good), "--no-links")).values()) == {"good"}
    contract = tmp_path / "contract.yaml"
    contract.write_text(f"{CASE}:\n  throughput: {{min: 100}}\n  spread: {{max: 5%}}\n")
    found = accept("--contract", str(contract), "--no-links", code=4, speeds=slow)
    assert set(words(found).values()) == {"bad"} and {one["kept"] for one in found["held"]} == {True, False}
    accept("--contract", str(contract), "--no-links")


def test_two_nodes(accept: Callable[..., Any], tmp_path: Path) -> None:
    """They differ, and only a contract says which one is slow."""
    two, slow = ["n1", "n2"], {"n2": 0.7}
    assert words(accept("--no-links", code=1, hosts=two, speeds=slow)) == {"n1": "suspect", "n2": "suspect"}
    contract = tmp_path / "contract.yaml"
    contract.write_text(f"{CASE}: {{throughput: {{min: 90}}}}\n")
    found = accept("--no-links", "--contract", str(contract), code=4, hosts=two, speeds=slow)
    assert words(found) == {"n1": "good", "n2": "bad"}


def test_a_node_that_cannot_be_reached_is_untested(accept: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "REST_SECONDS", 0.0)
    found = accept("--no-links", "--looks", "1", code=1, mute=["n4"])
    assert words(found) == {**dict.fromkeys(HOSTS, "good"), "n4": "untested"} and found["drain"] == []
    assert "No route to host" in say(found["nodes"][3]["reason"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "expected `CASE:"),
        ("noop:none:cpu:1:1:5: {throughput: {min: 1}}", "says nothing of case"),
        (f"{CASE}: {{}}", "promises nothing"),
        (f"{CASE}: {{throughput: {{min: 0}}}}", "a number above 0"),
        (f"{CASE}: {{throughput: {{least: 5}}}}", "unknown key `least`"),
        (f"{CASE}: {{spread: {{max: lambda}}}}", "found `lambda`"),
        ("five: {throughput: {min: 1}}", "not 6"),
    ],
)
def test_bad_contracts(accept: Callable[..., Any], tmp_path: Path, content: str, said: str) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(content + "\n")
    assert said in accept("--contract", str(contract), code=2)
    assert not (tmp_path / "runs").exists(), "nothing was started"


def test_bad_words(accept: Callable[..., Any], tmp_path: Path) -> None:
    assert "allowed is 5 and more" in accept("--case", "noop:none:cpu:1:1:4", code=2)
    assert "allowed is 1" in accept("--case", "noop:none:cpu:2:1:5", code=2)
    good = tmp_path / "good.json"
    accept("--learn", str(good), "--no-links")
    assert "says nothing of case" in accept("--criteria", str(good), "--set", "batch=3", "--no-links", code=2)


def test_peaks_of_nodes_stand_beside_their_verdicts() -> None:
    """A node's own peak is one measurement: it gets a word, and no verdict."""
    nodes = ["n1", "n2", "n3"]
    setting = acceptance.Setting(site="s", case=CASE, fingerprint="", unit="images", nodes=nodes, rule=Rule())
    peaks = {"n1": 1e12, "n2": 1e12, "n3": 0.8e12}
    rounds = [Measured((node,), block, 50.0, peak=peaks[node], used=0.5) for block in range(1, 6) for node in nodes]
    gathered = acceptance.gather([(acceptance.Stage("r", "nodes"), Seen(rounds))])
    found = acceptance.build(setting, gathered)
    assert [(one.word, one.peak, one.used) for one in found.nodes] == [("good", peaks[node], 0.5) for node in nodes]
    assert [say(one) for one in found.notes] == [
        "n3: its matrix products reached 20 % less than the median node's when peaks were measured"
    ]
    told = show(found, "text")
    assert "peak of the node" in told and "800 GFLOP/s, 50 % used" in told
    assert "800 GFLOP/s" in show(found, "html") and "800 GFLOP/s" in show(found, "md")


def test_what_an_older_version_left_is_judged_and_goes_on(accept: Callable[..., Any], tmp_path: Path) -> None:
    """Its record lay in the first run itself, and the others named that run."""
    found = accept("--seed", "1", code=1, speeds={"n3": 0.8})
    first, *others = (tmp_path / "runs" / run for run in found["runs"])
    record = json.loads((first / "campaign" / "campaign.json").read_bytes())
    stages = [
        {"run": run, "what": member["step"]["what"], "references": member["step"]["arguments"].get("references", [])}
        for run, member in zip(found["runs"], record["members"], strict=True)
    ]
    (first / "accept.json").write_text(json.dumps({**record["asked"]["setting"], "stages": stages}))
    links = {key: value for key, value in record["asked"]["links"].items() if key != "kind"}
    (first / "accept-links.json").write_text(json.dumps(links))
    shutil.rmtree(first / "campaign")
    for other in others:
        (other / "accept-part.json").write_text(json.dumps({"schema": 1, "first": first.name}))
    for run in (first, *others):
        (run / "campaign-part.json").unlink()
    assert accept("--from", others[-1].name, code=1) == found
    assert accept("--resume", first.name, code=1) == found
    # Killed before its last run, by the older version.
    shutil.rmtree(first / "campaign")
    shutil.rmtree(others[-1])
    (first / "accept.json").write_text(json.dumps({**record["asked"]["setting"], "stages": stages[:-1]}))
    again = accept("--resume", first.name, code=1, speeds={"n3": 0.8})
    same = {"runs": [], "seconds": 0}
    assert {**again, **same} == {**found, **same} and again["runs"][-1] != found["runs"][-1]
    assert '"kind": "acceptance"' in (tmp_path / "runs" / again["runs"][-1] / "manifest.json").read_text()


def _seen(
    names: list[str], speeds: dict[str, float], noise: float = 0.004, blocks: int = 5, seconds: float = 60
) -> Seen:
    dice = random.Random(1)
    return Seen(
        [
            Measured((name,), block, 100 * speeds.get(name, 1.0) * dice.lognormvariate(0, noise))
            for block in range(1, blocks + 1)
            for name in names
        ],
        seconds,
    )


def _setting(nodes: list[str], **more: Any) -> acceptance.Setting:
    rule = Rule(looks=more.pop("looks", 6), find=more.pop("find", None))
    return acceptance.Setting(site="s", case=CASE, fingerprint="", unit="x", nodes=nodes, rule=rule, **more)


def test_what_comes_next() -> None:
    """The links, once; suspects again while looks are left, beside others."""
    nodes = ["n1", "n2", "n3", "n4"]
    setting, links = _setting(nodes, looks=2), (Step("links"), Seen([]))
    equal = [(Step("nodes"), _seen(nodes, {}))]
    assert next_step(setting, nodes, equal, links=True) == Step("links")
    assert next_step(setting, nodes, equal, links=False) is None
    assert next_step(setting, nodes, [*equal, links], links=True) is None
    doubtful = [(Step("nodes"), _seen(nodes, {"n3": 0.968})), links]
    again = next_step(setting, nodes, doubtful, links=True)
    assert again is not None and again.what == "again" and again.arguments["suspects"] == ["n3"]
    assert again.arguments["look"] == 1 and set(again.arguments["references"]) <= set(nodes) - {"n3"}
    beside = ["n3", *again.arguments["references"]]
    after = next_step(setting, nodes, [*doubtful, (again, _seen(beside, {"n3": 0.968}))], links=True)
    assert after is None, "all looks were taken"


def test_it_goes_on_until_enough_would_be_found_or_the_time_is_up() -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    noisy = (Step("nodes"), _seen(nodes, {}, noise=0.1))
    step = next_step(_setting(nodes, seconds=900.0), nodes, [noisy], links=False)
    assert step is not None and step.what == "more" and step.arguments == {"look": 1, "blocks": 5, "seconds": 840.0}
    short = next_step(_setting(nodes, seconds=90.0), nodes, [noisy], links=False)
    assert short is not None and short.arguments["blocks"] == 2, "a block takes 12 s, and 30 s are left"
    assert next_step(_setting(nodes, seconds=70.0), nodes, [noisy], links=False) is None
    assert next_step(_setting(nodes, seconds=20.0), nodes, [noisy], links=False) is None, "the first blocks took longer"
    quiet = (Step("nodes"), _seen(nodes, {}, noise=0.002))
    assert next_step(_setting(nodes, seconds=900.0), nodes, [quiet], links=False) is None
    assert next_step(_setting(nodes, seconds=900.0, aim=0.032), nodes, [quiet], links=False) is not None


def test_the_verdict_says_what_it_could_find_and_what_was_not_tested() -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    stages = [(acceptance.Stage("r", "nodes"), _seen(nodes, {}, noise=0.15))]
    plain = acceptance.build(_setting(nodes, seconds=900.0, synthetic=True), acceptance.gather(stages))
    assert plain.verdict == "good" and plain.findable is not None and plain.findable > 0.2
    text = show(plain, "text")
    assert f"GOOD, blind below {100 * plain.findable:.3g} %" in text.splitlines()[0]
    assert "the links between the nodes" in text and "made-up data" in text and "took 1:00 of 15:00" in text
    strict = acceptance.build(_setting(nodes, find=0.1), acceptance.gather(stages))
    assert strict.verdict == "unsure" and {one.word for one in strict.nodes} == {"unsure"}
    assert "NOT SURE, blind below" in show(strict, "text") and "不确定" in show(strict, "html", "zh")
    assert "would not have been found for certain" in show(strict, "md")


def test_find_is_demanded_from_the_command_line(accept: Callable[..., Any]) -> None:
    """Speeds that jump: the same fleet is good without a demand, and not sure with one; its exit code says so."""
    jumps = {"noise": 0.3, "hosts": HOSTS[:4]}
    told = accept("--no-links", "--looks", "1", "--seed", "1", text=True, **jumps)
    assert "GOOD, blind below" in told
    found = accept("--no-links", "--looks", "1", "--seed", "1", "--find", "10%", code=1, **jumps)
    assert found["verdict"] == "unsure" and found["find"] == 0.1 and found["findable"] > 0.1
    assert accept("--no-links", "--find", "10%", "--seed", "1")["verdict"] == "good"
    assert "ask for more than it" in accept("--find", "3%", code=2)
    assert "such as 90s, 15m or 2h" in accept("--time", "soon", code=2)


def test_a_first_answer_comes_before_the_links(accept: Callable[..., Any], tmp_path: Path) -> None:
    told = accept("--seed", "1", "-o", str(tmp_path / "a.json"), text=True)
    assert "so far, after" in told and "goes on with the links (at most 1" in told
    assert told.index("so far") < told.index("collectives")


def test_a_run_ends_with_its_time_but_not_before_its_least_blocks(accept: Callable[..., Any], tmp_path: Path) -> None:
    """Three blocks of nodes and one pairing of links, however short the time; what is left out is told."""
    found = accept("--seed", "1", "--time", "0.01s")
    assert found["verdict"] == "good" and {one["blocks"] for one in found["nodes"]} == {3}
    assert len(found["links"]["bandwidth"]) == 2 and found["links"]["possible"] == 10
    assert any("8 of the 10 links" in say(one) for one in found["not_tested"])
    assert accept("--from", found["runs"][0]) == found
    assert accept("--resume", found["runs"][0])["nodes"] == found["nodes"]


def test_what_doctor_found_stands_in_the_verdict() -> None:
    """A fault makes a node suspect however fast it is; a node that differs gets a word."""
    nodes = ["n1", "n2", "n3"]
    findings = [
        Finding("n2", "Xid", False, reason("gpu-xid", xid=79, device="0000:3b:00", count=1)),
        *(Finding(node, "time", None, reason("clock-alone")) for node in nodes),
        Finding(
            "n3", "differs", None, reason("node-differs", what="MTU", value="1500", usual="9000", count=2, nodes=3)
        ),
    ]
    stages = [(acceptance.Stage("r", "nodes"), _seen(nodes, {}))]
    found = acceptance.build(_setting(nodes, findings=findings), acceptance.gather(stages))
    assert [one.word for one in found.nodes] == ["good", "suspect", "good"] and found.drain == []
    text = show(found, "text")
    assert "n1, n2, n3: time: no time service" in text, "what nodes have in common is told once"
    assert "Xid 79" in text and "n3: differs: MTU: 1500, where 2 of 3 nodes have 9000" in text


def test_links_are_measured_again_while_what_is_demanded_would_not_be_found() -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    dice = random.Random(3)
    pairs = [
        Measured((a, b), block, 1e9 * dice.lognormvariate(0, 0.1))
        for block in (1, 2, 3)
        for a, b in itertools.combinations(nodes, 2)
    ]
    shown = [(Step("nodes"), _seen(nodes, {})), (Step("links"), Seen(pairs, 100.0))]
    demanding = _setting(nodes, seconds=900.0, link_find=0.2)
    assert next_step(demanding, nodes, shown, links=True) == Step("links", {"seconds": 740.0})
    assert next_step(_setting(nodes, seconds=900.0), nodes, shown, links=True) is None
    assert next_step(_setting(nodes, seconds=200.0, link_find=0.2), nodes, shown, links=True) is None, "no time for it"
    twice = acceptance.gather(
        [(acceptance.Stage("l", "links"), Seen(pairs)), (acceptance.Stage("l", "links"), Seen(pairs))]
    )
    assert {one.round for one in twice.links or []} == set(range(1, 7)), "blocks are counted on"
    found = acceptance.build(demanding, gather(shown))
    assert found.verdict == "unsure" and found.links is not None and (found.links.findable or 0) > 0.2
    assert "links: a loss of 20 % was to be findable: it would not" in show(found, "text")


def test_a_contract_for_links_holds_for_the_default_case_of_links(accept: Callable[..., Any], tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    link = "collectives:pytorch:cpu:2:1:3: {throughput: {min: 1.0e+12}}"
    contract.write_text(f"{CASE}: {{throughput: {{min: 1}}}}\n{link}\n")
    found = accept("--contract", str(contract), "--seed", "1", hosts=HOSTS[:3], code=4)
    assert [one["kept"] for one in found["held"] if "–" in one["who"]] == [False] * 3
