"""Checkpoints: written whole or not at all, read as data and never as code, refused for another model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from trainmark_job import InputError

if TYPE_CHECKING:
    from trainmark_torch import Ranks

# One node's file may be a step newer than another's when they are killed between two writes.
KEPT = 2
_NAME = re.compile(r"step-(\d+)\.pt\Z")


@dataclass(frozen=True)
class Parts:
    """What a checkpoint holds. `facts` are what weights do not tell, and must be the same where they are taken."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def save(folder: Path, step: int, parts: Parts, ranks: Ranks) -> None:
    """Keep the state after `step`, once per node; returns when every node has."""
    writes = ranks.local_rank == 0
    state = {
        "step": step,
        "model": _gathered(parts.model.state_dict(), writes),
        "optimizer": _gathered(parts.optimizer.state_dict(), writes),
        "scaler": parts.scaler.state_dict() if parts.scaler else {},
        "facts": dict(parts.facts),
    }
    if writes:
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / f"step-{step:09d}.pt"
        half = final.with_suffix(".half")
        with half.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        half.replace(final)
        for _, old in _found(folder)[:-KEPT]:
            old.unlink()
    ranks.barrier()


def resume(folder: Path, parts: Parts, ranks: Ranks) -> int:
    """Go on from the newest step that every node has in `folder`; 0 when there is none."""
    found = dict(_found(folder))
    step = int(ranks.least(max(found, default=0))[0])
    if ranks.least(float(step in found))[0] == 0:
        return 0
    state = _read(found[step], ranks)
    _check(found[step], state.get("model"), state, parts)
    _take(parts.model, state["model"])
    weights = [weight for group in parts.optimizer.param_groups for weight in group["params"]]
    for number, values in state["optimizer"]["state"].items():
        for name, value in values.items():
            values[name] = _share(value, weights[number])
    parts.optimizer.load_state_dict(state["optimizer"])
    if parts.scaler and state.get("scaler"):
        parts.scaler.load_state_dict(state["scaler"])
    return step


def start_from(path: str, parts: Parts, ranks: Ranks) -> None:
    """Take the weights in `path`: one of these checkpoints, or a plain state dict."""
    state = _read(Path(path), ranks)
    weights = state.get("model", state)
    _check(Path(path), weights, state, parts)
    _take(parts.model, weights)


def whole(value: Tensor) -> Tensor:
    """A tensor of which each rank may have a share, as all of it; every rank must ask."""
    full: Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return full


def _gathered(value: Any, keep: bool) -> Any:
    """The same structure with whole tensors, or without any on ranks that do not keep them; all ranks must call."""
    if isinstance(value, Tensor):
        full = whole(value)
        return full if keep else None
    if isinstance(value, dict):
        return {key: _gathered(inner, keep) for key, inner in value.items()}
    return value


def _take(model: nn.Module, weights: dict[str, Tensor]) -> None:
    wanted = model.state_dict()
    model.load_state_dict({name: _share(value, wanted[name]) for name, value in weights.items()})


def _share(value: Any, like: Tensor) -> Any:
    """This rank's share of a tensor, if that of the same shape it belongs to is spread over ranks."""
    if not hasattr(like, "full_tensor") or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value, like.device_mesh, like.placements)  # type: ignore[attr-defined]


def _found(folder: Path) -> list[tuple[int, Path]]:
    named = ((_NAME.match(path.name), path) for path in folder.glob("step-*.pt"))
    return sorted((int(match[1]), path) for match, path in named if match)


def _read(path: Path, ranks: Ranks) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location=ranks.device, weights_only=True)
    except OSError as error:
        raise InputError(f"checkpoint {path}: {error.strerror or error}") from None
    except Exception:  # torch.load raises whatever the bytes lead it to
        raise InputError(f"checkpoint {path} cannot be read: it must hold tensors and numbers, nothing else") from None
    if not isinstance(state, dict):
        raise InputError(f"checkpoint {path} holds a {type(state).__name__}, not named weights")
    return state


def _check(path: Path, weights: Any, state: dict[str, Any], parts: Parts) -> None:
    """Weights of another model are refused, by facts, names and shapes, before any is taken."""
    if not isinstance(weights, dict):
        raise InputError(f"checkpoint {path} holds no weights")
    saved = state.get("facts")
    for name, wanted in parts.facts.items():
        if isinstance(saved, dict) and saved.get(name, wanted) != wanted:
            raise InputError(f"checkpoint {path} is of another model: {_difference(name, saved[name], wanted)}")
    own = parts.model.state_dict()
    strange = sorted(set(weights) ^ set(own))
    if strange:
        how = "has" if strange[0] in weights else "lacks"
        raise InputError(f"checkpoint {path} is of another model: it {how} `{strange[0]}`")
    for name, value in own.items():
        shape = tuple(getattr(weights[name], "shape", ()))
        if shape != tuple(value.shape):
            raise InputError(
                f"checkpoint {path} is of another model: `{name}` is {shape}, wanted is {tuple(value.shape)}"
            )


def _difference(name: str, found: Any, wanted: Any) -> str:
    if isinstance(wanted, list) and isinstance(found, list):
        strange = sorted(set(found) ^ set(wanted))
        how = "has" if strange[:1] and strange[0] in found else "lacks"
        return f"its {name} has {len(found)} entries and {how} {strange[0]!r}; wanted are {len(wanted)} entries"
    return f"{name} is {found!r}, wanted is {wanted!r}"
