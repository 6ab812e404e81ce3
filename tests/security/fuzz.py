# ruff: noqa: E501 - lists of inputs
"""Files that users write, made wrong in every way that can be thought of: suites, sites, workloads, host lists.

The inputs know the structure: they begin as files that are right, and have values of another kind, keys that are gone
or twice, references, deep nesting, huge numbers and odd characters put in, before the text itself is damaged. Whatever
they are, the answer is a result or one `UserError`: `python -m tests.security.fuzz 100000` (`make fuzz`).
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from trainmark.errors import UserError
from trainmark.launch.sites import load_site
from trainmark.plan import build
from trainmark.spec import notation, suite, suite_cases, workload, yamlfile
from trainmark.spec.case_id import CaseId
from trainmark.spec.site import Site

MEMORY = Path("/dev/shm")  # every input is written to a file

SUITE: dict[str, Any] = {
    "schema": 1,
    "name": "s",
    "preset": "smoke",
    "seed": 3,
    "retries": 1,
    "set": {"batch": 8},
    "deadlines": {"total": 60.0},
    "repeat_auto": {"pilot": 3},
    "window": {"skip": 1, "steps": 10},
    "scaling": {"nodes": [1, 2]},
    "workloads": ["w"],
    "log_level": "warning",
    "cases": [
        "mnist:pytorch:cpu:1:2:3",
        {"case": "noop:none:cpu:1:1:1@batch=4", "repeat": 2, "set": {"batch": 2}, "data": "synthetic"},
        {"matrix": {"workload": "noop", "framework": "none", "procs": [1, 2], "batch": [1, 2]}},
        {"command": ["python", "train.py", "--lr", "{lr}"], "name": "own", "matrix": {"lr": [0.1]}, "nproc": 1},
        {"mnist:pytorch:cpu:1:1:1": "/data"},
    ],
}
SITE: dict[str, Any] = {
    "name": "x",
    "launcher": {"name": "ssh", "user": "u", "port": 22, "fan_out": 4},
    "hosts": ["n[1-3]", "m1"],
    "hosts_file": "hosts",
    "work_dir": "~/w",
    "python": "/usr/bin/python3",
    "env": {"A": "b"},
    "env_file": "env",
    "data": {"imagenet": "/data"},
    "tuning": {"threads": 2, "share": 1},
    "devices": {"A100": "nvidia"},
    "vendor_peaks": {"A100": {"bf16": {"flops": 1e12, "source": "paper"}}},
    "master_port": 0,
    "container": {"image": "i", "engine": "docker", "mounts": ["/a"]},
}
WORKLOAD: dict[str, Any] = {
    "schema": 1,
    "name": "w",
    "title": "t",
    "unit": "things",
    "entry": {"none": "main.py"},
    "parameters": {"batch": {"type": "int", "default": 4, "min": 1, "max": 9, "choices": [4, 8]}},
    "presets": {"smoke": {"batch": 4}},
    "deadlines": {"start": 1.0},
    "target": {"metric": "loss", "value": 1.0, "direction": "down"},
}
ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**63, 10**30, 1e308, -0.5, float("inf"), float("nan"), "", " ", "x", "\0", "a\0b",
    "\ud7ff", "~nosuch/x", "~/y", "../..", "/dev/zero", "/dev/null", "a" * 3000, "1" * 5000, "n[1-99999999]", "n[", "n[]",
    "n[5-1]", "a[0-9999][0-9999]", "[1-2]", "mnist:pytorch:cpu:1:1:1", "a:b:c:1:1:1@x=1", ":::::", "a:b:c:99999:99999:1",
    "a:b:c:1:1:" + "9" * 5000, "auto", "{x}", "{", "%PORT0%", "-x", "3%", "4GiB", [], {}, [[]], [None], {"a": None}, "\u202e", "é",
)  # fmt: skip
RAW = (
    b"seed: 2001-13-45\n", b"seed: 2001-02-03\n", b"seed: !!int x\n", b"seed: !!float\n", b"a: !!binary '*'\n",
    b"a: !!python/object:os.system x\n", b"[" * 25_000, b"{a: " * 25_000, b"- " * 25_000, b"? " * 5_000, b"a: &a [*a]\n",
    b"x: &x {<<: *x}\n", b"\xff\xfe", b"\0", b"\t- a", b"a: 'b", b"%YAML 9.9\n---\n", b"--- a\n--- b\n", b"!<x> y", b"&" * 999,
    b"a: " + b"9" * 5_000, b"0x" + b"f" * 9_000, b"1:" * 3_000 + b"1", b"a: 1e999999999", b"*nosuch", b"a: !!timestamp x\n",
    b"<<: [1, 2]\n", b"? [a, b]\n: c\n", b"? {a: b}\n: c\n", b"=: =\n", b"a: !!bool x\n", b"a: !!set {b}\n", b"a: !!omap [b]\n",
    b"a: !!pairs [[1]]\n", b"a: .inf\nb: -.inf\nc: .nan\n", b"1: 2\n", b"null: 2\n", b"a: 190:20:30.15\n", b"a: 0o99\n",
)  # fmt: skip


def changed(value: Any, chance: random.Random, depth: int = 0) -> Any:
    """The value with one part of it wrong."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        kind = chance.random()
        if kind < 0.12:
            return {name: one for name, one in value.items() if name != key}
        if kind < 0.22:
            return {**value, chance.choice(("unknown", "", "x" * 99, 1, None, f"{key}s")): value[key]}
        return {**value, key: changed(value[key], chance, depth + 1)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        place = chance.randrange(len(value))
        if chance.random() < 0.2:
            return value + value[place : place + 1] * chance.randrange(1, 4)
        return [*value[:place], changed(value[place], chance, depth + 1), *value[place + 1 :]]
    return chance.choice(ODD)


def text_of(value: Any, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(1, 4)):
        value = changed(value, chance)
    try:
        return yaml.dump(
            value, Dumper=yaml.CSafeDumper, allow_unicode=True, default_flow_style=chance.random() < 0.3
        ).encode("utf-8", "replace")
    except (yaml.YAMLError, TypeError):
        return repr(value).encode("utf-8", "replace")


def damaged_text(data: bytes, chance: random.Random) -> bytes:
    kind, at = chance.randrange(6), chance.randrange(len(data) + 1)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return (
            data[:at]
            + chance.choice((b":", b"- ", b"\n", b"  ", b"\t", b"&a ", b"*a", b"{", b"[", b"'", b"#", b"|"))
            + data[at:]
        )
    if kind == 3:
        return chance.choice(RAW)
    if kind == 4:
        return data + b"\n" + chance.choice(RAW)
    return data.replace(b":", chance.choice((b": ", b" ", b":\n", b"::")), chance.randrange(1, 4))


def read_suite(file: Path) -> None:
    loaded = suite.load(file)
    site = Site(hosts=["a", "b"])
    cases = suite_cases.expand(loaded, site, {})
    build.build(loaded.suite.name, loaded.suite.division, 0, cases, site, build.Places("python", "/probe"), 1)


def read_site(file: Path) -> None:
    load_site(file)


def read_workload(file: Path) -> None:
    file.replace(file.with_name("workload.yaml"))
    workload.read(file.parent)


def read_hosts(file: Path) -> None:
    notation.expand_hosts(notation.read_host_file(file), str(file))


def read_words(file: Path) -> None:
    """What stands on command lines."""
    for word in file.read_bytes().decode(errors="replace").split()[:20]:
        for read in (
            CaseId.parse,
            lambda text: notation.parse_size(text, "x"),
            lambda text: notation.parse_share(text, "x"),
        ):
            try:
                read(word)
            except UserError:
                continue


READERS: tuple[tuple[Any, Callable[[Path], None]], ...] = (
    (SUITE, read_suite), (SUITE, read_suite), (SITE, read_site), (SITE, read_site), (WORKLOAD, read_workload),
    (["n[1-4]", "m"], read_hosts), (SUITE["cases"], read_words), (SUITE, lambda file: void(yamlfile.load(file))),
)  # fmt: skip


def void(_: object) -> None: ...


def run(count: int, seconds: float, seed: int, folder: Path) -> Counter[str]:
    """Tries inputs until there were so many, or the time is over. Anything but a result or a UserError is raised."""
    chance, found = random.Random(seed), Counter[str]()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    home = folder / "w"
    home.mkdir()
    (folder / "hosts").write_text("h1 slots=2\nh2\n")
    (folder / "env").write_text("A=b\n")
    file = home / "input.yaml"
    for name in ("hosts", "env", "main.py"):
        (home / name).write_text("h1\n" if name == "hosts" else "A=b\n")
    end = time.monotonic() + seconds
    for number in range(count):
        if time.monotonic() > end:
            break
        start, read = chance.choice(READERS)
        data = text_of(start, chance)
        if chance.random() < 0.4:
            data = damaged_text(data, chance)
        file.write_bytes(data)
        signal.alarm(30)  # an input that takes half a minute is one that hangs
        try:
            read(file)
            found["accepted"] += 1
        except UserError as error:
            assert str(error), data[:500]
            found["refused"] += 1
        except BaseException:
            sys.stderr.write(f"input {number} of seed {seed}, read by {read.__name__}:\n{data[:2000]!r}\n")
            raise
        finally:
            signal.alarm(0)
    return found


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as made:
        seen = run(asked, float("inf"), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns(), Path(made))
    sys.stdout.write(f"{seen.total()} inputs in {time.monotonic() - began:.0f} s: {dict(seen)}\n")
