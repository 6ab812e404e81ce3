"""What several verbs share: the same option means the same thing everywhere."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from trainmark.cli import terminal
from trainmark.errors import UserError
from trainmark.launch import sites
from trainmark.plan.records import Plan
from trainmark.run import planning
from trainmark.run.planning import PRESETS
from trainmark.spec import suite as suites
from trainmark.spec.site import Site
from trainmark.spec.suite import Loaded
from trainmark.store import rundir
from trainmark.store.files import write_named
from trainmark.store.rundir import RunDir


def add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path(os.environ.get("TRAINMARK_RUNS", "runs")),
        metavar="DIR",
        help="the folder runs are kept in (default: $TRAINMARK_RUNS or ./runs)",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="run id, its unique start or end, its folder, or a suite: the newest run of it (default: the newest)",
    )
    add_runs(parser)


SUITE = "a built-in suite (`trainmark list suites`), a YAML file, or one case id"


def add_suite(parser: argparse.ArgumentParser, what: str = SUITE, *, optional: bool = False) -> None:
    """Everything that decides what would be run. `optional`: a tester may say it."""
    parser.add_argument("suite", metavar="SUITE", nargs="?" if optional else None, help=what)
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    parser.add_argument(
        "--preset", metavar="NAME", help=f"size of a case given by id: {', '.join(PRESETS)} (default: quick)"
    )
    parser.add_argument(
        "--grid",
        metavar="LIST",
        help="a scaling study of every case over nodes and processes: 1n1g,1n2g,2n2g, or dlperf",
    )
    add_set(parser)
    add_seed(parser)


def add_seed(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="order of rounds and seeds of training (default: random, recorded)",
    )


def add_set(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a parameter of every case that has it",
    )


def add_seconds(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="measure at least this long in each round, after its warm-up (default: as the preset does)",
    )


def overrides(args: argparse.Namespace) -> dict[str, str]:
    return pairs(args.set, "--set")


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """KEY=VALUE texts as a mapping."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"{option} {text}: expected KEY=VALUE")
        found[key] = value
    return found


def load_suite(args: argparse.Namespace) -> Loaded:
    loaded = planning.load_suite(args.suite, args.preset)
    grid: str | None = getattr(args, "grid", None)
    return with_seconds(loaded if grid is None else suites.stretched(loaded, grid), args)


def with_seconds(loaded: Loaded, args: argparse.Namespace) -> Loaded:
    """The suite with `--seconds`, of a verb that has it."""
    seconds: float | None = getattr(args, "seconds", None)
    return loaded if seconds is None else suites.measured_for(loaded, seconds)


def load_site(args: argparse.Namespace) -> Site:
    return sites.load_site(args.site)


def make_plan(args: argparse.Namespace) -> Plan:
    """Suite, site and options → plan."""
    plan = planning.plan_suite(load_suite(args), load_site(args), overrides(args), args.seed)
    return planning.with_kept_peaks(plan, args.site)


def check(plan: Plan, args: argparse.Namespace) -> None:
    """What would make a run useless, before anything is started or written."""
    planning.check(plan, args.runs, hosts=not args.no_check)


def add_no_check(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--no-check", action="store_true", help="do not look at the site's hosts before the start")


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write to a file, whole or not at all, instead of the terminal",
    )


def add_folder(parser: argparse.ArgumentParser, what: str, default: Path | None = None) -> None:
    parser.add_argument("-o", "--output", type=Path, default=default, metavar="DIR", help=what)


def language(kind: str, args: argparse.Namespace) -> str | None:
    """Of a report of this format: a page follows its reader's browser unless `--lang` was given."""
    given: str | None = args.lang if kind == "html" else args.language
    return given


def write(text: str, output: Path | None) -> None:
    """To the file that `-o` names, whole or not at all, or to the terminal. A line of a log may hold bytes that are no
    text."""
    if output is None:
        terminal.out(text)
    else:
        write_named(output, text.encode("utf-8", "replace"))


def resume_line(run: RunDir, plan: Plan) -> str:
    """The command that goes on with a run."""
    return f"trainmark {'automl ' if plan.kind == 'automl' else ''}resume {run.id}"


def find_run(args: argparse.Namespace, *, own: bool = False) -> RunDir:
    """`own`: the verb starts or ends something, so without a name it means a run of this account."""
    return rundir.find(args.runs, args.run, own=own)


def named_run(args: argparse.Namespace) -> tuple[RunDir, str] | None:
    """The run that `suite` names, if it can be the name of nothing else, and after a colon one of its cases."""
    return planning.named_run(args.runs, args.suite)
