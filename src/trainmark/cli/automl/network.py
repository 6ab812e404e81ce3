"""`trainmark automl best` and `flops`: the best network of an experiment, and how much work a network is."""

from __future__ import annotations

import argparse
import json

from trainmark.cli import common, terminal
from trainmark.errors import UserError, did_you_mean, one_of


def configure_best(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--trial", type=int, metavar="N", help="another than the best")
    common.add_folder(parser, "where to write (default: RUN/results/best)")


def best(args: argparse.Namespace) -> int:
    from trainmark.automl.experiment import runs

    run = common.find_run(args)
    out = args.output or run.path / "results" / "best"
    found, trial = runs.save_network(run, args.trial, out)
    reached = found.shown(trial.accuracy or 0.0)
    if found.metric == "loss":
        terminal.tell(f"trial {trial.number}, test loss {reached}: {out}\n")
    else:
        terminal.tell(f"trial {trial.number}, accuracy {reached}: {out}\n")
    return 0


def configure_flops(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        help="a start model (gpt, resnet50, small_cnn, vit) or a graph's JSON file, also AIPerf's or NNI's",
    )
    parser.add_argument("--rules", default="trainmark", help="aiperf or trainmark (default: trainmark)")
    parser.add_argument(
        "--kernel", type=int, metavar="K", help="kernel that AIPerf's search chose for layers it added (aiperf only)"
    )
    parser.add_argument("--train-images", type=int, metavar="N", help="of an epoch (default: ImageNet's, by the rules)")
    parser.add_argument("--eval-images", type=int, metavar="N", help="of an epoch (default: 50000)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def flops(args: argparse.Namespace) -> int:
    from trainmark.automl.graph import flops as counting
    from trainmark.automl.graph.start_networks import start

    graph = start(args.graph)
    _check(args, counting.RULES)
    counted = counting.count(graph, args.rules, args.kernel)
    usual = counting.IMAGES[args.rules]
    train = usual[0] if args.train_images is None else args.train_images
    evaluated = usual[1] if args.eval_images is None else args.eval_images
    epoch = counting.epoch(counted, train, evaluated)
    if args.json:
        record = {
            "rules": args.rules,
            "eval": counted.eval,
            "train": counted.train,
            "epoch": epoch,
            "train_images": train,
            "eval_images": evaluated,
            "forward": counted.forward,
            "backward": counted.backward,
            "parameters": graph.size,
            "layers": len(graph.layers),
        }
        terminal.line(json.dumps(record))
        return 0
    terminal.line(f"{args.graph}: {len(graph.layers)} layers, {graph.size:,} parameters; rules `{args.rules}`")
    for kind in counted.forward:
        terminal.line(f"  {kind:16} {counted.forward[kind]:>18,} forward {counted.backward.get(kind, 0):>18,} backward")
    terminal.line(f"eval   {counted.eval:>26,} per image")
    terminal.line(f"train  {counted.train:>26,} per image")
    terminal.line(f"epoch  {epoch:>26,} = {epoch:.12e} ({train:,} images trained on, {evaluated:,} evaluated)")
    return 0


def _check(args: argparse.Namespace, rules: tuple[str, ...]) -> None:
    if args.rules not in rules:
        raise UserError(
            f"--rules {args.rules}: no such rule set{did_you_mean(args.rules, rules)}; allowed: {one_of(rules)}"
        )
    if args.kernel is not None and (args.rules != "aiperf" or not 1 <= args.kernel <= 7):
        raise UserError(f"--kernel {args.kernel}: allowed is 1 to 7, with --rules aiperf")
    for name in ("train_images", "eval_images"):
        value = getattr(args, name)
        if value is not None and value < 0:
            raise UserError(f"--{name.replace('_', '-')} {value}: at least 0 is needed")
