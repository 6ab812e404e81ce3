"""`trainmark top`: what runs now, and what it does to the machine."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from trainmark.cli import common, terminal
from trainmark.cli.list import table
from trainmark.i18n.speaker import say
from trainmark.i18n.texts import label
from trainmark.report.render.escape import clean
from trainmark.run import control
from trainmark.run.control import Running
from trainmark.run.progress import duration


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_runs(parser)
    parser.add_argument("--once", action="store_true", help="print once and end (also when piped)")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="time between two looks (default: 1)")


def call(args: argparse.Namespace) -> int:
    if args.once or not sys.stdout.isatty():
        terminal.out(screen(args.runs, args.language))
        return 0
    from rich.live import Live
    from rich.text import Text

    with Live(Text(clean(screen(args.runs, args.language))), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(max(0.2, args.seconds))
            live.update(Text(clean(screen(args.runs, args.language))), refresh=True)


def screen(runs: Path, language: str = "en") -> str:
    rows = [_row(one, language) for one in control.running(runs)]
    return table(rows, names=2) or terminal.said(f"nothing runs in {runs.resolve()}\n")


def _row(one: Running, language: str) -> dict[str, Any]:
    seen, sample = one.progress, one.sample
    return {
        "run": one.run.id,
        "case": one.case.case,
        "round": f"{one.round}/{one.case.repeat}",
        "step": _steps(seen.step, seen.steps) if seen else "–",
        "rate": f"{seen.rate:,.1f} {one.case.unit}/s" if seen and seen.rate is not None else "–",
        "cpu": _share(sample.get("cpu")),
        "steal": _share(sample.get("steal")),
        "memory": f"{sample['mem_used'] / 2**30:.1f} GiB" if sample.get("mem_used") is not None else "–",
        "time": duration(seen.uptime) if seen else "–",
        "note": _note(one, language),
    }


def _steps(step: int, steps: int | None) -> str:
    return str(step) if steps is None else f"{step}/{steps}"


def _note(one: Running, language: str) -> str:
    if not one.owned:
        return f"no controller: `{common.resume_line(one.run, one.plan)}`"
    return say(label("progress.waits", one.waits_for), language) if one.waits_for else ""


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
