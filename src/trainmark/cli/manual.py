"""`trainmark man`: manual pages, made from the verbs' own parsers."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli import terminal

EPILOG = """\
examples:
  trainmark man run | man -l -               read the page of a verb
  trainmark man -o ~/.local/share/man/man1   write all pages where `man` finds them
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", nargs="?", metavar="VERB", help="the page of this verb (default: of all of trainmark)")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write all pages into this folder")


def call(args: argparse.Namespace) -> int:
    from trainmark.cli.main import VERBS
    from trainmark.errors import UserError, did_you_mean

    if args.verb is not None and args.verb not in VERBS:
        raise UserError(f"no verb `{args.verb}`{did_you_mean(args.verb, VERBS)}; `trainmark --help` lists all")
    if args.output is None:
        terminal.out(page(args.verb, args.language))
        return 0
    args.output.mkdir(parents=True, exist_ok=True)
    for verb in (None, *VERBS):
        name = "trainmark.1" if verb is None else f"trainmark-{verb}.1"
        (args.output / name).write_text(page(verb, args.language), "utf-8")
    return 0


def page(verb: str | None, language: str) -> str:
    """In roff, with the macros of man(7)."""
    return _overview(language) if verb is None else _verb(verb, language)


def _overview(language: str) -> str:
    from trainmark.cli.main import _ABOUT, _EXIT_CODES, _START, GROUPS
    from trainmark.i18n.words import phrase

    lines = _head("trainmark", phrase(_ABOUT, language), language)
    lines += [".SH " + _title("SYNOPSIS", language), ".B trainmark", "VERB [options]"]
    for group, verbs in GROUPS.items():
        lines.append(".SH " + _quoted(phrase(group, language).upper()))
        for verb, (_, summary) in verbs.items():
            lines += [".TP", f".BR trainmark-{_plain(verb)} (1)", _plain(phrase(summary, language))]
    lines += [".SH " + _title("EXIT STATUS", language), _plain(phrase(_EXIT_CODES, language))]
    lines += [".SH " + _title("NOTES", language), _plain(phrase(_START, language))]
    return "\n".join(lines) + "\n"


def _verb(verb: str, language: str) -> str:
    from trainmark.cli import help
    from trainmark.cli.main import parser
    from trainmark.i18n.words import phrase

    made = parser(verb, language)
    lines = _head(f"trainmark-{verb}", made.description or "", language)
    for one in help.with_children(made):
        usage = " ".join(one.format_usage().split()).removeprefix(phrase("usage: ", language).strip()).strip()
        lines += [".SH " + (_title("SYNOPSIS", language) if one is made else _quoted(one.prog.upper())), _plain(usage)]
        if one is not made and one.description:
            lines += [".PP", _plain(one.description)]
        for action in one._actions:
            if action.help is argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
                continue
            lines += [".TP", _named(action), _plain(_help(one, action))]
        if one.epilog:
            lines += [".PP", ".nf", *(_plain(line) for line in help.fit(one.epilog, 76, language).splitlines()), ".fi"]
    lines += [".SH " + _title("SEE ALSO", language), ".BR trainmark (1)"]
    return "\n".join(lines) + "\n"


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """With its %-fields filled in, as argparse does."""
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _named(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    shown = str(value) if not isinstance(value, tuple) else " ".join(value)
    if not action.option_strings:
        return ".I " + _plain(shown)
    names = ", ".join(rf"\fB{_plain(name)}\fR" for name in action.option_strings)
    return names if action.nargs == 0 else rf"{names} \fI{_plain(shown)}\fR"


def _head(name: str, summary: str, language: str) -> list[str]:
    from trainmark import __version__

    top = f'.TH {name.upper()} 1 "" "trainmark {__version__}" "trainmark"'
    return [top, ".SH " + _title("NAME", language), f"{_plain(name)} \\- {_plain(summary)}"]


def _title(text: str, language: str) -> str:
    from trainmark.i18n.words import phrase

    return _quoted(phrase(text, language))


def _quoted(text: str) -> str:
    return '"' + _plain(text).replace('"', "") + '"'


def _plain(text: str) -> str:
    """Nothing in it is a command of roff."""
    shown = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + shown if shown.startswith((".", "'")) else shown
