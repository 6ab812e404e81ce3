"""Weights of a child from those of its parent, so that in evaluation it computes the same, and yet can learn more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainmark.automl.graph import transformer_moves, transformer_weights
from trainmark.automl.graph.graph import ADD, BN, CONCAT, CONV, DENSE, FLATTEN, INPUT, RELU, Graph
from trainmark.automl.graph.moves import carries
from trainmark.automl.graph.space import Move

if TYPE_CHECKING:
    import torch

    Weights = dict[str, torch.Tensor]

EPS = 1e-5  # of torch's batch norm


def inherit(
    parent_weights: Mapping[str, torch.Tensor], parent: Graph, child: Graph, move: Move, seed: int = 0
) -> Weights:
    """State dicts as `network.build` names them. Every tensor of the parent's that a move does not touch is shared."""
    import torch

    if not carries(parent, move):
        raise ValueError(f"{move}: a move that shrinks keeps no function, so there is nothing to inherit by it")
    weights = dict(parent_weights)
    draw = torch.Generator().manual_seed(seed)
    new = len(parent.layers)
    if move.kind in transformer_moves.KINDS:
        transformer_weights.inherit(weights, parent, child, move, draw)
    elif move.kind == "deeper":
        _deeper(weights, parent, child, move, new)
    elif move.kind == "wider":
        _wider(weights, parent, move, draw)
    elif move.kind == "kernel":
        border = (move.value - parent.layers[move.layer].kernel) // 2
        key = f"l{move.layer}.weight"
        weights[key] = torch.nn.functional.pad(weights[key], (border,) * 4)
    else:
        _skip(weights, child, move, new, draw)
    return weights


