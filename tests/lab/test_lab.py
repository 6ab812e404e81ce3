"""The lab itself: real hosts that come and go without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import check, layout, packages
from lab.lab import Lab
from lab.layout import Layout, Options
from trainmark.errors import SiteError, UserError


def traces(lab: Lab) -> list[str]:
    """Whatever the machine still knows of a lab."""
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    number = f"{lab.layout.subnet}"
    found = [line for line in links if line.split("@")[0].split()[0] in (f"tmlab{number}",) or f"tm{number}-" in line]
    found += [line for line in Path("/proc/mounts").read_text().splitlines() if str(lab.layout.base) in line]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/trainmark-lab-{lab.layout.options.name}-*")]
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(lab.layout.base).encode() in file.read_bytes():
                found.append(str(file))
        except OSError:
            continue
    return found + ([str(lab.layout.base)] if lab.layout.base.exists() else [])


def test_labs_side_by_side_leave_no_trace(lab: Lab, tmp_path: Path) -> None:
    """Another lab has hosts of the same names; each sees its own /tmp, and folders of the machine's only when asked."""
    (tmp_path / "word").write_text("seen")
    other = Lab.make(Options(name=f"side{os.getpid()}", nodes=2, binds=(str(tmp_path),)))
    try:
        assert other.layout.subnet != lab.layout.subnet
        for made in (lab, other):
            assert made.ssh("node1", "hostname").stdout == "node1\n"
            assert check.run(made, lambda _: None) == 0
        assert other.on("node2", "cat", str(tmp_path / "word")).stdout == "seen"
        assert lab.on("node2", "cat", str(tmp_path / "word"), check=False).returncode != 0
        other.on("node1", "touch", "/tmp/mine")
        other.on("node1", "mkdir", "/etc/trainmark-of-a-host")
        assert not Path("/etc/trainmark-of-a-host").exists(), "nothing in a host writes to the machine's own /etc"
        with pytest.raises(UserError, match="node1, node2 are up and would not see it"):
            Lab.make(Options(name=other.layout.options.name, nodes=2, binds=(str(tmp_path.parent),)))
        assert not Path("/tmp/mine").exists() and other.on("node2", "ls", "/tmp/mine", check=False).returncode != 0
        other.poweroff("node2")
        assert not other.alive("node2") and other.ssh("node2", "true", check=False).returncode == 255
        again = Lab.make(Options(name=other.layout.options.name, nodes=2))
        assert again.alive("node2") and again.layout.subnet == other.layout.subnet, "up mends what is broken"
    finally:
        other.down()
    assert traces(other) == []


def test_a_program_under_tmp_is_seen_by_the_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever clone and environment lie: what hosts would hide is bound back into them."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    plan = Layout(Path("/var/lib/x"), 1, Options(binds=("/usr",)))
    assert tmp_path in Lab(plan).kept() and Path("/usr") not in Lab(plan).kept()


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "PATH", "/nowhere")
    monkeypatch.setattr(packages, "hindrance", lambda: None)
    with pytest.raises(SiteError, match=r"lacks .*slurmctld.*--install.*apt-get install .*slurmctld"):
        packages.need(Options(slurm=True), install=False)
    with pytest.raises(UserError, match="--name A b: allowed are small letters"):
        layout.check(Options(name="A b"))


@pytest.mark.lab
def test_slurm(tmp_path: Path) -> None:
    """srun over all nodes, GPUs handed out, accounting."""
    made = Lab.make(Options(name=f"side{os.getpid()}", nodes=3, slurm=True), install=True)
    try:
        said: list[str] = []
        assert check.run(made, said.append) == 0, said
    finally:
        made.down()
    assert traces(made) == []
