"""A network as a drawing: a row for each layer that does work, in the order of computation, and what reads what.

Batch norm, ReLU and what else only one layer reads, and that is read by nothing in between, stand in the row of the
layer before them.
"""

from __future__ import annotations

from trainmark.automl.graph import graph as ops
from trainmark.automl.graph.graph import INPUT, NONE, Graph, Layer, Shape, layer_size
from trainmark.i18n.texts import Text, joined, label
from trainmark.report.charts.records import NetworkChart, NetworkRow

_FOLLOW = (ops.BN, ops.RELU, ops.DROPOUT, ops.FLATTEN, ops.SOFTMAX, ops.MEAN)


def drawing(graph: Graph, title: Text) -> NetworkChart:
    groups: list[list[int]] = []
    # The row of each layer; the network's input is the first.
    row = {INPUT: 0}
    for index in graph.order:
        before = graph.layers[index].a
        alone = before != INPUT and len(graph.consumers[before]) == 1
        if graph.layers[index].op in _FOLLOW and alone and groups[row[before] - 1][-1] == before:
            groups[row[before] - 1].append(index)
            row[index] = row[before]
        else:
            groups.append([index])
            row[index] = len(groups)
    rows = [NetworkRow(label("op.input"), _shape(graph.shape))]
    links: set[tuple[int, int]] = set()
    for number, group in enumerate(groups, 1):
        layers = [graph.layers[index] for index in group]
        size = sum(layer_size(layer, graph.shapes[layer.a]) for layer in layers)
        rows.append(
            NetworkRow(joined(*map(_name, layers), joint=", "), _shape(graph.shapes[group[-1]]), size, number % 2 == 0)
        )
        links.update((row[source], number) for source in (layers[0].a, layers[0].b) if source != NONE)
    return NetworkChart(title, rows, sorted(links))


def _name(layer: Layer) -> Text:
    name = label(f"op.{ops.OPS[layer.op]}")
    if layer.op == ops.CONV:
        stride = f" /{layer.stride}" if layer.stride > 1 else ""
        return joined(name, f"{layer.kernel}×{layer.kernel}, {layer.width}{stride}", joint=" ")
    if layer.op in (ops.DENSE, ops.MLP):
        return joined(name, str(layer.width), joint=" ")
    if layer.op == ops.ATTENTION:
        return joined(name, f"{layer.width}×{layer.kernel}", joint=" ")
    if layer.op == ops.PATCHES:
        return joined(name, f"{layer.kernel}×{layer.kernel}, {layer.width}", joint=" ")
    if layer.op == ops.TOKENS:
        return joined(name, f"{layer.kernel}, {layer.width}", joint=" ")
    if layer.op == ops.MAXPOOL:
        return joined(name, f"{layer.kernel}×{layer.kernel} /{layer.stride}", joint=" ")
    return name


def _shape(shape: Shape) -> str:
    return "×".join(map(str, shape))
