"""A quick try of everything a lab should do, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lab import layout
from lab.lab import Lab, wait_for
from lab.layout import HEAD
from trainmark.errors import UserError

Try = tuple[str, Callable[[], bool]]


def run(lab: Lab, say: Callable[[str], None]) -> int:
    """0 when all is well; says what is not."""
    bad = 0
    for name, good in _tries(lab):
        try:
            fine, why = good(), ""
        except UserError as error:
            fine, why = False, f": {error}"
        say(f"{'ok ' if fine else 'BAD'} {name}{why}")
        bad += not fine
    return 3 if bad else 0


def _tries(lab: Lab) -> Iterator[Try]:
    for host in lab.layout.hosts:
        yield f"ssh to {host}", lambda host=host: lab.ssh(host, "hostname", check=False).stdout.strip() == host  # type: ignore[misc]
    if len(lab.nodes) > 1:
        first, second = lab.nodes[:2]
        yield (
            "ssh between hosts",
            lambda: lab.ssh(first, "ssh", second, "hostname", check=False).stdout.strip() == second,
        )
    yield "a host has its own /tmp", lambda: lab.on("node1", "findmnt", layout.PRIVATE[0], check=False).returncode == 0
    if lab.layout.options.docker:
        yield from _engines(lab)
    if lab.layout.options.slurm:
        yield from _slurm(lab)


def _engines(lab: Lab) -> Iterator[Try]:
    from lab.engines import IMAGE, MOUNTS

    mounts = [f"--volume={path}:{path}:ro" for path in MOUNTS]
    for engine in ("docker", "podman"):
        argv = (engine, "run", "--rm", "--pull=never", "--network=host", *mounts, IMAGE, "/bin/echo", "hello")
        yield f"{engine} on node1", lambda argv=argv: lab.on("node1", *argv).stdout == "hello\n"  # type: ignore[misc]
    remote = f"{lab.layout.registry}/{IMAGE}"

    def push_and_pull() -> bool:
        lab.on("node1", "docker", "tag", IMAGE, remote)
        lab.on("node1", "docker", "push", remote)
        return lab.on(lab.nodes[-1], "docker", "pull", remote).returncode == 0

    yield f"registry at {lab.layout.registry}", push_and_pull


def _slurm(lab: Lab) -> Iterator[Try]:
    count = str(len(lab.nodes))
    yield (
        "srun on all nodes",
        lambda: sorted(lab.on(HEAD, "srun", "-N", count, "hostname").stdout.split()) == sorted(lab.nodes),
    )
    if lab.layout.options.gpus:
        ask = ("srun", f"--gres=gpu:{lab.layout.options.gpus}", "printenv", "CUDA_VISIBLE_DEVICES")
        yield "GPUs are handed out", lambda: len(lab.on(HEAD, *ask).stdout.split(",")) == lab.layout.options.gpus

    def accounted() -> bool:
        job = lab.on(HEAD, "sbatch", "--parsable", "-o", "/dev/null", "--wrap", "hostname").stdout.strip()
        state = ("sacct", "-n", "-X", "-P", "-j", job, "-o", "State")
        return bool(wait_for(lambda: lab.on(HEAD, *state).stdout.strip() == "COMPLETED", f"job {job}"))

    yield "a batch job, in the accounting", accounted
