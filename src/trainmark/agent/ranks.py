"""Ranks as processes: their environment, their start, their end."""

from __future__ import annotations

import os
import select
import signal
import sys

from trainmark.agent import linux
from trainmark.agent.wake import forget_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from trainmark.agent.contain.choose import Containment
    from trainmark.agent.linux import Proc
    from trainmark.agent.nodeplan import NodePlan, RankPlan
    from trainmark.agent.stream import Stream
    from trainmark.agent.tuning import Settings

FOLDER, AGENT = "%DIR%", "%AGENT%"
_START_SECONDS = 60.0
_PATH = "/usr/local/bin:/usr/bin:/bin"


class SpawnError(Exception):
    """The program of a rank could not be started; the text names it."""


class Rank:
    """One started process and how it ended."""

    def __init__(self, plan: RankPlan, log: str) -> None:
        self.plan = plan
        self.rank = plan.rank
        self.log = log
        self.pid: int | None = None
        self.running = False
        self.exit: int | None = None
        self.signal: int | None = None
        self.cpu_s: float | None = None
        self.max_rss_bytes: int | None = None

    def ended(self, status: int, usage: Any) -> None:
        self.running = False
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit = os.WEXITSTATUS(status)
        self.cpu_s = round(usage.ru_utime + usage.ru_stime, 6)
        self.max_rss_bytes = usage.ru_maxrss * 1024

    def tell(self, signal: int) -> None:
        """Signals the rank's process group."""
        if self.pid is not None:
            try:
                os.killpg(self.pid, signal)
            except OSError:
                pass  # gone already

    def record(self, stream: Stream) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "pid": self.pid,
            "exit": self.exit,
            "signal": self.signal,
            "cpu_s": self.cpu_s,
            "max_rss_bytes": self.max_rss_bytes,
            "steps": stream.steps,
            "samples": stream.samples,
        }


def environment(
    plan: NodePlan, rank: RankPlan, settings: Settings, inherited: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """What the rank's program sees: inherited, then the plan's, tuning's, the rank's and trainmark's `own`."""
    env = {name: value for name, value in inherited.items() if name not in plan.unset}
    env.update(plan.env)
    env.update(settings.env)
    if settings.visible:
        env[settings.visible] = str(rank.local_rank)
    env.update(rank.env)
    env.update(own)
    path = plan.path + [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if path:
        env["PYTHONPATH"] = os.pathsep.join(path)
    return env


def fill_ports(text: str, ports: list[int]) -> str:
    """%PORT0%, %PORT1%, … become numbers."""
    if "%PORT" in text:
        for index, port in enumerate(ports):
            text = text.replace("%%PORT%d%%" % index, str(port))
    return text


def fill(text: str, folder: str, ports: list[int]) -> str:
    """What only the node knows: its folder, and the ports."""
    return fill_ports(text.replace(FOLDER, folder) if FOLDER in text else text, ports)


def own_words(argv: list[str]) -> list[str]:
    """A command that is this agent itself, with another verb."""
    if argv[0] != AGENT:
        return argv
    return [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), *argv[1:]]


def find_program(name: str, env: Mapping[str, str], cwd: str) -> str:
    """The file to execute, found as a shell would; SpawnError names what is wrong."""
    if "/" in name:
        path = os.path.join(cwd, name)
        _check_program(path)
        return path
    for folder in env.get("PATH", _PATH).split(os.pathsep):
        path = os.path.join(cwd, folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise SpawnError("the program %s is not on PATH" % name)


def _check_program(path: str) -> None:
    if not os.path.exists(path):
        raise SpawnError("the program %s does not exist" % path)
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        raise SpawnError("the program %s is not executable" % path)


class Launch:
    """Everything a rank's process needs to become its program."""

    __slots__ = ("argv", "cpus", "cwd", "env", "memory", "program")

    def __init__(
        self, argv: list[str], env: Mapping[str, str], cwd: str, cpus: list[int] | None, memory: int | None = None
    ) -> None:
        if not os.path.isdir(cwd):
            raise SpawnError("the working folder %s does not exist" % cwd)
        self.program = find_program(argv[0], env, cwd)
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.cpus = cpus
        self.memory = memory


def start(rank: Rank, launch: Launch, containment: Containment) -> None:
    """Starts a rank as the leader of its own session; returns when its program runs."""
    read_end, write_end = os.pipe()
    agent = os.getpid()
    rank.pid = os.fork()
    if rank.pid == 0:
        _become(launch, rank.log, containment, agent, write_end)
    rank.running = True
    os.close(write_end)
    said = _hear(read_end)
    os.close(read_end)
    if said:
        raise SpawnError("%s: %s" % (launch.program, said))


def ask_for_stacks(rank: Rank, proc: Proc) -> bool:
    """SIGUSR1 to the first process of the rank's tree that listens to it (a rank may begin with a wrapper)."""
    for pid in [] if rank.pid is None else [rank.pid, *proc.descendants(rank.pid)]:
        if proc.catches(pid, signal.SIGUSR1):
            os.kill(pid, signal.SIGUSR1)
            return True
    return False


def _hear(read_end: int) -> str:
    """What the child says went wrong; '' once its program runs."""
    if not select.select([read_end], [], [], _START_SECONDS)[0]:
        return "its process did not get ready within %g s" % _START_SECONDS
    return os.read(read_end, 4096).decode(errors="replace")


def _limit(memory: int) -> None:
    """What the process may write to, shared memory and files left out: past it, allocations fail as on a full device,
    and only its own. A limit on addresses would count what is merely reserved."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _become(launch: Launch, log: str, containment: Containment, agent: int, tell: int) -> None:
    """The forked child on its way to the program. Never returns."""
    try:
        forget_signals()
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):  # ignored here, which would survive exec
            signal.signal(number, signal.SIG_DFL)
        linux.die_with_parent(signal.SIGKILL)
        if containment.guarded and os.getppid() != agent:
            os._exit(127)  # the agent died before it could take this child along
        containment.enter()
        if launch.cpus:
            os.sched_setaffinity(0, launch.cpus)
        if launch.memory:
            _limit(launch.memory)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(launch.cwd)
        os.execve(launch.program, launch.argv, launch.env)  # noqa: S606
    except BaseException as error:  # whatever it was, the agent must hear of it
        os.write(tell, (getattr(error, "strerror", None) or str(error) or type(error).__name__).encode())
    finally:
        os._exit(127)
