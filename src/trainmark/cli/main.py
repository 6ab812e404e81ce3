"""`trainmark VERB …`: finds the verb's module, and turns every known failure into one message and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from typing import TextIO

from trainmark.cli import terminal
from trainmark.errors import BAD_INPUT, OK, SITE_UNUSABLE, STOPPED, SiteError, UserError, did_you_mean

# verb → (module, what it does)
VERBS = {
    "run": ("trainmark.cli.run", "run a suite or a case and print its result"),
    "exec": ("trainmark.cli.exec", "measure a training command of your own, unmodified"),
    "plan": ("trainmark.cli.plan", "show what run would do, without doing it"),
    "explain": ("trainmark.cli.explain", "show every value of a case and where it came from"),
    "list": ("trainmark.cli.list", "list runs, suites, workloads, devices, …"),
    "status": ("trainmark.cli.status", "show how far a run is"),
    "top": ("trainmark.cli.top", "watch what is running, live"),
    "logs": ("trainmark.cli.logs", "print or follow the output of ranks"),
    "stop": ("trainmark.cli.stop", "stop a run; returns when nothing of it is left"),
    "resume": ("trainmark.cli.resume", "finish a run that was stopped or killed"),
    "report": ("trainmark.cli.report", "print the result of a run"),
    "compare": ("trainmark.cli.compare", "say whether one run is faster than another"),
    "score": ("trainmark.cli.score", "say how fast this machine is, in one figure against a reference"),
    "automl": ("trainmark.cli.automl.verbs", "search for architectures, as a load for a cluster"),
    "diagnose": ("trainmark.cli.diagnose", "say why a step takes as long as it does"),
    "peaks": ("trainmark.cli.peaks", "measure what a site can reach, and keep it"),
    "goodput": ("trainmark.cli.goodput", "say how much of a job's time is training"),
    "predict": ("trainmark.cli.predict", "say how fast more nodes would be, from what was measured"),
    "history": ("trainmark.cli.history", "show a case over all runs, and where its speed changed"),
    "baseline": ("trainmark.cli.baseline", "name the run that others are compared with, for each host"),
    "bisect": ("trainmark.cli.bisect", "find the commit that made a suite slower"),
    "import": ("trainmark.cli.imports", "read results of another tool as a run"),
    "export": ("trainmark.cli.exports", "write runs in another tool's format"),
    "pack": ("trainmark.cli.pack", "pack runs into one signed file that others can verify"),
    "verify": ("trainmark.cli.verify", "check a packed result without trusting who made it"),
    "key": ("trainmark.cli.key", "make and trust keys that sign packed results"),
    "leaderboard": ("trainmark.cli.leaderboard", "make a web site of verified results"),
    "accept": ("trainmark.cli.accept", "find slow or broken nodes and links of a site"),
    "doctor": ("trainmark.cli.doctor", "check whether this machine or a site can be used"),
    "ranktable": ("trainmark.cli.ranktable", "write the rank table or host file of a site"),
    "slurm": ("trainmark.cli.slurm", "make a Slurm cluster of hosts that have none"),
    "data": ("trainmark.cli.data", "get and list data sets"),
    "env": ("trainmark.cli.env", "make, list and remove environments of frameworks"),
    "init": ("trainmark.cli.init", "write an example suite and site to start from"),
    "index": ("trainmark.cli.index", "show or rebuild the index of runs"),
    "completion": ("trainmark.cli.completion", "print a completion script for bash or zsh"),
    "version": ("trainmark.cli.version", "print the version"),
}

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
    if not argv or argv[0] in ("-h", "--help", "help"):
        try:
            terminal.out(overview())
        except OSError as error:
            terminal.err(f"trainmark: the output could not be written: {error.strerror}\n")
            return SITE_UNUSABLE
        return OK if argv else BAD_INPUT
    if argv[0] == "--version":
        argv = ["version"]
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        terminal.err(f"trainmark: no verb `{verb}`{did_you_mean(verb, VERBS)}; `trainmark --help` lists all\n")
        return BAD_INPUT
    return _call(verb, rest)


def parser(verb: str) -> argparse.ArgumentParser:
    """The verb's own parser."""
    made = argparse.ArgumentParser(prog=f"trainmark {verb}", allow_abbrev=False)
    configure(made, verb)
    return made


def configure(made: argparse.ArgumentParser, verb: str) -> None:
    """Everything that a verb's parser holds; shell completion reads it, too."""
    module_name, summary = VERBS[verb]
    module = importlib.import_module(module_name)
    made.description = summary[0].upper() + summary[1:] + "."
    made.epilog = getattr(module, "EPILOG", None)
    made.formatter_class = _formatter
    made.add_argument("--log-level", choices=LEVELS, default="info", help="how much to say (default: info)")
    module.configure(made)
    made.set_defaults(call=module.call)


def _formatter(prog: str) -> argparse.HelpFormatter:
    """A fixed width, so that help reads the same everywhere."""
    return argparse.RawDescriptionHelpFormatter(prog, width=100)


def _call(verb: str, rest: list[str]) -> int:
    level = "info"
    try:
        _check_encoding(rest)
        args = parser(verb).parse_args(rest)
        level = args.log_level
        args.argv = [verb, *rest]
        return int(args.call(args))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else BAD_INPUT
    except UserError as error:
        if level == "debug":
            raise
        if isinstance(error, SiteError) and error.findings:
            from trainmark.cli import doctor

            terminal.err(doctor.text(error.findings))
        terminal.err(f"trainmark {verb}: {error}\n")
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
        where = f"{error.filename}: " if error.filename else ""
        terminal.err(f"trainmark {verb}: {where}{error.strerror or error}\n")
        return SITE_UNUSABLE


def _check_encoding(arguments: list[str]) -> None:
    """Files of a run are UTF-8: bytes that are not are refused before anything is made of them."""
    found = [("the argument", one) for one in arguments]
    with contextlib.suppress(OSError):  # a folder that is gone is reported where it is needed
        found.append(("the folder you are in,", os.getcwd()))
    for what, text in found:
        if not text.isascii() and text.encode("utf-8", "replace").decode() != text:
            raise UserError(f"{what} {text!r} is not written in UTF-8; give it another name")


def overview() -> str:
    width = max(len(verb) for verb in VERBS)
    lines = ["usage: trainmark VERB [options]", ""]
    lines.append("Measures how fast this machine trains AI models, and gives results that can be trusted.")
    lines += ["", "verbs:"]
    lines += [f"  {verb.ljust(width)}  {summary}" for verb, (_, summary) in VERBS.items()]
    lines += ["", "start with `trainmark run quick`; `trainmark VERB --help` tells more of each."]
    lines += ["exit codes: 0 all succeeded, 1 a case failed or was skipped, 2 bad input (nothing started),"]
    lines += ["            3 site not usable, 4 a comparison crossed its threshold, 130 stopped."]
    return "\n".join(lines) + "\n"
