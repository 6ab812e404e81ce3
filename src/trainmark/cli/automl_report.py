"""`trainmark automl report`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from trainmark.automl.experiment.document import document
from trainmark.automl.experiment.result import Result
from trainmark.cli import automl_common, common
from trainmark.errors import CASE_FAILED, OK, UserError
from trainmark.plan.records import Plan
from trainmark.report import show as reports
from trainmark.run.progress import duration
from trainmark.store.rundir import RunDir

EPILOG = """\
The page is called Report_Succeed.html when the score counts, else Report_Failed.html, with the reasons.
"""
SUCCEED, FAILED = "Report_Succeed.html", "Report_Failed.html"
# What `--logs` gathers of a run: everything that is text. Checkpoints and weights stay where they are.
_LOGS = ("run.log", "journal.jsonl", "manifest.json", "automl/ledger.log", "automl/graphs/*.json")
_NODE_LOGS = ("*.out.log", "agent.log", "result.json", "facts.json", "events.jsonl", "samples.jsonl")


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where files are written (default: RUN/results)")
    parser.add_argument("--logs", action="store_true", help="also gather all logs into results/logs")
    parser.add_argument("--language", choices=("en", "zh"), help="of the page (default: the reader's)")


def call(args: argparse.Namespace) -> int:
    run, plan, experiment = automl_common.find(args)
    found = automl_common.look(run, plan, experiment)
    _check_time(found, experiment.rule_set.report_after)
    out = args.out or run.path / "results"
    page = write(run, found, out, args.language)
    if args.json:
        sys.stdout.write(reports.show(found, "json-line"))
    else:
        sys.stdout.write(reports.show(document(found)) + f"\n{page}\n")
    if args.logs:
        if found.state == "RUNNING":
            sys.stderr.write("warning: the experiment still runs: copying its logs costs it disk and network\n")
        gather(run, out / "logs")
        sys.stderr.write(f"logs are in {out / 'logs'}\n")
    return 0


def _check_time(found: Result, least: float) -> None:
    """A report of one that runs needs something to tell."""
    if found.state != "RUNNING":
        return
    so_far = time.time() - found.start if found.start is not None else 0.0
    if found.start is None or so_far < least:
        left = "a first epoch" if so_far >= least else duration(least - so_far)
        raise UserError(
            f"experiment {found.run} has run for {duration(so_far)}; rule set `{found.rules}` reports after "
            f"{duration(least)}: wait for {left}"
        )


def show(run: RunDir, args: argparse.Namespace) -> int:
    """The end of `automl run`: the same as `automl report`, whenever it ended. 1 where the score does not count."""
    from trainmark.automl.experiment.plan import experiment_of

    plan: Plan = run.manifest().plan
    found = automl_common.look(run, plan, experiment_of(plan))
    page = write(run, found, run.path / "results", None)
    if args.json:
        sys.stdout.write(reports.show(found, "json-line"))
    else:
        sys.stdout.write("\n" + reports.show(document(found)) + f"\n{page}\n")
    return OK if found.valid else CASE_FAILED


def write(run: RunDir, found: Result, out: Path, language: str | None) -> Path:
    """The page, `results.txt` and `results.json`. A page of an earlier verdict does not stay beside it."""
    from trainmark.automl.experiment import monitoring

    nodes = monitoring.read(run, found.start, found.seconds) if found.start is not None else []
    out.mkdir(parents=True, exist_ok=True)
    kept, gone = (SUCCEED, FAILED) if found.valid else (FAILED, SUCCEED)
    (out / gone).unlink(missing_ok=True)
    (out / kept).write_text(reports.show(document(found, nodes), "html", language), encoding="utf-8")
    (out / "results.txt").write_text(reports.show(document(found)), encoding="utf-8")
    (out / "results.json").write_text(reports.show(found, "json"), encoding="utf-8")
    return out / kept


def gather(run: RunDir, target: Path) -> None:
    """Copies logs, keeping where they lay in the run's folder."""
    files = [path for pattern in _LOGS for path in run.path.glob(pattern)]
    files += [path for pattern in _NODE_LOGS for path in run.path.glob(f"*/round*/attempt*/*/{pattern}")]
    for path in files:
        place = target / path.relative_to(run.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
