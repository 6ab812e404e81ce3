"""`trainmark VERB …`: finds the verb's module, and turns every known failure into one message and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import importlib
import itertools
import os
import sys
from typing import TextIO

from trainmark.cli import help, terminal
from trainmark.errors import BAD_INPUT, OK, SITE_UNUSABLE, STOPPED, SiteError, UserError, did_you_mean
from trainmark.i18n import words

# group → verb → (module, what it does); `--help` shows them in this order.
GROUPS = {
    "what everybody needs": {
        "run": ("trainmark.cli.run", "run a suite or a case and print its result"),
        "exec": ("trainmark.cli.exec", "measure a training command of your own, unmodified"),
        "report": ("trainmark.cli.report", "print the result of a run"),
        "compare": ("trainmark.cli.compare", "say whether one run is faster than another"),
        "list": ("trainmark.cli.list", "list runs, suites, workloads, devices, …"),
        "status": ("trainmark.cli.status", "show how far a run is"),
        "resume": ("trainmark.cli.resume", "finish a run that was stopped or killed"),
        "doctor": ("trainmark.cli.doctor", "check whether this machine or a site can be used"),
    },
    "measure": {
        "plan": ("trainmark.cli.plan", "show what run would do, without doing it"),
        "explain": ("trainmark.cli.explain", "show every value of a case and where it came from"),
        "diagnose": ("trainmark.cli.diagnose", "say why a step takes as long as it does"),
        "peaks": ("trainmark.cli.peaks", "measure what a site can reach, and keep it"),
        "goodput": ("trainmark.cli.goodput", "say how much of a job's time is training"),
        "energy": ("trainmark.cli.energy", "say what a run drew, by device, node and round"),
        "predict": ("trainmark.cli.predict", "say how fast more nodes would be, from what was measured"),
        "bisect": ("trainmark.cli.bisect", "find the commit that made a suite slower"),
        "automl": ("trainmark.cli.automl.verbs", "search for architectures, as a load for a cluster"),
    },
    "watch": {
        "top": ("trainmark.cli.top", "watch what is running, live"),
        "logs": ("trainmark.cli.logs", "print or follow the output of ranks"),
        "monitor": ("trainmark.cli.monitor", "show devices and rounds of a site in Prometheus and Grafana"),
        "stop": ("trainmark.cli.stop", "stop a run; returns when nothing of it is left"),
    },
    "results": {
        "score": ("trainmark.cli.score", "say how fast this machine is, in one figure against a reference"),
        "history": ("trainmark.cli.history", "show a case over all runs, and where its speed changed"),
        "baseline": ("trainmark.cli.baseline", "name the run that others are compared with, for each host"),
        "import": ("trainmark.cli.imports", "read results of another tool as a run"),
        "export": ("trainmark.cli.exports", "write runs in another tool's format"),
        "pack": ("trainmark.cli.pack", "pack runs into one signed file that others can verify"),
        "verify": ("trainmark.cli.verify", "check a packed result without trusting who made it"),
        "key": ("trainmark.cli.key", "make and trust keys that sign packed results"),
        "leaderboard": ("trainmark.cli.leaderboard", "make a web site of verified results"),
        "badge": ("trainmark.cli.badge", "draw a result of a run as a badge"),
        "index": ("trainmark.cli.index", "show or rebuild the index of runs"),
    },
    "cluster": {
        "accept": ("trainmark.cli.accept", "find slow or broken nodes and links of a site"),
        "slurm": ("trainmark.cli.slurm", "make a Slurm cluster of hosts that have none"),
        "ranktable": ("trainmark.cli.ranktable", "write the rank table or host file of a site"),
    },
    "share": {
        "serve": ("trainmark.cli.serve", "serve jobs and results to several people, over HTTP"),
        "login": ("trainmark.cli.login", "sign in to a server, for `trainmark --server URL`"),
        "tester": ("trainmark.cli.tester", "serve a formal test to others, and receive their results"),
    },
    "set-up": {
        "kit": ("trainmark.cli.kit", "make one archive that others unpack and run"),
        "emulate": ("trainmark.cli.emulate", "emulate a cloud training service on this machine"),
        "init": ("trainmark.cli.init", "write an example suite and site to start from"),
        "data": ("trainmark.cli.data", "get and list data sets"),
        "env": ("trainmark.cli.env", "make, list and remove environments of frameworks"),
        "schema": ("trainmark.cli.schema", "print the JSON Schema of a suite, a site or a workload"),
        "completion": ("trainmark.cli.completion", "print a completion script for bash, zsh or fish"),
        "man": ("trainmark.cli.manual", "print or write the manual pages"),
        "version": ("trainmark.cli.version", "print the version"),
    },
}
VERBS = {verb: found for verbs in GROUPS.values() for verb, found in verbs.items()}

_ABOUT = "Measures how fast this machine trains AI models, and gives results that can be trusted."
_START = "Start with `trainmark run quick`; `trainmark VERB --help` tells more of each."
_EXIT_CODES = (
    "Exit codes: 0 all succeeded, 1 a case failed or was skipped, 2 bad input (nothing started), 3 site not usable, "
    "4 a comparison crossed its threshold, 5 nothing could be compared, 130 stopped."
)
LEVELS = ("debug", "info", "warning", "error")


def entry() -> None:
    """The installed program."""
    _prepare_streams()
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        code = code or _flush(stream)
    sys.exit(code)


def _flush(stream: TextIO) -> int:
    """What cannot be written is said once, and not tried again by the interpreter at its end."""
    try:
        stream.flush()
        return OK
    except BrokenPipeError:
        _discard(stream)
        return OK
    except OSError as error:
        _discard(stream)
        with contextlib.suppress(OSError):
            os.write(2, f"trainmark: the output could not be written: {error.strerror}\n".encode())
        return SITE_UNUSABLE


def _discard(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _prepare_streams() -> None:
    """A closed stream is as good as an empty one, and no letter is a reason to fail."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
            setattr(sys, name, os.fdopen(number, "w"))
        else:
            stream.reconfigure(errors="replace")


