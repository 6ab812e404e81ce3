"""`trainmark accept`: nodes and links held against each other, against a contract, and against what was learnt."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.cli import common, drive, terminal
from trainmark.errors import CASE_FAILED, OK, STOPPED, THRESHOLD_CROSSED, UserError
from trainmark.plan.records import Plan
from trainmark.run.stop import StopSwitch, Switch, on_signals
from trainmark.spec.states import JobState
from trainmark.store import rundir
from trainmark.store.rundir import RunDir

if TYPE_CHECKING:
    from trainmark.campaigns.accept import Options
    from trainmark.campaigns.accept_course import Tell
    from trainmark.report.make.acceptance import Acceptance, Gathered, Setting
    from trainmark.run.campaign import Campaign, Step

EPILOG = """\
examples:
  trainmark accept --site my-cluster.yaml                                  who is slower than the others?
  trainmark accept --site my-cluster.yaml --contract promised.yaml         is it as fast as was promised?
  trainmark accept --site my-cluster.yaml --learn good.json                keep how fast these nodes are
  trainmark accept --site my-cluster.yaml --criteria good.json             are they still?
  trainmark accept --site my-cluster.yaml --find 10% --time 30m            good only if 10 % less would be found
  trainmark accept --resume RUN                                            it was killed; go on (so does `resume`)
verdicts: good, bad (slower beyond doubt, or computing wrongly), suspect (not proven), untested (failed or missing),
unsure (nothing slow was found, and what --find asks for would not have been).
exit codes: 0 all good, 1 something bad, suspect, untested or unsure, 2 bad input, 3 site not usable, 4 contract broken.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML; its hosts are named in it")
    parser.add_argument("--case", metavar="CASE", help="what every node runs: a case id for 1 node, whose number of "
                        "rounds is that of blocks (5 and more), or a suite YAML with that case")  # fmt: skip
    parser.add_argument("--preset", metavar="NAME", help="size of a case given by id (default: quick)")
    parser.add_argument("--seconds", type=float, metavar="S", help="how long each node measures in a round (default: 5 "
                        "for the default case, else what the case does)")  # fmt: skip
    common.add_set(parser)
    common.add_seed(parser)
    common.add_runs(parser)
    parser.add_argument("--contract", type=Path, metavar="FILE", help="YAML: what was promised of each case")
    learnt = parser.add_mutually_exclusive_group()
    learnt.add_argument("--learn", type=Path, metavar="FILE", help="write how fast these nodes are, as a criterion")
    learnt.add_argument("--criteria", type=Path, metavar="FILE", help="hold the nodes against what was learnt")
    parser.add_argument("--margin", default="3%", metavar="SHARE", help="losses up to this do not matter (3%%)")
    parser.add_argument("--link-margin", default="10%", metavar="SHARE", help="the same of links' bandwidth (10%%)")
    parser.add_argument("--find", metavar="SHARE", help="good only if a node slower by this would have been found; "
                        "without it, goes on for 10%% and says what it could find")  # fmt: skip
    parser.add_argument("--link-find", metavar="SHARE", help="the same of a link's bandwidth")
    parser.add_argument("--time", default="15m", metavar="TIME", help="how long it may take, such as 90s, 15m or 2h "
                        "(15m); the first answer takes a third of it")  # fmt: skip
    parser.add_argument("--looks", type=int, default=6, metavar="N", help="how often nodes are looked at (6)")
    parser.add_argument("--no-links", action="store_true", help="do not measure the links between nodes")
    parser.add_argument("--pairs", type=int, metavar="N", help="rounds of disjoint pairs (default: every node with "
                        "every other, at most 15 rounds)")  # fmt: skip
    parser.add_argument("--link-case", metavar="CASE", help="what every pair of nodes runs (default: collectives)")
    parser.add_argument("--one-at-a-time", action="store_true", help="for hosts that share a machine: one runs, the "
                        "others wait")  # fmt: skip
    parser.add_argument("--no-check", action="store_true", help="do not look at the site's hosts before the start")
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument("--from", dest="again", metavar="RUN", help="judge an earlier one again; starts nothing")
    earlier.add_argument("--resume", metavar="RUN", help="go on with one that was stopped or killed, to its verdict")
    parser.add_argument("--json", action="store_true", help="print as JSON, progress to stderr")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write .html, .md, .json or text to a file")


