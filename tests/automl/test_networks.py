"""Networks made of graphs: weights inherited without changing what is computed, operations, life without trainmark."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from tests.automl.graphs import networks
from trainmark.automl.graph import flops
from trainmark.automl.graph.convolution_moves import KINDS
from trainmark.automl.graph.graph import ADD, CONV, RELU, Graph, check
from trainmark.automl.graph.moves import apply, neighbours, preserving
from trainmark.automl.graph.network import build, save
from trainmark.automl.graph.space import Impossible, Limits, Move
from trainmark.automl.graph.start_networks import resnet50, small_cnn
from trainmark.automl.graph.weights import inherit

SEEDS = st.integers(0, 2**32)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """These networks are small: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(graph: Graph, seed: int) -> torch.nn.Module:
    """A network whose batch norms are as if it had been trained."""
    torch.manual_seed(seed)
    network = build(graph)
    for part in network.modules():
        if isinstance(part, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            part.weight.data.normal_(1, 0.3)
            part.bias.data.normal_(0, 0.3)
            part.running_mean.normal_(0, 0.5)
            part.running_var.uniform_(0.3, 2)
    return network.eval()


def images(graph: Graph, seed: int, count: int = 3) -> torch.Tensor:
    height, width, channels = graph.shape
    return torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(seed))


def assert_same_function(graph: Graph, pairs: Sequence[tuple[Move, Graph]], seed: int) -> None:
    network, batch = trained(graph, seed), images(graph, seed)
    with torch.no_grad():
        wanted = network(batch)
    scale = max(1.0, float(wanted.abs().max()))
    for move, child in pairs:
        heir = build(child)
        heir.load_state_dict(inherit(network.state_dict(), graph, child, move, seed))
        with torch.no_grad():
            got = heir.eval()(batch)
        assert float((wanted - got).abs().max()) <= 1e-4 * scale, move


