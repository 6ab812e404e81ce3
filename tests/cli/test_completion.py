"""Shell completion, asked as a user does: by the tabulator key, of a bash on a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable

import pytest

from tests.conftest import Cli

Complete = Callable[[str], str]


@pytest.fixture
def complete(cli: Cli) -> Complete:
    """What bash makes of a line when the key is pressed at its end."""
    script = cli.folder / "completion.sh"
    script.write_text(cli("completion", "bash").stdout)

    def ask(line: str) -> str:
        ours, theirs = pty.openpty()
        said = cli.folder / "said"
        said.unlink(missing_ok=True)
        # The line is finished by the key, then turned into an argument of `printf`: it is not run.
        keys = f"source {script}\n{line}\t\x01printf '%s ' \x05 > {said}; exit\n"
        env = {**os.environ, "TERM": "dumb", "TRAINMARK_RUNS": str(cli.runs)}
        argv = ["bash", "--norc", "--noprofile", "-i"]
        bash = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cli.folder)
        os.close(theirs)
        os.write(ours, keys.encode())
        try:
            while os.read(ours, 4096):
                pass
        except OSError:
            pass  # bash has gone
        os.close(ours)
        assert bash.wait(60) == 0
        return said.read_text().rstrip()

    return ask


def test_words_are_completed(cli: Cli, complete: Complete) -> None:
    cli("run", "noop")
    run = cli.run_id()
    for line, whole in {
        "trainmark expl": "trainmark explain",
        "trainmark run --deta": "trainmark run --detach",
        "trainmark run smo": "trainmark run smoke",
        "trainmark plan gpt": "trainmark plan gpt2:pytorch:cpu:1:1:1",
        "trainmark explain --preset fu": "trainmark explain --preset full",
        "trainmark report --format ht": "trainmark report --format html",
        "trainmark status 2": f"trainmark status {run}",
        "trainmark plan gpt2:": "trainmark plan gpt2:pytorch:cpu:1:1:1",
        "trainmark plan gpt2:py": "trainmark plan gpt2:pytorch:cpu:1:1:1",
        "trainmark plan gpt2:pytorch:cpu:1": "trainmark plan gpt2:pytorch:cpu:1:1:1",
        "trainmark explain --preset=fu": "trainmark explain --preset=full",
        "trainmark run --set batch=64 smo": "trainmark run --set batch=64 smoke",
        "trainmark report --format=ht": "trainmark report --format=html",
    }.items():
        assert complete(line) == whole


def test_a_folder_whose_name_is_a_command_is_not_run(cli: Cli, complete: Complete) -> None:
    trap = cli.runs / "2$(touch trapped)"
    trap.mkdir(parents=True)
    (trap / "manifest.json").write_text("{}")
    assert complete("trainmark status 2") == "trainmark status 2"
    assert not (cli.folder / "trapped").exists()


def test_zsh_gets_the_verbs(cli: Cli) -> None:
    script = cli("completion", "zsh").stdout
    assert script.startswith("#compdef trainmark") and "    explain:'" in script


def test_fish_and_the_manual_have_every_verb(cli: Cli) -> None:
    from trainmark.cli.main import VERBS

    fish, manual = cli("completion", "fish").stdout, cli("man").stdout
    assert not [verb for verb in VERBS if verb not in fish or verb not in manual]
    assert manual.startswith(".TH TRAINMARK 1")
