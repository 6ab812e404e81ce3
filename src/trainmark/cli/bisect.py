"""`trainmark bisect`: which commit made a suite slower?"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark.cli import common
from trainmark.errors import CASE_FAILED, STOPPED, UserError
from trainmark.report.i18n.speaker import say
from trainmark.run import planning
from trainmark.run.stop import StopSwitch, on_signals
from trainmark.spec.notation import parse_share
from trainmark.spec.states import JobState

if TYPE_CHECKING:
    from trainmark.run.bisect import Answer, NotSlower
    from trainmark.run.revisions import Trees
    from trainmark.spec.suite import Loaded

EPILOG = """\
example:
  trainmark bisect --good v1.4 --bad main suite.yaml
The suite is taken as it is now; its commands (`command:`) and its own workloads run in a work tree of each revision, in
a temporary folder: the files in your work tree are not touched. Rounds of good, bad and what lies between are taken in
turns, as many as it takes to be sure (5 % over the whole search).
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


class _Stopped(Exception):
    pass


def call(args: argparse.Namespace) -> int:
    from trainmark.run import revisions
    from trainmark.run.bisect import Broken, NotSlower, Search
    from trainmark.spec import suite as suites

    margin = parse_share(args.margin, "--margin")
    loaded = suites.load(suites.find(args.suite))
    repo = revisions.root(args.repo or loaded.file.resolve().parent)
    good, bad = (revisions.commit(repo, getattr(args, name), f"--{name}") for name in ("good", "bad"))
    commits = revisions.between(repo, good, bad)
    runs = args.runs.resolve() / f".bisect-{loaded.suite.name}-{os.urandom(2).hex()}"
    with (
        tempfile.TemporaryDirectory(prefix="trainmark-bisect-") as folder,
        revisions.Trees(repo, Path(folder)) as trees,
    ):
        rounds = _Rounds(args, loaded, repo, trees, runs)
        _say(f"{len(commits)} commit(s) between good and bad")
        try:
            with on_signals(rounds.switch):
                answer = Search(good, commits, rounds.measure, _say, margin).go()
        except _Stopped:
            return STOPPED
        except Broken as error:
            raise UserError(f"{error}; name another revision with --good or --bad") from None
        except NotSlower as error:
            _show_none(args, error, rounds)
            return CASE_FAILED
    _show(args, repo, answer, rounds)
    return 0


class _Rounds:
    """One round of the suite at a revision, through the same loop as any run."""

    def __init__(self, args: argparse.Namespace, loaded: Loaded, repo: Path, trees: Trees, runs: Path) -> None:
        self._args, self._loaded, self._repo, self._trees, self.runs = args, loaded, repo, trees, runs
        self._site = common.load_site(args)
        self.switch = StopSwitch()
        self.disturbed = 0

    def measure(self, commit: str) -> float | str:
        """The geometric mean over the cases, or the reason when one of them gave no speed."""
        from trainmark.report.build import build
        from trainmark.report.figures import last_lines
        from trainmark.run import session
        from trainmark.run.observers import RunLog
        from trainmark.score.stats.verdict import geometric_mean
        from trainmark.spec import suite_cases
        from trainmark.store.rundir import RUN_LOG

        moved = self._moved(self._trees.at(commit))
        cases = [
            msgspec.structs.replace(case, id=msgspec.structs.replace(case.id, repeat=1), auto=None, studies=())
            for case in suite_cases.expand(moved, self._site, common.overrides(self._args))
        ]
        plan = msgspec.structs.replace(planning.plan_cases(moved, cases, self._site, None), kind="bisect")
        run = session.create(plan, self.runs, ["trainmark", *self._args.argv], self._repo)
        log = RunLog(run.path / RUN_LOG)
        if session.drive(run, plan, log, self.switch) is JobState.CANCELLED:
            raise _Stopped
        speeds = []
        found_cases = build(run).cases
        self.disturbed += any(one.disturbed for case in found_cases for one in case.runs)
        for case in found_cases:
            found = case.measurements.get("throughput")
            if case.state is not JobState.SUCCEEDED or found is None or not found.inputs:
                why = case.reason or (found.reason if found else "")
                said = "".join(f": {line}" for line in last_lines(case)[-1:])
                return f"{case.case}: {case.state}: {say(why)}{said} ({run.path})"
            speeds.append(found.inputs[0])
        return geometric_mean(speeds)

    def _moved(self, tree: Path) -> Loaded:
        """The suite with everything of the repository replaced by its counterpart in a work tree."""

        def there(path: Path) -> Path:
            return tree / path.relative_to(self._repo) if path.is_relative_to(self._repo) else path

        here = self._loaded.file.resolve().parent
        folders = tuple(there(folder) for folder in self._loaded.folders)
        raw = self._loaded.suite.cases
        commands = isinstance(raw, list) and any(isinstance(item, dict) and "command" in item for item in raw)
        if there(here) == here or not (commands or folders != self._loaded.folders):
            raise UserError(
                f"{self._loaded.file}: no case runs code of {self._repo}; "
                "a suite of `command:` cases, or of workloads in the repository, does"
            )
        return msgspec.structs.replace(self._loaded, folders=folders, cwd=there(here))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _show(args: argparse.Namespace, repo: Path, answer: Answer, rounds: _Rounds) -> None:
    from trainmark.run import revisions

    if args.json:
        _show_json(msgspec.to_builtins(answer), rounds)
        return
    lines = [f"first slow commit: {revisions.title(repo, answer.commit)}"]
    lines += [f"  or, without a speed of its own: {revisions.title(repo, commit)}" for commit in answer.also]
    lines += [f"  not beyond doubt: {revisions.title(repo, commit)}" for commit in answer.unsure]
    lines += [f"  bad is {say(answer.verdict.reason)}; {_kept(answer.rounds, rounds)}"]
    sys.stdout.write("\n".join(lines) + "\n")


def _show_none(args: argparse.Namespace, why: NotSlower, rounds: _Rounds) -> None:
    from trainmark.report.compare import ratio_text

    verdict = why.verdict
    if args.json:
        _show_json({"commit": None, "verdict": msgspec.to_builtins(verdict), "rounds": why.rounds}, rounds)
        return
    said = {
        "faster": f"bad is not slower than good but {say(verdict.reason)}",
        "equivalent": f"bad is not slower than good: {say(verdict.reason)}",
    }.get(verdict.word, f"it is not beyond doubt that bad is slower than good: {say(verdict.reason)}")
    kept = _kept(why.rounds, rounds)
    sys.stdout.write(f"no slow commit: {said}\n  bad ÷ good: {ratio_text(verdict)}; {kept}\n")


def _show_json(found: dict[str, Any], rounds: _Rounds) -> None:
    whole = {**found, "disturbed": rounds.disturbed, "runs": str(rounds.runs)}
    sys.stdout.buffer.write(msgspec.json.encode(whole) + b"\n")


def _kept(count: int, rounds: _Rounds) -> str:
    said = f"{count} rounds, kept in {rounds.runs}"
    if rounds.disturbed:
        said += f"\n  {rounds.disturbed} of {count} rounds were disturbed; a quiet machine gives a surer answer"
    return said
