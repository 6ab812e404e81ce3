"""Vendors' tools: found, run with a deadline, and what they wrote. Nothing is changed on the node."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from trainmark.devices.node_side import pci, readings
from trainmark.devices.node_side.reasons import reason

SECONDS = 10.0  # a tool that takes longer does not answer
_MOST_TEXT = 4 << 20
_SAID = 200  # of what a tool wrote, in a finding
# What tools write where the driver is not there or does not answer.
_NO_DRIVER = (
    "couldn't communicate with the nvidia driver",
    "driver not loaded",
    "driver not initialized",
    "drvmngr",
    "dcmi module initialize failed",
    "no driver",
    "failed to initialize nvml",
)
# … and where it does, and there is no device.
_NO_DEVICE = ("no devices were found", "no devices found", "no device", "no npu", "no gpu")


class Parsed(NamedTuple):
    """What a tool's text says. `devices` is None where the text is not of a form that is known."""

    devices: Optional[List[readings.Device]]
    driver: Optional[str] = None


Parse = Callable[[str], Parsed]
Problem = Optional[Dict[str, Any]]


class Answer(NamedTuple):
    """Standard output, or why there is none."""

    text: str
    problem: Problem = None


def find(name: str, folders: Sequence[str] = ()) -> Optional[str]:
    """The tool's file: on the PATH, else where its vendor installs it."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders) or os.devnull)


def said(argv: Sequence[str], seconds: Optional[float] = None, cwd: Optional[str] = None) -> Answer:
    """What a program writes, in English; a problem when it cannot be run, fails or takes too long."""
    seconds = SECONDS if seconds is None else seconds
    name = os.path.basename(argv[0])
    env = dict(os.environ, LC_ALL="C", LANG="C")
    try:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=cwd
        )
    except OSError as error:
        return Answer("", reason("device-tool-failed", tool=name, said=error.strerror or str(error)))
    try:
        output = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        # A tool that waits inside the kernel does not even die: nobody waits for it.
        assert process.stdout is not None  # noqa: S101
        process.stdout.close()
        return Answer("", reason("device-tool-hangs", tool=name, seconds=seconds))
    text = output[-_MOST_TEXT:].decode("utf-8", "replace")
    if process.returncode:
        return Answer(text, _refused(name, text, process.returncode))
    return Answer(text)


def _refused(name: str, text: str, code: int) -> Problem:
    low = text.lower()
    if any(words in low for words in _NO_DRIVER):
        return reason("device-driver-missing", tool=name, said=last_line(text))
    if any(words in low for words in _NO_DEVICE):
        return reason("device-driver-without-device", tool=name)
    return reason("device-tool-failed", tool=name, said=last_line(text) or "exit code %d" % code)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_SAID] if lines else ""


class Tool:
    """A vendor's tool that writes about all devices at once. `files` is a pattern of one device file for each."""

    def __init__(
        self, name: str, options: Sequence[str], parse: Parse, folders: Sequence[str] = (), files: str = ""
    ) -> None:
        self.name, self._options, self._parse = name, list(options), parse
        self._folders, self._files = folders, files

    def there(self) -> Optional[str]:
        return find(self.name, self._folders)

    def read(self) -> "Reading":
        path = self.there()
        if path is None:
            count = len(glob.glob(self._files)) if self._files else 0
            why = reason("device-tool-missing", tool=self.name, count=count) if count else None
            return Reading([], None, why, count or None)
        answer = said([path, *self._options])
        if answer.problem is not None:
            return Reading([], None, answer.problem)
        parsed = self._parse(answer.text)
        if parsed.devices is None:
            low = answer.text.lower()
            if any(words in low for words in _NO_DEVICE):
                return Reading([], parsed.driver, reason("device-driver-without-device", tool=self.name))
            line = last_line(answer.text)
            return Reading([], parsed.driver, reason("device-tool-not-understood", tool=self.name, said=line))
        empty = reason("device-driver-without-device", tool=self.name) if not parsed.devices else None
        return Reading(parsed.devices, parsed.driver, empty)


class Reading(NamedTuple):
    """What a look at the devices gave: devices, version of the driver, what is wrong, and a count where only that is
    known."""

    devices: List[readings.Device]
    driver: Optional[str] = None
    problem: Problem = None
    only_count: Optional[int] = None


def detected(vendor: str, source: str, reading: Reading) -> Dict[str, Any]:
    """What `detect()` of a vendor returns: what the vendor says of the devices, and what the kernel does."""
    facts = [
        {**pci.place(one.get("bus")), **{name: value for name, value in one.items() if value is not None}}
        for one in readings.facts(reading.devices)
    ]
    return {
        "vendor": vendor,
        "source": source if reading.devices or reading.problem else None,
        "driver": reading.driver,
        "count": len(reading.devices) or reading.only_count or 0,
        "devices": facts,
        "problem": reading.problem,
    }


class ToolSampler:
    """Samples by running a vendor's tool again and again."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.problem: Problem = None

    def sample(self, rank_pids: Dict[int, int]) -> Dict[str, Any]:
        del rank_pids
        reading = self._tool.read()
        self.problem = reading.problem
        return {"devices": readings.sampled(reading.devices)}
