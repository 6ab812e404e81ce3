"""The first weights of a model, the same in every framework: drawn once by NumPy, stored in one file, read by all.

The file is in the safetensors format and lies in the cache under the hash of what it holds: names, shapes, rules and
the seed. Where the cache cannot be written, the same weights are drawn again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SEED = 20150921


@dataclass(frozen=True)
class Weight:
    """One tensor of the model: how it is called, and from what it is drawn. Shapes are PyTorch's.

    `normal` has the standard deviation `scale`, `uniform` goes from -scale to scale, `constant` is `scale`.
    """

    name: str
    shape: tuple[int, ...]
    rule: str
    scale: float


def convolution(name: str, outputs: int, inputs: int, size: int) -> Weight:
    """He's rule, by what goes out."""
    return Weight(f"{name}.weight", (outputs, inputs, size, size), "normal", math.sqrt(2 / (outputs * size * size)))


def customary(name: str, *shape: int) -> tuple[Weight, Weight]:
    """Weight and bias as PyTorch draws them by default."""
    scale = 1 / math.sqrt(math.prod(shape[1:]))
    return Weight(f"{name}.weight", shape, "uniform", scale), Weight(f"{name}.bias", shape[:1], "uniform", scale)


def normalisation(name: str, width: int, scale: float = 1.0) -> tuple[Weight, Weight]:
    return constant(f"{name}.weight", width, scale), constant(f"{name}.bias", width, 0.0)


def constant(name: str, width: int, value: float) -> Weight:
    return Weight(name, (width,), "constant", value)


def first(layout: Sequence[Weight]) -> dict[str, Any]:
    """The weights by name, in the order of the layout; they must not be written to."""
    path = _folder() / f"{_key(layout)}.safetensors"
    found = _read(path, layout)
    if found is not None:
        return found
    drawn = dict(_draw(layout))
    _keep(path, drawn)
    return drawn


def count(layout: Sequence[Weight]) -> int:
    return sum(math.prod(weight.shape) for weight in layout)


def sha256(weights: dict[str, Any]) -> str:
    """A hash over all weights: ranks that trained together have the same."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name])
        digest.update(f"{name} {array.shape} {array.dtype};".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _key(layout: Sequence[Weight]) -> str:
    described = [SEED, *((weight.name, weight.shape, weight.rule, weight.scale) for weight in layout)]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:32]


def _draw(layout: Sequence[Weight]) -> Any:
    random = np.random.default_rng(SEED)
    for weight in layout:
        if weight.rule == "constant":
            array = np.full(weight.shape, weight.scale, np.float32)
        elif weight.rule == "normal":
            array = random.standard_normal(weight.shape, np.float32) * np.float32(weight.scale)
        else:
            array = (2 * random.random(weight.shape, np.float32) - 1) * np.float32(weight.scale)
        yield weight.name, array


def _folder() -> Path:
    """$TRAINMARK_CACHE, else the user's cache folder, as trainmark itself has it."""
    named, user = os.environ.get("TRAINMARK_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    base = Path(user) if user.startswith("/") else Path.home() / ".cache"
    return (Path(named) if named else base / "trainmark") / "weights"


def _read(path: Path, layout: Sequence[Weight]) -> dict[str, Any] | None:
    """What is in the file, if it is whole."""
    wanted = 4 * count(layout)
    try:
        with path.open("rb") as file:
            head = int.from_bytes(file.read(8), "little")
        if path.stat().st_size != 8 + head + wanted:
            return None
        content = np.memmap(path, np.float32, "r", offset=8 + head)
    except (OSError, ValueError):
        return None
    found, start = {}, 0
    for weight in layout:
        end = start + math.prod(weight.shape)
        found[weight.name] = content[start:end].reshape(weight.shape)
        start = end
    return found


def _keep(path: Path, weights: dict[str, Any]) -> None:
    """By one rename; several ranks may do it at once and write the same."""
    head, start = {}, 0
    for name, array in weights.items():
        head[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    half = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with half.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for array in weights.values():
                file.write(np.ascontiguousarray(array).data)
        half.replace(path)
    except OSError:
        half.unlink(missing_ok=True)
