"""Another account on the same machine: what it plants is not run, not believed and not written through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.harness import Node
from tests.conftest import Cli
from tests.interop import flagperf_logs as logs
from tests.runs import finished_run
from trainmark import environments
from trainmark.agent import private
from trainmark.agent.exporter.control import monitor
from trainmark.agent.linux import Proc
from trainmark.agent.mpi import node_setup
from trainmark.agent.node_plan import NodePlan
from trainmark.agent.other_attempts import OtherAttempts
from trainmark.cache import cache_dir
from trainmark.errors import UserError
from trainmark.interop.reading.importing import import_results
from trainmark.launch import node_zip
from trainmark.launch.local import check as local_check
from trainmark.report.make import parallel
from trainmark.store import provenance, rundir
from trainmark.store.rundir import RunDir
from trainmark.trust import keys

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another account, which only root can")


def by_nobody(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, cwd="/")


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that every account can reach, as /tmp is."""
    for path in (tmp_path, *tmp_path.parents):
        if str(path).startswith("/tmp/"):
            path.chmod(path.stat().st_mode | 0o011)
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_an_imported_run_is_closed_to_others_under_any_umask(tmp_path: Path) -> None:
    logs.put(tmp_path / "logs", "resnet50:pytorch_1.8:A100:1:8:2", logs.log(count=20))
    before = os.umask(0)
    try:
        found = import_results("flagperf", tmp_path / "logs", tmp_path / "runs", {})
    finally:
        os.umask(before)
    assert Path(found.dir).stat().st_mode & 0o777 == 0o700 and (tmp_path / "runs").stat().st_mode & 0o022 == 0
    (tmp_path / "everybody").mkdir(mode=0o777)
    (tmp_path / "everybody").chmod(0o777)
    with pytest.raises(UserError, match="everybody can write to it"):
        import_results("flagperf", tmp_path / "logs", tmp_path / "everybody", {})


@as_root
def test_a_run_is_closed_to_others_under_any_umask(open_folder: Path) -> None:
    before = os.umask(0)
    try:
        run = rundir.create(open_folder, "suite")
        rundir.write_node_plan(run.path / "case" / "round1" / "attempt1" / "here_noderank0", {"key": "secret"})
    finally:
        os.umask(before)
    assert by_nobody("ls", str(open_folder)).returncode == 0
    assert by_nobody("ls", str(run.path)).returncode != 0
    (plan,) = run.path.rglob("node.json")
    run.path.chmod(0o755)  # somebody opens it for colleagues to read
    assert by_nobody("ls", str(plan.parent)).returncode == 0 and by_nobody("cat", str(plan)).returncode != 0
    assert by_nobody("touch", str(plan.parent / "x")).returncode != 0


@as_root
def test_a_group_reads_what_is_shared_with_it_and_no_keys(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rundir.SHARE, "group")
    run = rundir.create(open_folder, "suite")
    assert run.path.stat().st_mode & 0o777 == 0o750
    monkeypatch.setenv(rundir.SHARE, "everybody")
    with pytest.raises(UserError, match="allowed is `group`"):
        rundir.create(open_folder, "suite")


@as_root
def test_runs_are_not_made_where_another_account_rules(open_folder: Path) -> None:
    theirs = open_folder / "runs"
    assert by_nobody("mkdir", str(theirs)).returncode == 0
    with pytest.raises(UserError, match="belongs to nobody"):
        rundir.create(theirs, "suite")
    anybodys = open_folder / "free"
    anybodys.mkdir()
    anybodys.chmod(0o777)
    with pytest.raises(UserError, match="everybody can write"):
        rundir.create(anybodys, "suite")


