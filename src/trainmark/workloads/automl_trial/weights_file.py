"""Weights that the first networks begin with, from a file: by the names of its tensors, each used once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from trainmark_job import InputError

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.weight_names import match

# Counts batches, for averages that nobody here takes.
_COUNTER = "num_batches_tracked"
_SHOWN = 5


class Taken(NamedTuple):
    """The network's weights, whose names the file has, and what was not taken from the file."""

    weights: dict[str, Any]
    source: str
    tensors: int
    # Drawn anew: the file's classifier is for another number of classes.
    drawn: list[str]


def weights_of_file(path: str, graph: Graph, own: dict[str, Any]) -> Taken:
    """`own`: the network's first weights. InputError, which lists them, for tensors that do not fit."""
    tensors = {name: value for name, value in _tensors(Path(path)).items() if not name.endswith(_COUNTER)}
    found = match(graph, tensors)
    if found is None:
        raise InputError(
            f"weights {path}: names such as `{next(iter(tensors), '')}` are not known for this network; known are "
            "those of `trainmark automl best`, and for the start model `resnet50` those of torchvision, timm and Keras"
        )
    wanted = {name for name in own if not name.endswith(_COUNTER)}
    classifier = f"l{len(graph.layers) - 1}."
    wrong = [f"{name} is of no layer" for name in found.strange]
    made, drawn = dict(own), []
    for name, theirs in found.names.items():
        given = tensors[theirs]
        if name not in wanted:
            wrong.append(f"{theirs} is of no layer")
        elif given.shape == own[name].shape:
            made[name] = given.to(own[name].dtype)
        elif name.startswith(classifier):
            drawn.append(name)
        else:
            wrong.append(f"{theirs} is {tuple(given.shape)}, the network's {tuple(own[name].shape)}")
    for name in sorted(wanted - set(found.names)):
        if name.endswith(".bias") and own[name].dim() == 1 and f"{name[:-4]}running_mean" not in own:
            # Convolutions that a batch normalisation follows have no bias in PyTorch's own networks.
            made[name] = torch.zeros_like(own[name])
        else:
            wrong.append(f"{name} is not in the file")
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise InputError(f"weights {path} do not fit: {'; '.join(wrong[:_SHOWN])}{more}")
    return Taken(made, found.source, len(found.names) - len(drawn), sorted(drawn))


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(str(path)))
        if path.suffix in (".h5", ".hdf5"):
            return _keras(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except ImportError as error:
        raise InputError(f"weights {path}: {error}; install what reads this kind of file") from None
    except Exception as error:  # whatever the bytes lead a reader to
        raise InputError(f"weights {path} cannot be read: {type(error).__name__}: {error}") from None
    if isinstance(found, dict) and isinstance(found.get("model"), dict):
        found = found["model"]
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise InputError(f"weights {path} holds no named tensors")
    return found


def _keras(path: Path) -> dict[str, torch.Tensor]:
    """Keras keeps kernels as height, width, in, out and dense weights as in, out."""
    import h5py

    found: dict[str, torch.Tensor] = {}
    with h5py.File(path, "r") as file:
        top = file.get("model_weights", file)
        for layer in [_text(name) for name in top.attrs.get("layer_names", sorted(top))]:
            group = top[layer]
            for name in [_text(item) for item in group.attrs.get("weight_names", sorted(group))]:
                value = torch.from_numpy(group[name][()])
                if value.dim() == 4:
                    value = value.permute(3, 2, 0, 1).contiguous()
                found[f"{layer}/{name}"] = value.t().contiguous() if value.dim() == 2 else value
    return found


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
