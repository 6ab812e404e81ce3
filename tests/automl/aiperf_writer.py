"""Graphs as AIPerf and NNI write them, for tests of what reads and compares them."""

from __future__ import annotations

from typing import Any

from trainmark.automl.graph.aiperf_json import _DIMENSIONAL, _STUB_FIELDS, _STUBS
from trainmark.automl.graph.graph import CONV, DROPOUT, NONE, Graph, Layer, infer


def to_aiperf(graph: Graph) -> dict[str, Any]:
    """AIPerf's form. The input is tensor 0 and layer n makes tensor n + 1."""
    shapes = infer(graph, halving=True)
    forward: dict[str, list[list[int]]] = {str(tensor): [] for tensor in range(len(graph.layers) + 1)}
    backward: dict[str, list[list[int]]] = {str(tensor): [] for tensor in range(len(graph.layers) + 1)}
    stubs: list[tuple[int, list[Any]]] = []
    for index, layer in enumerate(graph.layers):
        reads = [end + 1 for end in (layer.a, layer.b) if end != NONE]
        for end in reads:
            forward[str(end)].append([index + 1, index])
            backward[str(index + 1)].append([end, index])
        stubs.append((index, _to_stub(graph, index, layer, reads)))
    return {
        "input_shape": list(graph.shape),
        "weighted": False,
        "vis": None,
        "operation_history": [],
        "layer_id_to_input_node_ids": {str(stub[0]): _listed(stub[1][1]) for stub in stubs},
        "layer_id_to_output_node_ids": {str(index): [index + 1] for index in range(len(stubs))},
        "adj_list": forward,
        "reverse_adj_list": backward,
        "node_list": [[tensor, list(shapes[tensor - 1])] for tensor in range(len(graph.layers) + 1)],
        "layer_list": [list(stub) for stub in stubs],
    }


def _listed(value: Any) -> list[int]:
    return value if isinstance(value, list) else [value]


def _to_stub(graph: Graph, index: int, layer: Layer, reads: list[int]) -> list[Any]:
    name = next(stub for stub, op in _STUBS.items() if op == layer.op)
    if name in _DIMENSIONAL:
        name += "2d" if len(graph.shape) == 3 else "1d"
    channels = graph.shapes[layer.a][-1]
    values: list[Any] = [
        channels if field is None else getattr(layer, field) for field in _STUB_FIELDS.get(layer.op, ())
    ]
    if layer.op == CONV:
        values[4] = layer.kernel // 2
    if layer.op == DROPOUT:
        values = [layer.extra / 1e6]
    return [name, reads if len(reads) == 2 else reads[0], index + 1, *values]
