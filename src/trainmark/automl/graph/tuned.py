"""What hyper-parameters change in a graph: the network that is trained is always the graph that is counted. Pure."""

from __future__ import annotations

from typing import Any

from trainmark.automl.graph.graph import CONV, DENSE, DROPOUT, Graph, Layer


def tuned(graph: Graph, body: int, kernel: int | None, dropout: float | None) -> Graph:
    """The graph with another kernel in convolutions that the search added (layers from number `body` on, where the
    kernel does not change the map), and another dropout rate."""
    layers = list(graph.layers)
    if kernel is not None:
        for index in range(body, len(layers)):
            layer = layers[index]
            if layer.op == CONV and layer.kernel > 1 and layer.kernel % 2 == kernel % 2:
                layers[index] = layer._replace(kernel=kernel)
    if dropout is not None:
        _set_dropout(graph, layers, round(dropout * 1e6))
    return graph if tuple(layers) == graph.layers else Graph(graph.shape, tuple(layers))


def _set_dropout(graph: Graph, layers: list[Layer], rate: int) -> None:
    """In all dropout layers; a network without any gets one before its last dense layer."""
    found = [index for index, layer in enumerate(layers) if layer.op == DROPOUT]
    for index in found:
        layers[index] = layers[index]._replace(extra=rate)
    last = [index for index in graph.order if layers[index].op == DENSE]
    if not found and last and rate:
        reads = layers[last[-1]].a
        layers.append(Layer(DROPOUT, reads, extra=rate))
        layers[last[-1]] = layers[last[-1]]._replace(a=len(layers) - 1)


def fitted(weights: dict[str, Any], own: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Weights for a network whose own first ones are `own`, and how many tensors were taken: those of one name and
    shape, and kernels of another size, grown by zeros or cut around their middle."""
    made, taken = dict(own), 0
    for name, value in own.items():
        given = weights.get(name)
        if given is None:
            continue
        if given.shape != value.shape and given.dim() == 4 and given.shape[:2] == value.shape[:2]:
            given = _resized(given, value.shape[-1])
        if given.shape == value.shape:
            made[name], taken = given, taken + 1
    return made, taken


def _resized(kernel: Any, size: int) -> Any:
    from torch.nn.functional import pad

    border = (size - kernel.shape[-1]) // 2
    return pad(kernel, (border,) * 4)
