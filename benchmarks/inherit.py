"""What inherited weights are worth: epochs until a child is as accurate as its parent, inherited and from scratch.

A small network is trained on a part of Fashion-MNIST (14 × 14 pixels, real data). Every kind of move then makes
children of it, and each child is trained twice by the same recipe: from its parent's weights, and from fresh ones.
`--seeds N --epochs N` change how much is done; one JSON object is printed, `figures.py` says of what form.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from statistics import mean, median

import torch
from figures import Figure, show, spread
from harness import HERE

from trainmark.automl.graph.convolution_moves import KINDS
from trainmark.automl.graph.graph import DENSE, GAP, INPUT, MAXPOOL, Graph, check
from trainmark.automl.graph.moves import neighbours
from trainmark.automl.graph.network import build
from trainmark.automl.graph.space import Limits
from trainmark.automl.graph.start_networks import Builder
from trainmark.automl.graph.weights import inherit
from trainmark.data.cache import get

SOURCES = HERE.parent / "src" / "trainmark"
sys.path[:0] = [str(SOURCES / "workloads" / "lib"), str(SOURCES / "probe")]

TRAIN, TEST, BATCH, RATE = 2000, 1000, 64, 1e-3
PARENT_EPOCHS = 6
BAR = 2.0  # children from scratch need at least as many times the epochs


@dataclass(frozen=True)
class Data:
    images: torch.Tensor
    labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def fashion() -> Data:
    from trainmark_images import open_idx

    parts = open_idx(str(get("fashion-mnist")), 10, 0.2860, 0.3530)
    images, labels = [], []
    for part, count in zip(parts, (TRAIN, TEST), strict=True):
        raw = torch.as_tensor(part.images[:count]).float().reshape(count, 1, 28, 28)
        pixels = (raw / 255 - part.mean[0]) / part.std[0]
        images.append(torch.nn.functional.avg_pool2d(pixels, 2))
        labels.append(torch.as_tensor(part.labels[:count]).long())
    return Data(images[0], labels[0], images[1], labels[1])


def ancestor() -> Graph:
    net = Builder()
    x = net.conv_bn_relu(INPUT, 8, 3)
    x = net.conv_bn_relu(net.add(MAXPOOL, x, kernel=2, stride=2), 16, 3)
    x = net.conv_bn_relu(net.add(MAXPOOL, x, kernel=2, stride=2), 16, 3)
    net.add(DENSE, net.add(GAP, x), width=10)
    return check(Graph((14, 14, 1), tuple(net.layers)), "ancestor")


def accuracy(network: torch.nn.Module, data: Data) -> float:
    with torch.no_grad():
        guesses = network.eval()(data.test_images).argmax(1)
    return float((guesses == data.test_labels).float().mean())


def train(network: torch.nn.Module, data: Data, seed: int, epochs: int, goal: float = 2.0) -> list[float]:
    """The accuracy after each epoch; ends when the goal is reached."""
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    reached: list[float] = []
    while len(reached) < epochs and max(reached, default=0.0) < goal:
        network.train()
        for chosen in torch.randperm(TRAIN, generator=draw).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(data.images[chosen]), data.labels[chosen]).backward()
            optimizer.step()
        reached.append(accuracy(network, data))
    return reached


def needed(reached: list[float], goal: float, most: int) -> int:
    """Epochs; one more than were allowed if it was not enough."""
    return len(reached) if reached[-1] >= goal else most + 1


def compare(data: Data, seed: int, most: int) -> list[dict[str, float | str]]:
    torch.manual_seed(seed)
    graph = ancestor()
    parent = build(graph)
    goal = train(parent, data, seed, PARENT_EPOCHS)[-1]
    near = neighbours(graph, random.Random(seed), 60, Limits(10**6, 60))
    rows: list[dict[str, float | str]] = []
    for kind in KINDS:
        move, child = next(pair for pair in near if pair[0].kind == kind)
        heir, fresh = build(child), build(child)
        heir.load_state_dict(inherit(parent.state_dict(), graph, child, move, seed))
        at_once = accuracy(heir, data)
        inherited, scratch = (train(network, data, seed + 1, most, goal) for network in (heir, fresh))
        rows.append(
            {
                "kind": kind,
                "parent": goal,
                "before_training": at_once,
                "after_one_epoch": inherited[0],
                "inherited": needed(inherited, goal, most),
                "scratch": needed(scratch, goal, most),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=16, help="at most for one child")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = fashion()
    rows = [row for seed in range(args.seeds) for row in compare(data, seed, args.epochs)]
    inherited, scratch = ([float(row[name]) for row in rows] for name in ("inherited", "scratch"))
    ratio = mean(scratch) / mean(inherited)
    figure = Figure(
        "epochs until a child is as accurate as its parent", "epochs", mean(inherited), "from scratch", mean(scratch),
        "scratch ÷ inherited, means", ratio, f"≥ {BAR:g}", ratio >= BAR,
    )  # fmt: skip
    how = (
        f"Fashion-MNIST, {TRAIN} images of 14 × 14, Adam {RATE}, batch {BATCH}; parent {PARENT_EPOCHS} epochs; "
        f"{args.seeds} parents, one child of each kind of move; at least one epoch is trained, at most {args.epochs}"
    )
    kinds = {
        kind: {
            name: median(float(row[name]) for row in rows if row["kind"] == kind) for name in ("inherited", "scratch")
        }
        for kind in KINDS
    }
    lost = max(abs(float(row["before_training"]) - float(row["parent"])) for row in rows)
    details = {
        "median_epochs_by_move": kinds,
        "parent_accuracy": spread([float(row["parent"]) for row in rows]),
        "largest_change_of_accuracy_by_a_move": lost,
        "accuracy_after_one_epoch": spread([float(row["after_one_epoch"]) for row in rows]),
    }
    show("inherit", how, [figure], details)


if __name__ == "__main__":
    main()
