"""`trainmark completion`: a script for the shell, made from the verbs' own parsers."""

from __future__ import annotations

import argparse
import sys

EPILOG = """\
bash:  eval "$(trainmark completion bash)"        (put it into ~/.bashrc)
zsh:   eval "$(trainmark completion zsh)"         (put it into ~/.zshrc)
"""

_SCRIPT = """\
_trainmark() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}}" words="" extra=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{verbs}"
  else
    case "$verb" in
{cases}
    esac
  fi
  case "$verb" in
    status|logs|stop|resume|report) extra="$(ls "${{TRAINMARK_RUNS:-runs}}" 2>/dev/null)" ;;
  esac
  COMPREPLY=($(compgen -W "$words $extra" -- "$word"))
  [ "$COMP_CWORD" -gt 1 ] && COMPREPLY+=($(compgen -f -- "$word"))
}}
complete -o filenames -F _trainmark trainmark
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"))


def call(args: argparse.Namespace) -> int:
    from trainmark.cli.main import VERBS
    from trainmark.spec.suite import built_in_names

    suites = " ".join(built_in_names())
    cases = []
    for verb in VERBS:
        words = " ".join(_options(verb)) + (f" {suites}" if verb in ("run", "plan") else "")
        cases.append(f'      {verb}) words="{words}" ;;')
    head = "autoload -Uz bashcompinit && bashcompinit\n" if args.shell == "zsh" else ""
    sys.stdout.write(head + _SCRIPT.format(verbs=" ".join(VERBS), cases="\n".join(cases)))
    return 0


def _options(verb: str) -> list[str]:
    from trainmark.cli.main import parser

    found: list[str] = []
    for action in parser(verb)._actions:
        found += [option for option in action.option_strings if option.startswith("--")]
        if not action.option_strings and action.choices is not None:
            found += [str(choice) for choice in action.choices]
    return found