@settings(max_examples=30, deadline=None)
@given(networks(), SEEDS)
def test_every_move_keeps_the_function(graph: Graph, seed: int) -> None:
    found = neighbours(graph, random.Random(seed), 6, Limits(10**6, 80))
    assert all(preserving(graph, move) for move, _ in found)
    assert_same_function(graph, found, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_move_along_a_family(kind: str) -> None:
    """Child of child of child: what the draws above may meet too rarely."""
    rng, graph, met = random.Random(KINDS.index(kind)), small_cnn((12, 12, 3), 10, blocks=2, width=6), 0
    for step in range(40):
        near = neighbours(graph, rng, 20, Limits(10**5, 40))
        mine = [pair for pair in near if pair[0].kind == kind]
        if not near or met == 8:
            break
        move, child = rng.choice(mine or near)
        met += bool(mine)
        assert_same_function(graph, [(move, child)], step)
        graph = child
    assert met >= 5


def test_resnet50_has_heirs() -> None:
    graph = resnet50((32, 32, 3), 10)
    network, batch = trained(graph, 0), images(graph, 0, 2)
    with torch.no_grad():
        wanted = network(batch)
    first = {move.kind: (move, child) for move, child in neighbours(graph, random.Random(5), 60, Limits(2**30, 300))}
    assert set(first) == set(KINDS)
    for move, child in first.values():
        heir = build(child)
        heir.load_state_dict(inherit(network.state_dict(), graph, child, move))
        with torch.no_grad():
            difference = float((heir.eval()(batch) - wanted).abs().max())
        assert difference <= 1e-4 * float(wanted.abs().max()), move


@settings(max_examples=30, deadline=None)
@given(networks(), SEEDS)
def test_children_are_networks_and_know_themselves(graph: Graph, seed: int) -> None:
    """What a child was handed by its parent is what it would find out alone; no limit is crossed."""
    limits = Limits(size=graph.size + 400, depth=graph.depth + 2, kernel=5)
    for move, child in neighbours(graph, random.Random(seed), 6, limits):
        alone = check(Graph(child.shape, child.layers), "child")
        assert (child.shapes, child.size, child.depth) == (alone.shapes, alone.size, alone.depth)
        assert sorted(child.order) == sorted(alone.order) and child.classes == graph.classes
        done = set()
        for index in child.order:
            assert {end for end in child.layers[index][1:3] if end >= 0} <= done
            done.add(index)
        assert child.size <= limits.size and child.depth <= limits.depth
        assert all(layer.kernel <= 5 for layer in child.layers if layer.op == CONV)
        assert len(child.layers) >= len(graph.layers) and apply(graph, move) == child


def test_shrinking_keeps_no_function_and_is_never_drawn() -> None:
    graph = small_cnn()
    narrow = Move("wider", 2, 32)
    assert not preserving(graph, narrow) and apply(graph, narrow).size < graph.size
    with pytest.raises(ValueError, match="shrinks"):
        inherit(build(graph).state_dict(), graph, apply(graph, narrow), narrow)
    drawn = neighbours(graph, random.Random(0), 100)
    assert Counter(move.kind for move, _ in drawn).keys() == set(KINDS)
    assert all(child.size > graph.size for _, child in drawn)


@pytest.mark.parametrize(
    "move",
    [
        Move("wider", 16, 20),  # the output
        Move("wider", 0, 20),  # a ReLU
        Move("deeper", 2, 3),  # a convolution
        Move("add", 1, 8),  # backwards
        Move("kernel", 2, 4),
        Move("deeper", 999, 3),
        Move("fly", 1, 1),
    ],
)
def test_moves_that_do_not_fit(move: Move) -> None:
    with pytest.raises(Impossible):
        apply(small_cnn(), move)


def test_widening_a_residual_stream_widens_all_of_it() -> None:
    graph = resnet50()
    last = graph.layers[graph.layers[graph.output].a].a  # the ReLU that ends the last stage
    join = graph.layers[graph.layers[last].a]
    assert graph.layers[last].op == RELU and join.op == ADD
    conv = graph.layers[join.a].a
    child = apply(graph, Move("wider", conv, 3000))
    assert sum(layer.width == 3000 for layer in child.layers) == 4
    check(Graph(child.shape, child.layers), "widened")


@settings(max_examples=15, deadline=None)
@given(networks())
def test_operations_agree_with_torchs_own_counter(graph: Graph) -> None:
    with torch.device("meta"):
        network, batch = build(graph).eval(), torch.randn(1, graph.shape[2], *graph.shape[:2])
        forward, both = FlopCounterMode(display=False), FlopCounterMode(display=False)
        with forward, torch.no_grad():
            network(batch)
        with both:
            network(batch).sum().backward()
    ours = flops.count(graph, "trainmark")
    ahead = ours.forward.get("conv", 0) + ours.forward["dense"]
    back = ours.backward.get("conv", 0) + ours.backward["dense"]
    assert forward.get_total_flops() == pytest.approx(ahead, rel=1e-3)
    assert both.get_total_flops() == pytest.approx(ahead + back, rel=1e-3)


def test_golden_operations_of_aiperf() -> None:
    counted = flops.count(resnet50(), "aiperf")
    assert (counted.eval, counted.train) == (7_806_583_495, 23_053_458_315)
    assert flops.epoch(counted, *flops.IMAGES["aiperf"]) == 29_898_755_817_950_000
    assert counted.backward == {"conv": 15_234_582_912, "dense": 12_290_000, "batch_norm": 1_908}
    grown = apply(resnet50(), Move("deeper", 2, 3))
    usual, kernel = flops.count(grown, "aiperf"), flops.count(grown, "aiperf", kernel=7)
    assert kernel.forward["conv"] == usual.forward["conv"], "layer 174 is the last that keeps its kernel"
    more = apply(grown, Move("deeper", 2, 3))
    assert flops.count(more, "aiperf", kernel=5).forward["conv"] > flops.count(more, "aiperf").forward["conv"]


def test_a_saved_network_lives_without_trainmark(tmp_path: Path) -> None:
    graph = small_cnn((8, 8, 3), 5, blocks=1, width=4)
    for step in range(5):
        _, graph = neighbours(graph, random.Random(step), 1)[0]
    network, batch = trained(graph, 1), images(graph, 1)
    save(graph, network.state_dict(), tmp_path / "best")
    torch.save({"batch": batch, "wanted": network(batch).detach()}, tmp_path / "case.pt")
    script = (
        "import sys; sys.modules['trainmark'] = None; sys.path.insert(0, 'best')\n"
        "import torch, model\n"
        "case = torch.load('case.pt', weights_only=True)\n"
        "assert torch.allclose(model.load()(case['batch']), case['wanted'], atol=1e-6)\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=120)