def main(argv: list[str]) -> int:
    language = language_of(argv)
    terminal.speak(language)
    while argv[:1] == ["--lang"]:
        argv = argv[2:]
    if argv and (argv[0] == "--server" or argv[0].startswith("--server=")):
        return _call_server(argv, language)
    if not argv or argv[0] in ("-h", "--help", "help"):
        try:
            terminal.out(overview(language))
        except OSError as error:
            terminal.err(f"trainmark: the output could not be written: {error.strerror}\n")
            return SITE_UNUSABLE
        return OK if argv else BAD_INPUT
    if argv[0] == "--version":
        argv = ["version"]
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        message = f"no verb `{verb}`{did_you_mean(verb, VERBS)}; `trainmark --help` lists all"
        terminal.err(f"trainmark: {words.error(message, language)}\n")
        return BAD_INPUT
    return _call(verb, rest, language)


def _call_server(argv: list[str], language: str) -> int:
    """`trainmark --server URL VERB …`: the same words, for a server's jobs."""
    from trainmark.cli import remote

    first, equals, url = argv[0].partition("=")
    rest = argv[1:] if equals else argv[2:]
    try:
        return remote.main(url if equals else "".join(argv[1:2]), rest, language)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else BAD_INPUT
    except UserError as error:
        terminal.err(f"trainmark {first}: {words.error(str(error), language)}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return STOPPED
    except BrokenPipeError:
        _discard(sys.stdout)
        return OK


def parser(verb: str, language: str = "en") -> argparse.ArgumentParser:
    """The verb's own parser."""
    made = help.Parser(prog=f"trainmark {verb}")
    configure(made, verb)
    help.speak(made, language)
    return made


def configure(made: argparse.ArgumentParser, verb: str) -> None:
    """Everything that a verb's parser holds; shell completion and manual pages read it, too."""
    module_name, summary = VERBS[verb]
    module = importlib.import_module(module_name)
    made.description = summary
    made.epilog = getattr(module, "EPILOG", None)
    module.configure(made)
    for one in help.with_children(made):
        _add_common(one, nested=one is not made)
    made.set_defaults(call=module.call)


def _add_common(made: argparse.ArgumentParser, *, nested: bool) -> None:
    """What every verb understands, also behind the name of a verb within it; what stands there has no default."""
    group = made.add_argument_group("of every verb")
    group.add_argument(
        "--log-level",
        choices=LEVELS,
        default=argparse.SUPPRESS if nested else "info",
        help="how much to say (default: info)",
    )
    group.add_argument(
        "-q",
        "--quiet",
        action="store_const",
        const="warning",
        dest="log_level",
        default=argparse.SUPPRESS,
        help="the same as --log-level warning: no progress",
    )
    group.add_argument(
        "--lang",
        choices=words.LANGUAGES,
        default=argparse.SUPPRESS if nested else None,
        help="language of what is said (default: that of the locale; a page follows the browser)",
    )


def language_of(argv: list[str]) -> str:
    """`--lang` counts before anything is parsed: what is wrong with the command line is said in it, too."""
    argv = argv[: argv.index("--")] if "--" in argv else argv
    asked = [value for option, value in itertools.pairwise(argv) if option == "--lang"]
    asked += [word.partition("=")[2] for word in argv if word.startswith("--lang=")]
    known = [word for word in asked if word in words.LANGUAGES]
    return known[0] if known else words.chosen()


def _call(verb: str, rest: list[str], language: str) -> int:
    level, runs = "info", None
    try:
        _check_encoding(rest)
        args = _parse(parser(verb, language), rest)
        level, runs = args.log_level, getattr(args, "runs", None)
        args.language = language
        args.argv = [verb, *rest]
        return int(args.call(args))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else BAD_INPUT
    except UserError as error:
        if level == "debug":
            raise
        if isinstance(error, SiteError) and error.findings:
            from trainmark.cli import doctor

            terminal.err(doctor.text(error.findings, language))
        terminal.err(f"trainmark {verb}: {words.error(str(error), language)}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return STOPPED
    except BrokenPipeError:
        # Somebody piped us into `head`: not an error.
        _discard(sys.stdout)
        return OK
    except RuntimeError as error:
        # So says `Path.resolve`, up to Python 3.12.
        if level == "debug" or not str(error).startswith("Symlink loop"):
            raise
        terminal.err(f"trainmark {verb}: {error}\n")
        return BAD_INPUT
    except OSError as error:
        if level == "debug":
            raise
        # A write to a file that is open already does not say which; all that grows here is in the folder of runs.
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        place = error.filename or (runs if full else None)
        terminal.err(f"trainmark {verb}: {f'{place}: ' if place else ''}{error.strerror or error}\n")
        return SITE_UNUSABLE


def _parse(made: argparse.ArgumentParser, rest: list[str]) -> argparse.Namespace:
    """Names may stand on both sides of options (`compare A --margin 2% B`), where argparse can do that: not with verbs
    within verbs, and not before a command whose own options are none of ours."""
    nested = any(action.nargs == argparse.PARSER for action in made._actions)
    return made.parse_args(rest) if nested or "--" in rest else made.parse_intermixed_args(rest)


def _check_encoding(arguments: list[str]) -> None:
    """Files of a run are UTF-8: bytes that are not are refused before anything is made of them."""
    found = [("the argument", one) for one in arguments]
    with contextlib.suppress(OSError):  # a folder that is gone is reported where it is needed
        found.append(("the folder you are in,", os.getcwd()))
    for what, text in found:
        if not text.isascii() and text.encode("utf-8", "replace").decode() != text:
            raise UserError(f"{what} {text!r} is not written in UTF-8; give it another name")


def overview(language: str = "en") -> str:
    say = functools.partial(words.phrase, language=language)
    columns, indent = help.width(), max(len(verb) for verb in VERBS) + 4
    lines = [say("usage: ") + "trainmark VERB [options]", "", *help.wrap(say(_ABOUT), columns)]
    for group, verbs in GROUPS.items():
        lines += ["", say(group) + say(":")]
        for verb, (_, summary) in verbs.items():
            first, *more = help.wrap(say(summary), columns - indent)
            lines += [f"  {verb.ljust(indent - 4)}  {first}", *(" " * indent + line for line in more)]
    lines += ["", *help.wrap(say(_START), columns), *help.wrap(say(_EXIT_CODES), columns)]
    return "\n".join(lines) + "\n"
