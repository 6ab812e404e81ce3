"""Slurm's command lines: the batch script, sbatch and srun. Pure.

The script is a fixed text. Every value is an argument of it or of a step, so that no shell ever reads one.
"""

from __future__ import annotations

import msgspec

from trainmark.launch.agent_command import with_modules
from trainmark.launch.slurm import options as slurm_options
from trainmark.launch.slurm.options import SlurmOptions
from trainmark.spec.site import Container, Site

SCRIPT = """\
#!/bin/bash
# Holds the nodes; the batch job makes steps of the orders that the controller leaves in the folder of the run.
"$1" -c '
import sys
if sys.version_info < (3, 7):
    found = sys.executable, sys.version.split()[0]
    sys.exit("%s is Python %s; the node side needs 3.7: set node_python in the site" % found)
' || exit 1
exec "$@"
"""


class Ask(msgspec.Struct, frozen=True):
    """One job: its name, the nodes it wants, and where its folder is."""

    name: str
    count: int
    hosts: tuple[str, ...]
    exclude: tuple[str, ...]
    folder: str
    node_zip: str


def sbatch(site: Site, ask: Ask) -> list[str]:
    """The command that asks for an allocation."""
    slurm = slurm_options.of(site)
    argv = ["sbatch", "--parsable", f"--job-name={ask.name}", f"--nodes={ask.count}", "--ntasks-per-node=1"]
    if ask.hosts:
        argv.append(f"--nodelist={','.join(ask.hosts)}")
    if ask.exclude:
        argv.append(f"--exclude={','.join(ask.exclude)}")
    for name in ("partition", "account", "qos", "time", "constraint", "reservation"):
        value = getattr(slurm, name)
        if value is not None:
            argv.append(f"--{name}={value}")
    argv += resources(slurm)
    if slurm.exclusive:
        argv.append("--exclusive")
    # A node whose memory is not shared is there to be used whole.
    memory = slurm.memory or ("0" if slurm.exclusive else None)
    if memory is not None:
        argv.append(f"--mem={memory}")
    argv += [f"--chdir={ask.folder}", f"--output={ask.folder}/job.log", "--open-mode=append", "--export=ALL"]
    argv += slurm.options
    batch_job = [site.node_python, "-I", "-S", ask.node_zip, "slurm-job", ask.folder]
    return [*argv, f"{ask.folder}/job.sh", *batch_job]


def resources(slurm: SlurmOptions) -> list[str]:
    """The same for the job and for each of its steps: a step inherits less than one would think."""
    argv = []
    if slurm.cpus_per_node is not None:
        argv.append(f"--cpus-per-task={slurm.cpus_per_node}")
    if slurm.gpus_per_node is not None:
        argv.append(f"--gpus-per-node={slurm.gpus_per_node}")
    if slurm.gres is not None:
        argv.append(f"--gres={slurm.gres}")
    return argv


def srun(site: Site, name: str, count: int, node_zip: str) -> list[str]:
    """One agent on each of `count` nodes. The batch job fills in what only the allocation knows: %NODES%, %CPUS%."""
    slurm = slurm_options.of(site)
    argv = ["srun", f"--job-name={name}", *_nodes(count), f"--ntasks={count}", "--ntasks-per-node=1"]
    argv += resources(slurm)
    if slurm.cpus_per_node is None:
        argv.append("--cpus-per-task=%CPUS%")
    # Where ranks run is the agent's business; one that fails to start takes the others along.
    argv += ["--cpu-bind=none", "--kill-on-bad-exit=1", "--wait=0", "--mpi=none", "--input=none", "--export=ALL"]
    argv += slurm.step_options
    agent = ["-I", "-S", node_zip, "%VERB%", "%ORDER%", "%NODES%"]
    box = site.container
    if box is None:
        return [*argv, *with_modules(site.modules, [site.node_python, *agent])]
    shared = site.shared_dir or ""
    if box.engine == "pyxis":
        return [*argv, *pyxis(box, shared), box.python, *agent]
    return [*argv, *with_modules(site.modules, [*apptainer(box, shared), box.python, *agent])]


def _nodes(count: int) -> list[str]:
    return [f"--nodes={count}", "--nodelist=%NODES%"]


def pyxis(box: Container, shared: str) -> list[str]:
    """srun's own options where the pyxis plug-in is installed."""
    mounts = [f"{shared}:{shared}", *(_mount(mount) for mount in box.mounts)]
    argv = [f"--container-image={box.image}", f"--container-mounts={','.join(mounts)}"]
    return [*argv, "--no-container-mount-home", "--container-writable", *box.options]


def apptainer(box: Container, shared: str) -> list[str]:
    mounts = [f"{shared}:{shared}", *(_mount(mount) for mount in box.mounts)]
    argv = ["apptainer", "exec", "--no-home"]
    argv += [word for mount in mounts for word in ("--bind", mount)]
    return [*argv, *box.options, str(box.image)]


def _mount(mount: str) -> str:
    return mount if ":" in mount else f"{mount}:{mount}"
