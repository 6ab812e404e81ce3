"""Ranks as processes: environment, working folder, start and end."""

from __future__ import annotations

import os
import select
import signal
from typing import Any, Mapping

from trainmark.agent import linux
from trainmark.agent.contain.choose import Containment
from trainmark.agent.ending import Ending
from trainmark.agent.events.reader import EventStream
from trainmark.agent.linux import Proc
from trainmark.agent.node_plan import NodePlan, RankPlan
from trainmark.agent.reasons import Reason, ReasonedError, reason
from trainmark.agent.secrets import environment_text
from trainmark.agent.tuning import Settings
from trainmark.agent.wakeup import forget_signals
from trainmark.devices.node_side.visible import of_rank

CODE, ENV_LOG = "code", "env.log"
_START_SECONDS = 60.0
_PATH = "/usr/local/bin:/usr/bin:/bin"


class SpawnError(ReasonedError):
    """The program of a rank could not be started."""


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

    def send_signal(self, number: int) -> None:
        """To the rank's process group."""
        if self.pid is not None:
            try:
                os.killpg(self.pid, number)
            except OSError:
                pass  # gone already

    def record(self, stream: EventStream) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "pid": self.pid,
            "exit": self.exit,
            "signal": self.signal,
            "cpu_s": self.cpu_s,
            "max_rss_bytes": self.max_rss_bytes,
            "steps": stream.steps,
            "samples": stream.samples,
            # Step and value of the first loss that is no number, or infinite.
            "nonfinite": stream.nonfinite,
        }


class StoppedRanks:
    """Ranks that somebody has stopped (SIGSTOP) and not continued. They are no fault of the program's."""

    def __init__(self, proc: Proc, limit: float) -> None:
        self._proc, self._limit = proc, limit
        self._since: dict[int, float] = {}

    def longest(self, ranks: list[Rank], now: float) -> Ending | None:
        """How the round ends if one was stopped for too long."""
        for rank in ranks:
            fields = self._proc.stat(rank.pid) if rank.running and rank.pid is not None else None
            if fields is None or fields[0] != b"T":
                self._since.pop(rank.rank, None)
            elif now - self._since.setdefault(rank.rank, now) > self._limit:
                seconds = round(now - self._since[rank.rank])
                return Ending("LOST", reason("rank-stopped", rank=rank.rank, seconds=seconds), "stopped", rank.rank)
        return None


def environment(
    plan: NodePlan, rank: RankPlan, settings: Settings, inherited: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """What the rank's program sees: inherited, then the plan's, tuning's, the rank's and trainmark's `own`."""
    env = {name: value for name, value in inherited.items() if name not in plan.unset}
    env.update(plan.env)
    env.update(settings.env)
    if settings.visible:
        device = of_rank(settings.inherited, rank.local_rank)
        if device is None:
            vendor, ranks = plan.device.get("vendor"), len(plan.ranks)
            visible = settings.inherited
            raise SpawnError(reason("devices-fewer-visible", vendor=vendor, ranks=ranks, visible=visible))
        env[settings.visible] = device
    env.update(rank.env)
    env.update(own)
    path = plan.path + [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if path:
        env["PYTHONPATH"] = os.pathsep.join(path)
    return env


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
    raise SpawnError(reason("program-not-on-path", name=name))


def _check_program(path: str) -> None:
    if not os.path.exists(path):
        raise SpawnError(reason("program-missing", path=path))
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        raise SpawnError(reason("program-not-executable", path=path))


class Launch:
    """Everything a rank's process needs to become its program."""

    __slots__ = ("argv", "cpus", "cwd", "env", "memory", "program")

    def __init__(
        self, argv: list[str], env: Mapping[str, str], cwd: str, cpus: list[int] | None, memory: int | None = None
    ) -> None:
        if not os.path.isdir(cwd):
            raise SpawnError(reason("folder-missing", path=cwd))
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
        _exec_program(launch, rank.log, containment, agent, write_end)
    rank.running = True
    os.close(write_end)
    why = _start_error(read_end)
    os.close(read_end)
    if why:
        raise SpawnError(reason("program-failed", path=launch.program, why=why))


def ask_for_stacks(rank: Rank, proc: Proc) -> bool:
    """SIGUSR1 to the first process of the rank's tree that listens to it (a rank may begin with a wrapper)."""
    for pid in [] if rank.pid is None else [rank.pid, *proc.descendants(rank.pid)]:
        if proc.catches(pid, signal.SIGUSR1):
            os.kill(pid, signal.SIGUSR1)
            return True
    return False


def _start_error(read_end: int) -> Reason | str:
    """Why the child could not start its program; '' once it runs."""
    if not select.select([read_end], [], [], _START_SECONDS)[0]:
        return reason("process-not-ready", seconds=_START_SECONDS)
    return os.read(read_end, 4096).decode(errors="replace")


def _limit(memory: int) -> None:
    """Limits the process's private writable memory: past it, its own allocations fail. A limit on the address space
    would count what is only reserved."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _exec_program(launch: Launch, log: str, containment: Containment, agent: int, report: int) -> None:
    """In the forked child: becomes the program. Never returns."""
    try:
        forget_signals()
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):  # ignored here, which would survive exec
            signal.signal(number, signal.SIG_DFL)
        linux.die_with_parent(signal.SIGKILL)
        if containment.guarded and os.getppid() != agent:
            os._exit(127)  # the agent died before this child could be bound to it
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
    except BaseException as error:  # reported to the agent
        os.write(report, (getattr(error, "strerror", None) or str(error) or type(error).__name__).encode())
    finally:
        os._exit(127)


def make_rank_folder(folder: str, rank: int, code: str | None, env: Mapping[str, str]) -> str:
    """The folder rankN in `folder`, the node's own: ranks do not share one even on a shared disk. It has a link to the
    program's folder and a list of the environment variables."""
    path = os.path.join(folder, "rank%d" % rank)
    try:
        os.mkdir(path)
        if code:
            os.symlink(code, os.path.join(path, CODE))
    except FileExistsError:
        pass  # a rank that was started again
    descriptor = os.open(os.path.join(path, ENV_LOG), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, environment_text(env).encode("utf-8", "surrogateescape"))
    finally:
        os.close(descriptor)
    return path
