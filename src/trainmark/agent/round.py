"""One round on this node: starts the ranks, watches them until they end or must be ended, writes the result."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

from trainmark.agent import ranks as processes
from trainmark.agent import result
from trainmark.agent.contain.choose import Containment, clear
from trainmark.agent.deadlines import RankProgress, Stopping, overdue
from trainmark.agent.ending import Ending, FailedRank, agent_failed, blame, disk_full, last_lines
from trainmark.agent.events.shipper import Shipper
from trainmark.agent.events.spools import spool_file
from trainmark.agent.external_ranks import ExternalRanks, present
from trainmark.agent.files import is_disk_full, make_reserve, replace_json, write_file
from trainmark.agent.node_plan import CONFIG, Control
from trainmark.agent.output import OutputLimit
from trainmark.agent.placeholders import agent_command, fill
from trainmark.agent.ranks import Rank, StoppedRanks
from trainmark.agent.reasons import Reason, reason
from trainmark.agent.result import Context
from trainmark.agent.status import StatusWriter
from trainmark.agent.tuning import Settings
from trainmark.agent.wakeup import Wakeup

if TYPE_CHECKING:
    from trainmark.agent.device_watch import DeviceWatch

_TICK = 1.0
_FIRST_TICK = 0.02  # a round that is over by then needs no status and no samples
_HELPERS_END = 0.5  # seconds that processes have to end after the ranks before they count as left
_GRACE = 2.0  # for the other ranks after one has failed: their output may say more
_STACKS = 1.0  # for a hung rank to write its stacks


class Round:
    """The constructor opens files, `run` starts the ranks and returns after result.json was written."""

    def __init__(self, context: Context, containment: Containment, settings: Settings, wakeup: Wakeup) -> None:
        plan = context.plan
        self._context = context
        self._plan = plan
        self._containment = containment
        self._settings = settings
        self._wakeup = wakeup
        self._control = Control(plan.file("control.json"), plan.epoch, context.log)
        self._stopping = Stopping(plan.deadlines["stop"])
        self._ranks = [processes.Rank(rank, plan.file("rank%d.out.log" % rank.rank)) for rank in plan.ranks]
        self._helpers = [
            (helper.name, processes.Rank(helper.process, plan.file("%s.out.log" % helper.name)))
            for helper in plan.helpers
        ]
        self._output = OutputLimit(self._ranks)
        self._watch: DeviceWatch | None = None
        self._failures: list[FailedRank] = []
        self._ending: Ending | None = None
        self._started = time.monotonic()
        self._frozen = StoppedRanks(context.proc, plan.deadlines["lost"])
        self._terms = 0
        self._finishing = False
        self._oom_before = context.proc.oom_kills()
        make_reserve(plan.dir)
        replace_json(plan.file(CONFIG), plan.config)
        self._shipper = Shipper(plan.dir, plan.spool, [rank.rank for rank in plan.ranks], plan.open, plan.token)
        self._external = ExternalRanks(plan, self._ranks[0], self._shipper.streams) if plan.open else None
        self._status = StatusWriter(context, self._ranks, self._shipper.streams)
        self._status.status("STARTING", plan.epoch)

    def run(self, lifeline: int | None = None) -> int:
        """The whole round; returns the agent's exit code. `lifeline` closes when the guardian dies."""
        if lifeline is not None:
            self._wakeup.watch(lifeline)
        code = result.WRITTEN
        try:
            if self._start():
                self._loop()
        except Exception as error:
            code = self._agent_failed(error)
        return self._finish(code)

    def _start(self) -> bool:
        """Starts what ranks need, and all ranks; False when one could not be started."""
        plan, settings = self._plan, self._settings
        for name, text in plan.files.items():
            write_file(plan.file(name), text)
        for name, helper in self._helpers:
            try:
                self._spawn(helper, {}, None, plan.dir)
            except processes.SpawnError as error:
                self._ending = Ending("FAILED", reason("helper-not-started", name=name, why=error.reason), "spawn")
                return False
        if not self._find_devices():
            return False
        for index, rank in enumerate(self._ranks):
            if plan.open:  # the command decides which process is which rank
                own = {"TRAINMARK_SPOOLS": plan.spool, "TRAINMARK_BEGAN": str(time.monotonic_ns())}
            else:
                own = {"TRAINMARK_SPOOL": spool_file(plan.spool, rank.rank), "TRAINMARK_RANK": str(rank.rank)}
            try:
                self._spawn(rank, own, settings.cpus[index] if settings.pinned else None, plan.cwd)
            except processes.SpawnError as error:
                why = reason("rank-not-started", rank=rank.rank, why=error.reason)
                self._ending = Ending("FAILED", why, "spawn", rank.rank)
                return False
        self._started = time.monotonic()
        return True

    def _find_devices(self) -> bool:
        """Looks at the devices and goes on watching them; False when ranks would not have them."""
        plan, vendor = self._plan, str(self._plan.device.get("vendor"))
        if vendor == "cpu" and not plan.board:
            return True
        from trainmark.agent import device_watch

        watched = device_watch.is_watched(vendor)
        if not watched and not plan.board:
            return True
        watch = device_watch.DeviceWatch(vendor, plan.sample_seconds, plan.board, self._containment, self._context.log)
        self._watch = watch
        try:
            facts = watch.first()
            if not watched:
                self._status.devices(watch, None)
                return True
            variable = plan.device.get("visible")
            if variable is None:  # a command of the user's own chooses
                self._status.devices(watch, dict(facts, used=None))
                return True
            count, inherited = device_watch.wanted(plan.ranks, variable, self._settings.inherited)
            self._status.devices(watch, dict(facts, used=device_watch.used(facts, count, inherited)))
            self._context.warnings += device_watch.check(facts, vendor, count, inherited)
        except device_watch.DeviceError as error:
            self._ending = Ending("FAILED", error.reason, error.kind)
            return False
        return True

    def _spawn(self, process: Rank, own: dict[str, str], cpus: list[int] | None, cwd: str | None) -> None:
        plan, ports = self._plan, self._context.ports
        own.update({"TRAINMARK_TOKEN": plan.token, "TRAINMARK_CONFIG": plan.file(CONFIG)})
        env = processes.environment(plan, process.plan, self._settings, os.environ, own)
        env = {name: fill(value, plan.dir, ports) for name, value in env.items()}
        argv = agent_command([fill(word, plan.dir, ports) for word in process.plan.argv])
        cwd = cwd or self._rank_folder(process.rank, env)
        launch = processes.Launch(argv, env, cwd, cpus, self._settings.memory)
        processes.start(process, launch, self._containment)

    def _rank_folder(self, rank: int, env: dict[str, str]) -> str:
        """External ranks make their own in `trainmark-rank`."""
        plan = self._plan
        return plan.dir if plan.open else processes.make_rank_folder(plan.dir, rank, plan.config.get("code"), env)

    # ---- loop

    def _loop(self) -> None:
        next_tick = time.monotonic() + _FIRST_TICK
        while True:
            self._collect()
            if not any(rank.running for rank in self._ranks):
                return
            now = time.monotonic()
            if now >= next_tick:
                self._tick(now)
                self._status.begin(now)
                next_tick = now + _TICK
            self._status.sample(now)
            if self._external is not None:
                self._external.look()
            if self._escalate(now):
                return
            self._wait(next_tick)

    def _wait(self, next_tick: float) -> None:
        look = None if self._external is None else self._external.next_look(time.monotonic())
        times = (next_tick, self._stopping.next(), self._status.next_sample, look)
        numbers, ready = self._wakeup.wait(min(at for at in times if at is not None) - time.monotonic())
        for number in numbers:
            if number in (signal.SIGTERM, signal.SIGINT):
                self._on_signal(time.monotonic())
        if ready:
            self._wakeup.forget_all()
            self._end("FAILED", reason("guardian-killed"), "agent")

    def _tick(self, now: float) -> None:
        self._ship()
        self._output.look()
        self._follow_control(now)
        self._check_ports()
        self._check_deadlines(now)
        self._status.status("STOPPING" if self._stopping.begun else "RUNNING", self._control.epoch)

    def _ship(self) -> None:
        self._shipper.ship(time.monotonic_ns())

    def _escalate(self, now: float) -> bool:
        """Takes the next step of stopping; True when it is time to kill."""
        due = self._stopping.due(now)
        if due == "ask":
            for rank in self._ranks:
                if rank.running:
                    rank.send_signal(signal.SIGTERM)
        return due == "kill"

    # ---- commands, signals and deadlines

    def _follow_control(self, now: float) -> bool:
        command = self._control.look(now)
        if command is None:
            return False
        given = command.reason
        why = reason("stopped-by-controller-because", why=given) if given else reason("stopped-by-controller")
        self._end("CANCELLED", why)
        if command.name == "kill":
            self._stopping.hurry(now)
        return True

    def _on_signal(self, now: float) -> None:
        """SIGTERM or SIGINT: from the controller or from anybody else."""
        if not self._follow_control(now):
            if self._control.stale(now):
                return
            self._end("CANCELLED", reason("stopped-by-signal"))
        self._terms += 1
        if self._terms > 1:
            self._stopping.hurry(now)

    def _end(self, state: str, why: Reason, kind: str | None = None) -> None:
        """Begins stopping for a reason that no rank caused; an earlier ending stays."""
        if self._ending is None and not self._failures:
            self._ending = Ending(state, why, kind)
        self._stopping.begin(time.monotonic())

    def _check_ports(self) -> None:
        found = None if self._stopping.begun else self._context.foreign_listener()
        if found is not None:
            self._end("FAILED", reason("port-of-another-account", port=found[0], uid=found[1]), "port")

    def _check_deadlines(self, now: float) -> None:
        if self._stopping.begun:
            return
        asked = self._external.ended_as_asked() if self._external is not None else None
        if asked is not None:
            self._ending = asked
            self._stopping.begin(now, _GRACE)
            return
        frozen = self._frozen.longest(self._ranks, now)
        if frozen is not None:
            self._ending = frozen
            self._stopping.begin(now)
            return
        running = []
        for rank in present(self._ranks, self._shipper.streams):
            if rank.running:
                stream = self._shipper.streams[rank.rank]
                quiet = self._status.quiet(stream)
                running.append(RankProgress(rank.rank, stream.events, stream.started, stream.step, quiet))
        hang = overdue(now - self._started, self._plan.deadlines, self._plan.probe, running)
        if hang:
            self._ending = Ending("TIMEOUT", hang.reason, hang.kind, hang.rank)
            self._stopping.begin(now, _STACKS if self._ask_for_stacks(hang.rank) else 0.0)

    def _ask_for_stacks(self, number: int | None) -> bool:
        rank = next((rank for rank in self._ranks if rank.rank == number), None)
        return rank is not None and processes.ask_for_stacks(rank, self._context.proc)

    # ---- ends

    def _collect(self) -> bool:
        """Reaps what has ended. Returns whether no child is left."""
        ended: list[Rank] = []
        childless = False
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                childless = True
                break
            if pid == 0:
                break
            found = [rank for rank in self._ranks if rank.pid == pid]
            for rank in found:
                rank.ended(status, usage)
                ended.append(rank)
            if not found and not self._is_watch(pid) and not self._helper_ended(pid, status, usage):
                self._containment.reaped(pid)
        if ended and not self._finishing and not self._stopping.asked:
            self._note_failures(ended)
        return childless

    def _is_watch(self, pid: int) -> bool:
        return self._watch is not None and self._watch.pid == pid

    def _helper_ended(self, pid: int, status: int, usage: Any) -> bool:
        """Whether it was a helper. One that fails while ranks run ends the round: they would wait for it in vain."""
        found = [(name, helper) for name, helper in self._helpers if helper.pid == pid]
        for name, helper in found:
            helper.ended(status, usage)
            if helper.exit != 0 and not self._finishing and any(rank.running for rank in self._ranks):
                why = reason("helper-exited", name=name, code=helper.exit)
                if helper.exit is None:
                    why = reason("helper-killed", name=name, signal=helper.signal)
                for line in last_lines(helper.log)[-1:]:
                    why = reason("said-last", what=why, line=line)
                self._end("FAILED", why, "helper")
        return bool(found)

    def _kill_helpers(self) -> None:
        """They are not needed any more, and not counted as stray processes."""
        for _, helper in self._helpers:
            if helper.running and helper.pid is not None:
                helper.send_signal(signal.SIGKILL)
                _, status, usage = os.wait4(helper.pid, 0)
                helper.ended(status, usage)

    def _note_failures(self, ended: list[Rank]) -> None:
        """Notes ranks that failed and gives the others a moment to end."""
        self._ship()
        for rank in ended:
            has_probe = self._plan.probe and not self._plan.open
            mute = has_probe and rank.exit == 0 and self._shipper.streams[rank.rank].events == 0
            if rank.exit != 0 or mute:
                self._failures.append(FailedRank(rank.rank, rank.exit, rank.signal, mute, self._plan.open))
        if self._failures:
            self._stopping.begin(time.monotonic(), _GRACE)

    def _agent_failed(self, error: Exception) -> int:
        """The agent cannot go on: a full disk, or a fault of its own. An earlier ending stays."""
        if is_disk_full(error):
            self._ending = self._ending or disk_full(error)
            return result.WRITTEN
        import traceback

        self._context.log.line(traceback.format_exc())
        self._ending = self._ending or agent_failed(error)
        return result.INTERNAL

    def _finish(self, code: int) -> int:
        """Kills what is left, then writes the result."""
        self._finishing = True
        self._wakeup.forget_all()
        summary = result.RoundSummary()
        if self._watch is not None:
            self._context.warnings += self._watch.warnings()
            self._status.last_devices()
            self._watch.end()
        self._kill_helpers()
        self._count_strays()
        summary.left = clear(self._containment, self._collect, self._wakeup.wait)
        if self._plan.sweep:
            from trainmark.agent.contain.sweep import sweep

            summary.left += sweep(self._plan.token, self._context.proc)["left"]
        code = max(code, self._write_last_records(summary))
        try:
            ending = self._decide()
            summary.lines = self._lines(ending.rank) if ending.rank is not None else []
        except Exception as error:
            code = max(code, self._agent_failed(error))
            ending = self._decide()  # that the agent failed, unless there was an earlier ending
        self._context.epoch = self._control.epoch
        return result.write(self._context, ending, summary, code)

    def _count_strays(self) -> None:
        """Warns of processes that outlived all ranks: the user may have expected them to finish.

        Helpers such as the resource tracker of multiprocessing end a moment after the process that started them."""
        if any(rank.running for rank in self._ranks):
            return
        deadline = time.monotonic() + _HELPERS_END
        while not self._containment.empty(self._collect()):
            if time.monotonic() > deadline:
                break
            self._wakeup.wait(0.02)
        else:
            return
        strays = self._containment.count()
        if strays > 0:
            left = reason("process-left") if strays == 1 else reason("processes-left", count=strays)
            self._context.warnings.append(left)

    def _write_last_records(self, summary: result.RoundSummary) -> int:
        """Ships the last events and samples; the rest stays in the spool. Returns the agent's exit code."""
        code = result.WRITTEN
        external = [] if self._external is None else [self._external.finish]
        for last in [self._status.finish, *external, self._shipper.finish]:
            try:
                self._context.warnings += last()
            except Exception as error:
                code = max(code, self._agent_failed(error))
        self._context.warnings += self._output.warnings()
        summary.samples = self._status.count
        summary.events = self._shipper.shipped
        summary.files = self._shipper.digests()
        streams = self._shipper.streams
        summary.ranks = [rank.record(streams[rank.rank]) for rank in present(self._ranks, streams)]
        return code

    def _decide(self) -> Ending:
        good = self._external.ended_as_asked() if self._external is not None else None
        if self._ending is not None and self._ending.state != "SUCCEEDED":
            return self._ending
        if self._failures and good is None:
            return blame(self._failures, self._lines, *self._context.proc.oom_kills().risen(self._oom_before))
        for rank, stream in sorted(self._shipper.streams.items()):
            if stream.nonfinite:
                step, value = stream.nonfinite
                why = reason("loss-not-finite", value=value, step=step, rank=rank)
                return Ending("INVALID", why, "nonfinite", rank)
        silent = self._external.silence() if self._external is not None else None
        return good or silent or Ending("SUCCEEDED", reason("all-ranks-ended-well"))

    def _lines(self, number: int) -> list[str]:
        for rank in self._ranks:
            if rank.rank == number:
                return last_lines(rank.log)
        return []
