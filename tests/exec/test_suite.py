"""Commands as cases of a suite: repeats, a matrix, values by word and by variable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark.spec.command import default_name

PRINTS = """
import os, sys
print("step 1 words", sys.argv[1:], "batch", os.environ["TRAINMARK_PARAM_BATCH"], os.path.basename(os.getcwd()))
"""


def suite(cli: Cli, cases: str) -> str:
    (cli.folder / "job").mkdir(exist_ok=True)
    (cli.folder / "job" / "train.py").write_text(PRINTS)
    file = cli.folder / "suite.yaml"
    file.write_text(f"schema: 1\nname: mine\ncases:\n{cases}")
    return str(file)


def test_a_command_is_repeated_and_varied(cli: Cli) -> None:
    file = suite(
        cli,
        f"""
  - command: [{sys.executable}, train.py, --batch, "{{batch}}", "--procs={{nproc}}", "{{kept}} as it is"]
    name: mine
    pattern: 'step (?P<step>\\d+)'
    unit: images
    cwd: job
    matrix: {{batch: [4, 8], procs: [1, 2]}}
    repeat: 2
""",
    )
    report = cli.json("run", file)
    cases = {case["case"]: case for case in report["cases"]}
    assert set(cases) == {
        "mine:exec:cpu:1:1:2",
        "mine:exec:cpu:1:2:2",
        "mine:exec:cpu:1:1:2@batch=8",
        "mine:exec:cpu:1:2:2@batch=8",
    }
    assert {case["counted"] for case in cases.values()} == {2}
    assert cases["mine:exec:cpu:1:2:2@batch=8"]["measurements"]["samples"]["value"] == 16
    log = Path(report["dir"]).glob("mine+exec+cpu+1+2+2@batch=8/round1/attempt1/*/rank0.out.log")
    assert next(log).read_text().strip() == (
        "step 1 words ['--batch', '8', '--procs=2', '{kept} as it is'] batch 8 job"
    )


def test_a_workload_may_be_a_command(cli: Cli) -> None:
    folder = cli.folder / "workloads" / "talk"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(PRINTS)
    (folder / "workload.yaml").write_text(
        f"""
schema: 1
name: talk
title: a command with parameters
unit: images
command: [{sys.executable}, train.py, "{{batch}}"]
pattern: 'step (?P<step>\\d+)'
parameters: {{batch: {{type: int, default: 3, min: 1}}}}
presets: {{quick: {{}}}}
"""
    )
    file = cli.folder / "suite.yaml"
    file.write_text("schema: 1\nname: mine\nworkloads: [workloads]\ncases: ['talk:exec:cpu:1:1:1']\n")
    (case,) = cli.json("run", str(file), "--set", "batch=5")["cases"]
    assert (case["case"], case["state"]) == ("talk:exec:cpu:1:1:1@batch=5", "SUCCEEDED")
    assert case["measurements"]["samples"]["value"] == 5


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("{command: [python, '{bach}'], batch: 3}", "command[1]: nothing is called `bach` (did you mean `batch`?)"),
        ("{command: []}", "cases[0].command: empty"),
        ("{command: [python], comand: x}", "unknown key `comand` (did you mean `command`?)"),
        ("{command: python train.py}", "expected `array`, got `str`"),
        ("{command: [python], deadlines: {sep: 1}}", "unknown key `sep`"),
    ],
)
def test_slips_of_the_pen_name_their_place(cli: Cli, case: str, message: str) -> None:
    done = cli("plan", suite(cli, f"  - {case}\n"), code=2)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "-m", "torch.distributed.run", "my/train.py", "--lr", "1"], "train"),
        (["bash", "-c", "cd my && python train.py --epochs 1"], "train"),
        (["bash", "-c", "for i in 1 2 3; do echo $i; done"], "bash"),
        (["python", "-c", "print(1)"], "python"),
    ],
)
def test_a_case_is_named_after_its_script_and_never_after_a_line_of_shell(command: list[str], name: str) -> None:
    assert default_name(command) == name
