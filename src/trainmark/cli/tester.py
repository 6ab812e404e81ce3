"""`trainmark tester`, and what `trainmark run --tester` does."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli import common, terminal
from trainmark.cli.key import add_key, passphrase_of
from trainmark.errors import OK, SITE_UNUSABLE, THRESHOLD_CROSSED, UserError, one_of
from trainmark.extras import need
from trainmark.i18n.speaker import say
from trainmark.plan.records import Plan
from trainmark.run import planning, session
from trainmark.run.observers import Observer, Observers
from trainmark.store.rundir import RunDir
from trainmark.tester import PORT

if TYPE_CHECKING:
    from trainmark.cli.drive import Beside
    from trainmark.tester.attachment import Said
    from trainmark.tester.tickets import Row

EPILOG = """\
examples:
  trainmark key create                                   once, on both sides; then each trusts the other's public key
  trainmark tester serve test.yaml --dir tests           the tester: hold a test until Ctrl-C
  trainmark run --tester http://HOST:9527                the subject: take it, run it, report
  trainmark tester list --dir tests                      the tester: who took it, and the verdicts
  trainmark tester report RUN                            the subject: report later, when the tester was away
docs/tester.md tells how a test is written and what the messages hold.
"""
_TESTER = "tester"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of `trainmark run`."""
    group = parser.add_argument_group("a test of a tester")
    group.add_argument("--tester", metavar="URL", help="run the test that is held there, instead of SUITE, and report")
    group.add_argument("--tester-key", metavar="NAME", default=_TESTER, help="the tester's key (default: `tester`)")
    group.add_argument("--tester-ca", metavar="FILE", help="vouches for the tester's certificate (default: the system)")
    group.add_argument("--key", metavar="NAME", default="default", help="the key to sign with (default: `default`)")


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="serve|list|report")
    serve = verbs.add_parser("serve", help="hold a test and receive results, until Ctrl-C")
    serve.add_argument("file", type=Path, metavar="TEST", help="the YAML file that defines the test")
    serve.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: loopback)")
    serve.add_argument("--port", type=int, default=PORT, metavar="N", help="port to listen at (default: 9527)")
    serve.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate: serve https")
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key")
    add_key(serve, "the key to sign with (default: `default`)")
    shown = verbs.add_parser("list", help="list who took the test, how far they are, and the verdicts")
    shown.add_argument("--json", action="store_true", help="print it as JSON")
    for one in (serve, shown):
        one.add_argument(
            "--dir", type=Path, default=Path("tester"), metavar="DIR", help="where results are kept (default: ./tester)"
        )
    report = verbs.add_parser("report", help="send a run's result to its tester, or ask for the verdict")
    common.add_run(report)
    report.add_argument("--json", action="store_true", help="print the verdict as JSON")


def call(args: argparse.Namespace) -> int:
    need("trust", "tester", "cryptography", "zstandard")
    return {"serve": _serve, "list": _list, "report": _report}[args.what](args)


