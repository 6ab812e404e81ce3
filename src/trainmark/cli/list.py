"""`trainmark list`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from trainmark.cli import common, terminal
from trainmark.report.render.escape import flat
from trainmark.report.render.text import columns, narrow


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=WHAT, default="runs", help="default: runs")
    common.add_runs(parser)
    parser.add_argument("-n", type=int, default=20, metavar="N", help="the newest N runs (default: 20, 0: all)")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    rows = _runs(args) if args.what == "runs" else _ROWS[args.what]()
    if args.json:
        terminal.json(rows)
    else:
        terminal.out(table(rows) or terminal.said(f"no {args.what}\n"))
    return 0


def table(rows: list[dict[str, Any]], names: int = 1) -> str:
    """Columns by key; empty for no rows. On a terminal that is too narrow, the first `names` columns stand above the
    others; in a pipe a row is a line."""
    if not rows:
        return ""
    lines = [[terminal.cell(key) for key in rows[0]]]
    lines += [[flat(terminal.cell(value)) for value in row.values()] for row in rows]
    shown = narrow(lines, shutil.get_terminal_size().columns, names) if sys.stdout.isatty() else columns(lines)
    return "".join(f"{line}\n" for line in shown)


def _runs(args: argparse.Namespace) -> list[dict[str, Any]]:
    from trainmark.report.make.index_row import summarise
    from trainmark.store.index import Index

    rows = Index(args.runs).rows(summarise, max(0, args.n))
    return [
        {
            "run": row.run,
            "created": time.strftime("%Y-%m-%d %H:%M", time.localtime(row.created / 1e9)) if row.created else "–",
            "suite": row.suite,
            "state": row.state,
            "cases": f"{row.succeeded}/{row.cases}",
        }
        for row in rows
    ]


def _suites() -> list[dict[str, Any]]:
    from trainmark.spec import suite

    loaded = [suite.load(suite.find(name)).suite for name in suite.built_in_names()]
    return [{"suite": found.name, "title": found.title} for found in loaded]


def _workloads() -> list[dict[str, Any]]:
    from trainmark.spec import workload

    found = [workload.find(name, (), "list").workload for name in workload.names()]
    return [
        {
            "workload": item.name,
            "frameworks": ",".join(item.entry),
            "presets": ",".join(item.presets),
            "unit": item.unit,
            "title": item.title,
        }
        for item in found
    ]


def _devices() -> list[dict[str, Any]]:
    from trainmark.devices.protocol import REGISTRY, published

    found = []
    for name in REGISTRY.names():
        item = REGISTRY.get(name)
        found.append(
            {
                "device": name,
                "proven by": " + ".join(item.proven) or "– (unverified)",
                "visible by": item.visible or "–",
                "in containers": item.container_visible or "–",
                "pytorch": item.torch_device or "–",
                "peaks": _peaks(published(name), vendor=bool(item.visible)),
            }
        )
    return found


def _peaks(found: Sequence[Any], *, vendor: bool) -> str:
    """The models with a published peak; what is no accelerator of a vendor's has none to publish."""
    if not vendor:
        return "–"
    return ", ".join(dict.fromkeys(one.model.partition(" (")[0] for one in found)) or "no data sheet found"


def _formats() -> list[dict[str, Any]]:
    from trainmark.interop.protocol import formats

    return [
        {
            "format": name,
            "import": "–" if item.import_options is None else "yes",
            "export": "–" if item.export_options is None else "yes",
            "what": item.summary,
        }
        for name, item in formats()
    ]


def _frameworks() -> list[dict[str, Any]]:
    from trainmark.frameworks.protocol import REGISTRY

    return [{"framework": name} for name in REGISTRY.names()]


def _launchers() -> list[dict[str, Any]]:
    from trainmark.launch.protocol import REGISTRY

    return [{"launcher": name} for name in REGISTRY.names()]


_ROWS = {
    "suites": _suites,
    "workloads": _workloads,
    "devices": _devices,
    "frameworks": _frameworks,
    "launchers": _launchers,
    "formats": _formats,
}
WHAT = ("runs", *_ROWS)
