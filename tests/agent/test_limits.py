"""Full disks and too little memory, on a real small file system and in a real memory cgroup."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Node, carriers

SPEAK_A_LOT = """
    begin()
    text = "x" * 1000
    for number in range(1, 4000):
        try:
            step(number, note=text)
        except OSError:
            time.sleep(600)
        time.sleep(0.0005)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_full_disk_is_named(node: Node, containment: str, small_disk: Path) -> None:
    node.dir = small_disk / "node"
    spool = node.root / "spool-elsewhere"
    result = node.ranks(node.script(SPEAK_A_LOT)).run(containment=containment, dir=str(node.dir), spool=str(spool))
    assert (result["state"], result["first_failure"]["kind"]) == ("FAILED", "disk")
    assert result["reason"] == f"the disk is full: {node.dir / 'events.jsonl'} could not be written"
    assert [event["seq"] for event in node.events()] == list(range(result["events"]))
    assert list(spool.glob("*/rank0.jsonl")), "events that did not fit stay in the spool"


def test_a_disk_that_is_full_before_the_start(node: Node, containment: str, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * (1024 * 1024 - 8 * 4096))
    node.dir = small_disk / "node"
    result = node.ranks(["/bin/true"]).run(containment=containment, dir=str(node.dir), probe=False)
    assert (result["state"], result["first_failure"]["kind"]) == ("FAILED", "disk")
    assert "reserve could not be written" in result["reason"]


def test_a_disk_without_room_for_the_result(node: Node, small_disk: Path) -> None:
    node.dir = small_disk / "node"
    node.dir.mkdir()
    with (small_disk / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    assert node.ranks(["/bin/true"]).start(dir=str(node.dir)).wait() == 75
    assert carriers(node.token) == {}


@pytest.fixture
def memory_cgroup() -> Iterator[Path]:
    """A cgroup that allows 64 MiB, of whichever version the machine has."""
    for place, limit in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        folder = place / f"trainmark-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / limit).exists():
            (folder / limit).write_text(str(64 << 20))
            yield folder
            folder.rmdir()
            return
        folder.rmdir()
    pytest.skip("needs a memory cgroup to write to")


def test_the_kernel_kills_for_memory(node: Node, containment: str, memory_cgroup: Path) -> None:
    argv = node.script(
        f"""
        with open({str(memory_cgroup / "cgroup.procs")!r}, "w") as file:
            file.write("0")
        begin()
        held = [bytearray(b"x" * (1 << 20)) for _ in range(512)]
        """
    )
    if containment == "cgroup" and memory_cgroup.parent == Path("/sys/fs/cgroup"):
        pytest.skip("a process cannot be in two version 2 cgroups")
    result = node.ranks(argv).run(containment=containment)
    # The rank has left the agent's control group, so that only the host's count rose: that is a hint and no proof.
    assert (result["state"], result["first_failure"]["kind"]) == ("FAILED", "signal")
    assert "of this host for memory, of which this may be one" in result["reason"]