def call(args: argparse.Namespace) -> int:
    from trainmark.campaigns import accept

    _check_output(args.output)
    options = _options(args)
    if args.resume:
        return _carry_on(_named(args, args.resume, "--resume"), args, options)
    if args.again:
        setting, gathered = accept.gathered(_named(args, args.again, "--from"))
        # Files that the acceptance itself wrote are left as they are.
        setting = msgspec.structs.replace(setting, learn="", output="")
        return _show(args, accept.as_asked(options, setting), gathered)
    made = accept.create(common.load_site(args), args.runs, options, args.site, drive.command(args))
    return _carry_on(made, args, options)


def go_on(made: Campaign, args: argparse.Namespace) -> int:
    """`trainmark resume` for a run of an acceptance: the whole of it is carried on to its verdict."""
    from trainmark.campaigns.accept import Options

    if args.detach or args.allow_skip:
        raise UserError(f"{made.name} is an acceptance, which goes on here: leave out --detach and --allow-skip")
    return _carry_on(made, args, Options())


def _options(args: argparse.Namespace) -> Options:
    from trainmark.campaigns.accept import Options

    names = set(Options.__struct_fields__) & set(vars(args))
    given = {name: getattr(args, name) for name in names}
    return Options(**given, changed=common.overrides(args), links=not args.no_links, check=not args.no_check)


def _named(args: argparse.Namespace, name: str, option: str) -> Campaign:
    from trainmark.campaigns import accept

    return accept.named(rundir.find(args.runs, name), option)


def _carry_on(made: Campaign, args: argparse.Namespace, options: Options) -> int:
    from trainmark.campaigns import accept

    def watched(_step: Step, run: RunDir, plan: Plan, switch: Switch) -> JobState:
        return drive.watched(run, plan, args, switch) or JobState.CANCELLED

    switch = StopSwitch()
    with on_signals(switch):
        found = accept.go(made, watched, switch, _tell(made, args))
    if found is None:
        terminal.err(f"trainmark accept: stopped; `trainmark resume {made.name}` goes on\n")
        return STOPPED
    setting, gathered = found
    return _show(args, accept.as_asked(options, setting), gathered)


def _tell(made: Campaign, args: argparse.Namespace) -> Tell:
    """Answers on the way: a line, and the file that was asked for, so that there is always one."""
    from trainmark.campaigns.accept_course import setting_of
    from trainmark.i18n.speaker import say
    from trainmark.report.kinds.acceptance import so_far

    def tell(found: Acceptance, step: Step) -> None:
        (terminal.err if args.json else terminal.out)(say(so_far(found, step)) + "\n")
        output = setting_of(made).output
        if output:
            _write(found, Path(output), args)

    return tell


def _write(found: Acceptance, output: Path, args: argparse.Namespace) -> None:
    from trainmark.report.show import format_of, show

    kind = format_of(None, output)
    common.write(show(found, kind, common.language(kind, args)), output)


def _check_output(path: Path | None) -> None:
    from trainmark.report.show import format_of

    if path is not None and format_of(None, path) == "csv":
        raise UserError(f"--output {path}: an acceptance is written as .html, .md, .json or text")


def _show(args: argparse.Namespace, setting: Setting, gathered: Gathered) -> int:
    from trainmark.campaigns import accept
    from trainmark.report.show import show

    found, learnt = accept.judge(setting, gathered)
    if not learnt:
        terminal.err(f"trainmark accept: nothing was learnt: the verdict is {found.verdict}; drain and try again\n")
    if setting.output:
        _write(found, Path(setting.output), args)
    terminal.out(show(found, "json" if args.json else "text", args.language))
    return THRESHOLD_CROSSED if found.crossed else OK if found.verdict == "good" else CASE_FAILED
