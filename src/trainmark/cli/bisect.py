"""`trainmark bisect`: which commit made a suite slower?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.cli import common, drive, terminal
from trainmark.errors import CASE_FAILED, OK, STOPPED, UserError
from trainmark.run.stop import StopSwitch, on_signals
from trainmark.spec.notation import parse_share

if TYPE_CHECKING:
    from trainmark.campaigns.bisect import Bisected
    from trainmark.run.campaign import Campaign

EPILOG = """\
example:
  trainmark bisect --good v1.4 --bad main suite.yaml
The suite is taken as it is now; its commands (`command:`) and its own workloads run in a work tree of each revision, in
a folder of the bisection: the files in your work tree are not touched. Rounds of good, bad and what lies between are
taken in turns, as many as it takes to be sure (5 % over the whole search). `trainmark resume` goes on with one that was
stopped or killed.
exit code: 0 a commit was found, 1 bad is not slower beyond doubt, 2 bad input, 130 stopped.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", metavar="SUITE", help="a suite (YAML) whose cases run code of the repository")
    parser.add_argument("--good", required=True, metavar="REV", help="a revision that was fast enough")
    parser.add_argument("--bad", required=True, metavar="REV", help="a later one that is slower")
    parser.add_argument("--repo", type=Path, metavar="DIR", help="the git work tree (default: the suite's)")
    parser.add_argument("--margin", default="3%", metavar="SHARE", help="differences up to this do not matter (3%%)")
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    common.add_set(parser)
    common.add_runs(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON, progress to stderr")


def call(args: argparse.Namespace) -> int:
    from trainmark.campaigns import bisect, revisions
    from trainmark.campaigns.asked import asked_suite
    from trainmark.spec import suite as suites

    margin = parse_share(args.margin, "--margin")
    loaded = suites.load(suites.find(args.suite))
    repo = revisions.root(args.repo or loaded.file.resolve().parent)
    suite = asked_suite(loaded, common.load_site(args), common.overrides(args))
    made = bisect.create(suite, repo, args.good, args.bad, margin, args.runs, drive.command(args))
    return go_on(made, args)


def go_on(made: Campaign, args: argparse.Namespace) -> int:
    from trainmark.campaigns import bisect
    from trainmark.i18n.speaker import say
    from trainmark.report.show import show

    switch = StopSwitch()
    _note(f"{len(bisect.asked_of(made).commits)} commit(s) between good and bad")
    try:
        with on_signals(switch):
            found = bisect.go(made, lambda news: _note(say(news)), switch=switch)
    except bisect.Broken as error:
        raise UserError(f"{error}; name another revision with --good or --bad") from None
    if found is None:
        _note(f"trainmark bisect: stopped; `trainmark resume {made.name}` goes on")
        return STOPPED
    if args.json:
        whole = {**msgspec.structs.asdict(found.answer), "disturbed": found.disturbed, "runs": found.runs}
        terminal.out(show(whole, "json-line"))
    else:
        terminal.tell("\n".join(_lines(Path(bisect.asked_of(made).repo), found)) + "\n")
    return CASE_FAILED if found.answer.commit is None else OK


def _note(text: str) -> None:
    terminal.err(f"{text}\n")
    sys.stderr.flush()


def _lines(repo: Path, found: Bisected) -> list[str]:
    from trainmark.campaigns import revisions
    from trainmark.i18n.speaker import say
    from trainmark.report.make.compare import ratio_text

    answer, verdict = found.answer, found.answer.verdict
    where = f"{answer.rounds} rounds, kept in {found.runs}"
    if found.disturbed:
        where += f"\n  {found.disturbed} of {answer.rounds} rounds were disturbed; a quiet machine gives a surer answer"
    if answer.commit is None:
        text = {
            "faster": f"bad is not slower than good but {say(verdict.reason)}",
            "equivalent": f"bad is not slower than good: {say(verdict.reason)}",
        }.get(verdict.word, f"it is not beyond doubt that bad is slower than good: {say(verdict.reason)}")
        return [f"no slow commit: {text}", f"  bad ÷ good: {ratio_text(verdict)}; {where}"]
    lines = [f"first slow commit: {revisions.title(repo, answer.commit)}"]
    lines += [f"  or, without a speed of its own: {revisions.title(repo, commit)}" for commit in answer.also]
    lines += [f"  not beyond doubt: {revisions.title(repo, commit)}" for commit in answer.unsure]
    return [*lines, f"  bad is {say(verdict.reason)}; {where}"]
