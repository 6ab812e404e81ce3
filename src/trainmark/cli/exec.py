"""`trainmark exec`: an unmodified training command as a case."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

from trainmark.cli import common, drive
from trainmark.errors import UserError
from trainmark.launch.protocol import launcher_of
from trainmark.run import planning
from trainmark.spec import suite as suites

EPILOG = """\
examples:
  trainmark exec -- python train.py --epochs 1
  trainmark exec --unit images --steps 200 -- torchrun --nproc-per-node 2 train.py
  trainmark exec --batch 32 --repeat 3 -- accelerate launch train.py     no DataLoader to count samples from
  trainmark exec --pattern 'step (?P<step>\\d+) loss (?P<loss>\\S+)' --batch 8 -- ./train.bin
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="after `--`: the program and its arguments")
    parser.add_argument("--batch", type=int, metavar="N", help="samples each process trains in a step (default: seen)")
    parser.add_argument("--unit", metavar="NAME", help="what a sample is called (default: samples)")
    parser.add_argument("--steps", type=int, metavar="N", help="end the command after N steps")
    parser.add_argument(
        "--pattern",
        metavar="NAME|REGEX",
        help="read steps from the output: a named pattern, or an expression with groups step, samples, seconds, …",
    )
    parser.add_argument("--name", metavar="NAME", help="what the case is called (default: the script's name)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="what it trains on, a label (default: cpu)")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="how often it is run (default: 1)")
    parser.add_argument("--cwd", type=Path, default=Path(), metavar="DIR", help="where it is run (default: here)")
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable of its environment")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for each round (default: a day)")
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    common.add_seed(parser)
    common.add_runs(parser)
    drive.add_options(parser)


def call(args: argparse.Namespace) -> int:
    cwd = args.cwd.resolve()
    if not cwd.is_dir():
        raise UserError(f"--cwd {args.cwd}: no such folder")
    site = common.load_site(args)
    if launcher_of(site).this_machine:
        _check_program(args.command[0], cwd)
    plan = planning.plan_suite(suites.of_command(_entry(args), cwd), site, {}, args.seed)
    run = drive.create(plan, args)
    return drive.drive(run, plan, args)


def _entry(args: argparse.Namespace) -> dict[str, Any]:
    """The command line as a suite's case would say it."""
    entry = {
        "command": args.command,
        "name": args.name,
        "unit": args.unit,
        "batch": args.batch,
        "steps": args.steps,
        "pattern": args.pattern,
        "device": args.device,
        "repeat": args.repeat,
        "env": common.pairs(args.env, "--env"),
        "deadlines": {} if args.timeout is None else {"total": args.timeout},
    }
    return {name: value for name, value in entry.items() if value is not None}


def _check_program(program: str, cwd: Path) -> None:
    """A mistyped name is found before anything is started."""
    path = os.path.join(cwd, program) if "/" in program else program
    if shutil.which(path) is None:
        what = "does not exist or cannot be executed" if "/" in program else "is not on PATH"
        raise UserError(f"the program {program} {what}")
