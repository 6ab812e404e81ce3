"""What `doctor` looks at where Slurm is: its commands, what it would give, and the shared folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import SiteError
from trainmark.launch import devices, node_zip
from trainmark.launch.local import check as local_check
from trainmark.launch.protocol import Finding
from trainmark.launch.slurm import on_nodes
from trainmark.launch.slurm import options as slurm_options
from trainmark.launch.slurm import plan as slurm_plan
from trainmark.launch.slurm.command_line import SCRIPT, resources
from trainmark.launch.slurm.inherited import Inherited, covering
from trainmark.launch.slurm.queue import call, environment
from trainmark.plan.records import Plan
from trainmark.spec.site import Site

_COMMANDS = ("sbatch", "squeue", "scancel", "sacct", "scontrol", "sinfo")
_LOOK_SECONDS = 60.0
_BAD_STATES = ("down", "drain", "fail", "unk", "inval", "no_respond", "maint")


def findings(site: Site, plan: Plan | None) -> list[Finding]:
    """What a run needs to know before it asks for nodes, and what `doctor` shows."""
    here = os.uname().nodename
    missing = [name for name in _COMMANDS if shutil.which(name) is None]
    if missing:
        cure = "run trainmark on a login node, or install Slurm's client programs"
        return [Finding(here, "slurm", False, f"no {', '.join(missing)}", cure)]
    found = list(_slurm(site, here))
    inside = covering(site.hosts) if slurm_options.of(site).reuse else None
    if all(finding.good is not False for finding in found):
        found += _nodes(site, here)
        found += _request(site, here) if inside is None else [_inside(inside, here)]
    found += _shared(site, here)
    found += _rank_table(site, plan, here)
    if all(finding.good is not False for finding in found):
        found += on_nodes.look(site, inside, here)
    if plan is not None and all(finding.good is not False for finding in found):
        found += _devices(site, plan, inside, here)
    return found


def _devices(site: Site, plan: Plan, inside: Inherited | None, here: str) -> Iterator[Finding]:
    """What nodes see of the devices that a plan needs, asked for as the job would ask."""
    wanted = devices.wanted(plan)
    if not wanted:
        return
    answers, why = _on_nodes(site, inside, ["slurm-devices", *wanted], resources(slurm_options.of(site)))
    for node, told in sorted(answers.items()):
        yield from devices.judge(node, told.get("devices") or {}, plan, told.get("visible") or {})
    if not answers:
        yield Finding(here, "devices", None, why, "could not be tried now; a run would tell")


def _inside(inherited: Inherited, here: str) -> Finding:
    return Finding(here, "request", True, f"this is job {inherited.job}, whose nodes are used")


def _conf(site: Site) -> str | None:
    return slurm_options.of(site).conf


def _slurm(site: Site, here: str) -> Iterator[Finding]:
    try:
        yield Finding(here, "slurm", True, call(["sinfo", "--version"], _conf(site)).strip())
        call(["squeue", "-h", "--me"], _conf(site))
    except SiteError as error:
        yield Finding(here, "slurmctld", False, str(error), "check munge, slurm.conf and that slurmctld runs")
        return
    try:
        call(["sacct", "-n", "-X", "-P", "-o", "JobID", "-S", "now"], _conf(site))
        yield Finding(here, "accounting", True, "sacct answers")
    except SiteError as error:
        yield Finding(here, "accounting", None, str(error), "less is known of why jobs end without it")


def _nodes(site: Site, here: str) -> Iterator[Finding]:
    """The nodes of the partition, or those that are named."""
    slurm = slurm_options.of(site)
    part = ["-p", slurm.partition] if slurm.partition else []
    lines = call(["sinfo", "-h", "-N", *part, "-o", "%N|%T|%c|%m|%G|%E"], slurm.conf).splitlines()
    known = {line.split("|")[0]: line.split("|", 5) for line in lines if line.count("|") >= 5}
    if not known:
        yield Finding(here, "partition", False, f"no nodes in {slurm.partition or 'any partition'}", "see `sinfo`")
    names = list(known) if slurm.nodes is not None else site.hosts
    for name in names:
        if name not in known:
            yield Finding(name, "node", False, "Slurm does not know it", "name it as `sinfo -N` does")
            continue
        _, state, cpus, memory, gres, why = known[name]
        bad = any(word in state.lower() for word in _BAD_STATES) or state.endswith("*")
        shown = f"{state}, {cpus} CPUs, {memory} MB, {gres if gres != '(null)' else 'no devices'}"
        needed = bad and slurm.nodes is None
        cure = f"Slurm says: {why}" if bad and why != "none" else ""
        yield Finding(name, "node", False if needed else (None if bad else True), shown, cure)


def _request(site: Site, here: str) -> Iterator[Finding]:
    """Whether Slurm would take the job; it is not submitted."""
    slurm = slurm_options.of(site)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "job.sh").write_text(SCRIPT)
        argv = slurm_plan.sbatch_for(site, folder)
        argv.insert(1, "--test-only")
        done = subprocess.run(
            argv, capture_output=True, text=True, env=environment(slurm.conf), timeout=_LOOK_SECONDS, check=False
        )
    said = (done.stderr or done.stdout).strip().removeprefix("sbatch: ")
    if done.returncode == 0:
        yield Finding(here, "request", True, said)
    else:
        yield Finding(
            here, "request", False, said.splitlines()[-1] if said else "refused", "change `slurm:` in the site"
        )


def _shared(site: Site, here: str) -> Iterator[Finding]:
    shared = Path(site.shared_dir or "").expanduser()
    if shared.is_dir() and os.access(shared, os.W_OK):
        free = shutil.disk_usage(shared).free / 2**30
        yield Finding(here, "shared_dir", True, f"{shared}, {free:.1f} GiB free")
    else:
        yield Finding(here, "shared_dir", False, f"{shared} is no folder that can be written here", "make or mount it")


def _rank_table(site: Site, plan: Plan | None, here: str) -> Iterator[Finding]:
    """Of the nodes' files only those in the shared folder can be looked at from here."""
    table = plan.rank_table if plan else site.rank_table_file
    if table and Path(table).is_relative_to(Path(site.shared_dir or "").expanduser()):
        yield local_check.rank_table(table, here)


