"""The search space of transformers: moves that keep what is computed, operations, files, and a search in it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from trainmark.automl.graph import flops
from trainmark.automl.graph import graph as ops
from trainmark.automl.graph.graph import Graph, check
from trainmark.automl.graph.graph_json import decode, encode
from trainmark.automl.graph.keys import canonical_hash
from trainmark.automl.graph.moves import apply, carries, in_words, neighbours, preserving
from trainmark.automl.graph.network import build
from trainmark.automl.graph.space import Impossible, Limits, Move
from trainmark.automl.graph.start_networks import Builder, gpt, vit
from trainmark.automl.graph.transformer_moves import KINDS
from trainmark.automl.graph.weights import inherit
from trainmark.automl.search.features import features
from trainmark.automl.search.policy import POLICIES, Trial, make
from trainmark.errors import UserError
from trainmark.i18n.speaker import say

LIMITS = Limits(size=60_000, depth=20, tokens=64)
STARTS = {
    "vit": vit((8, 8, 3), 5, blocks=1, width=8, heads=2, ratio=2, patch=4),
    "gpt": gpt((8,), 11, blocks=1, width=8),
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batch(graph: Graph, seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    if len(graph.shape) == 1:
        return torch.randint(graph.classes, (3, *graph.shape), generator=draw)
    height, width, channels = graph.shape
    return torch.randn(3, channels, height, width, generator=draw)


def shaken(graph: Graph, seed: int) -> torch.nn.Module:
    """A network as if it had been trained: no weight is 0 or 1 because it began so."""
    torch.manual_seed(seed)
    network = build(graph)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 0.2 * torch.randn_like(weight)
    return network.eval()


def family(name: str, seed: int, length: int) -> Iterator[tuple[Graph, Move, Graph]]:
    """Child of child of child."""
    rng, graph = random.Random(seed), STARTS[name]
    for _ in range(length):
        found = neighbours(graph, rng, 1, LIMITS)
        if not found:
            return
        ((move, child),) = found
        yield graph, move, child
        graph = child


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTS)
def test_moves_keep_what_is_computed(name: str) -> None:
    """Over many random moves; only finer patches change it."""
    met: Counter[str] = Counter()
    for seed in range(14):
        for graph, move, child in family(name, seed, 8):
            network, images = shaken(graph, seed), batch(graph, seed)
            heir = build(child)
            heir.load_state_dict(inherit(network.state_dict(), graph, child, move, seed))
            met[move.kind] += 1
            assert carries(graph, move) and preserving(graph, move) == (move.kind != "patch")
            with torch.no_grad():
                wanted, got = network(images), heir.eval()(images)
            assert got.shape == wanted.shape
            change = float((wanted - got).abs().max() / wanted.abs().max())
            assert move.kind == "patch" or change <= 1e-5, (move, change)
    assert set(met) == {kind for kind in KINDS if kind != ("patch" if name == "gpt" else "context")}
    assert sum(met.values()) >= 60


def own_network() -> Graph:
    """A convolution before the transformer, two dense layers behind it: what somebody may write into a file."""
    net = Builder()
    x = net.add(ops.PATCHES, net.conv_bn_relu(ops.INPUT, 4, 3), width=8, kernel=4)
    x = net.add(ops.MLP, net.add(ops.ATTENTION, x, width=2, kernel=4), width=8)
    x = net.add(ops.RELU, net.add(ops.DENSE, net.add(ops.MEAN, net.add(ops.NORM, x)), width=6))
    net.add(ops.DENSE, x, width=5)
    return check(Graph((8, 8, 3), tuple(net.layers)), "own")


def test_moves_of_a_network_of_both_kinds_keep_what_is_computed() -> None:
    graph = own_network()
    network, images = shaken(graph, 0), batch(graph, 0)
    met = set()
    for move, child in neighbours(graph, random.Random(0), 30, LIMITS):
        heir = build(child)
        heir.load_state_dict(inherit(network.state_dict(), graph, child, move))
        met.add(move.kind)
        with torch.no_grad():
            if move.kind != "patch":
                torch.testing.assert_close(heir.eval()(images), network(images), rtol=1e-4, atol=1e-5)
    assert met >= {"channels", "wider", "deeper", "kernel", "block"}
    with pytest.raises(Impossible):
        apply(graph, Move("wider", 0, 8))  # patches read it


def test_a_longer_context_says_the_same_of_the_first_tokens_and_reads_more() -> None:
    graph = STARTS["gpt"]
    move = Move("context", 0, 16)
    child = apply(graph, move)
    network = shaken(graph, 0)
    heir = build(child)
    heir.load_state_dict(inherit(network.state_dict(), graph, child, move))
    text = batch(child, 1)
    with torch.no_grad():
        wanted, got = network(text[:, :8]), heir.eval()(text)
    assert got.shape == (3, 16, 11)
    torch.testing.assert_close(got[:, :8], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", STARTS)
def test_new_parts_learn_from_the_first_step_on(name: str) -> None:
    """What writes nothing yet gets a gradient where it writes, and copies of channels do not stay alike."""
    graph = STARTS[name]
    moves = [Move("block", 0, 2), Move("heads", 1, 3), Move("hidden", 2, 24), Move("channels", 0, 16)]
    for move in moves:
        child = apply(graph, move)
        heir = build(child)
        heir.load_state_dict(inherit(shaken(graph, 0).state_dict(), graph, child, move))
        rates = torch.optim.SGD(heir.parameters(), lr=0.1)
        before = {key: value.clone() for key, value in heir.state_dict().items()}
        for _ in range(2):
            rates.zero_grad()
            heir(batch(child, 0)).logsumexp(-1).sum().backward()
            rates.step()
        after = heir.state_dict()
        still = [key for key in after if torch.equal(before[key], after[key])]
        assert not still, (move, still)
        if move.kind == "channels":
            width = graph.layers[0].width
            writes = after["l1.write.weight"]
            assert not torch.allclose(writes[:width], writes[width:])


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTS)
def test_operations_are_those_that_torch_counts(name: str) -> None:
    """Products of matrices and convolutions, forward and backward, of 20 networks."""
    graphs = [child for seed in range(4) for _, _, child in family(name, seed + 40, 5)]
    assert len(graphs) >= 20
    for graph in graphs:
        network, counted = build(graph), flops.count(graph, "trainmark")
        images = batch(graph, 0)[:1]
        ours = [
            sum(terms.get(kind, 0) for kind in ("conv", "dense", "attention"))
            for terms in (counted.forward, counted.backward)
        ]
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            answer = network(images)
            forward = counter.get_total_flops()
            answer.sum().backward()
        assert [forward, counter.get_total_flops() - forward] == ours, graph


@pytest.mark.parametrize("name", STARTS)
def test_children_are_networks_and_their_files_say_all(name: str) -> None:
    for graph, move, child in family(name, 5, 10):
        alone = check(Graph(child.shape, child.layers), "child")
        assert (child.shapes, child.size, child.depth) == (alone.shapes, alone.size, alone.depth)
        assert child.size == sum(weight.numel() for weight in build(child).parameters())
        assert decode(encode(child)) == child and canonical_hash(decode(encode(child))) != canonical_hash(graph)
        rows, marks = features([graph, child])
        assert marks[0] != marks[1] and rows.shape == (2, 512)
        assert say(in_words(move)) and str(move.value) in say(in_words(move))


def test_what_does_not_fit_is_refused() -> None:
    graph = STARTS["vit"]
    for move in (
        Move("channels", 0, 12),  # a layer norm would be another
        Move("patch", 0, 3),  # 8 is no multiple
        Move("heads", 0, 3),  # no attention
        Move("context", 0, 16),  # no text
        Move("hidden", 2, 0),
    ):
        with pytest.raises(Impossible):
            apply(graph, move)
    with pytest.raises(UserError, match="AIPerf has no formulas"):
        flops.count(graph, "aiperf")
    with pytest.raises(ValueError, match="shrinks"):
        inherit(build(graph).state_dict(), graph, apply(graph, Move("heads", 1, 1)), Move("heads", 1, 1))
    broken = encode(STARTS["gpt"]).replace(b'"input":[8]', b'"input":[9]')
    with pytest.raises(UserError, match="context"):
        decode(broken)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_searches_it(policy: str) -> None:
    searcher, rng = make(policy, [STARTS["vit"]], LIMITS, {}), random.Random(1)
    history: list[Trial] = []
    for number in range(14):
        proposal = searcher.ask(history, [], rng, 2)
        trial = Trial(number, proposal.graph, str(number), 0.5 + number / 100, proposal.parent, proposal.moves, number)
        history.append(trial)
        searcher.tell(trial)
    kinds = {move.kind for trial in history for move in trial.moves}
    assert kinds <= set(KINDS) and len(kinds) >= 3


def test_an_exported_network_needs_torch_alone(tmp_path: Path) -> None:
    from trainmark.automl.graph.network import save

    graph = STARTS["gpt"]
    network = shaken(graph, 3)
    save(graph, network.state_dict(), tmp_path)
    text = (tmp_path / "model.py").read_text()
    assert "trainmark" not in text
    space: dict[str, object] = {"__name__": "model", "__file__": str(tmp_path / "model.py")}
    exec(compile(text, "model.py", "exec"), space)
    loaded = space["load"]()  # type: ignore[operator]
    torch.testing.assert_close(loaded(batch(graph, 0)), network(batch(graph, 0)))
