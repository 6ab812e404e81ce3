"""Commands of the documentation, run for real; or where the like of it is run, or why it is not."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.docs.test_blocks import PAGES, ROOT

_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```$", re.M | re.S)
_QUOTED = re.compile(r'"[^"]*"')
# Verbs that neither train nor serve.
QUICK = {
    "badge",
    "baseline",
    "compare",
    "data",
    "doctor",
    "energy",
    "env",
    "explain",
    "export",
    "history",
    "init",
    "key",
    "leaderboard",
    "list",
    "pack",
    "plan",
    "ranktable",
    "report",
    "schema",
    "score",
    "status",
    "verify",
}
# Why a command of these is not run here: the first that is found in it.
NOT_RUN = {
    r"[|…\[]|FORMAT": "a pattern, not a command",
    r"--site(?! sites/)": "needs hosts",
    r"compare --(live|why)": "minutes",
    r"energy .*--(meter|prometheus)": "needs a meter",
    r"^(plan hello|explain .*suite\.yaml)": "a file of the reader's own; test_adding_pages.py makes those of its pages",
    r"^(data get|env (create|remove))": "downloads",
    r"^score$|^score .*(against|score.html)|^export dlperf": "needs a run of another kind",
}
# All others take minutes, need hosts or do not end: what runs the like of them, by how a command begins.
ELSEWHERE = {
    r"run smoke *($|#)": "tests/package/test_package.py",
    r"run \S+ .*--site": "tests/lab/test_launchers.py",
    r"run allreduce:mpi:cpu:1": "tests/lab/test_mpi.py",
    r"run (quick|scaling)": "tools/gallery.py",
    r"run (frameworks|mnist:mindspore)": "tests/frameworks/test_contest.py",
    r"run (hello|suite|my-suite)\.yaml": "tests/docs/test_adding_pages.py",
    r"run mnist:pytorch": "tests/run/test_crashes.py",
    r"resume": "tests/run/test_crashes.py",
    r"accept": "tests/lab/test_accept.py",
    r"automl run (demo|experiment)|automl (plan|top|report|best|pack)": "tests/automl/test_experiment.py",
    r"automl run config": "tests/automl/test_config.py",
    r"automl import": "tests/automl/test_aah_results.py",
    r"tester": "tests/tester/test_tests.py",
    r"bisect": "tests/campaigns/test_bisect.py",
    r"diagnose": "tests/diagnose/test_verb.py",
    r"emulate": "tests/launch/modelarts",
    r"exec": "tests/exec/test_corpus.py",
    r"goodput|peaks": "tests/diagnose/test_peaks_and_goodput.py",
    r"import (aisbench|modelarts-config)": "tests/interop/test_aisbench.py",
    r"import flagperf": "tests/interop/test_flagperf_config.py",
    r"import (dlperf|FORMAT)": "tests/interop/test_dlperf.py",
    r"monitor": "tests/agent",
    r"predict": "tests/score",
    r"(serve|login|--server)": "tests/web",
    r"slurm": "tests/slurm/test_init.py",
}
# What stands for something of the reader's own.
FILLED = {"RUN": "A", "RUN_A": "A", "RUN_B": "B", "OTHER_RUN": "B", "CASE": "noop:none:cpu:1:1", "FILE": "out.csv"}
_CASE = ("noop:none:cpu:1:1:2", "--set", "seconds=0.2", "--set", "steps=20", "--preset", "smoke")


def commands(page: Path) -> list[str]:
    lines = [
        line.strip().removeprefix("$ ")
        for text in _BLOCK.findall(page.read_text("utf-8"))
        for line in text.replace("\\\n", " ").splitlines()
    ]
    return [line.removeprefix("trainmark ") for line in lines if line.startswith("trainmark ")]


def why_not(command: str) -> str | None:
    if command.split()[0] not in QUICK:
        return next((where for begins, where in ELSEWHERE.items() if re.match(begins, command)), "")
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, command.partition("#")[0])), None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cli, dict[str, str]]:
    """A folder with two runs. Pages share it, and none needs what another makes: tests run in any order."""
    folder = tmp_path_factory.mktemp("docs")
    cli = Cli(folder)
    # As of each test: a run of the one who tests would be waited for.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINMARK_CACHE", str(folder / "cache"))
        for _ in range(2):
            cli("run", *_CASE, "--no-check")
    first, second = sorted(run.name for run in cli.runs.iterdir() if (run / "manifest.json").is_file())
    (folder / "sites").mkdir()
    for site in (ROOT / "sites").glob("*.yaml"):
        shutil.copy(site, folder / "sites")
    return cli, {"A": first, "B": second}


PAIRS = [(page.name, one) for page in PAGES if ".zh." not in page.name for one in dict.fromkeys(commands(page))]
RUN_HERE = [pair for pair in PAIRS if why_not(pair[1]) is None]


@pytest.mark.parametrize("page", list(dict.fromkeys(page for page, _ in RUN_HERE)))
def test_commands_of_the_documentation_work(
    page: str, place: tuple[Cli, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the page, as its reader types them: later ones use what earlier ones made."""
    cli, runs = place
    monkeypatch.chdir(cli.folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(cli.folder / "config"))
    for command in [one for where, one in RUN_HERE if where == page]:
        done = cli(*typed(command, runs), code=None)
        # A result that does not count, or a difference, has a code of its own, unlike bad input.
        assert done.returncode in (0, 1, 4, 5), f"{page}: {command}: {done.returncode}\n{done.stdout}{done.stderr}"


def typed(command: str, runs: dict[str, str]) -> list[str]:
    """The words of a command as a shell would give them to the program."""
    words = [runs.get(word, word) for word in (FILLED.get(word, word) for word in shlex.split(command, comments=True))]
    words = words[: words.index(">")] if ">" in words else words
    words = [found for word in words for found in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
    if words[:2] == ["baseline", "set"]:
        words[2] = runs["A"]  # a later run is compared with it
    return words


def test_most_pages_have_a_command_that_is_run() -> None:
    """What is left out is left out for a reason that still applies to something."""
    for begins, where in ELSEWHERE.items():
        assert any(re.match(begins, command) for _, command in PAIRS), begins
        assert (ROOT / where).exists(), where
    assert not [pair for pair in PAIRS if why_not(pair[1]) == ""]
    for pattern in NOT_RUN:
        assert any(re.search(pattern, command.partition("#")[0]) for _, command in PAIRS), pattern
    assert len(RUN_HERE) >= 25


def test_both_languages_show_the_same_commands() -> None:
    for page in PAGES:
        other = page.with_name(page.name.replace(".md", ".zh.md"))
        if ".zh." not in page.name and other.is_file():
            # Quoted words may be in the reader's language.
            here, there = (
                [_QUOTED.sub("", one.partition("#")[0]).split() for one in commands(file)] for file in (page, other)
            )
            assert here == there, os.path.relpath(other, ROOT)