def health(site: Site) -> dict[str, dict[str, Any]]:
    """Facts of the nodes, by a small job; of none if Slurm does not start one at once."""
    shared = Path(site.shared_dir or "").expanduser()
    if shutil.which("srun") is None or not shared.is_dir():
        return {}
    inside = covering(site.hosts) if slurm_options.of(site).reuse else None
    return _on_nodes(site, inside, ["health", str(shared)])[0]


def _on_nodes(
    site: Site, inside: Inherited | None, words: list[str], asked: Sequence[str] = ()
) -> tuple[dict[str, dict[str, Any]], str]:
    """What a verb of the node side says on each node that Slurm gives at once; what Slurm says where it gives none."""
    shared = Path(site.shared_dir or "").expanduser()
    try:
        with tempfile.TemporaryDirectory(dir=shared, prefix=".trainmark-") as folder:
            program = node_zip.write(Path(folder))
            start = [*on_nodes.on_every_node(site, inside), *asked, *([] if inside else ["--mem=100"])]
            argv = [*start, site.node_python, "-I", "-S", str(program), *words]
            slurm = dict(os.environ) if inside else environment(slurm_options.of(site).conf)
            done = subprocess.run(argv, capture_output=True, env=slurm, timeout=_LOOK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, str(error)
    found = {}
    for line in done.stdout.splitlines():
        with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
            facts = msgspec.json.decode(line)
            found[str(facts["node"])] = facts
    lines = done.stderr.decode(errors="replace").strip().splitlines() or ["srun said nothing"]
    return found, lines[-1]
