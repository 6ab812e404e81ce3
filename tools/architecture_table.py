"""Makes the table of trained architectures that search policies are compared on: `python tools/architecture_table.py`.

A connected neighbourhood of the small CNN: all that one or two moves make of it, then per further move the `QUOTA` that
are children of most others. Each is trained from scratch with SEEDS seeds on a small part of Fashion-MNIST, 14 × 14
pixels. The result is `benchmarks/architectures.json`; a table that is half made is gone on with.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, pvariance, variance
from typing import Any

import torch

from trainmark.automl.graph.graph import BN, CONV, RELU, Graph
from trainmark.automl.graph.keys import canonical_hash
from trainmark.automl.graph.moves import apply, tuned
from trainmark.automl.graph.network import build
from trainmark.automl.graph.space import Impossible, Move
from trainmark.automl.graph.start_networks import small_cnn
from trainmark.data.cache import get

SOURCES = Path(__file__).resolve().parents[1] / "src" / "trainmark"
sys.path[:0] = [str(SOURCES / "workloads" / "lib"), str(SOURCES / "probe")]

TABLE = SOURCES.parents[1] / "benchmarks" / "architectures.json"
START = {"shape": [14, 14, 1], "classes": 10, "blocks": 2, "width": 8}
LEVELS, QUOTA, MOST_SIZE = 6, 60, 8000
SEEDS, TRAIN, TEST, BATCH, EPOCHS, RATE = 3, 1000, 1000, 40, 2, 0.02


def moves(graph: Graph) -> Iterator[Move]:
    """One of each kind at each place: the table shall be dense rather than wide."""
    for at, layer in enumerate(graph.layers):
        flat = len(graph.shapes[at]) == 1
        if layer.op == RELU:
            yield Move("deeper", at, 0 if flat else 3)
        if at == min(graph.width_groups.get(at, [-1])):
            yield Move("wider", at, 2 * layer.width)
        if layer.op == CONV and layer.kernel == 3:
            yield Move("kernel", at, 5)
        if layer.op == BN and not flat:
            yield from (Move("add", at, start) for start, other in enumerate(graph.layers) if other.op == RELU)


def children(graph: Graph) -> Iterator[tuple[Move, Graph, str]]:
    for move in moves(graph):
        try:
            child = apply(graph, move)
        except Impossible:
            continue
        if child.size <= MOST_SIZE:
            yield move, child, canonical_hash(child)


def neighbourhood() -> list[dict[str, Any]]:
    """Entries by number: `made` is (parent, move), `moves` are those that stay in the table and where they lead."""
    rng = random.Random(0)
    graphs = [small_cnn(tuple(START["shape"]), START["classes"], START["blocks"], START["width"])]
    numbers = {canonical_hash(graphs[0]): 0}
    made: list[list[Any] | None] = [None]
    level = [0]
    for distance in range(1, LEVELS + 1):
        found: dict[str, list[tuple[int, Move, Graph]]] = {}
        for number in level:
            for move, child, key in children(graphs[number]):
                if key not in numbers:
                    found.setdefault(key, []).append((number, move, child))
        ranked = sorted(found.items(), key=lambda one: (-len(one[1]), rng.random()))
        level = []
        for key, ways in ranked if distance <= 2 else ranked[:QUOTA]:
            parent, move, child = ways[0]
            level.append(len(graphs))
            numbers[key] = len(graphs)
            graphs.append(child)
            made.append([parent, [move.kind, move.layer, move.value]])
    entries = []
    for number, graph in enumerate(graphs):
        ways = {numbers[key]: move for move, _, key in children(graph) if key in numbers}
        kept = [[move.kind, move.layer, move.value, end] for end, move in sorted(ways.items())]
        entries.append({"made": made[number], "moves": kept, "accuracy": []})
    return entries


def graphs_of(entries: list[dict[str, Any]]) -> list[Graph]:
    found = [small_cnn(tuple(START["shape"]), START["classes"], START["blocks"], START["width"])]
    for entry in entries[1:]:
        parent, move = entry["made"]
        found.append(apply(found[parent], Move(*move)))
    return found


def fashion() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    from trainmark_images import open_idx

    found = []
    for part, count in zip(open_idx(str(get("fashion-mnist")), 10, 0.2860, 0.3530), (TRAIN, TEST), strict=True):
        pixels = (part.images[:count].float().reshape(count, 1, 28, 28) / 255 - part.mean[0]) / part.std[0]
        found += [torch.nn.functional.avg_pool2d(pixels, 2), part.labels[:count]]
    return found[0], found[1], found[2], found[3]


def accuracy(graph: Graph, seed: int, data: tuple[torch.Tensor, ...]) -> float:
    images, labels, test_images, test_labels = data
    torch.manual_seed(seed)
    network = build(tuned(graph, len(graph.layers), None, 0.0))
    steps = EPOCHS * -(-TRAIN // BATCH)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE, fused=True)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, steps)
    network.train()
    for _ in range(EPOCHS):
        for chosen in torch.randperm(TRAIN).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            falling.step()
    with torch.no_grad():
        guesses = network.eval()(test_images).argmax(1)
    return round(float((guesses == test_labels).float().mean()), 4)


def spread(entries: list[dict[str, Any]]) -> dict[str, float]:
    """How much of the accuracy is the architecture's, and how much is chance."""
    seeds = mean(variance(entry["accuracy"]) for entry in entries)
    means = pvariance([mean(entry["accuracy"]) for entry in entries])
    return {
        "deviation_between_seeds": round(seeds**0.5, 5),
        "deviation_between_architectures": round(max(means - seeds / SEEDS, 0.0) ** 0.5, 5),
        "share_of_architecture_in_means": round(1 - seeds / SEEDS / means, 4),
    }


