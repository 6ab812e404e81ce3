"""Whether a search is worth its cost, with real trainings: each policy gets the same operations on the same data.

One search begins with a network of 1,090 parameters on a part of Fashion-MNIST (14 × 14 pixels). A trial trains for a
few epochs from its parent's weights, as in an experiment, and is told to the policy by its accuracy on validation
images. It ends when the next epoch would need more operations than are left. What counts is the accuracy on test
images, which no search sees, of the network that was best on validation images. The rivals of `morphism-bo` are
`random`, `evolution`, the start network that is just trained on with all of these operations, its learning rate
falling once over the whole time (`trained-on`), and the same search that is not told for how long weights were
trained (`untold`).

`--seeds N` searches of each; each is a line of the file `--record`, and one that is there already is not done again,
so that it can be stopped at any time. `--show` prints what the file says. Operations are counted, not seconds: other
load does not matter.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import json
import random
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from figures import Figure, show
from harness import HERE
from search_table import paired

RECORD = HERE / "search_real.jsonl"
RIVALS = ("random", "evolution", "trained-on", "untold")
POLICIES = ("morphism-bo", *RIVALS)
SEEDS = 10
TRAIN, VALIDATION = 4000, 2000
BATCH, RATE, LAST_RATE, MOMENTUM, DECAY = 100, 0.1, 0.01, 0.9, 1e-4
EPOCHS = 1  # of a trial
BUDGET = 240  # in epochs of the start network
SIZE, DEPTH, KERNEL = 200_000, 60, 5


# Searches with other settings are not compared.
SETTING = f"{TRAIN} {VALIDATION} {BATCH} {RATE} {LAST_RATE} {EPOCHS} {BUDGET}"


class Reached(NamedTuple):
    """One network: its best accuracy on validation images, its weights then, and the epochs that they have seen."""

    graph: Any
    validation: float
    seen: int
    weights: Mapping[str, Any]


class Lab:
    """The data and the recipe of all trainings of one seed, and the operations that are left."""

    def __init__(self, seed: int) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.seed, self.start = seed, start_network()
        self._images, self._labels = _pixels()
        self.left = BUDGET * self.cost(self.start)
        self._draw = torch.Generator().manual_seed(seed)

    def cost(self, graph: Any) -> int:
        """Operations of an epoch."""
        from trainmark.automl.graph import flops

        return flops.epoch(flops.count(graph, "trainmark"), TRAIN, VALIDATION)

    def train(self, graph: Any, network: Any, epochs: int, seen: int) -> Reached | None:
        """The best of all epochs on validation images; None if there were operations for none."""
        import torch

        cost, best = self.cost(graph), None
        epochs = min(epochs, self.left // cost)
        rates = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
        steps, done = epochs * TRAIN // BATCH, 0
        for epoch in range(epochs):
            self.left -= cost
            network.train()
            for chosen in torch.randperm(TRAIN, generator=self._draw).split(BATCH):
                for group in rates.param_groups:
                    group["lr"] = RATE + (LAST_RATE - RATE) * done / steps
                rates.zero_grad()
                answers = network(self._images[chosen])
                torch.nn.functional.cross_entropy(answers, self._labels[chosen]).backward()
                rates.step()
                done += 1
            validation = self.accuracy(network, slice(TRAIN, TRAIN + VALIDATION))
            if best is None or validation > best.validation:
                weights = {name: value.clone() for name, value in network.state_dict().items()}
                best = Reached(graph, validation, seen + epoch + 1, weights)
        return best

    def accuracy(self, network: Any, part: slice) -> float:
        import torch

        with torch.no_grad():
            parts = zip(self._images[part].split(1000), self._labels[part].split(1000), strict=True)
            right = sum(int((network.eval()(images).argmax(1) == labels).sum()) for images, labels in parts)
        return right / len(self._labels[part])


def _pixels() -> tuple[Any, Any]:
    """Training, validation and test images, one after the other; validation images come from the training set."""
    import torch

    sources = HERE.parent / "src" / "trainmark"
    sys.path[:0] = [str(sources / "workloads" / "lib"), str(sources / "probe")]
    from trainmark_images import open_idx

    from trainmark.data.cache import get

    train, test = open_idx(str(get("fashion-mnist")), 10, 0.2860, 0.3530)
    count = TRAIN + VALIDATION
    raw = torch.cat([torch.as_tensor(train.images[:count]), torch.as_tensor(test.images[: len(test)])])
    labels = torch.cat([torch.as_tensor(train.labels[:count]), torch.as_tensor(test.labels[: len(test)])])
    pixels = (raw.float().reshape(-1, 1, 28, 28) / 255 - train.mean[0]) / train.std[0]
    return torch.nn.functional.avg_pool2d(pixels, 2), labels.long()


def start_network() -> Any:
    from trainmark.automl.graph.graph import DENSE, GAP, INPUT, MAXPOOL, Graph, check
    from trainmark.automl.graph.start_networks import Builder

    net = Builder()
    x = net.conv_bn_relu(INPUT, 4, 3)
    for _ in range(2):
        x = net.conv_bn_relu(net.add(MAXPOOL, x, kernel=2, stride=2), 8, 3)
    net.add(DENSE, net.add(GAP, x), width=10)
    return check(Graph((14, 14, 1), tuple(net.layers)), "start")


def train_on(lab: Lab) -> list[Reached]:
    from trainmark.automl.graph.network import build

    found = lab.train(lab.start, build(lab.start), BUDGET, 0)
    return [found] if found else []


def search(lab: Lab, name: str) -> list[Reached]:
    from trainmark.automl.graph.keys import canonical_hash
    from trainmark.automl.graph.network import build
    from trainmark.automl.graph.space import Limits
    from trainmark.automl.graph.weights import inherit
    from trainmark.automl.search.policy import Trial, make

    told = name != "untold"
    policy = make(name if told else "morphism-bo", [lab.start], Limits(SIZE, DEPTH, KERNEL), {})
    rng, history = random.Random(lab.seed), []
    reached: list[Reached] = []
    while True:
        proposal = policy.ask(history, [], rng, EPOCHS if told else 0)
        network = build(proposal.graph)
        seen = 0
        if proposal.parent is not None:
            parent = reached[proposal.parent]
            (move,) = proposal.moves
            number = lab.seed + len(history)
            network.load_state_dict(inherit(parent.weights, parent.graph, proposal.graph, move, number))
            seen = parent.seen
        found = lab.train(proposal.graph, network, EPOCHS, seen)
        if found is None:
            return reached
        reached.append(found)
        key, known = canonical_hash(proposal.graph), found.seen if told else 0
        trial = Trial(len(history), proposal.graph, key, found.validation, proposal.parent, proposal.moves, known)
        history.append(trial)
        policy.tell(trial)


def one(policy: str, seed: int) -> dict[str, Any]:
    from trainmark.automl.graph.network import build

    lab = Lab(seed)
    budget = lab.left
    reached = train_on(lab) if policy == "trained-on" else search(lab, policy)
    best = max(reached, key=lambda found: found.validation)
    network = build(best.graph)
    network.load_state_dict(best.weights)
    return {
        "setting": SETTING,
        **{"policy": policy, "seed": seed, "trials": len(reached), "used": 1 - lab.left / budget},
        **{"validation": best.validation, "test": lab.accuracy(network, slice(TRAIN + VALIDATION, None))},
        **{"parameters": best.graph.size, "seen": best.seen},
    }


def known(record: Path) -> dict[tuple[str, int], dict[str, Any]]:
    lines = map(json.loads, record.read_text().splitlines()) if record.exists() else ()
    return {(line["policy"], line["seed"]): line for line in lines if line["setting"] == SETTING}


def tell(found: Mapping[tuple[str, int], dict[str, Any]]) -> None:
    seeds = sorted({seed for _, seed in found if all((policy, seed) in found for policy in POLICIES)})
    tests = {policy: [found[policy, seed]["test"] for seed in seeds] for policy in POLICIES}
    names = ("trials", "parameters", "seen", "validation", "used")
    details: dict[str, Any] = {
        policy: {"test": mean(tests[policy]), **{name: mean(found[policy, s][name] for s in seeds) for name in names}}
        for policy in POLICIES
    }
    figures = []
    for rival in RIVALS:
        middle, low, high = paired(tests["morphism-bo"], tests[rival])
        details[f"morphism-bo − {rival}"] = {"mean": middle, "low": low, "high": high}
        figures.append(
            Figure(
                f"test accuracy of morphism-bo and of {rival}, same operations", "accuracy", mean(tests["morphism-bo"]),
                rival, mean(tests[rival]), "lower end of the 95 % interval of ours − rival", low, "> 0", low > 0,
            )
        )  # fmt: skip
    how = (
        f"{len(seeds)} seeds, paired; {BUDGET} epochs of the start network's operations; trials of {EPOCHS} epochs; "
        f"Fashion-MNIST 14 × 14, {TRAIN} training and {VALIDATION} validation images, 10,000 test images"
    )
    show("search_real", how, figures, details)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--show", action="store_true", help="train nothing")
    args = parser.parse_args()
    found = known(args.record)
    # The last rival is not one of other programs: it comes last.
    turns = [(policy, seed) for seed in range(args.seeds) for policy in POLICIES[:-1]]
    turns += [(POLICIES[-1], seed) for seed in range(args.seeds)]
    left = [turn for turn in turns if turn not in found]
    if not args.show:
        args.record.parent.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(args.processes) as pool, args.record.open("a") as file:
            for done in as_completed([pool.submit(one, *cell) for cell in left]):
                line = done.result()
                found[line["policy"], line["seed"]] = line
                file.write(json.dumps(line) + "\n")
                file.flush()
    tell(found)


if __name__ == "__main__":
    main()
