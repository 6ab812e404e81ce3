"""Weights of a transformer from those of its parent. What is new is drawn, and writes nothing until it has learnt to:
its outgoing weights are 0. A finer patch alone changes what is computed; it takes over what it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainmark.automl.graph.graph import ATTENTION, DENSE, MLP, NORM, PATCHES, TOKENS, Graph
from trainmark.automl.graph.space import Move

if TYPE_CHECKING:
    import torch

    Weights = dict[str, torch.Tensor]

PLACE_DEVIATION = 0.02  # of the places of tokens, drawn


def inherit(weights: Weights, parent: Graph, child: Graph, move: Move, draw: torch.Generator) -> None:
    if move.kind == "block":
        _block(weights, parent, child, draw)
    elif move.kind == "heads":
        _heads(weights, parent, move, draw)
    elif move.kind == "hidden":
        _hidden(weights, parent, move, draw)
    elif move.kind == "channels":
        _channels(weights, parent, child, draw)
    elif move.kind == "context":
        _context(weights, move, draw)
    else:
        _patch(weights, parent, move)


def _block(weights: Weights, parent: Graph, child: Graph, draw: torch.Generator) -> None:
    import torch

    new = len(parent.layers)
    attention, mlp = child.layers[new : new + 2]
    channels = child.shapes[new][-1]
    inner = attention.width * attention.kernel
    for index, wide, write, read in ((new, inner, "write", "read"), (new + 1, mlp.width, "narrow", "widen")):
        rows = 3 * wide if read == "read" else wide
        weights[f"l{index}.norm.weight"], weights[f"l{index}.norm.bias"] = torch.ones(channels), torch.zeros(channels)
        weights[f"l{index}.{read}.weight"] = _drawn(rows, channels, draw)
        weights[f"l{index}.{read}.bias"] = torch.zeros(rows)
        weights[f"l{index}.{write}.weight"] = torch.zeros(channels, wide)
        weights[f"l{index}.{write}.bias"] = torch.zeros(channels)


def _drawn(rows: int, columns: int, draw: torch.Generator) -> torch.Tensor:
    import torch

    drawn: torch.Tensor = torch.randn(rows, columns, generator=draw) * columns**-0.5
    return drawn


def _heads(weights: Weights, parent: Graph, move: Move, draw: torch.Generator) -> None:
    """Rows of `read` are those of queries, keys and values, head by head in each."""
    import torch

    layer, channels = parent.layers[move.layer], parent.shapes[move.layer][-1]
    name, more = f"l{move.layer}", (move.value - layer.width) * layer.kernel
    read, bias = weights[f"{name}.read.weight"].cpu(), weights[f"{name}.read.bias"].cpu()
    rows = [torch.cat((part, _drawn(more, channels, draw))) for part in read.chunk(3)]
    weights[f"{name}.read.weight"] = torch.cat(rows)
    weights[f"{name}.read.bias"] = torch.cat([torch.cat((part, torch.zeros(more))) for part in bias.chunk(3)])
    write = weights[f"{name}.write.weight"].cpu()
    weights[f"{name}.write.weight"] = torch.cat((write, torch.zeros(channels, more)), 1)


def _hidden(weights: Weights, parent: Graph, move: Move, draw: torch.Generator) -> None:
    import torch

    name, channels = f"l{move.layer}", parent.shapes[move.layer][-1]
    more = move.value - parent.layers[move.layer].width
    weights[f"{name}.widen.weight"] = torch.cat((weights[f"{name}.widen.weight"].cpu(), _drawn(more, channels, draw)))
    weights[f"{name}.widen.bias"] = torch.cat((weights[f"{name}.widen.bias"].cpu(), torch.zeros(more)))
    weights[f"{name}.narrow.weight"] = torch.cat(
        (weights[f"{name}.narrow.weight"].cpu(), torch.zeros(channels, more)), 1
    )


# Of each kind of layer what writes channels of tokens, and what reads them.
_WRITES = {
    TOKENS: ("table.weight", "places"),
    PATCHES: ("parts.weight", "parts.bias", "places"),
    ATTENTION: ("write.weight", "write.bias"),
    MLP: ("narrow.weight", "narrow.bias"),
}
_READS = {ATTENTION: "read.weight", MLP: "widen.weight", DENSE: "weight"}
_NORMS = {ATTENTION: "norm.", MLP: "norm.", NORM: ""}
# Tensors that have channels in their last dimension; others have them in their first.
_LAST = ("table.weight", "places")


def _channels(weights: Weights, parent: Graph, child: Graph, draw: torch.Generator) -> None:
    """Every channel is there twice, and who reads it shares its weight among the two, each in shares of its own: copies
    that all count alike would stay alike for ever."""
    import torch

    doubled = [before != after for before, after in zip(parent.shapes, child.shapes, strict=True)]
    for index, layer in enumerate(parent.layers):
        name = f"l{index}"
        for part in _WRITES.get(layer.op, ()) if doubled[index] else ():
            old = weights[f"{name}.{part}"].cpu()
            weights[f"{name}.{part}"] = torch.cat((old, old), old.dim() - 1 if part in _LAST else 0)
        if not doubled[layer.a]:
            continue
        if layer.op in _NORMS:
            for part in ("weight", "bias"):
                old = weights[f"{name}.{_NORMS[layer.op]}{part}"].cpu()
                weights[f"{name}.{_NORMS[layer.op]}{part}"] = torch.cat((old, old))
        if layer.op in _READS:
            key = f"{name}.{_READS[layer.op]}"
            old = weights[key].cpu()
            shares = 0.25 + 0.5 * torch.rand(old.shape, generator=draw)
            weights[key] = torch.cat((old * shares, old * (1 - shares)), 1)


def _context(weights: Weights, move: Move, draw: torch.Generator) -> None:
    """No token sees a later one, so that what is said of the first ones stays."""
    import torch

    key = f"l{move.layer}.places"
    old = weights[key].cpu()
    more = torch.randn(move.value - len(old), old.shape[1], generator=draw) * PLACE_DEVIATION
    weights[key] = torch.cat((old, more))


def _patch(weights: Weights, parent: Graph, move: Move) -> None:
    """Filters are made smaller and stronger, places lie between those there were."""
    from torch.nn.functional import interpolate

    name, layer = f"l{move.layer}", parent.layers[move.layer]
    filters = interpolate(
        weights[f"{name}.parts.weight"].float().cpu(), size=(move.value, move.value), mode="bilinear", antialias=True
    )
    weights[f"{name}.parts.weight"] = filters * (layer.kernel / move.value) ** 2
    height, width, _ = parent.shapes[layer.a]
    places = weights[f"{name}.places"].float().cpu()
    grid = places.T.reshape(1, places.shape[1], height // layer.kernel, width // layer.kernel)
    finer = interpolate(grid, size=(height // move.value, width // move.value), mode="bilinear")
    weights[f"{name}.places"] = finer.flatten(2)[0].T.contiguous()
