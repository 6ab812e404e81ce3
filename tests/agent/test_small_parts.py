"""The small parts: JSON lines, cgroup paths, files that are whole or not there, the host."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from pathlib import Path

import pytest

from trainmark.agent import ending, files, linux
from trainmark.agent.contain import cgroup
from trainmark.agent.workers.programs import Programs
from trainmark.devices.cpu import node as host
from trainmark.devices.cpu import rdma
from trainmark.devices.cpu import tables as host_tables


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": -float("inf")}])
def test_numbers_that_json_does_not_have(value: object) -> None:
    with pytest.raises(ValueError):
        files.to_json(value)


def test_c_functions_tell_what_failed() -> None:
    with pytest.raises(OSError, match="setns: Bad file descriptor") as caught:
        linux.setns(-1, 0)
    assert caught.value.errno == errno.EBADF


def test_names_of_signals() -> None:
    assert (ending.signal_name(9), ending.signal_name(15), ending.signal_name(63)) == (
        "SIGKILL",
        "SIGTERM",
        "signal 63",
    )


MOUNTS = b"""\
24 1 0:21 / /proc rw - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
41 31 0:38 %s %s rw,relatime shared:4 - cgroup2 cgroup2 rw
"""


@pytest.mark.parametrize(("root", "point", "own", "folder"), [
    (b"/", b"/sys/fs/cgroup", b"0::/user.slice/u.scope", "/sys/fs/cgroup/user.slice/u.scope"),
    (b"/", b"/sys/fs/cgroup/unified", b"1:cpu:/x\n0::/", "/sys/fs/cgroup/unified"),
    (b"/docker/abc", b"/sys/fs/cgroup", b"0::/docker/abc/sub", "/sys/fs/cgroup/sub"),
    (b"/docker/abc", b"/sys/fs/cgroup", b"0::/other", None),
    (b"/", b"/a\\040b", b"0::/", "/a b"),
    (b"/", b"/sys/fs/cgroup", b"1:cpu:/", None),
])  # fmt: skip
def test_where_the_own_cgroup_is(root: bytes, point: bytes, own: bytes, folder: str | None) -> None:
    assert cgroup.own_folder(own, MOUNTS % (root, point)) == folder


def test_no_version_two_cgroup() -> None:
    assert cgroup.own_folder(b"0::/", MOUNTS.splitlines()[0]) is None


def test_an_append_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    import resource

    appender = files.Appender(str(tmp_path / "f"))
    appender.append(b"one\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, hard))
    try:
        with pytest.raises(OSError, match=str(tmp_path / "f")):
            appender.append(b"two and three\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    appender.append(b"four\n")
    assert (tmp_path / "f").read_bytes() == b"one\nfour\n"


def test_replacing_leaves_no_draft(tmp_path: Path) -> None:
    files.replace_json(str(tmp_path / "a.json"), {"x": 1}, durable=True)
    with pytest.raises(OSError, match=r"gone/a\.json"):
        files.replace_json(str(tmp_path / "gone" / "a.json"), {})
    assert os.listdir(tmp_path) == ["a.json"]
    assert files.read_json(str(tmp_path / "a.json")) == {"x": 1}
    assert files.read_json(str(tmp_path / "b.json")) is None


def test_the_host_is_known() -> None:
    facts = host.detect()
    assert facts["cpu"]["allowed"] == sorted(os.sched_getaffinity(0))
    assert facts["memory_bytes"] > 1 << 20
    assert json.loads(files.to_json(facts)) == facts


def test_the_host_is_sampled() -> None:
    sampler = host.Sampler()
    begin = time.monotonic()
    sampler.sample({7: os.getpid()})
    burn = time.process_time() + 0.1
    while time.process_time() < burn:
        pass
    # On a busy machine it takes longer to burn as much; clock ticks are coarse.
    least = 0.05 / (time.monotonic() - begin)
    sample = sampler.sample({7: os.getpid(), 8: 1 << 22})
    always = {name for name in host.UNITS if "." not in name and not name.startswith("rdma_")}
    assert always <= set(sample) <= always | {"ranks", *rdma.UNITS}
    assert sample["ranks"]["7"]["cpu"] > least and sample["ranks"]["7"]["rss"] > 1 << 20
    assert sample["ranks"]["8"] == {"cpu": None, "rss": None}
    assert 0 < sample["cpu"] <= 1 and sample["agent_cpu"] > least
    assert files.to_json(sample)


def test_shares_of_the_processors() -> None:
    before, now = [0] * 8, [10, 10, 20, 40, 5, 5, 5, 5]
    shares = {"cpu": 0.5, "user": 0.2, "system": 0.3, "iowait": 0.05, "steal": 0.05}
    assert host_tables.cpu_shares(before, now) == shares
    assert set(host_tables.cpu_shares(now, now).values()) == {None}
    assert host_tables.cpu_times(b"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert host_tables.cpu_times(b"") is None


def test_tables_of_disks_cards_and_pressure() -> None:
    disks = b"  8 0 sda 1 2 3 4 5 6 7 8 9\n  8 1 sda1 1 2 3 4 5 6 7 8 9\n"
    assert host_tables.disk_bytes(disks, {b"sda"}) == (3 * 512, 7 * 512)
    assert host_tables.disk_bytes(disks, set()) == (None, None)
    cards = b"h\nh\n lo: 1 0 0 0 0 0 0 0 2 0\n eth0: 10 0 0 0 0 0 0 0 20 0\nveth1: 5 0 0 0 0 0 0 0 6 0\n"
    assert host_tables.net_bytes(cards, {b"eth0"}) == (10, 20)
    assert host_tables.net_bytes(cards, set()) == (15, 26)
    assert host_tables.net_bytes(b"", set()) == (None, None)
    assert host_tables.stalled(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0 total=9\n") == 77
    assert host_tables.stalled(b"") is None
    assert [host_tables.count_list(text) for text in ("0-3,8", "0", "", None)] == [5, 1, None, None]


def test_energy_counters_are_carried_over_their_end(tmp_path: Path) -> None:
    for name, kind, value in (
        ("intel-rapl:0", "package-0", 900),
        ("intel-rapl:1", "package-1", 10),
        ("intel-rapl:0:0", "core", 5),
        ("intel-rapl:2", "psys", 5),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for file, text in (("name", kind), ("energy_uj", value), ("max_energy_range_uj", 1000)):
            (folder / file).write_text(f"{text}\n")
    energy = host.Energy(str(tmp_path))
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("50\n")
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("30\n")
    assert (energy.known, energy.read(), energy.read()) == (True, 170, 170)
    assert host.Energy(str(tmp_path / "none")).read() is None


def test_a_connection_to_a_program_of_a_job_waits_as_long_as_that_takes(tmp_path: Path) -> None:
    """It would be cut off while the program computes, and does not read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        programs = Programs({"ports": [port]}, "key", str(tmp_path / "spool"), {})
        with programs.connect(f"port-{port}") as made:
            assert made.gettimeout() is None
        programs.close()
