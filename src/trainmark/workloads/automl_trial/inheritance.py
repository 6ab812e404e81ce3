"""Where the first weights of a training come from: the parent, a file, or chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from trainmark_job import InputError

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import apply, preserving
from trainmark.automl.graph.weights import fitted, inherit
from trainmark.automl.ledger.files import TrialFiles
from trainmark.automl.ledger.ledger import Entry


def from_parent(files: TrialFiles, entry: Entry, parent: Entry | None, seed: int) -> dict[str, Any] | None:
    """Weights with which the entry's network computes what its parent's does; None where that cannot be."""
    if parent is None or parent.file != entry.parent_file:
        return None
    weights = files.weights(parent.number)
    if weights is None:
        return None
    graph = files.graph(parent.file, parent.graph)
    for move in entry.moves:
        if not preserving(graph, move):
            return None
        child = apply(graph, move)
        weights, graph = inherit(weights, graph, child, move, seed), child
    return weights


def from_file(path: str, graph: Graph, own: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """A file's weights, by name where names are known, else in the file's order by their shapes."""
    tensors = _read(Path(path))
    if set(tensors) & set(own):
        return fitted(tensors, own)
    made, taken, rest = dict(own), 0, list(tensors.values())
    for index in graph.order:
        for name in ("weight", "bias", "running_mean", "running_var"):
            key = f"l{index}.{name}"
            if key not in own:
                continue
            at = next((at for at, value in enumerate(rest) if value.shape == own[key].shape), None)
            if at is not None:
                made[key], taken = rest[at].to(own[key].dtype), taken + 1
                rest = rest[:at] + rest[at + 1 :]
    if not taken:
        raise InputError(f"weights {path}: no tensor in it has a shape that the network needs")
    return made, taken


def _read(path: Path) -> dict[str, torch.Tensor]:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(str(path)))
        if path.suffix in (".h5", ".hdf5", ".keras"):
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
        names = [_text(name) for name in top.attrs.get("layer_names", sorted(top))]
        for layer in names:
            group = top[layer]
            for name in [_text(item) for item in group.attrs.get("weight_names", sorted(group))]:
                value = torch.from_numpy(group[name][()])
                if value.dim() == 4:
                    value = value.permute(3, 2, 0, 1).contiguous()
                found[f"{layer}/{name}"] = value.t().contiguous() if value.dim() == 2 else value
    return found


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
