"""Checkpoints: written whole or not at all, read as data and never as code, refused for another model."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn
from trainmark_job import InputError
from trainmark_torch import Place

# One node's file may be a step newer than another's when they are killed between two writes.
KEPT = 2
_NAME = re.compile(r"step-(\d+)\.pt\Z")


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place) -> None:
    """Keep the state after `step`, once per node; returns when every node has."""
    if place.local_rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / f"step-{step:09d}.pt"
        half = final.with_suffix(".half")
        with half.open("wb") as file:
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        half.replace(final)
        for _, old in _found(folder)[:-KEPT]:
            old.unlink()
    place.barrier()


def resume(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place) -> int:
    """Go on from the newest step that every node has in `folder`; 0 when there is none."""
    found = dict(_found(folder))
    step = int(place.least(max(found, default=0))[0])
    if place.least(float(step in found))[0] == 0:
        return 0
    state = _read(found[step], place)
    _check(found[step], state.get("model"), model)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return step


def start_from(path: str, model: nn.Module, place: Place) -> None:
    """Take the weights in `path`: one of these checkpoints, or a plain state dict."""
    state = _read(Path(path), place)
    weights = state.get("model", state)
    _check(Path(path), weights, model)
    model.load_state_dict(weights)


def _found(folder: Path) -> list[tuple[int, Path]]:
    named = ((_NAME.match(path.name), path) for path in folder.glob("step-*.pt"))
    return sorted((int(match[1]), path) for match, path in named if match)


def _read(path: Path, place: Place) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location=place.device, weights_only=True)
    except OSError as error:
        raise InputError(f"checkpoint {path}: {error.strerror or error}") from None
    except Exception:  # torch.load raises whatever the bytes lead it to
        raise InputError(f"checkpoint {path} cannot be read: it must hold tensors and numbers, nothing else") from None
    if not isinstance(state, dict):
        raise InputError(f"checkpoint {path} holds a {type(state).__name__}, not named weights")
    return state


def _check(path: Path, weights: Any, model: nn.Module) -> None:
    """Weights of another model are refused by name and shape before any is taken."""
    wanted = model.state_dict()
    if not isinstance(weights, dict):
        raise InputError(f"checkpoint {path} holds no weights")
    strange = sorted(set(weights) ^ set(wanted))
    if strange:
        how = "has" if strange[0] in weights else "lacks"
        raise InputError(f"checkpoint {path} is of another model: it {how} `{strange[0]}`")
    for name, value in wanted.items():
        shape = tuple(getattr(weights[name], "shape", ()))
        if shape != tuple(value.shape):
            raise InputError(
                f"checkpoint {path} is of another model: `{name}` is {shape}, wanted is {tuple(value.shape)}"
            )
