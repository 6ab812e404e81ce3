"""When two graphs count as the same."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.automl.aiperf_writer import to_aiperf
from tests.automl.graphs import changed, edit_distance, networks, renamed
from trainmark.automl.graph.graph import ADD, GAP, INPUT, NONE, Graph
from trainmark.automl.graph.keys import aiperf_descriptor, aiperf_key, canonical_hash
from trainmark.automl.graph.moves import apply, neighbours
from trainmark.automl.graph.space import Limits, Move
from trainmark.automl.graph.start_networks import Builder, resnet50, small_cnn
from trainmark.errors import UserError


def as_networkx(graph: Graph) -> nx.MultiDiGraph:
    made = nx.MultiDiGraph()
    made.add_node(INPUT, what=graph.shape)
    for index, layer in enumerate(graph.layers):
        made.add_node(index, what=(layer.op, *layer[3:]))
    for index, layer in enumerate(graph.layers):
        for side, end in enumerate((layer.a, layer.b)):
            if end != NONE:
                made.add_edge(end, index, side=0 if layer.op == ADD else side)
    return made


def same(first: Graph, second: Graph) -> bool:
    sides = nx.algorithms.isomorphism.categorical_multiedge_match("side", 0)
    return bool(
        nx.is_isomorphic(
            as_networkx(first), as_networkx(second), node_match=lambda a, b: a["what"] == b["what"], edge_match=sides
        )
    )


@settings(max_examples=50, deadline=None)
@given(networks(), st.data())
def test_the_hash_is_equal_exactly_for_the_same_graph_renamed(graph: Graph, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(graph.layers))))
    swaps = data.draw(st.lists(st.booleans(), min_size=len(order), max_size=len(order)))
    assert canonical_hash(renamed(graph, order, swaps)) == canonical_hash(graph)
    other = changed(data, graph)
    if len(other.order) == len(other.layers) and all(other.consumers[:-1][i] or i == graph.output for i in order):
        assert (canonical_hash(other) == canonical_hash(graph)) == same(other, graph)


def cross(widths: str) -> Graph:
    """Two pairs of twins, joined straight (twins meet twins) or crosswise."""
    net = Builder()
    pairs = [(net.conv(INPUT, 2, 1), net.conv(INPUT, 2, 1)) for _ in range(2)]
    lefts = [net.conv(end, 2, 3) for pair in pairs for end in pair]
    a, b, c, d = lefts
    ends = {"straight": ((a, b), (c, d)), "crossed": ((a, c), (b, d))}[widths]
    sums = [net.add(ADD, *pair) for pair in ends]
    net.add(GAP, net.add(ADD, *sums))
    return Graph((6, 6, 3), tuple(net.layers))


def test_interchangeable_parts() -> None:
    rng = random.Random(0)
    straight = cross("straight")
    for _ in range(20):
        order = rng.sample(range(len(straight.layers)), len(straight.layers))
        assert canonical_hash(renamed(straight, order, [rng.random() < 0.5 for _ in order])) == canonical_hash(straight)
    assert same(straight, cross("crossed")) == (canonical_hash(straight) == canonical_hash(cross("crossed")))
    one, two = Builder(), Builder()
    twin = one.conv(INPUT, 2, 3)
    one.add(GAP, one.add(ADD, twin, twin))
    two.add(GAP, two.add(ADD, two.conv(INPUT, 2, 3), two.conv(INPUT, 2, 3)))
    hashes = {canonical_hash(Graph((6, 6, 3), tuple(net.layers))) for net in (one, two)}
    assert len(hashes) == 2, "one convolution used twice is not two convolutions"


def test_a_graph_made_to_hang_the_hash_is_refused() -> None:
    net = Builder()
    x = net.conv(INPUT, 2, 1)
    for _ in range(300):
        x = net.add(ADD, net.conv(x, 2, 1), net.conv(x, 2, 1))
    net.add(GAP, x)
    with pytest.raises(UserError, match="interchangeable"):
        canonical_hash(Graph((6, 6, 3), tuple(net.layers)))


@settings(max_examples=50, deadline=None)
@given(networks(), st.data())
def test_aiperf_key_is_equal_exactly_where_the_edit_distance_vanishes(graph: Graph, data: st.DataObject) -> None:
    other = changed(data, graph)
    if len(other.order) < len(other.layers) or any(not r for i, r in enumerate(other.consumers) if i != graph.output):
        return
    try:
        distance = edit_distance(to_aiperf(graph), to_aiperf(other))
    except Exception as error:  # the change made shapes that do not fit
        assert "cannot take" in str(error)
        return
    assert (aiperf_key(graph) == aiperf_key(other)) == (distance < 1e-5)


def test_aiperf_key_along_a_search() -> None:
    rng = random.Random(3)
    found = [small_cnn(width=8)]
    while len(found) < 40:
        found += [child for _, child in neighbours(rng.choice(found), rng, 2)]
    pairs = [rng.sample(range(len(found)), 2) for _ in range(150)]
    for first, second in [*pairs, [0, 0]]:
        distance = edit_distance(to_aiperf(found[first]), to_aiperf(found[second]))
        assert (aiperf_key(found[first]) == aiperf_key(found[second])) == (distance < 1e-5)


def test_what_aiperf_does_not_see() -> None:
    graph = small_cnn()
    dense = apply(graph, Move("wider", 14, 100))
    assert aiperf_key(dense) == aiperf_key(graph) and canonical_hash(dense) != canonical_hash(graph)
    assert aiperf_key(apply(graph, Move("wider", 2, 65))) != aiperf_key(graph)


def test_resnet50_as_aiperf_describes_it() -> None:
    chain, skips = aiperf_descriptor(resnet50())
    assert (len(chain), len(skips)) == (178, 16)
    near = [child for _, child in neighbours(resnet50(), random.Random(0), 50, Limits(2**30, 300))]
    assert len({canonical_hash(child) for child in near}) >= 45