def write(table: dict[str, Any]) -> None:
    head = json.dumps({name: value for name, value in table.items() if name != "entries"})
    rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in table["entries"])
    half = TABLE.with_suffix(".part")
    half.write_text(f'{head[:-1]}, "entries": [\n{rows}\n]}}\n')
    os.replace(half, TABLE)


def one(job: tuple[int, Graph, int]) -> tuple[int, float, float]:
    number, graph, seed = job
    begin = time.process_time()
    return number, accuracy(graph, seed, DATA[0]), time.process_time() - begin


def prepare() -> None:
    torch.set_num_threads(1)
    DATA.append(fashion())


DATA: list[tuple[torch.Tensor, ...]] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    args = parser.parse_args()
    fresh = {
        "what": f"Fashion-MNIST, first {TRAIN} training and {TEST} test images, 14 × 14; Adam, learning rate {RATE} "
        f"falling to 2 %, batch {BATCH}, {EPOCHS} epochs; accuracy of {SEEDS} seeds",
        "start": START,
        "entries": neighbourhood(),
    }
    table = json.loads(TABLE.read_text()) if TABLE.exists() else fresh
    entries = table["entries"]
    graphs = graphs_of(entries)
    # In random order: what there is after any time is a fair sample.
    order = random.Random(1).sample(range(len(entries)), len(entries))
    left = [
        (number, graphs[number], seed) for number in order for seed in range(len(entries[number]["accuracy"]), SEEDS)
    ]
    spent = 0.0
    with multiprocessing.get_context("spawn").Pool(args.jobs, prepare) as pool:
        for done, (number, reached, seconds) in enumerate(pool.imap(one, left), 1):
            entries[number]["accuracy"].append(reached)
            spent += seconds
            if done % 30 == 0:
                write(table)
                sys.stderr.write(f"{done} of {len(left)}, {spent / done:.2f} CPU s each\n")
    table["spread"] = spread(entries)
    table["made_with"] = f"torch {torch.__version__}, {platform.machine()}"
    write(table)
    print(json.dumps(table["spread"]))


if __name__ == "__main__":
    main()
