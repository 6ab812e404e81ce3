"""What `doctor` looks at on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import trainmark.agent
from trainmark import extras
from trainmark.cache import cache_dir
from trainmark.devices.cpu import node as node_host
from trainmark.errors import SiteError
from trainmark.launch.protocol import Finding
from trainmark.plan.records import CasePlan, Plan
from trainmark.spec.site import Site

_SECONDS = 60.0
_LEAST_DISK = 2**30
_ASK_PYTHON = """
import json, sys
found = {"python": sys.version.split()[0]}
try:
    import torch
    found["torch"] = torch.__version__
    found["threads"] = torch.get_num_threads()
except ImportError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


def findings(site: Site, plan: Plan | None) -> list[Finding]:
    del plan  # every case of this machine needs the same
    return list(_all(site, os.uname().nodename))


def check_plan(plan: Plan) -> None:
    """SiteError for what would make a run on this machine useless."""
    _check_devices(plan)
    _check_modules(plan)
    if plan.rank_table is not None:
        found = rank_table(plan.rank_table, plan.site.hosts[0])
        if not found.good:
            raise SiteError(f"site `{plan.site.name}`: rank_table: {found.found}; {found.cure}")


def _check_devices(plan: Plan) -> None:
    """Ranks that share a device, or have none, would be measured as something else than what the case says."""
    if all(case.vendor == "cpu" for case in plan.cases):
        return
    from trainmark.agent.relay import check as node_check
    from trainmark.launch import devices

    wanted = devices.wanted(plan)
    if not wanted:
        return

    agent = [sys.executable, "-I", "-S", str(Path(trainmark.agent.__file__).with_name("__main__.py"))]
    here = plan.site.hosts[0] or os.uname().nodename
    found = devices.judge(here, node_check.devices(wanted, agent), plan, os.environ)
    bad = [finding for finding in found if finding.good is False]
    if bad:
        raise SiteError(f"site `{plan.site.name}` cannot run this", bad)


def _check_modules(plan: Plan) -> None:
    """Frameworks that have environments were looked for when their Python was chosen; PyTorch has none. Of the modules
    that programs import, each is looked for once in each Python."""
    wanted: dict[tuple[str, str], CasePlan] = {}
    for case in plan.cases:
        if not case.open:
            first = ("torch",) if case.id.framework == "pytorch" else ()
            for module in (*first, *case.modules):
                wanted.setdefault((_python_of(case), module), case)
    for (python, module), case in wanted.items():
        from trainmark import environments

        if not environments.has(python, module, case.env):
            name = "pytorch" if module == "torch" else module
            raise SiteError(
                f"case `{case.case}`: {name} is not installed in {python}; `{extras.command(module)}` adds it "
                "to trainmark's own Python, or name one that has it in the site: `python: /path/to/python`"
            )


def _python_of(case: CasePlan) -> str:
    """That of its ranks; where a launcher starts them, its command ends in Python and the program."""
    argv = case.nodes[0].ranks[0].argv
    words = [word for word in argv if os.path.basename(word).startswith("python")] if case.launched else []
    return words[0] if words else argv[0]


def _all(site: Site, name: str) -> Iterator[Finding]:
    facts = node_host.detect()
    yield from _machine(facts, name)
    yield from _python(site.python or sys.executable, name)
    yield _node_side(name)
    yield _disk(name)
    if site.rank_table_file is not None:
        yield rank_table(site.rank_table_file, name)


def rank_table(path: str, host: str) -> Finding:
    """A file that ranks read."""
    if os.path.isfile(path) and os.access(path, os.R_OK):
        return Finding(host, "rank table", True, path)
    return Finding(host, "rank table", False, f"{path}: no file that can be read", "`trainmark ranktable` makes one")


def _machine(facts: dict[str, Any], name: str) -> Iterator[Finding]:
    cores = len(facts["cpu"]["allowed"])
    yield Finding(name, "cores", True, f"{cores} usable, {facts['cpu']['model'] or 'unknown model'}")
    if facts["memory_bytes"] is not None:
        yield Finding(name, "memory", True, f"{facts['memory_bytes'] / 2**30:.1f} GiB")
    load = os.getloadavg()[0]
    busy = load > 0.5 * cores
    yield Finding(
        name,
        "load",
        None if busy else True,
        f"{load:.2f}",
        "other work disturbs measurements" if busy else "",
    )


def _python(python: str, name: str) -> Iterator[Finding]:
    found = _ask([python, "-c", _ASK_PYTHON])
    if isinstance(found, str):
        yield Finding(name, "python", False, found, "set `python:` in the site to a Python that can train")
        return
    yield Finding(name, "python", True, f"{found['python']} at {python}")
    if "torch" in found:
        yield Finding(name, "pytorch", True, f"{found['torch']}, {found['threads']} threads")
    else:
        cure = f"{extras.command('torch')}, or name another `python:` in the site"
        yield Finding(name, "pytorch", None, found.get("error", "not found"), cure)


def _node_side(name: str) -> Finding:
    """The zip that other machines would get, tried on this one."""
    try:
        from trainmark.launch import node_zip

        file = node_zip.write(cache_dir("node"))
    except OSError as error:
        where = f"the cache {cache_dir()} cannot be written: {error.strerror}"
        return Finding(name, "node side", False, where, "set TRAINMARK_CACHE to a folder that can be")
    found = _ask([sys.executable, "-I", "-S", str(file), "selftest"])
    if isinstance(found, str):
        return Finding(name, "node side", False, found, "reinstall trainmark")
    return Finding(name, "node side", True, f"{file.name}, containment {found['best']}")


def _disk(name: str) -> Finding:
    import shutil

    free = shutil.disk_usage(Path.cwd()).free
    enough = free > _LEAST_DISK
    return Finding(name, "disk", enough, f"{free / 2**30:.1f} GiB free here", "" if enough else "make room for results")


def _ask(argv: list[str]) -> dict[str, Any] | str:
    """The JSON a program prints last, or why it printed none."""
    program = os.path.abspath(argv[0]) if "/" in argv[0] else argv[0]
    try:
        # In the root folder: `-c` would find modules of the current one, which may be anybody's.
        done = subprocess.run([program, *argv[1:]], cwd="/", capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        return f"{argv[0]}: no such program"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{argv[0]}: {error}"
    lines = done.stdout.splitlines()
    try:
        found = msgspec.json.decode(lines[-1])
    except (IndexError, msgspec.DecodeError):
        tail = done.stderr.decode(errors="replace").strip().splitlines()
        return f"exit code {done.returncode}: {tail[-1] if tail else 'it said nothing'}"
    return found if isinstance(found, dict) else f"unexpected answer {found!r}"
