"""An attempt as Slurm will get it: node plans with the paths of the shared folder, and the command lines. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainmark.errors import UserError
from trainmark.launch import node_plan, node_zip
from trainmark.launch.protocol import AttemptSpec, NodeStart, Request
from trainmark.launch.slurm import command_line as slurm_words
from trainmark.launch.slurm import options as slurm_options
from trainmark.launch.slurm.command_line import Ask
from trainmark.launch.slurm.options import SlurmOptions
from trainmark.launch.trees import Tree
from trainmark.plan.records import Plan
from trainmark.spec.site import Site
from trainmark.store.rundir import LEASE

TOP = "slurm"
# The key of an allocation that serves a single round.
OWN = "round"
_FOLDER, _NAME, _EXCLUDE = "%FOLDER%", "%NAME%", "--exclude=%EXCLUDE%"


def key(slurm: SlurmOptions, round_number: int) -> str:
    """Attempts with the same key share a job. Block b holds the b-th rounds."""
    return {"suite": "suite", "block": f"block{round_number}", "round": OWN}[slurm.job_for_each]


def render(spec: AttemptSpec, site: Site, tree: Tree | None) -> Request:
    slurm = slurm_options.of(site)
    named = slurm.nodes is None
    top = spec.run_dir / TOP
    zip_file = str(top / node_zip.name())
    hosts = [node.host for node in spec.case.nodes]
    count = len(hosts)
    about = {
        "site": site.name,
        "run": spec.run,
        "run_dir": str(spec.run_dir),
        "key": key(slurm, spec.round),
        "named": named,
        "hosts": hosts,
        "reuse": slurm.reuse,
        "node_zip": zip_file,
        "tree": tree.name if tree else None,
        "conf": slurm.conf,
        "queue_seconds": slurm.queue_seconds,
        "lost_seconds": slurm.lost_seconds,
        "batch_job": {"lease": str(spec.run_dir / LEASE), "idle_seconds": slurm.idle_seconds},
        "sbatch": _sbatch(site, site.hosts if slurm.job_for_each != "round" else hosts, named, zip_file),
        # Once a node was lost, no more is asked for than the attempt needs.
        "sbatch_less": _sbatch(site, hosts, named, zip_file),
        "srun": slurm_words.srun(site, f"{spec.case.workload}-{spec.round}", count, zip_file),
    }
    nodes = []
    for node in spec.case.nodes:
        job = node_plan.render(spec, node, site, lost_seconds=slurm.lost_seconds, ranks_beside=True)
        plan = node_plan.spelled(job.plan, str(spec.run_dir), str(spec.run_dir), tree, str(top / "trees"))
        plan["slurm"] = about
        nodes.append(NodeStart(job.host, job.dir, plan))
    return Request(spec.attempt_dir, spec.token, tuple(nodes))


def _sbatch(site: Site, hosts: list[str], named: bool, zip_file: str) -> list[str]:
    ask = Ask(_NAME, len(hosts), tuple(hosts) if named else (), ("%EXCLUDE%",), _FOLDER, zip_file)
    return slurm_words.sbatch(site, ask)


def sbatch_of(about: dict[str, object], folder: str, name: str, lost: list[str]) -> list[str]:
    """The command line with what is known only now: its folder, its name, and nodes to do without."""
    argv = about["sbatch_less"] if lost else about["sbatch"]
    assert isinstance(argv, list)  # noqa: S101 - rendered above
    exclude = [] if about["named"] or not lost else [f"--exclude={','.join(lost)}"]
    filled = []
    for word in argv:
        if word == _EXCLUDE:
            filled += exclude
        else:
            filled.append(word.replace(_FOLDER, folder).replace(_NAME, name))
    return filled


def batch_job(python: str, about: dict[str, Any], folder: str) -> list[str]:
    """The program that starts steps, for a job that is there already."""
    return [python, "-I", "-S", about["node_zip"], "slurm-job", folder]


def sbatch_for(site: Site, folder: str) -> list[str]:
    """The request for the whole site, to be tried out."""
    named = slurm_options.of(site).nodes is None
    argv = _sbatch(site, site.hosts, named, f"{folder}/{node_zip.name()}")
    return [word.replace(_FOLDER, folder).replace(_NAME, "trainmark-check") for word in argv if word != _EXCLUDE]


def preview(plan: Plan) -> list[str]:
    """For the dry run: the batch script, how the job would be asked for, and the step of each case."""
    import shlex

    site, slurm = plan.site, slurm_options.of(plan.site)
    zip_file = f"RUN/{TOP}/{node_zip.name()}"
    named = slurm.nodes is None
    lines = [f"Slurm: one job for each {slurm.job_for_each}"]
    if slurm.job_for_each != "round":
        argv = _sbatch(site, site.hosts, named, zip_file)
        lines.append("  " + shlex.join(_shown(argv, f"{key(slurm, 1)}.1")))
    for case in plan.cases:
        count = len(case.nodes)
        lines.append(f"  {case.case}")
        if slurm.job_for_each == "round":
            argv = _sbatch(site, site.hosts[:count], named, zip_file)
            lines.append("    " + shlex.join(_shown(argv, f"{OWN}.N")))
        lines.append("    " + shlex.join(slurm_words.srun(site, f"{case.workload}-ROUND", count, zip_file)))
    return [*lines, "  job.sh:", *("    " + line for line in slurm_words.SCRIPT.splitlines())]


def _shown(argv: list[str], folder: str) -> list[str]:
    place = f"RUN/{TOP}/{folder}"
    return [word.replace(_FOLDER, place).replace(_NAME, f"trainmark-RUN-{folder}") for word in argv if word != _EXCLUDE]


def check_runs(site: Site, runs: Path) -> None:
    """Refuses a folder for runs that the nodes would not see."""
    shared = Path(site.shared_dir or "/").expanduser().resolve()
    if runs.resolve() != shared and shared not in runs.resolve().parents:
        raise UserError(
            f"--runs {runs}: not below shared_dir {shared} of site `{site.name}`, so its nodes would not see it; "
            f"give `--runs {shared}/runs` or set $TRAINMARK_RUNS"
        )
