"""`trainmark --server URL run|status|logs|stop|report|list`: the jobs of a server, by the same words as runs here."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainmark.api_remote import Remote, RemoteJob, connect
from trainmark.cli import common, help, terminal
from trainmark.cli.drive import exit_code
from trainmark.cli.list import table
from trainmark.errors import OK, UserError, did_you_mean, one_of
from trainmark.i18n import words
from trainmark.spec import yamlfile
from trainmark.spec.states import JobState


def main(url: str, argv: list[str], language: str) -> int:
    verb, rest = (argv[0], argv[1:]) if argv else ("", [])
    if verb not in _VERBS:
        raise UserError(f"{verb or 'nothing'}{did_you_mean(verb, _VERBS)}: on a server there is {one_of(_VERBS)}")
    made = help.Parser(prog=f"trainmark --server URL {verb}")
    made.add_argument("--lang", choices=words.LANGUAGES, help=argparse.SUPPRESS)
    made.add_argument("--json", action="store_true", help="print as JSON")
    configure, call = _VERBS[verb]
    configure(made)
    help.speak(made, language)
    args = made.parse_args(rest)
    args.language = language
    return call(connect(url), args)


def _job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", default="last", metavar="JOB", help="id or number (default: the newest)")


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", nargs="?", metavar="SUITE", help="a built-in suite, a YAML file, or one case id")
    parser.add_argument("--command", type=Path, metavar="FILE", help="run this file by bash instead (`-`: from stdin)")
    parser.add_argument("--name", metavar="NAME", help="what the job is called")
    parser.add_argument("--site", metavar="NAME", help="a site of the server (default: its own machine)")
    parser.add_argument("--preset", metavar="NAME", help="smoke, quick or full, of a case given by id")
    common.add_set(parser)
    parser.add_argument("--seconds", type=float, metavar="S", help="measure at least this long in each round")
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable of its environment")
    parser.add_argument("--devices", type=int, metavar="N", help="devices that a command takes (default: 1)")
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes that a command runs on (default: 1)")
    parser.add_argument("--priority", type=int, metavar="N", help="0 to 200, the highest first (default: 100)")
    parser.add_argument("--preemptible", action="store_true", help="may make way for other jobs")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds that it may run (default: a day)")
    parser.add_argument("--detach", action="store_true", help="return when the job is queued")


def _call_run(server: Remote, args: argparse.Namespace) -> int:
    fields: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("name", "site", "preset", "seconds", "devices", "nodes", "priority", "time_limit")
        if getattr(args, name) is not None
    }
    if args.preemptible:
        fields["preemptible"] = True
    fields |= {name: found for name in ("set", "env") if (found := common.pairs(getattr(args, name), f"--{name}"))}
    suite: Any = args.suite
    if suite is not None and suite.endswith((".yaml", ".yml")):
        suite = yamlfile.read(Path(suite)).content
    job = server.start(suite, command=_text(args.command), **fields)
    if args.detach:
        return _show(job.record, args)
    terminal.err(f"job {job.id}\n")
    shown = ""
    while not (record := job.record)["state"] or not JobState(record["state"]).ended:
        line = f"{record['state']}  {record['reason']}\n"
        if line != shown:
            terminal.err(line)
            shown = line
        time.sleep(1.0)
    if record["run"] and record["kind"] == "benchmark":
        terminal.out(job.report("json" if args.json else "text", args.language) + "\n")
    elif record["run"]:
        terminal.out(job.logs(None))
    terminal.err(f"{record['state']}  {record['reason']}\n")
    return exit_code(JobState(record["state"]), allow_skip=False)


def _text(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, ValueError) as error:
        raise UserError(f"--command {file}: {error}") from None


def _show(record: Any, args: argparse.Namespace) -> int:
    if args.json:
        terminal.json(record)
    else:
        keep = ("id", "number", "owner", "name", "state", "reason")
        records = record if isinstance(record, list) else [record]
        terminal.out(table([{key: one[key] for key in keep} for one in records]) or "no jobs\n")
    return OK


def _call_status(server: Remote, args: argparse.Namespace) -> int:
    found = server.open(args.job).status()
    if args.json:
        terminal.json(found)
    else:
        job = found["job"]
        head = f"job {job['id']}  {job['name']}  {job['state']}  {job['reason']}\n\n"
        terminal.out(head + table(found["rounds"]))
    return OK


def _logs(parser: argparse.ArgumentParser) -> None:
    _job(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on as they are written")
    parser.add_argument("--rank", type=int, metavar="N", help="of one rank (default: all)")


def _call_logs(server: Remote, args: argparse.Namespace) -> int:
    job: RemoteJob = server.open(args.job)
    if not args.follow:
        terminal.out(job.logs(args.rank))
        return OK
    for line in job.follow(args.rank):
        terminal.line(line)
    return OK


def _call_stop(server: Remote, args: argparse.Namespace) -> int:
    job = server.open(args.job)
    job.stop()
    return _show(job.wait(120.0).record, args)


def _report(parser: argparse.ArgumentParser) -> None:
    _job(parser)
    parser.add_argument("--format", choices=("text", "html", "md", "json", "csv"), default="text", help="default: text")
    common.add_output(parser)


def _call_report(server: Remote, args: argparse.Namespace) -> int:
    kind = "json" if args.json else args.format
    common.write(server.open(args.job).report(kind, args.language), args.output)
    return OK


def _list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", type=int, default=20, metavar="N", help="the newest N jobs (default: 20)")
    parser.add_argument("--mine", action="store_true", help="one's own only")


def _call_list(server: Remote, args: argparse.Namespace) -> int:
    return _show(server.jobs(limit=args.n, mine=str(args.mine).lower()), args)


_Verb = tuple[Callable[[argparse.ArgumentParser], None], Callable[[Remote, argparse.Namespace], int]]
_VERBS: dict[str, _Verb] = {
    "run": (_run, _call_run),
    "status": (_job, _call_status),
    "logs": (_logs, _call_logs),
    "stop": (_job, _call_stop),
    "report": (_report, _call_report),
    "list": (_list, _call_list),
}
