"""A look at the nodes before anything is asked of them: a small job finds out whether they see the shared folder, and
which Python they have, if Slurm starts one at once."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from trainmark.launch.protocol import Finding
from trainmark.launch.slurm import options as slurm_options
from trainmark.launch.slurm.inherited import Inherited
from trainmark.launch.slurm.queue import environment
from trainmark.spec.site import Site

_LOOK_SECONDS, _NOW_SECONDS = 60.0, 10
_MARK = "trainmark-node"
# Old Pythons must get as far as telling their version.
_LOOK = (
    "import os, sys; sys.stdout.write('%s %s %s %s\\n' % "
    f"('{_MARK}', os.uname()[1], sys.version.split()[0], os.path.exists(sys.argv[1])))"
)
_UNSHARED = "mount shared_dir under the same name on every node"
_OLD = "set `node_python` in the site to a Python of 3.7 or later that all nodes have"


def look(site: Site, inside: Inherited | None, here: str) -> list[Finding]:
    """`inside`: the job whose nodes are used; without one, nodes that are free now are asked for a moment."""
    shared = Path(site.shared_dir or "").expanduser()
    with tempfile.NamedTemporaryFile(dir=shared, prefix=".trainmark-") as token:
        memory = [] if inside else ["--mem=50"]
        argv = [*on_every_node(site, inside), *memory, site.node_python, "-c", _LOOK, token.name]
        env = dict(os.environ) if inside else environment(slurm_options.of(site).conf)
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, env=env, timeout=_LOOK_SECONDS, check=False, cwd="/"
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return [Finding(here, "nodes", None, str(error), "could not be tried now; a run would tell")]
    return judge(done.stdout, done.stderr, len(site.hosts), str(shared), site.node_python, here)


def on_every_node(site: Site, inside: Inherited | None) -> list[str]:
    """The beginning of a command line that starts a program on each node, if Slurm has them free at once."""
    slurm = slurm_options.of(site)
    count = len(site.hosts)
    argv = ["srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--mpi=none", "--input=none"]
    argv += [f"--nodelist={','.join(site.hosts)}"] if slurm.nodes is None else []
    if inside is not None:
        return [*argv, "--overlap"]
    argv += [f"--immediate={_NOW_SECONDS}", "--job-name=trainmark-check"]
    for name in ("partition", "account", "qos", "constraint", "reservation"):
        argv += [f"--{name}={getattr(slurm, name)}"] if getattr(slurm, name) else []
    return argv


def judge(out: str, err: str, count: int, shared: str, node_python: str, here: str) -> list[Finding]:
    """What the nodes said. Pure."""
    said = [line.split()[1:] for line in out.splitlines() if line.startswith(_MARK) and len(line.split()) == 4]
    found = []
    for host, version, seen in sorted(said):
        if seen != "True":
            found.append(Finding(host, "shared on nodes", False, f"{shared} is not seen there", _UNSHARED))
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if numbers < (3, 7):
            found.append(Finding(host, "python", False, f"its {node_python} is {version}, 3.7 is needed", _OLD))
    if found:
        return found
    if len(said) == count:
        return [Finding(here, "shared on nodes", True, f"all {count} nodes see {shared} and have {node_python}")]
    lines = [line for line in err.strip().splitlines() if line.strip()] or ["srun said nothing"]
    if any("execve" in line and "No such file" in line for line in lines):
        return [Finding(here, "python", False, f"there is no {node_python} on the nodes ({lines[-1]})", _OLD)]
    return [Finding(here, "nodes", None, lines[-1], "could not be tried now; a run would tell")]
