"""Help in the reader's language and as wide as their terminal. Words are never broken."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from trainmark.i18n import words

_WIDEST = 100
_EXAMPLE = re.compile(r"  (\S.*?)(?:(\s{2,})(\S.*))?")
# East Asian letters take two columns of a terminal, and a line may end behind any of them. Compiled where such letters
# are met: English needs none of it.
_WIDE = "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]"
# No line begins with these.
_CLOSING = tuple("，。；：？！、）》」』”’")


def width() -> int:
    import shutil

    return min(_WIDEST, shutil.get_terminal_size().columns) - 2


def length(text: str) -> int:
    """Columns that it takes."""
    return len(text) if text.isascii() else len(text) + len(re.findall(_WIDE, text))


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most so many columns, where no word is longer."""
    if text.isascii() or not re.search(_WIDE, text):
        import textwrap

        return textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False)
    lines, line = [], ""
    for piece in _pieces(" ".join(text.split())):
        if line and length(line + piece.rstrip()) > columns and not piece.startswith(_CLOSING):
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, line.rstrip()] if line.strip() else lines


def _pieces(text: str) -> Iterator[str]:
    """Words with the space behind them, and wide letters one by one."""
    for word in re.findall(r"\S+\s*", text):
        yield from (piece for piece in re.split(f"({_WIDE})", word) if piece)


def fit(text: str, columns: int, language: str) -> str:
    """The text below a verb's options: indented lines are examples with what they do, others are sentences."""
    lines: list[str] = []
    for command, gap, said in paragraphs(text):
        words_said = words.phrase(said, language) if said else ""
        if not command:
            lines += wrap(words_said, columns)
        elif length(f"  {command}{gap}{words_said}") <= columns:
            lines.append(f"  {command}{gap}{words_said}")
        else:
            lines.append(_command(command, columns))
            lines += [f"      {line}" for line in wrap(words_said, columns - 6)]
    return "\n".join(lines)


def paragraphs(text: str) -> Iterator[tuple[str, str, str]]:
    """(command, gap, what it does) for examples, ("", "", sentence) for others, which may go on in the next line."""
    open_text = ""
    for line in text.splitlines():
        example = _EXAMPLE.fullmatch(line)
        if open_text and (example or open_text.endswith((".", ":")) or not line):
            yield "", "", open_text
            open_text = ""
        if example:
            yield example[1], example[2] or "", example[3] or ""
        elif line:
            open_text = f"{open_text} {line}".strip()
    if open_text:
        yield "", "", open_text


def _command(command: str, columns: int) -> str:
    """As the shell takes it."""
    lines = wrap(command, columns - 6) if length(command) + 2 > columns else [command]
    return "  " + " \\\n      ".join(lines)


class Parser(argparse.ArgumentParser):
    """Speaks the reader's language; its sub-parsers do, too. `language` is set once everything is configured."""

    language = "en"

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)
        self.formatter_class = self._formatter

    def _formatter(self, prog: str) -> argparse.HelpFormatter:
        return _Formatter(prog, self.language)

    def print_help(self, file: Any = None) -> None:
        """argparse passes over what cannot be written."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        colon = "：" if self.language == "zh" else ": "
        self.exit(2, f"{self.prog}{colon}{words.error(message, self.language)}\n")


def speak(parser: argparse.ArgumentParser, language: str) -> None:
    """The parser and all below it, in this language."""
    for one in with_children(parser):
        one.language = language  # type: ignore[attr-defined]
        one.description = one.description and words.phrase(one.description, language)
        for group in one._action_groups:
            group.title = group.title and words.phrase(group.title, language)
        for action in one._actions:
            for named in (action, *getattr(action, "_choices_actions", ())):
                if named.help and named.help is not argparse.SUPPRESS:
                    named.help = words.phrase(named.help, language)


def with_children(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in dict.fromkeys(action.choices.values()):
                yield from with_children(child)


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str, language: str) -> None:
        # argparse takes a wide letter for one column; only the first line of the usage begins with such.
        super().__init__(prog, width=width() + (2 if language == "en" else -2))
        self._language = language

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002
        return fit(text, width, self._language)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, words.phrase("usage: ", self._language) if prefix is None else prefix)
