"""`trainmark completion`: a script for the shell, made from the verbs' own parsers.

All it needs is in the script or in the names of folders: a key pressed twice must not start Python.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EPILOG = """\
bash:  eval "$(trainmark completion bash)"        (put it into ~/.bashrc)
zsh:   eval "$(trainmark completion zsh)"         (put it into ~/.zshrc)
"""

# What is offered where a parser shows this word. Functions of the script look at the folders of runs.
_KINDS = {
    "RUN": "$(_trainmark_runs)",
    "A": "$(_trainmark_runs)",
    "B": "$(_trainmark_runs)",
    "SUITE": "$suites $cases",
    "CASE": "$cases",
    "--case": "$(_trainmark_ran)",
    "--suite": "$suites",
}

# The shell expands a list of words: a folder whose name is a command would be run. So only plain names are taken.
_SCRIPT = """\
_trainmark_folder() {{
  local i folder="${{TRAINMARK_RUNS:-runs}}"
  for ((i = 2; i < COMP_CWORD; i++)); do
    [[ "${{COMP_WORDS[i]}}" == --runs ]] && folder="${{COMP_WORDS[i + 1]}}"
  done
  echo "$folder"
}}
_trainmark_runs() {{
  local run
  for run in "$(_trainmark_folder)"/*/manifest.json; do
    run="${{run%/manifest.json}}" run="${{run##*/}}"
    [[ "$run" == *[!A-Za-z0-9._-]* ]] || echo "$run"
  done
}}
_trainmark_ran() {{
  local folder="$(_trainmark_folder)" run ran
  for run in $(_trainmark_runs); do [[ " ${{COMP_WORDS[*]}} " == *" $run "* ]] && break; done
  for ran in "$folder/$run"/*/round1; do
    ran="${{ran%/round1}}" ran="${{ran##*/}}"
    [[ "$ran" == *[!A-Za-z0-9._+-]* ]] || echo "${{ran//+/:}}"
  done
}}
_trainmark() {{
  local line="${{COMP_LINE:0:COMP_POINT}}" verb="${{COMP_WORDS[1]}}" words="" flags="" word before last
  local suites="{suites}" cases="{cases}"
  word="${{line##*[[:space:]]}}" before="${{line%"${{line##*[[:space:]]}}"}}"
  before="${{before%"${{before##*[![:space:]]}}"}}" last="${{before##*[[:space:]]}}"
  if [[ "$COMP_WORDBREAKS" == *=* && "$word" == --*=* ]]; then
    last="${{word%%=*}}" word="${{word#*=}}"
  fi
  if [[ "$COMP_CWORD" -eq 1 ]]; then
    words="{verbs}"
  else
    case "$verb $last" in
{values}
      *) case "$verb" in
{verb_words}
        esac ;;
    esac
  fi
  [[ "$word" == -* ]] && words="$flags"
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  # Bash takes words apart at colons and replaces only the last part.
  if [[ "$COMP_WORDBREAKS" == *:* && "$word" == *:* ]]; then
    before="${{word%"${{word##*:}}"}}"
    COMPREPLY=("${{COMPREPLY[@]#"$before"}}")
  fi
}}
complete -o default -F _trainmark trainmark
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"))


def call(args: argparse.Namespace) -> int:
    from trainmark.cli.main import VERBS, parser
    from trainmark.spec.suite import built_in_names

    values, words = [], []
    for verb in VERBS:
        actions = parser(verb)._actions
        values += [line for action in actions if (line := _value(verb, action))]
        flags = " ".join(option for action in actions for option in action.option_strings if option.startswith("--"))
        places = " ".join(_offered(action) for action in actions if not action.option_strings).strip()
        words.append(f'        {verb}) flags="{flags}" words="{places}" ;;')
    head = "autoload -Uz bashcompinit && bashcompinit\n" if args.shell == "zsh" else ""
    filled = _SCRIPT.format(
        verbs=" ".join(VERBS),
        suites=" ".join(built_in_names()),
        cases=" ".join(_cases()),
        values="\n".join(values),
        verb_words="\n".join(words),
    )
    sys.stdout.write(head + filled)
    return 0


def _value(verb: str, action: argparse.Action) -> str:
    """What may follow an option; empty when it takes no value. Where nothing is known, the shell offers files."""
    if not action.option_strings or action.nargs == 0:
        return ""
    patterns = "|".join(f'"{verb} {option}"' for option in action.option_strings)
    return f'      {patterns}) words="{_offered(action)}" ;;'


def _offered(action: argparse.Action) -> str:
    if action.choices is not None:
        return " ".join(map(str, action.choices))
    if "--preset" in action.option_strings:
        from trainmark.run.planning import PRESETS

        return " ".join(PRESETS)
    named = [*action.option_strings[-1:], str(action.metavar)]
    return next((_KINDS[name] for name in named if name in _KINDS), "")


def _cases() -> list[str]:
    """The smallest case of each workload that ships with trainmark, in each of its frameworks."""
    from trainmark.spec.workload import BUILT_IN, read

    folders: list[Path] = sorted(file.parent for file in BUILT_IN.glob("*/workload.yaml"))
    found = [read(folder).workload for folder in folders]
    return [f"{workload.name}:{framework}:cpu:1:1:1" for workload in found for framework in workload.frameworks]
