"""Hosts fail while they train: right state and reason, the rest goes on, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import site
from lab.engines import IMAGE, start_docker, stop_docker
from lab.lab import Lab
from tests.conftest import Cli
from tests.faults.conftest import wait_for
from tests.lab.conftest import attempt_dirs, cases, left, only_case, refused_key, soon_clean, wrong_host_key
from trainmark.i18n.speaker import say

SLOW = {"STEPS": "60", "STEP_SECONDS": "0.2"}
ENDLESS = {"STEPS": "2000", "STEP_SECONDS": "0.2"}


def steps(cli: Cli, host: str) -> int:
    """Steps of a host whose events have arrived here."""
    files = cli.runs.glob(f"*/*/round*/attempt*/{host}_noderank*/events.jsonl")
    return sum(file.read_bytes().count(b"STEP_END") for file in files)


@pytest.fixture
def running(cli: Cli, pair: Path, site_file: Callable[..., Path]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a run on both hosts and returns once steps of both have arrived here."""
    started = []

    def start(env: dict[str, str], suite: Path = pair, **more: Any) -> subprocess.Popen[str]:
        process = cli.start("run", str(suite), "--site", str(site_file(env=env, **more)))
        started.append(process)
        wait_for(lambda: steps(cli, "node1") and steps(cli, "node2"), process=process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], seconds: float = 240) -> int:
    out, err = process.communicate(timeout=seconds)
    assert process.returncode is not None, out + err
    return process.returncode


def agent_pids(lab: Lab, host: str) -> list[str]:
    return lab.on(host, "pgrep", "-f", "trainmark-node.*node.json", check=False).stdout.split()


def test_cable_out_for_a_while_costs_nothing(cli: Cli, hosts: Lab, running: Callable[..., Any]) -> None:
    """The agent goes on alone; the connection comes back and everything it missed is fetched."""
    process = running(SLOW, ssh={"config": str(hosts.layout.ssh_config), "lost_seconds": 60})
    hosts.unplug("node2")
    seen = steps(cli, "node2")
    wait_for(lambda: steps(cli, "node1") >= 58, process=process)
    hosts.plug("node2")
    assert ended(process) == 0 and only_case(cli)["state"] == "SUCCEEDED"
    assert steps(cli, "node1") == steps(cli, "node2") == 60 > seen
    soon_clean(hosts)


@pytest.mark.lab
def test_power_off_in_mid_round(cli: Cli, hosts: Lab, running: Callable[..., Any], make_suite: Any) -> None:
    """The host is named, the other one is stopped, and a case that does not need it is still done."""
    suite = make_suite("  - thing:none:cpu:2:1:1\n  - thing:none:cpu:1:1:1", name="two", extra="retries: 0\nseed: 1")
    process = running(SLOW, suite, ssh={"config": str(hosts.layout.ssh_config), "lost_seconds": 3})
    hosts.poweroff("node2")
    assert ended(process) == 1
    found = cases(cli)
    lost = found["thing:none:cpu:2:1:1"]
    assert lost["state"] == "LOST" and "node2: no contact for" in say(lost["reason"])
    assert found["thing:none:cpu:1:1:1"]["state"] == "SUCCEEDED"
    assert agent_pids(hosts, "node1") == []
    assert steps(cli, "node2") > 0, "what had arrived is kept"


@pytest.mark.lab
@pytest.mark.parametrize("clears", ["stop", "run"])
def test_a_host_that_comes_back_keeps_nothing(
    cli: Cli, hosts: Lab, running: Callable[..., Any], pair: Path, site_file: Callable[..., Path], clears: str
) -> None:
    """What a power cut left on a host is cleared by `stop`, or by the next run there."""
    here = {"config": str(hosts.layout.ssh_config), "lost_seconds": 3}
    process = running(SLOW, ssh=here)
    hosts.poweroff("node2")
    assert ended(process) == 1 and only_case(cli)["state"] == "LOST"
    lost = cli.run_id()
    assert "node2 keeps" in cli("stop", lost).stderr, "it cannot be reached yet"
    hosts.boot("node2")
    assert left(hosts).keys() == {"node2"}
    if clears == "stop":
        cli("stop", lost)
    else:
        cli("run", str(pair), "--site", str(site_file(ssh=here)))
    soon_clean(hosts)
    assert cli("stop", lost).stderr == ""


