"""Lists what the help of the command line says that has no Chinese in `i18n/words_help.json` yet."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from trainmark.cli import help
from trainmark.cli.main import VERBS, parser
from trainmark.i18n import words


def texts(verb: str) -> Iterator[str]:
    for one in help.with_children(parser(verb)):
        yield one.description or ""
        yield from (said for _, _, said in help.paragraphs(one.epilog or "") if said)
        yield from (group.title or "" for group in one._action_groups if group._group_actions)
        for action in one._actions:
            for named in (action, *getattr(action, "_choices_actions", ())):
                if named.help and named.help is not argparse.SUPPRESS:
                    yield named.help


def missing(verb: str) -> list[str]:
    """A list of kinds of log is data, made from a table."""
    known = words.catalogue("help")
    return [text for text in texts(verb) if text and text not in known and "; one of " not in text]


if __name__ == "__main__":
    for text in dict.fromkeys(text for verb in VERBS for text in missing(verb)):
        sys.stdout.write(f"{text}\n")
