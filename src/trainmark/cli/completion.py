"""`trainmark completion`: a script for the shell, made by shtab from the verbs' own parsers."""

from __future__ import annotations

import argparse

from trainmark.cli import terminal

EPILOG = """\
examples:
  eval "$(trainmark completion bash)"            in ~/.bashrc
  eval "$(trainmark completion zsh)"             in ~/.zshrc
  trainmark completion fish | source             in ~/.config/fish/config.fish
"""

# What is offered where a parser shows this word: a function of the script.
_OFFERED = {"RUN": "_trainmark_runs", "SUITE": "_trainmark_suites", "CASE": "_trainmark_cases"}

# A key must not start Python: suites and cases are in the script, runs are names of folders. The shell expands a list
# of words, and a folder whose name is a command would be run: only plain names are taken.
_BASH = """\
_trainmark_runs() {{
  local run
  for run in "${{TRAINMARK_RUNS:-runs}}"/*/manifest.json; do
    run="${{run%/manifest.json}}" run="${{run##*/}}"
    [[ "$run" == *[!A-Za-z0-9._-]* ]] || compgen -W "$run" -- "$1"
  done
}}
_trainmark_suites() {{ compgen -W "{suites} {cases}" -- "$1"; }}
_trainmark_cases() {{ compgen -W "{cases}" -- "$1"; }}
"""
# bash breaks a line into words also at `:` and `=`. The function of shtab gets them as the program does, `--preset=fu`
# as an option and its value. Of what it finds, bash is given the part behind the last break: all that it replaces.
_BASH_WORDS = """
_trainmark() {
  local -a typed=("${COMP_WORDS[@]:0:COMP_CWORD+1}") COMP_WORDS=()
  local word joined='' shown="${typed[COMP_CWORD]}"
  for word in "${typed[@]}"; do
    if [[ "$word" == '=' && "${COMP_WORDS[-1]}" == --* ]]; then
      joined='value'
    elif [[ "$word" == [:=]* || "$joined" == 'part' ]] && ((${#COMP_WORDS[@]})); then
      COMP_WORDS[-1]+="$word" joined='part'
      [[ "$word" == [:=]* ]] || joined=''
    else
      COMP_WORDS+=("$word") joined=''
    fi
  done
  [[ "$joined" != 'value' ]] || COMP_WORDS+=('')
  local COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _shtab_trainmark
  [[ "$shown" != [:=] ]] || shown=''
  local before="${COMP_WORDS[-1]%"$shown"}"
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -o bashdefault -F _trainmark trainmark
"""
_ZSH = """\
_trainmark_runs() {{ local -a found=(${{TRAINMARK_RUNS:-runs}}/*/manifest.json(N:h:t)); compadd -a found }}
_trainmark_suites() {{ compadd {suites} {cases} }}
_trainmark_cases() {{ compadd {cases} }}
"""


_FISH = """\
function _trainmark_runs
    set -q TRAINMARK_RUNS; and set -l home $TRAINMARK_RUNS; or set -l home runs
    for manifest in $home/*/manifest.json
        basename (dirname $manifest)
    end
end
function _trainmark_suites
    printf '%s\\n' {suites} {cases}
end
function _trainmark_cases
    printf '%s\\n' {cases}
end
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def call(args: argparse.Namespace) -> int:
    import shtab

    from trainmark.spec.suite import built_in_names

    offered = {"suites": " ".join(built_in_names()), "cases": " ".join(_cases())}
    functions = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[args.shell].format(**offered)
    script = shtab.complete(_whole_parser(), args.shell, preamble=functions) + "\n"
    terminal.out(script + _BASH_WORDS if args.shell == "bash" else script)
    return 0


def _whole_parser() -> argparse.ArgumentParser:
    """All verbs as one parser; the program itself imports only the verb that is called."""
    from trainmark.cli import main

    whole = argparse.ArgumentParser(prog="trainmark")
    verbs = whole.add_subparsers()
    for verb, (_, summary) in main.VERBS.items():
        made = verbs.add_parser(verb, help=summary)
        main.configure(made, verb)
        for action in made._actions:
            offered = _OFFERED.get(str(action.metavar))
            if offered is not None and action.choices is None:
                action.complete = {"bash": offered, "zsh": offered, "fish": f"({offered})"}  # type: ignore[attr-defined]
            elif "--preset" in action.option_strings:
                action.choices = _presets()
    return whole


def _presets() -> tuple[str, ...]:
    from trainmark.run.planning import PRESETS

    return PRESETS


def _cases() -> list[str]:
    """The smallest case of each workload that ships with trainmark, in each of its frameworks."""
    from trainmark.spec.workload import BUILT_IN, read

    found = [read(file.parent).workload for file in sorted(BUILT_IN.glob("*/workload.yaml"))]
    return [f"{workload.name}:{framework}:cpu:1:1:1" for workload in found for framework in workload.frameworks]
