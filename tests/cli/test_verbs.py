"""The program as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TRAINMARK, Cli
from tests.faults.conftest import wait_for
from trainmark.cli.main import VERBS

Make = Callable[..., Path]


def test_help_lists_every_verb(cli: Cli) -> None:
    text = cli("--help").stdout
    assert all(f"  {verb} " in text for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(cli: Cli, verb: str) -> None:
    assert "--log-level" in cli(verb, "--help").stdout


def test_unknown_words(cli: Cli) -> None:
    assert "did you mean `run`" in cli("rnu", code=2).stderr
    cli(code=2)
    assert "unrecognized" in cli("run", "noop", "--sites", "x", code=2).stderr
    assert not cli.runs.exists()


@pytest.mark.parametrize("argv", [("--help",), ("run", "--help"), ("list", "suites"), ("plan", "quick")])
def test_a_full_disk_is_said_in_one_line(cli: Cli, argv: tuple[str, ...]) -> None:
    for unbuffered in ("", "1"):
        env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([*TRAINMARK, *argv], stdout=full, stderr=subprocess.PIPE, text=True, env=env)
        assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
        assert done.stderr.count("\n") <= 1 and done.returncode in (0, 3)


def test_help_needs_no_heavy_imports() -> None:
    code = "import sys; from trainmark.cli.main import main; main(['--help']); print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("msgspec", "yaml", "numpy", "torch", "rich", "sqlite3"):
        assert f"'{heavy}'" not in loaded


def test_a_plain_run_needs_no_heavy_imports(cli: Cli) -> None:
    code = "import sys; from trainmark.cli.main import main; main(['run', 'noop']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=cli.folder)
    for heavy in ("numpy", "scipy", "torch", "rich", "sqlite3", "asyncio"):
        assert f"'{heavy}'" not in done.stdout, heavy


def test_run_prints_the_promised_json(cli: Cli) -> None:
    report = cli.json("run", "noop")
    assert report["state"] == "SUCCEEDED" and report["run"] == cli.run_id()
    (case,) = report["cases"]
    assert (case["case"], case["state"]) == ("noop:none:cpu:1:1:1@preset=smoke", "SUCCEEDED")
    assert {"value", "unit", "n", "ci_low", "ci_high"} <= set(case["measurements"]["throughput"])


def test_bad_input_starts_nothing(cli: Cli, make_workload: Make, make_suite: Make) -> None:
    make_workload()
    file = make_suite("  - thing:none:cpu:1:1:1\n  - thing:none:cpu:1:zwei:1")
    for verb in ("run", "plan"):
        found = cli(verb, str(file), code=2)
        assert found.stderr.count("\n") == 1 and "cases[1]" in found.stderr and "nproc" in found.stderr
    assert not cli.runs.exists()


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["run", "quik"], "did you mean `quick`"),
        (["run", "noop", "--set", "x"], "expected KEY=VALUE"),
        (["run", "noop", "--set", "stepps=3"], "did you mean `steps`"),
        (["run", "noop", "--site", "none.yaml"], "none.yaml: no such file"),
        (["run", "noop", "--preset", "full"], "--preset is for a case given by id"),
        (["run", "noop:none:cpu:1:1:1", "--preset", "hugee"], "no preset `hugee`"),
        (["run", "noop:none:cpu:2:1:1"], "needs 2 nodes; site `local` has 1"),
        (["run", "noop:none:A100:1:1:1"], "device `A100` is not known"),
        (["report", "nosuch"], "no run"),
        (["resume"], "no runs here"),
        (["logs", "--rank", "x"], "expected a number or `all`"),
        (["data", "get", "fashion-mnst"], "did you mean `fashion-mnist`"),
        (["explain", "mnist"], "1 fields, not 6"),
    ],
)
def test_bad_words_are_answered_in_one_line(cli: Cli, argv: list[str], complaint: str) -> None:
    found = cli(*argv, code=2)
    assert complaint in found.stderr and found.stderr.count("\n") == 1, found.stderr


def test_bytes_that_are_no_text_start_nothing(cli: Cli) -> None:
    odd = "\udcff"  # how Python shows the byte 0xff
    for argv in (["exec", "--", "echo", odd], ["run", "noop", "--set", f"data=/{odd}"], ["run", f"{odd}.yaml"]):
        found = cli(*argv, code=2)
        assert "is not written in UTF-8" in found.stderr and found.stderr.count("\n") == 1, found.stderr
    assert not cli.runs.exists()


def test_a_circle_of_links_is_no_folder(cli: Cli) -> None:
    (cli.folder / "circle").symlink_to("circle")
    for argv in (["run", "noop", "--runs", "circle"], ["exec", "--cwd", "circle", "--", "true"]):
        found = cli(*argv, code=2)
        assert "circle" in found.stderr and found.stderr.count("\n") == 1, found.stderr


def test_a_damaged_result_is_reported_without_what_it_lost(cli: Cli) -> None:
    cli("run", "noop")
    (file,) = cli.runs.glob("*/*/round1/attempt1/*/result.json")
    file.write_text(json.dumps(dict(json.loads(file.read_text()), warnings=3, disturbed=3, events="x")))
    assert json.loads(cli("report", "--format", "json").stdout)["state"] == "SUCCEEDED"


def test_plan_shows_all_and_runs_nothing(cli: Cli) -> None:
    text = cli("plan", "smoke", "--seed", "3").stdout
    assert "seed 3" in text and "MASTER_PORT" in text and "rank 1:" in text and "block 1" in text
    plan = json.loads(cli("plan", "smoke", "--seed", "3", "--json").stdout)
    assert plan["seed"] == 3 and plan["cases"][0]["nodes"][0]["ranks"][0]["argv"]
    assert plan == json.loads(cli("plan", "smoke", "--seed", "3", "--json").stdout)
    assert not cli.runs.exists()


def test_explain_tells_where_values_come_from(cli: Cli) -> None:
    text = cli("explain", "resnet50:pytorch:cpu:1:1:1@batch=3", "--set", "steps=7").stdout
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "case" in lines["batch"] and "--set" in lines["steps"] and "fingerprint" in lines
    found = json.loads(cli("explain", "resnet50:pytorch:cpu:1:1:1", "--preset", "full", "--json").stdout)
    assert found["parameters"]["image_size"]["value"] == 224


def test_a_finished_run_can_be_looked_at(cli: Cli) -> None:
    cli("run", "noop:none:cpu:1:2:2@steps=4", "--preset", "smoke")
    run = cli.run_id()
    assert run in cli("list").stdout and "1/1" in cli("list").stdout
    assert json.loads(cli("list", "--json").stdout)[0]["state"] == "SUCCEEDED"
    assert cli("status").stdout.count("SUCCEEDED") == 3
    assert "2/2" in cli("report", run[-4:]).stdout
    assert "started" in cli("logs", "--what", "run").stdout
    cli("report", "-o", "out.json", "--format", "json")
    report = json.loads((cli.folder / "out.json").read_text())
    assert report["cases"][0]["measurements"]["steps"]["value"] == 8
    assert "nothing left to do" in cli("resume").stdout
    assert "nothing runs" in cli("top").stdout


def test_index_is_only_a_cache(cli: Cli) -> None:
    cli("run", "noop")
    first = cli("list").stdout
    assert "1 run(s)" in cli("index", "--rebuild").stdout
    index = Path(cli("index").stdout.split()[-1])
    index.write_bytes(b"not a database at all" * 100)
    assert cli("list").stdout == first


def test_logs_of_ranks(cli: Cli, make_workload: Make, make_suite: Make) -> None:
    make_workload("import os; print('hello from', os.environ['RANK'])", probe=False)
    cli("run", str(make_suite("  - thing:none:cpu:1:2:1")))
    assert cli("logs").stdout == "hello from 0\n"
    assert cli("logs", "--rank", "1").stdout == "hello from 1\n"
    assert cli("logs", "--rank", "all").stdout == "rank0: hello from 0\nrank1: hello from 1\n"


def test_init_runs_as_it_is(cli: Cli) -> None:
    cli("init", "mine")
    assert "resnet50:pytorch:cpu:1:1:1@batch=2" in cli("plan", "mine/suite.yaml", "--site", "mine/site.yaml").stdout
    suite = (cli.folder / "mine/suite.yaml").read_text()
    (cli.folder / "mine/short.yaml").write_text(suite.replace("  - resnet50", "  # - resnet50"))
    assert cli.json("run", "mine/short.yaml", "--site", "mine/site.yaml")["state"] == "SUCCEEDED"
    assert "already there" in cli("init", "mine", code=2).stderr


def test_doctor_looks_at_this_machine(cli: Cli) -> None:
    text = cli("doctor").stdout
    assert "node side" in text and "pytorch" in text
    (cli.folder / "site.yaml").write_text("schema: 1\npython: /no/such/python\n")
    assert "no such program" in cli("doctor", "--site", "site.yaml", code=3).stdout


def test_a_run_is_told_of_as_it_is_kept(cli: Cli) -> None:
    """What is printed at the end of a run is what anybody reads in its folder later."""
    said = cli.json("run", "noop:none:cpu:1:2:1", "--set", "seconds=0.2", "--set", "steps=4")
    assert said == json.loads(cli("report", "--format", "json").stdout)


def test_manifest_says_where_the_result_comes_from(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "very-secret-value")
    cli("run", "noop")
    run = cli.runs / cli.run_id()
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["plan"]["cases"][0]["case"] == "noop:none:cpu:1:1:1@preset=smoke"
    assert {"git", "python", "packages", "environment"} <= set(manifest["provenance"])
    assert manifest["provenance"]["facts"]["kernel"] and "governor" in manifest["provenance"]["facts"]["cpu"]
    facts = json.loads(next(run.glob("*/round1/attempt1/*/facts.json")).read_text())
    assert facts["kernel"]
    for file in run.rglob("*"):
        if file.is_file():
            assert b"very-secret-value" not in file.read_bytes(), file


def test_everything_in_the_example_suite_can_be_switched_on(cli: Cli) -> None:
    cli("init", "mine")
    suite = cli.folder / "mine" / "suite.yaml"
    lines = suite.read_text().splitlines()
    on = [line.replace("# ", "", 1) if line.startswith(("  # - ", "  #   ")) else line for line in lines]
    suite.write_text("\n".join(on) + "\n")
    text = cli("plan", str(suite)).stdout
    assert text.count("fingerprint") == 9, text


def test_lost_output_does_not_lose_the_run(cli: Cli) -> None:
    for redirect in ("| head -1", "| true", ">&-", "2>&-", ">/dev/full"):
        command = f"{sys.executable} -m trainmark run noop {redirect}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], cwd=cli.folder, capture_output=True, text=True)
        assert done.returncode == 0, (redirect, done.stderr)
        assert "Traceback" not in done.stderr
    runs = json.loads(cli("list", "--json", "--runs", "runs").stdout)
    assert [run["state"] for run in runs] == ["SUCCEEDED"] * 5


def test_odd_neighbours_hide_nothing(cli: Cli) -> None:
    cli("run", "noop")
    (cli.runs / "loop").symlink_to("loop")
    broken = cli.runs / "20200101-000000-broken-0000"
    broken.mkdir()
    (broken / "manifest.json").write_text("{}")
    strange = cli.runs / "20200101-000000-strange-0000"
    strange.mkdir()
    (strange / "manifest.json").write_text((cli.runs / cli.run_id() / "manifest.json").read_text())
    (strange / "journal.jsonl").mkdir()
    rows = json.loads(cli("list", "--json").stdout)
    assert sorted(row["state"] for row in rows) == ["INVALID", "INVALID", "SUCCEEDED"]
    assert "nothing runs" in cli("top").stdout


def test_list_follows_what_happens_to_a_run(cli: Cli) -> None:
    run = cli.json("run", "noop:none:cpu:1:1:1@seconds=60", "--preset", "smoke", "--detach")["run"]
    assert run in cli("list").stdout and "RUNNING" in cli("list").stdout
    begun = "*/round1/attempt{}/*/agent.json"
    # A run that is stopped before its first attempt has none, and `resume` makes the first.
    wait_for(lambda: list((cli.runs / run).glob(begun.format(1))))
    cli("stop", run)
    assert "CANCELLED" in cli("list").stdout
    owner = cli.start("resume", run)
    wait_for(lambda: list((cli.runs / run).glob(begun.format(2))), process=owner)
    assert "RUNNING" in cli("list").stdout
    owner.kill()
    owner.communicate()
    assert "LOST" in cli("list").stdout
    assert json.loads(cli("report", run, "--format", "json").stdout)["state"] == "LOST"
    assert "CANCELLED" in cli("stop", "--now", run).stdout


def test_a_lost_lease_does_not_lose_what_comes_after(cli: Cli) -> None:
    cli("run", "noop:none:cpu:1:1:2@seconds=0.2", "--preset", "smoke")
    for _ in range(3):
        cli("resume")
    (cli.runs / cli.run_id() / "lease.json").unlink()
    cli("resume")
    assert json.loads((cli.runs / cli.run_id() / "lease.json").read_text())["epoch"] == 5
    assert cli("resume", "--detach").returncode == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("schema: 1\nenv: {API_TOKEN: abc}\n", "env.API_TOKEN looks like a secret"),
        ("schema: 1\nhosts: ['../../esc']\n", "hosts[0]"),
        ("schema: 1\nlauncher: rocket\n", "no launcher `rocket`"),
        ("schema: 1\nmaster_port: 99999\n", "master_port"),
        ("schema: 1\nhost: [a]\n", "did you mean `hosts`"),
        ("schema: 1\nlog_level: loud\n", "log_level: found 'loud', allowed: `debug`, `info`, `warning`, `error`"),
    ],
)
def test_bad_sites(cli: Cli, text: str, complaint: str) -> None:
    (cli.folder / "site.yaml").write_text(text)
    found = cli("run", "noop", "--site", "site.yaml", code=2)
    assert complaint in found.stderr and not cli.runs.exists(), found.stderr


def test_numbers_nobody_can_mean(cli: Cli) -> None:
    for case in ("noop:none:cpu:1:1:99999999", "noop:none:cpu:1:99999999:1", "noop:none:cpu:1:1:999999999999"):
        assert "allowed" in cli("plan", case, code=2).stderr
    assert "allowed is a number of seconds" in _bad_deadlines(cli)


def _bad_deadlines(cli: Cli) -> str:
    folder = cli.folder / "w" / "odd"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text("")
    (folder / "workload.yaml").write_text(
        "schema: 1\nname: odd\ntitle: t\nunit: u\nentry: {none: main.py}\npresets: {smoke: {}}\n"
        "deadlines: {total: .nan}\n"
    )
    suite = cli.folder / "s.yaml"
    suite.write_text("schema: 1\nname: s\npreset: smoke\nworkloads: [w]\ncases: ['odd:none:cpu:1:1:1']\n")
    return cli("plan", str(suite), code=2).stderr
