"""Hosts that only speak: one process answers for thousands of relays, over pipes, so that a controller can be watched
with more hosts than anybody has at hand. Each attempt beats once a second, sends its status, events, samples and logs
as it goes, and at the end the files that ranks leave; it succeeds. Left out are ssh and what it encrypts.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.agent.files import to_json
from trainmark.agent.relay.frames import GREETING, Decoder, encode
from trainmark.launch.ssh.command_line import SshTarget
from trainmark.launch.ssh.connections import Connections

_WORK = "/fake"
_EVENTS, _SAMPLES = "events.jsonl", "samples.jsonl"
_STEP_NS = 150_000_000
_BANDWIDTH = 1e9
# About as long as real ones: a sample of a host with 8 ranks, a line that a rank prints, the variables of a rank.
_SAMPLE = 1400
_PRINTED = "epoch 1 step {step} loss 2.5000 lr 0.1000 throughput 1234.5 samples/s\n"
_VARIABLES = "".join(f"TRAINMARK_VARIABLE_{number}=/some/place/with/a/long/name/{number}\n" for number in range(60))


class FakeHosts(Connections):
    """Connections to hosts that one process plays. `speeds`: how fast a host is, as a share; `bandwidths`: the same
    of a link, by its two hosts in order. Hosts in `mute` cannot be reached. `noise`: by how much
    rounds differ, as a share."""

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        seconds: float = 2.0,
        beat_seconds: float = 1.0,
        steps: int = 100,
        speeds: Mapping[str, float] | None = None,
        bandwidths: Mapping[tuple[str, str], float] | None = None,
        mute: Sequence[str] = (),
        noise: float = 0.002,
    ) -> None:
        super().__init__(limit=len(hosts))
        pipes = {host: (os.pipe(), os.pipe()) for host in hosts if host not in mute}
        self.pid = os.fork()
        if not self.pid:
            for (_, asked_w), (answers_r, _) in pipes.values():
                os.close(asked_w)
                os.close(answers_r)
            ends = {host: (asked[0], answers[1]) for host, (asked, answers) in pipes.items()}
            try:
                _Server(ends, seconds, steps, speeds or {}, bandwidths or {}, noise).run(beat_seconds)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)  # what the caller's frames would clean up is the caller's
        self._ends: dict[str, tuple[int, int]] = {}
        for host, ((asked_r, asked_w), (answers_r, answers_w)) in pipes.items():
            os.close(asked_r)
            os.close(answers_w)
            self._ends[host] = asked_w, answers_r

    def open(self, reach: SshTarget, argv: list[str]) -> subprocess.Popen[bytes]:
        del argv
        if reach.host not in self._ends:
            raise OSError(113, "No route to host")
        asked, answers = self._ends.pop(reach.host)
        return _Pipes(asked, answers)  # type: ignore[return-value]

    def close(self) -> None:
        super().close()
        while self._ends:
            for end in self._ends.popitem()[1]:
                os.close(end)
        if self.pid:  # a launcher closes it when its run ends, a test when the test ends
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


class _Pipes:
    """What a link needs of a process."""

    def __init__(self, asked: int, answers: int) -> None:
        self.stdin = os.fdopen(asked, "wb", 0)
        self.stdout = os.fdopen(answers, "rb", 0)
        self.stderr = None

    def wait(self, timeout: float | None = None) -> int:
        del timeout
        return 0

    def kill(self) -> None:
        """It has no process of its own."""


class _Server:
    """All hosts. Slow in nothing but what it is answers to be slow in."""

    def __init__(
        self,
        ends: dict[str, tuple[int, int]],
        seconds: float,
        steps: int,
        speeds: Mapping[str, float],
        bandwidths: Mapping[tuple[str, str], float],
        noise: float,
    ) -> None:
        self._noise = noise
        self._ends, self._seconds, self._steps = ends, seconds, steps
        self._speeds, self._bandwidths = speeds, bandwidths
        self._going: list[_Attempt] = []
        self._selector = selectors.DefaultSelector()

    def run(self, beat_seconds: float) -> None:
        for host, (asked, answers) in self._ends.items():
            self._selector.register(asked, selectors.EVENT_READ, (host, answers, Decoder()))
            os.write(answers, GREETING + b"ready\n" + encode({"op": "hello", "host": host, "work": _WORK}))
        beat = time.monotonic() + beat_seconds
        while self._selector.get_map():
            for key, _ in self._selector.select(max(0.0, beat - time.monotonic())):
                self._hear(key.fd, *key.data)
            if time.monotonic() >= beat:
                beat = time.monotonic() + beat_seconds
                self._beat()

    def _hear(self, asked: int, host: str, answers: int, decoder: Decoder) -> None:
        data = os.read(asked, 1 << 20)
        if not data:
            self._selector.unregister(asked)
            return
        for header, _ in decoder.feed(data):
            more: dict[str, Any] = {}
            if header["op"] == "ping":
                more = {"wall": time.time_ns()}
            elif header["op"] == "have":
                more = {"missing": []}
            elif header["op"] == "ports":
                more = {"numbers": [40000 + index for index, _ in enumerate(header["wanted"])]}
            elif header["op"] == "start":
                self._going.append(_Attempt(self, host, answers, header["plan"]))
            os.write(answers, encode({"op": "reply", "to": header["id"], "ok": True, **more}))

    def _beat(self) -> None:
        self._going = [one for one in self._going if not one.beat()]
        for _, answers in self._ends.values():
            try:
                os.write(answers, encode({"op": "beat"}))
            except BrokenPipeError:
                continue

    def duration(self) -> float:
        return self._seconds

    def steps(self) -> int:
        return self._steps

    def speed(self, host: str) -> float:
        return self._speeds.get(host, 1.0)

    def noise(self) -> float:
        return self._noise

    def bandwidth(self, pair: tuple[str, str]) -> float:
        return _BANDWIDTH * self._bandwidths.get(pair, 1.0)


class _Attempt:
    """One node of an attempt: what its agent would write, piece by piece."""

    def __init__(self, server: _Server, host: str, answers: int, plan: dict[str, Any]) -> None:
        self._server, self._host, self._told, self._plan = server, host, answers, plan
        self._dir = plan["dir"].replace("%TRAINMARK_WORK%", _WORK)
        self._begin, self._at = time.monotonic(), dict[str, int]()
        self._done, self._samples = 0, 0
        self._clock = 10**12
        # A little noise, the same for the same seed: rounds of real hosts are never alike.
        noise = 1 + server.noise() * ((plan["config"]["seed"] * 7919 + sum(host.encode()) * 31) % 11 - 5) / 5
        self._step_ns = int(_STEP_NS * noise / server.speed(host))
        identity = {"schema": 1, "pid": 1, "start_ticks": 1, "boot_id": host, "token": plan["token"], "epoch": 1}
        self._send("agent.json", to_json(dict(identity, host=host)))
        cpu = {"model": "Fake", "threads": 64, "flags": [], "allowed": []}
        self._send("facts.json", to_json({"schema": 1, "host": host, "machine": "fake", "cpu": cpu}))
        self._append(_EVENTS, "".join(self._first(rank["rank"]) for rank in plan["ranks"]))
        self._append(_SAMPLES, to_json({"schema": 1, "units": {"cpu": "share"}}) + "\n")

    def beat(self) -> bool:
        """True when it has ended."""
        share = min(1.0, (time.monotonic() - self._begin) / max(self._server.duration(), 1e-9))
        until = round(share * self._server.steps())
        ranks = [rank["rank"] for rank in self._plan["ranks"]]
        self._append(_EVENTS, "".join(self._lines(rank, self._done, until) for rank in ranks))
        self._append(_SAMPLES, self._sample())
        for rank in ranks:
            self._append(f"rank{rank}.out.log", "".join(_PRINTED.format(step=n) for n in range(self._done, until)))
        self._done = until
        answers = [
            {"rank": rank, "pid": 1, "state": "running", "step": until, "samples": until, "silent": 0} for rank in ranks
        ]
        status = {
            "t": 1,
            "wall": time.time_ns(),
            "state": "RUNNING",
            "uptime": 1.0,
            "epoch": 1,
            "ranks": answers,
            "rate": 1.0,
        }
        self._send("status.json", to_json(status))
        if share < 1.0:
            return False
        self._append(_EVENTS, "".join(self._last(rank) for rank in ranks))
        for rank in ranks:
            self._append(f"rank{rank}/env.log", _VARIABLES)
        self._send("result.json", to_json(self._result(ranks)))
        os.write(self._told, encode({"op": "gone", "dir": self._dir, "exit": 0}))
        return True

    def _sample(self) -> str:
        """Padded to the length of a real one."""
        self._samples += 1
        record = {"t": self._clock + self._samples * 10**9, "cpu": 0.5, "mem_used": 1 << 30, "pad": ""}
        record["pad"] = "x" * (_SAMPLE - len(to_json(record)))
        return to_json(record) + "\n"

    def _event(self, rank: int, seq: int, at: int, **more: Any) -> str:
        return to_json(dict({"rank": rank, "seq": seq, "t": at}, **more)) + "\n"

    def _first(self, rank: int) -> str:
        start = {"k": "INIT_START", "unit": "samples", "device": "cpu", "timing": "host"}
        lines = [self._event(rank, 0, self._clock, **start)]
        lines += [self._event(rank, 1 + i, self._clock, k=k) for i, k in enumerate(("INIT_END", "TRAIN_START"))]
        step = {"loss": 2.5, "gradient_norm": 1.0}
        return "".join(lines) + self._event(rank, 3, self._clock, k="NOTE", name="first_step", value=step)

    def _lines(self, rank: int, done: int, until: int) -> str:
        line = '{"k":"STEP_END","rank":%d,"seq":%d,"t":%d,"step":%d,"n":8}\n'
        return "".join(
            line % (rank, 3 + step, self._clock + step * self._step_ns, step) for step in range(done + 1, until + 1)
        )

    def _last(self, rank: int) -> str:
        seq, at = 4 + self._server.steps(), self._clock + (self._server.steps() + 1) * self._step_ns
        lines = ""
        if rank == 0 and self._plan["config"]["workload"] == "collectives":
            value = {"operation": "send_recv", "bytes": 1 << 20, "bus_bandwidth": self._bandwidth()}
            lines = self._event(rank, seq, at, k="NOTE", name="collective", value=value)
        lines += self._event(rank, seq + 1, at, k="TRAIN_END")
        return lines + self._event(rank, seq + 2, at, k="FINISHED", values={})

    def _bandwidth(self) -> float:
        """By the case's name, which says the pair."""
        a, _, b = self._plan["case"].partition("on=")[2].partition(",")[0].partition("~")
        return (
            self._server.bandwidth((a, b)) * self._server.speed(a) * self._server.speed(b) * (_STEP_NS / self._step_ns)
        )

    def _result(self, ranks: list[int]) -> dict[str, Any]:
        answers = [
            {"rank": rank, "pid": 1, "exit": 0, "signal": None, "cpu_s": 1.0, "max_rss_bytes": 1, "steps": self._done}
            for rank in ranks
        ]
        return {
            "schema": 1,
            "token": self._plan["token"],
            "epoch": 1,
            "state": "SUCCEEDED",
            "reason": "all ranks ended well",
            "started": 1,
            "ended": 2,
            "duration": 1.0,
            "first_failure": None,
            "ranks": answers,
            "containment": {"used": "none", "why": [], "left": 0},
            "settings": {},
            "ports": [],
            "overhead": {"agent_cpu_s": 0.01},
            "warnings": [],
            "events": 0,
            "samples": self._samples,
        }

    def _send(self, name: str, text: str) -> None:
        os.write(self._told, encode({"op": "file", "dir": self._dir, "name": name}, text.encode()))

    def _append(self, name: str, text: str) -> None:
        data = text.encode()
        while data:
            # A pipe takes this much at once; the other end reads while we wait.
            piece, data = data[:32768], data[32768:]
            at = self._at.get(name, 0)
            os.write(self._told, encode({"op": "file", "dir": self._dir, "name": name, "at": at}, piece))
            self._at[name] = at + len(piece)
