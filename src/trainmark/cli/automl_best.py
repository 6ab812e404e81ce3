"""`trainmark automl best`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from trainmark.cli import automl_common, common
from trainmark.errors import UserError


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--trial", type=int, metavar="N", help="another than the best")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: RUN/results/best)")


def call(args: argparse.Namespace) -> int:
    """`model.py` and `weights.pt` need torch alone; `graph.json` is the architecture, `trial.json` its story."""
    from trainmark.automl.graph import network
    from trainmark.automl.ledger.files import TrialFiles
    from trainmark.automl.ledger.ledger import open_ledger
    from trainmark.automl.ledger.server import url_here
    from trainmark.launch.protocol import launcher_of

    run, plan, experiment = automl_common.find(args)
    found = automl_common.look(run, plan, experiment)
    number = found.best if args.trial is None else args.trial
    trial = next((one for one in found.trials if one.number == number), None)
    if trial is None or trial.accuracy is None:
        raise UserError(f"experiment {run.id} has no trial {number if number is not None else ''} with an accuracy yet")
    files = TrialFiles(run.path / "automl")
    entry = open_ledger(url_here(run, plan), run.id).entries()[trial.number]
    weights = files.weights(trial.number)
    if weights is None and not launcher_of(plan.site).shared_folder:
        home = plan.cases[0].params["home"] or "their own checkpoint folders"
        raise UserError(f"the weights of trial {trial.number} are on the hosts, in {home}: copy them from there")
    if weights is None:
        raise UserError(
            f"the weights of trial {trial.number} are not kept, only those of the best {experiment.keep_weights}"
        )
    out = args.out or run.path / "results" / "best"
    network.save(files.graph(entry.file, entry.graph), weights, out)
    (out / "trial.json").write_bytes(msgspec.json.encode(trial) + b"\n")
    sys.stdout.write(f"trial {trial.number}, accuracy {100 * trial.accuracy:.2f} %: {out}\n")
    return 0