def _deeper(weights: Weights, parent: Graph, child: Graph, move: Move, new: int) -> None:
    """The identity. What a ReLU gave is not negative, so the new ReLU lets it pass."""
    import torch

    channels = child.layers[new].width
    like = next(iter(weights.values()))
    if child.layers[new].op == DENSE:
        weights[f"l{new}.weight"] = torch.eye(channels).to(like)
        weights[f"l{new}.bias"] = torch.zeros(channels).to(like)
        return
    kernel = child.layers[new].kernel
    identity = torch.zeros(channels, channels, kernel, kernel)
    identity[range(channels), range(channels), kernel // 2, kernel // 2] = 1.0
    weights[f"l{new}.weight"] = identity.to(like)
    weights[f"l{new}.bias"] = torch.zeros(channels).to(like)
    mean, variance = moments(weights, parent, move.layer)
    _batch_norm(weights, new + 1, mean.to(like), variance.to(like), open_=True)


def _batch_norm(weights: Weights, index: int, mean: torch.Tensor, variance: torch.Tensor, open_: bool) -> None:
    """One that undoes its own normalisation, or (closed) one that lets nothing pass until it has learnt to."""
    import torch

    name = f"l{index}"
    weights[f"{name}.weight"] = (variance + EPS).sqrt() if open_ else torch.zeros_like(mean)
    weights[f"{name}.bias"] = mean.clone() if open_ else torch.zeros_like(mean)
    weights[f"{name}.running_mean"] = mean
    weights[f"{name}.running_var"] = variance
    weights[f"{name}.num_batches_tracked"] = torch.zeros((), dtype=torch.long, device=mean.device)


def _skip(weights: Weights, child: Graph, move: Move, new: int, draw: torch.Generator) -> None:
    """A way around that carries nothing yet, but whose last part gets gradients from the first step on."""
    import torch

    like = next(iter(weights.values()))
    at = new
    if child.layers[at].op == CONV:
        begin, width = child.shapes[child.layers[at].a][-1], child.layers[at].width
        random = torch.randn(width, begin, 1, 1, generator=draw) * (2.0 / begin) ** 0.5
        weights[f"l{at}.weight"] = random.to(like)
        weights[f"l{at}.bias"] = torch.zeros(width).to(like)
        _batch_norm(
            weights, at + 1, torch.zeros(width).to(like), torch.ones(width).to(like), open_=move.kind == "concat"
        )
        at += 2
    if move.kind == "concat":
        channels, width = child.shapes[at][-1], child.layers[at + 1].width
        weights[f"l{at + 1}.weight"] = torch.eye(width, channels)[:, :, None, None].to(like)
        weights[f"l{at + 1}.bias"] = torch.zeros(width).to(like)


def _wider(weights: Weights, parent: Graph, move: Move, draw: torch.Generator) -> None:
    """New channels are copies of old ones, and their readers share the old weight among the copies, each reader
    in shares of its own: copies that all count alike would stay alike for ever."""
    import torch

    old = parent.layers[move.layer].width
    more = torch.randint(old, (move.value - old,), generator=draw)
    copies = torch.cat((torch.arange(old), more))
    group = parent.width_groups[move.layer]
    origin: dict[int, torch.Tensor | None] = {INPUT: None}
    for index in parent.order:
        layer = parent.layers[index]
        came = origin[layer.a]
        if layer.op in (CONV, DENSE):
            if came is not None:
                _share(weights, index, came, draw)
            origin[index] = copies if index in group else None
            if index in group:
                _select(weights, index, copies, ("weight", "bias"))
        elif layer.op == CONCAT:
            origin[index] = _joined(parent, layer.a, came, layer.b, origin[layer.b])
        elif layer.op == FLATTEN and came is not None and len(parent.shapes[layer.a]) == 3:
            area = parent.shapes[layer.a][0] * parent.shapes[layer.a][1]
            origin[index] = (came[:, None] * area + torch.arange(area)).flatten()
        else:
            if layer.op == BN and came is not None:
                _select(weights, index, came, ("weight", "bias", "running_mean", "running_var"))
            origin[index] = came


def _select(weights: Weights, index: int, copies: torch.Tensor, names: tuple[str, ...]) -> None:
    for name in names:
        key = f"l{index}.{name}"
        weights[key] = weights[key][copies.to(weights[key].device)]


def _share(weights: Weights, index: int, copies: torch.Tensor, draw: torch.Generator) -> None:
    import torch

    key = f"l{index}.weight"
    old = weights[key]
    shares = 0.5 + torch.rand(old.shape[0], len(copies), generator=draw)
    totals = torch.zeros(old.shape[0], old.shape[1]).index_add_(1, copies, shares)
    shares = (shares / totals[:, copies]).to(old)
    weights[key] = old[:, copies.to(old.device)] * shares.reshape(*shares.shape, *(1,) * (old.dim() - 2))


def _joined(
    graph: Graph, a: int, first: torch.Tensor | None, b: int, second: torch.Tensor | None
) -> torch.Tensor | None:
    import torch

    if first is None and second is None:
        return None
    before, after = graph.shapes[a][-1], graph.shapes[b][-1]
    first = torch.arange(before) if first is None else first
    return torch.cat((first, before + (torch.arange(after) if second is None else second)))


def moments(weights: Mapping[str, torch.Tensor], graph: Graph, index: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A guess at mean and variance of each channel of a layer, from batch norms before it. A new batch norm that starts
    with these changes little in training too; in evaluation it changes nothing, however wrong they are."""
    import torch

    known = {INPUT: (torch.zeros(graph.shape[-1]), torch.ones(graph.shape[-1]))}
    for at in graph.order:
        layer = graph.layers[at]
        mean, variance = known[layer.a]
        if layer.op == BN:
            mean, variance = weights[f"l{at}.bias"].float().cpu(), weights[f"l{at}.weight"].float().cpu() ** 2 + 1e-4
        elif layer.op == ADD:
            mean, variance = mean + known[layer.b][0], variance + known[layer.b][1]
        elif layer.op == RELU:
            mean, variance = _rectified(mean, variance)
        elif layer.op in (CONV, DENSE, CONCAT, FLATTEN):
            mean, variance = torch.zeros(graph.shapes[at][-1]), torch.ones(graph.shapes[at][-1])
        known[at] = mean, variance
        if at == index:
            break
    return known[index]


def _rectified(mean: torch.Tensor, variance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of max(0, x) for a normal x."""
    import torch

    deviation = variance.sqrt()
    ratio = mean / deviation
    density = torch.exp(-0.5 * ratio**2) / (2 * torch.pi) ** 0.5
    below = 0.5 * (1 + torch.erf(ratio / 2**0.5))
    first = mean * below + deviation * density
    second = (mean**2 + variance) * below + mean * deviation * density
    return first, (second - first**2).clamp(min=1e-4)


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
