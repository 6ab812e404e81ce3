"""The table of the verbs of `trainmark automl`."""

from __future__ import annotations

import argparse
import importlib

_HERE = "trainmark.cli.automl"
# verb → (module, its functions for options and for the call, what the verb does)
VERBS = {
    "run": (f"{_HERE}.run", "configure_run", "run", "run an experiment"),
    "plan": (f"{_HERE}.run", "configure_plan", "plan", "the dry run: workers, their places and commands"),
    "top": (f"{_HERE}.look", "configure_top", "top", "watch an experiment and its trials, live"),
    "status": (f"{_HERE}.look", "configure_status", "status", "show how far an experiment and its workers are"),
    "stop": ("trainmark.cli.stop", "configure", "call", "stop an experiment; returns when nothing of it is left"),
    "resume": (f"{_HERE}.run", "configure_resume", "resume", "go on with an experiment that was stopped or killed"),
    "report": (f"{_HERE}.look", "configure_report", "report", "print and write the result, also while it runs"),
    "logs": ("trainmark.cli.logs", "configure", "call", "print or follow the output of a worker"),
    "best": (f"{_HERE}.network", "configure_best", "best", "export the best network as plain PyTorch"),
    "pack": (f"{_HERE}.look", "configure_pack", "pack", "put an experiment into one signed file, a bundle"),
    "import": (f"{_HERE}.look", "configure_import", "imported", "score result folders of AIPerf again, by any rules"),
    "flops": (f"{_HERE}.network", "configure_flops", "flops", "count the operations of a graph"),
}

EPILOG = """\
examples:
  trainmark automl run experiment.yaml
  trainmark automl plan experiment.yaml --site site.yaml
  trainmark automl report --logs
  trainmark automl pack -o submission.tmk
  trainmark automl import mountdir/nni/experiments/ID --nni nni/experiments/ID --rules seed -o judged
  trainmark automl flops resnet50 --rules aiperf
  trainmark automl flops graph.json --rules trainmark --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="VERB")
    for verb, (name, options, function, summary) in VERBS.items():
        module = importlib.import_module(name)
        made = verbs.add_parser(
            verb,
            help=summary,
            description=summary,
            epilog=getattr(module, "EPILOGS", {}).get(verb) or getattr(module, "EPILOG", None),
        )
        getattr(module, options)(made)
        made.set_defaults(verb_call=getattr(module, function))


def call(args: argparse.Namespace) -> int:
    return int(args.verb_call(args))