@as_root
def test_a_planted_run_is_neither_resumed_nor_stopped(cli: Cli, open_folder: Path) -> None:
    own = finished_run(cli.runs, "20200101-000000-own-aaaa", {"thing:none:cpu:1:1:1": [10.0]})
    planted = finished_run(cli.runs, "20990101-000000-planted-bbbb", {"thing:none:cpu:1:1:1": [10.0]})
    for path in (planted, *planted.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    alike = planted.rename(planted.with_name("20990101-000000-own-bbbb"))
    for name in ([], ["last"], ["own"]):
        assert f"run {own.name} has nothing left to do" in cli("resume", *name, code=None).stdout
    planted = alike.rename(planted)
    for verb in ("resume", "stop"):
        refused = cli(verb, planted.name, code=2)
        assert "belongs to nobody" in refused.stderr and "Traceback" not in refused.stderr
    assert not (planted / "stop.json").exists() and not (planted / "lease.lock").exists()
    assert cli("report", planted.name).stdout, "looking at it is harmless"
    own.chmod(0o777)
    assert "others can write to it" in cli("resume", own.name, code=2).stderr


@as_root
@pytest.mark.parametrize("verb", [("diagnose",), ("compare", "--live", "--no-check")])
def test_a_planted_run_is_not_run_again(cli: Cli, open_folder: Path, verb: tuple[str, ...]) -> None:
    """Whatever makes a new run of an old one runs the commands that stand in it."""
    ran = open_folder / "ran"
    said = r"step (?P<step>\d+) took (?P<seconds>[\d.]+) s"
    program = f"open({str(ran)!r}, 'a').write('x'); [print('step', n, 'took 0.1 s') for n in range(1, 61)]"
    cli("exec", "--name", "own", "--pattern", said, "--batch", "8", "--", sys.executable, "-c", program, code=None)
    planted = cli.runs / cli.run_id()
    for path in (planted, *planted.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    ran.unlink()
    names = [planted.name] if verb == ("diagnose",) else [planted.name, planted.name]
    refused = cli(*verb, *names, code=2)
    assert "belongs to nobody" in refused.stderr and "Traceback" not in refused.stderr
    assert not ran.exists() and rundir.run_ids(cli.runs) == [planted.name]
    assert "no runs here" in cli(*verb, *("last" for _ in names), code=2).stderr


@as_root
def test_an_owner_that_was_named_is_trusted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS servers may change root's files into nobody's."""
    run = finished_run(cli.runs, "20200101-000000-nfs-aaaa", {"thing:none:cpu:1:1:1": [10.0]})
    for path in (run, *run.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    monkeypatch.setenv("TRAINMARK_TRUSTED_OWNERS", "nobody")
    rundir.check_own(run)


def mpi_node(root: Path, temporary: Path) -> Node:
    node = Node(root)
    node.plan.update(spool=str(temporary), key="ef56" * 8, open=True, probe=False)
    return node


def test_nothing_is_read_from_a_spool_that_was_there_before(tmp_path: Path, open_folder: Path) -> None:
    node = mpi_node(tmp_path, open_folder)
    spool = Path(NodePlan(node.plan).spool)
    assert node.token not in str(spool) and node.plan["key"] not in str(spool)
    spool.mkdir()
    (spool / "rank.json").write_text(
        json.dumps({"program": ["touch", str(tmp_path / "run")], "config": "", "path": ""})
    )
    result = node.ranks(["true"]).run()
    assert result["state"] == "FAILED" and "something is already at" in result["reason"]
    assert (spool / "rank.json").exists() and not (tmp_path / "run").exists()


@as_root
def test_a_rank_does_not_become_what_another_account_wrote(tmp_path: Path, open_folder: Path) -> None:
    spool = open_folder / "trainmark-spool"
    spool.mkdir()
    done = tmp_path / "done"
    here = {"program": ["touch", str(done)], "config": str(tmp_path / "config.json"), "path": None}
    (spool / node_setup.RANK_FILE).write_text(json.dumps(here))
    env = {**os.environ, "TRAINMARK_SPOOLS": str(spool), "RANK": "0", "OMPI_COMM_WORLD_RANK": "0"}
    agent = [sys.executable, "-I", "-S", str(Path(node_zip._PACKAGE) / "agent" / "__main__.py"), "mpi-rank"]
    os.chown(spool, NOBODY, NOBODY)
    assert subprocess.run(agent, env=env, capture_output=True).returncode == 255 and not done.exists()
    os.chown(spool, 0, 0)
    assert subprocess.run(agent, env=env, capture_output=True).returncode == 0 and done.exists()


@as_root
def test_another_account_on_a_held_port_ends_the_round(tmp_path: Path) -> None:
    """Reuse lets anybody listen on a port that is only held."""
    listen = (
        "import socket, sys, time; s = socket.socket(socket.AF_INET6); "
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('::', int(sys.argv[1]))); s.listen(); "
        "time.sleep(60)"
    )
    node = Node(tmp_path)
    node.plan.update(ports=[0])
    text = f"""
    import subprocess, sys
    begin()
    subprocess.Popen(["/usr/bin/python3", "-c", {listen!r}, os.environ["PORT"]], user={NOBODY})
    for at in range(100):
        step(at + 1)
        time.sleep(0.1)
    """
    node.ranks(node.script(text))
    node.plan["ranks"][0]["env"] = {"PORT": "%PORT0%"}
    result = node.run()
    assert result["state"] == "FAILED" and f"another account (uid {NOBODY}) listens" in result["reason"]


@as_root
def test_other_attempts_are_not_looked_for_in_a_planted_folder(tmp_path: Path, open_folder: Path) -> None:
    folder, victim = open_folder / "active", tmp_path / "victim"
    victim.write_text("mine\n")
    assert by_nobody("mkdir", str(folder)).returncode == 0
    assert by_nobody("ln", "-s", str(victim), str(folder / "here.0000")).returncode == 0
    attempts = OtherAttempts(str(folder), "here", "ab" * 8)
    attempts.enter()
    assert attempts.leave() == [] and victim.read_text() == "mine\n" and os.listdir(folder) == ["here.0000"]


@as_root
def test_a_planted_record_of_a_monitor_ends_no_process(open_folder: Path) -> None:
    """As in a work folder that the group could once write to."""
    with subprocess.Popen(["sleep", "60"]) as victim:
        record = {"pid": victim.pid, "ticks": Proc().start_ticks(victim.pid), "port": 1, "address": "127.0.0.1"}
        (open_folder / "monitor.json").write_text(json.dumps(record))
        os.chown(open_folder / "monitor.json", NOBODY, NOBODY)
        assert monitor({"action": "stop"}, str(open_folder), []) == {"stopped": False} and victim.poll() is None
        os.chown(open_folder / "monitor.json", 0, 0)
        for damaged in ({**record, "pid": -1}, {**record, "port": None}, {**record, "ticks": "x"}, [record], None):
            (open_folder / "monitor.json").write_text(json.dumps(damaged))
            assert monitor({"action": "status"}, str(open_folder), []) == {"running": False}
        (open_folder / "monitor.json").write_text(json.dumps(record))
        assert monitor({"action": "stop"}, str(open_folder), []) == {"stopped": True}
        assert Proc().start_ticks(victim.pid) is None


def test_folders_that_are_made_above_a_private_one_are_closed_to_others_under_any_umask(tmp_path: Path) -> None:
    """Who can write to one of them can put another folder in place of the private one."""
    before = os.umask(0)
    try:
        private.keep_folder(str(tmp_path / "one" / "two" / "three" / "own"))
        monitor({"action": "status"}, str(tmp_path / "cache" / "monitor"), [])
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(made) == 6 and all(not path.stat().st_mode & 0o022 for path in made)
    assert {path.name for path in made if path.stat().st_mode & 0o777 == 0o700} == {"own", "monitor"}


def test_keys_that_others_could_have_planted_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / "config"))
    before = os.umask(0)
    try:
        keys.trust("them", f"trainmark-ed25519 {'ab' * 32} them")
    finally:
        os.umask(before)
    assert all(not path.stat().st_mode & 0o022 for path in tmp_path.rglob("*") if path.is_dir())
    assert [one.name for one in keys.listed()] == ["them"]
    (keys.home() / "trusted").chmod(0o777)
    with pytest.raises(UserError, match=r"keys in .*trusted are not used: others can write to it"):
        keys.listed()


def test_a_cache_that_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMARK_CACHE", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        file = node_zip.write(cache_dir("node"))
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o022 for path in (file.parent, file.parent.parent)} == {0}
    whole = file.read_bytes()
    file.write_bytes(b"import os; os.system('true')".ljust(len(whole)))
    assert node_zip.write(cache_dir("node")).read_bytes() == whole, "a name is not believed"
    for folder in (file.parent, file.parent.parent):
        folder.chmod(0o777)
        with pytest.raises(UserError, match=r"others can write to it.*chmod go-w"):
            cache_dir("node")
        folder.chmod(0o755)


@as_root
def test_a_cache_in_a_sticky_folder_is_used_room_by_room(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image whose users have any number."""
    monkeypatch.setenv("TRAINMARK_CACHE", str(open_folder))
    assert node_zip.write(cache_dir("node")).exists()
    assert by_nobody("mkdir", str(open_folder / "environments")).returncode == 0
    with pytest.raises(UserError, match="belongs to nobody"):
        cache_dir("environments")
    monkeypatch.setenv("TRAINMARK_TRUSTED_OWNERS", "any")
    assert cache_dir("environments")


@as_root
def test_no_run_begins_with_weights_of_another_account(
    cli: Cli, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_CACHE", str(open_folder))
    assert by_nobody("mkdir", str(open_folder / "weights")).returncode == 0
    assert "belongs to nobody" in cli("run", "noop:none:cpu:1:1:1", "--no-check", code=2).stderr
    assert not cli.runs.exists()


@as_root
def test_an_environment_of_another_account_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    home = environments.home("jax")
    (home / "bin").mkdir(parents=True)
    (home / "trainmark.json").write_text("{}")
    assert environments.python_of("jax")
    os.chown(home / "bin", NOBODY, NOBODY)
    with pytest.raises(UserError, match="belongs to nobody"):
        environments.python_of("jax")


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    names = ("torch", "contextlib", "json", "msgspec", "numpy", "venv", "importlib", "trainmark", "array", "hashlib")
    for name in names:
        (planted / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'w').write({name!r})\nraise SystemExit(9)\n"
        )
    monkeypatch.chdir(planted)
    assert environments.has("/usr/bin/python3", "email") and not environments.has("/usr/bin/python3", "venv_of_nobody")
    assert [one.what for one in local_check._python(sys.executable, "here")][:1] == ["python"]
    parallel._elsewhere(RunDir(tmp_path / "no-run"), 0, 1)
    environments._run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "made")], lambda _: None)
    assert not (tmp_path / "ran").exists()


def test_a_repository_starts_no_program_of_its_own(tmp_path: Path) -> None:
    repo, ran = tmp_path / "repo", tmp_path / "ran"

    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(repo), *identity, *words], check=True, capture_output=True)

    repo.mkdir()
    git("init", "-q")
    (repo / ".gitattributes").write_text("*.txt filter=evil\n")
    (repo / "a.txt").write_text("one\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\ncat\n')
    program.chmod(0o755)
    hook = repo / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(program.read_text())
    hook.chmod(0o755)
    for name in ("core.fsmonitor", "filter.evil.clean", "core.sshCommand", "core.pager", "diff.external"):
        git("config", name, str(program))
    (repo / "a.txt").write_text("two\n")
    ran.unlink(missing_ok=True)
    state = provenance.git_state(repo)
    assert state is not None and state["dirty"] and state["commit"]
    assert not ran.exists(), ran.read_text()
    subprocess.run(["git", "-C", str(repo), "status"], capture_output=True)
    assert ran.exists(), "plain git runs it, so the test can fail"
