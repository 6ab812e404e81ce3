"""`trainmark automl VERB …`: a table of verbs, each a module of its own."""

from __future__ import annotations

import argparse
import importlib

# verb → (module with `configure` and `call`, what it does)
VERBS = {
    "run": ("trainmark.cli.automl_run", "run an experiment"),
    "top": ("trainmark.cli.automl_top", "watch an experiment and its trials, live"),
    "status": ("trainmark.cli.automl_status", "show how far an experiment and its workers are"),
    "stop": ("trainmark.cli.stop", "stop an experiment; returns when nothing of it is left"),
    "resume": ("trainmark.cli.automl_resume", "go on with an experiment that was stopped or killed"),
    "report": ("trainmark.cli.automl_report", "print and write the result, also while it runs"),
    "logs": ("trainmark.cli.logs", "print or follow the output of a worker"),
    "best": ("trainmark.cli.automl_best", "export the best network as plain PyTorch"),
    "flops": ("trainmark.cli.automl_flops", "count the operations of a graph"),
}

EPILOG = """\
examples:
  trainmark automl run experiment.yaml
  trainmark automl report --logs
  trainmark automl flops resnet50 --rules aiperf
  trainmark automl flops graph.json --rules trainmark --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="VERB")
    for verb, (name, summary) in VERBS.items():
        module = importlib.import_module(name)
        made = verbs.add_parser(
            verb,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=getattr(module, "EPILOG", None),
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100),
            allow_abbrev=False,
        )
        module.configure(made)
        made.set_defaults(verb_call=module.call)


def call(args: argparse.Namespace) -> int:
    return int(args.verb_call(args))