def test_agent_killed(cli: Cli, hosts: Lab, running: Callable[..., Any]) -> None:
    process = running(ENDLESS)
    hosts.on("node2", "kill", "-KILL", *agent_pids(hosts, "node2")[:1])
    assert ended(process) == 1
    case = only_case(cli)
    assert case["state"] == "LOST" and say(case["reason"]).startswith("node2: the agent was gone without a result")
    soon_clean(hosts)


def test_controller_killed_then_resumed(cli: Cli, hosts: Lab, running: Callable[..., Any]) -> None:
    """The agents go on; the new controller finds them, and each step is there once."""
    process = running(SLOW)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert agent_pids(hosts, "node1") and agent_pids(hosts, "node2")
    cli("resume", cli.run_id())
    assert len(attempt_dirs(cli)) == 1 and only_case(cli)["state"] == "SUCCEEDED"
    for host in hosts.nodes:
        (file,) = attempt_dirs(cli)[0].glob(f"{host}_*/events.jsonl")
        sequence = [json.loads(line)["seq"] for line in file.read_text().splitlines()]
        assert sequence == list(range(len(sequence))) and steps(cli, host) == 60
    soon_clean(hosts)


def test_stop_ends_all_hosts(cli: Cli, hosts: Lab, running: Callable[..., Any]) -> None:
    process = running(ENDLESS, container=site.container("docker"))
    assert all(hosts.on(host, "docker", "ps", "-q").stdout for host in hosts.nodes)
    cli("stop", cli.run_id())
    assert ended(process) == 130 and only_case(cli)["state"] == "CANCELLED"
    soon_clean(hosts)


def test_unreachable_at_start(cli: Cli, hosts: Lab, pair: Path, site_file: Callable[..., Path]) -> None:
    hosts.unplug("node2")
    where = site_file(ssh={"config": str(hosts.layout.ssh_config), "connect_seconds": 2})
    cli("run", str(pair), "--site", str(where), "--no-check", code=1)
    case = only_case(cli)
    assert case["state"] == "FAILED" and "node2 cannot be reached: it does not answer" in say(case["reason"])
    assert left(hosts).keys() <= {"node2"}


@pytest.mark.lab
def test_cable_out_for_good(cli: Cli, hosts: Lab, running: Callable[..., Any]) -> None:
    """The host is given up, and its agent is ended as soon as the host is needed and reached again."""
    process = running(ENDLESS, ssh={"config": str(hosts.layout.ssh_config), "lost_seconds": 4})
    hosts.unplug("node2")
    assert ended(process) == 1
    case = only_case(cli)
    assert case["state"] == "LOST" and "node2: no contact" in say(case["reason"])
    hosts.plug("node2")
    assert agent_pids(hosts, "node2"), "it goes on until its own deadline"
    resumed = cli.start("resume", cli.run_id())
    try:
        wait_for(lambda: len(attempt_dirs(cli)) == 2 and agent_pids(hosts, "node2"), process=resumed)
        wait_for(lambda: list((cli.runs / cli.run_id()).glob("*/*/attempt2/node2*/events.jsonl")), process=resumed)
        first = json.loads(next(attempt_dirs(cli)[0].glob("node2*/node.json")).read_text())["token"]
        living = hosts.on("node2", "sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'").stdout
        assert f"TRAINMARK_TOKEN={first}" not in living
        cli("stop", cli.run_id(), "--now")
    finally:
        ended(resumed)
    soon_clean(hosts)