def _serve(args: argparse.Namespace) -> int:
    from trainmark.tester import definition
    from trainmark.tester.server import Tester
    from trainmark.trust import keys

    if not 0 <= args.port <= 65535:
        raise UserError(f"--port: found {args.port}, allowed is 0 (any free port) to 65535")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise UserError("--tls-cert and --tls-key belong together")
    held = definition.load(args.file)
    subjects = _subjects(held.subjects, f"{args.file}: subjects")
    name = args.key or keys.DEFAULT
    key = keys.load(name, passphrase_of(name))
    ended = threading.Event()
    tester = Tester(
        held.definition,
        args.dir,
        key,
        subjects,
        host=args.host,
        port=args.port,
        tls=(args.tls_cert, args.tls_key) if args.tls_cert else None,
        tell=lambda why: terminal.line(say(why, args.language)),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tester:
        terminal.line(f"test {held.definition.test} at {tester.url}; Ctrl-C ends it, and it may be started again")
        terminal.line(f"it may be taken by {one_of(subjects.values())}; this tester's key is {keys.public(name).hex()}")
        ended.wait()
    return OK


def _subjects(names: tuple[str, ...], place: str) -> dict[str, str]:
    """Fingerprint → name."""
    from trainmark.trust import keys

    known = {one.name: one for one in keys.listed()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"{place}: no key `{unknown[0]}`; `trainmark key trust {unknown[0]} FILE` keeps one")
    found = [known[name] for name in names] or [one for one in known.values() if not one.own]
    if not found:
        raise UserError("nobody could take the test: `trainmark key trust NAME FILE` for each subject's public key")
    return {one.fingerprint: one.name for one in found}


def _list(args: argparse.Namespace) -> int:
    from trainmark.report.show import show
    from trainmark.tester import tickets

    rows = tickets.at(args.dir).rows(lambda damaged: terminal.err(f"{damaged}\n"))
    if args.json:
        terminal.out(show({"tickets": rows}, "json"))
        return OK
    if not rows:
        terminal.line("nobody took the test yet")
    names = _names()
    for row in rows:
        issued = row.issued
        beat = row.heard.beat if row.heard is not None else None
        progress = f"{beat.ended}/{beat.rounds}" if beat is not None else "-"
        subject = names.get(issued.subject, issued.subject[:16])
        terminal.line(f"{issued.ticket.ticket[:8]}  {subject:16} {progress:>8}  {terminal.said(_state(row))}")
        for one in row.verdict.findings if row.verdict is not None else ():
            if one.severity == "fault":
                terminal.out(f"    {say(one.reason, args.language)}{f' ({one.place})' if one.place else ''}\n")
    return OK


def _names() -> dict[str, str]:
    from trainmark.trust import keys

    return keys.names()


def _state(row: Row) -> str:
    if row.verdict is not None:
        return "accepted" if row.verdict.accepted else "not accepted"
    if row.received:
        return "received, being verified"
    return "running" if row.heard is not None and row.heard.beat.state == "running" else "taken, no result yet"


def begin(args: argparse.Namespace) -> int:
    """`run --tester`: the test is looked at and planned first, and taken when nothing speaks against running it."""
    need("trust", "--tester", "cryptography", "zstandard")
    from trainmark.cli import drive as driving
    from trainmark.tester import subject
    from trainmark.tester.client import Link
    from trainmark.tester.definition import check_changes
    from trainmark.trust import keys

    if args.suite is not None:
        raise UserError(f"{args.suite}: the tester says what is run; leave out SUITE or --tester")
    changed, site = common.overrides(args), common.load_site(args)
    link = Link(
        args.tester, keys.public(args.tester_key).hex(), keys.load(args.key, passphrase_of(args.key)), args.tester_ca
    )
    test = subject.definition(link)
    check_changes(test, changed, vars(args))

    def planned(seed: int | None) -> Plan:
        plan = planning.plan_suite(test.loaded(), site, changed, seed, allow_skip=args.allow_skip)
        return planning.with_kept_peaks(plan, args.site)

    common.check(planned(None), args)
    ticket = subject.take(link)
    plan = planned(ticket.seed)
    run = driving.create(plan, args)
    subject.attach(run, link, args.key, ticket, test, changed, args.tester_ca)
    terminal.err(
        f"test {test.test}: {test.mode}, model {test.model}, division {test.division}, scenario {test.scenario}, "
        f"object {test.object}; ticket {ticket.ticket[:8]} of {link.url}\n"
    )
    return driving.drive(run, plan, args)


def drive(run: RunDir, plan: Plan, args: argparse.Namespace, work: Callable[[Beside], int]) -> int:
    """Drives a run that belongs to a test, and reports when there is nothing left to do."""
    need("trust", "--tester", "cryptography", "zstandard")
    from trainmark.tester import subject
    from trainmark.tester.subject import Heartbeats

    made = subject.attached(run)
    passphrase = passphrase_of(made.key)
    beats = Heartbeats(run, plan, made, subject.link_of(made, passphrase))

    def beside(observer: Observer) -> Observer:
        return Observers(observer, beats.telling(observer.note))

    try:
        code = work(beside)
    finally:
        beats.close()
    if not session.nothing_left(run, plan):
        return code
    try:
        said = _reported(run, passphrase, subject.SHORT_SECONDS if beats.away else subject.PATIENCE_SECONDS)
    except UserError as error:
        terminal.err(f"trainmark: {terminal.said(str(error))}\n")
        terminal.err(f"the result was not reported; `trainmark tester report {run.id}` reports it later\n")
        return code or error.exit_code
    return code or _shown(said, args, terminal.err)


def _reported(run: RunDir, passphrase: str | None, patience: float) -> Said:
    from trainmark.tester import subject
    from trainmark.trust import keys

    made = subject.attached(run)
    return subject.report(run, made, subject.link_of(made, passphrase), keys.load(made.key, passphrase), patience)


def _report(args: argparse.Namespace) -> int:
    from trainmark.report.show import show
    from trainmark.tester import subject

    run = common.find_run(args, own=True)
    made = subject.attached(run)
    if not session.nothing_left(run, run.manifest().plan):
        raise UserError(f"run {run.id} is not finished; `trainmark resume {run.id}` goes on and reports")
    said = _reported(run, passphrase_of(made.key), subject.PATIENCE_SECONDS)
    if args.json:
        terminal.out(show({"verdict": said.verdict}, "json"))
        return _shown(said, args, lambda _: None)
    return _shown(said, args, terminal.tell)


def _shown(said: Said, args: argparse.Namespace, out: Callable[[str], None]) -> int:
    verdict = said.verdict
    if verdict is None:
        out("the tester has the result and is still verifying it; `trainmark tester report` asks again\n")
        return SITE_UNUSABLE
    out(f"test {verdict.test}: {'accepted' if verdict.accepted else 'not accepted'} by the tester\n")
    for one in verdict.findings:
        if one.severity == "fault":
            out(f"  {say(one.reason, args.language)}{f' ({one.place})' if one.place else ''}\n")
    return OK if verdict.accepted else THRESHOLD_CROSSED