@pytest.mark.lab
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_agent_in_a_container_killed(cli: Cli, hosts: Lab, running: Callable[..., Any], engine: str) -> None:
    process = running(ENDLESS, container=site.container(engine))
    name = hosts.on("node2", engine, "ps", "-q", "--filter", "label=trainmark.run").stdout.strip()
    hosts.on("node2", engine, "kill", "--signal", "KILL", name)
    assert ended(process) == 1 and only_case(cli)["state"] in ("LOST", "FAILED")
    assert say(only_case(cli)["reason"]).startswith("node2: ")
    soon_clean(hosts)


@pytest.mark.lab
def test_agent_and_guardian_killed(cli: Cli, hosts: Lab, running: Callable[..., Any]) -> None:
    """Without a pid namespace nothing ends by itself: the relay sweeps."""
    process = running(ENDLESS, containment="subreaper")
    pids = agent_pids(hosts, "node2")
    assert len(pids) == 2
    hosts.on("node2", "kill", "-KILL", *pids)
    assert ended(process) == 1 and only_case(cli)["state"] == "LOST"
    soon_clean(hosts)


@pytest.mark.lab
def test_controller_and_a_relay_killed_in_docker(cli: Cli, hosts: Lab, running: Callable[..., Any]) -> None:
    """Whoever is killed: containers end with their agents, and results are found by `resume`."""
    process = running(SLOW, container=site.container("docker"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    hosts.on("node2", "pkill", "-KILL", "-f", "pyz relay", check=False)
    cli("resume", cli.run_id())
    assert only_case(cli)["state"] == "SUCCEEDED" and steps(cli, "node2") == 60
    soon_clean(hosts)


@pytest.mark.lab
def test_image_missing_at_start(cli: Cli, hosts: Lab, pair: Path, site_file: Any) -> None:
    container = {**site.container("docker"), "image": "no/such:image"}
    cli("run", str(pair), "--site", str(site_file(container=container)), "--no-check", code=1)
    assert "node1 could not start the agent: image no/such:image is not here" in say(only_case(cli)["reason"])
    hosts.on("node2", "docker", "rmi", IMAGE)
    try:
        where = site_file(container=site.container("docker"))
        cli("run", str(pair), "--site", str(where), "--no-check", code=1)
        assert f"node2 could not start the agent: image {IMAGE} is not here" in say(only_case(cli)["reason"])
        soon_clean(hosts)
    finally:
        hosts.on("node2", "docker", "load", "--input", str(hosts.layout.base / "image-docker.tar"))


@pytest.mark.lab
def test_keys_that_do_not_fit(cli: Cli, hosts: Lab, pair: Path, site_file: Any, tmp_path: Path) -> None:
    """Unchecked, the run itself finds out; the host is named, and nothing is left on the other."""
    for config, said in (
        (wrong_host_key(hosts, tmp_path), "node1 cannot be reached: its host key is not the one that is known"),
        (refused_key(hosts, tmp_path), "node1 cannot be reached: the host refuses the key or the user"),
    ):
        cli("run", str(pair), "--site", str(site_file(ssh={"config": str(config)})), "--no-check", code=1)
        case = only_case(cli)
        assert case["state"] == "FAILED" and said in say(case["reason"])
        assert left(hosts) == {}


@pytest.mark.lab
def test_engine_down(cli: Cli, hosts: Lab, pair: Path, site_file: Any) -> None:
    where = site_file(container=site.container("docker"))
    stop_docker(hosts, "node2")
    try:
        cli("run", str(pair), "--site", str(where), "--no-check", code=1)
        case = only_case(cli)
        assert case["state"] == "FAILED" and "node2 could not start the agent: the container engine docker does" in say(
            case["reason"]
        )
    finally:
        start_docker(hosts, "node2")
    soon_clean(hosts)


@pytest.mark.lab
def test_disk_full_on_one_host(cli: Cli, hosts: Lab, make_workload: Any, make_suite: Any, site_file: Any) -> None:
    hosts.on("node2", "mkdir", "-p", "/tmp/small")
    hosts.on("node2", "mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", "/tmp/small")
    make_workload(FILLER)
    suite = make_suite("  - thing:none:cpu:2:1:1", extra="retries: 0")
    try:
        cli("run", str(suite), "--site", str(site_file(work_dir="/tmp/small")), "--no-check", code=1)
    finally:
        hosts.on("node2", "umount", "-l", "/tmp/small")
    case = only_case(cli)
    assert case["state"] == "FAILED" and "node2: the disk is full" in say(case["reason"])


FILLER = """
import os
import trainmark_probe as probe

probe.init(unit="things")
probe.init_end()
probe.train_start()
for step in range(100):
    probe.step(8, loss=1.0)
    if os.uname().nodename == "node2":
        with open("ballast", "ab") as out:
            out.write(b"x" * 2**18)
probe.train_end()
probe.finish()
"""


@pytest.mark.lab
def test_a_clock_that_is_off(cli: Cli, hosts: Lab, pair: Path, site_file: Callable[..., Path]) -> None:
    """Minutes of difference change no figure; they are told."""
    wrapper = hosts.layout.base / "faked-python"
    fake = '#!/bin/sh\nset -- python3 "$@"\n[ "$(hostname)" = node2 ] && exec faketime -f +300 "$@"\nexec "$@"\n'
    wrapper.write_text(fake)
    wrapper.chmod(0o755)
    where = site_file(node_python=str(wrapper))
    found = cli.json("doctor", "--site", str(where))
    clock = {finding["host"]: finding for finding in found if finding["what"] == "clock"}
    assert clock["node1"]["good"] is True and clock["node2"]["good"] is None
    assert clock["node2"]["found"].startswith("+300.")
    cli("run", str(pair), "--site", str(where))
    assert only_case(cli)["state"] == "SUCCEEDED" and only_case(cli)["measurements"]["throughput"]
    for host, off in (("node1", 0), ("node2", 300)):
        (file,) = attempt_dirs(cli)[-1].glob(f"{host}_*/clock.json")
        for when in ("start", "end"):
            assert abs(json.loads(file.read_text())[when]["offset_s"] - off) < 1


@pytest.mark.lab
def test_two_runs_at_once(
    cli: Cli, hosts: Lab, pair: Path, site_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for it shares hosts and nothing else, and both say that they were not alone."""
    monkeypatch.setenv("TRAINMARK_BESIDE", "1")
    where = str(site_file(env={"STEPS": "40", "STEP_SECONDS": "0.2"}, container=site.container("docker")))
    both = [cli.start("run", str(pair), "--site", where) for _ in range(2)]
    assert [ended(process) for process in both] == [0, 0]
    folders = sorted(cli.runs.glob("*/*/round1/attempt1"))
    assert len(folders) == 2
    for folder in folders:
        results = [json.loads(file.read_text()) for file in folder.glob("*/result.json")]
        assert len(results) == 2 and all(
            result["disturbed"][0]["code"] == "other-attempt-on-host" for result in results
        )
        assert all(file.read_bytes().count(b"STEP_END") == 40 for file in folder.glob("*/events.jsonl"))
    soon_clean(hosts)


@pytest.mark.lab
def test_detached_run_is_stopped_from_elsewhere(cli: Cli, hosts: Lab, pair: Path, site_file: Any) -> None:
    cli("run", str(pair), "--site", str(site_file(env=ENDLESS)), "--detach")
    wait_for(lambda: steps(cli, "node1"))
    cli("stop", cli.run_id(), "--now")
    assert only_case(cli)["state"] == "CANCELLED"
    time.sleep(0.5)
    soon_clean(hosts)
    assert os.path.exists(cli.runs / cli.run_id() / "journal.jsonl")
