"""Graphs as JSON: trainmark's own form; that of AIPerf and NNI is in `aiperf_json.py`. A file has limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trainmark.automl.graph.graph import (
    ADD,
    ATTENTION,
    CONCAT,
    CONV,
    DENSE,
    DROPOUT,
    MAXPOOL,
    MLP,
    NONE,
    OPS,
    PATCHES,
    TOKENS,
    Graph,
    Layer,
    check,
)
from trainmark.errors import UserError, did_you_mean, one_of

MAX_BYTES = 8 * 2**20
VERSION = 1
# kind of layer → its settings in JSON, and the fields of `Layer` that hold them
_SETTINGS = {
    CONV: {"filters": "width", "kernel": "kernel", "stride": "stride"},
    MAXPOOL: {"kernel": "kernel", "stride": "stride", "padding": "extra"},
    DENSE: {"units": "width"},
    DROPOUT: {"rate": "extra"},
    TOKENS: {"kinds": "kernel", "channels": "width", "context": "extra"},
    PATCHES: {"channels": "width", "patch": "kernel"},
    ATTENTION: {"heads": "width", "head_channels": "kernel", "causal": "extra"},
    MLP: {"hidden": "width"},
}


def load(path: Path) -> Graph:
    """The graph in a file, of either form."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; a graph's JSON is needed")
    with path.open("rb") as file:
        return decode(file.read(MAX_BYTES + 1), str(path))


def decode(data: bytes | str, where: str = "graph") -> Graph:
    """The graph in a text, of either form."""
    from trainmark.automl.graph.aiperf_json import from_aiperf

    if len(data) > MAX_BYTES:
        raise UserError(f"{where}: larger than {MAX_BYTES >> 20} MiB; no graph within the limits is")
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UserError(f"{where}: not JSON: {error}") from None
    except RecursionError:
        raise UserError(f"{where}: nested too deeply; a graph is a flat list of layers") from None
    if not isinstance(raw, dict):
        raise UserError(f"{where}: expected an object with `layers` (or AIPerf's `layer_list`), found {kind(raw)}")
    try:
        graph = from_aiperf(raw) if "layer_list" in raw else _from_own(raw)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return check(graph, where)


def encode(graph: Graph) -> bytes:
    """trainmark's form. Equal graphs give equal bytes."""
    layers = [_own_layer(layer) for layer in graph.layers]
    return msgspec.json.encode({"graph": VERSION, "input": graph.shape, "layers": layers})


def _own_layer(layer: Layer) -> dict[str, Any]:
    inputs = [layer.a] if layer.b == NONE else [layer.a, layer.b]
    settings = {name: getattr(layer, field) for name, field in _SETTINGS.get(layer.op, {}).items()}
    if layer.op == DROPOUT:
        settings["rate"] = layer.extra / 1e6
    return {"op": OPS[layer.op], "inputs": inputs, **settings}


def _from_own(raw: dict[str, Any]) -> Graph:
    if raw.get("graph") != VERSION:
        raise UserError(
            f"`graph` is {short(raw.get('graph'))}; this trainmark reads version {VERSION} and AIPerf's `layer_list`"
        )
    unknown = [key for key in raw if key not in ("graph", "input", "layers")]
    if unknown:
        raise UserError(f"unknown key `{unknown[0][:40]}`; allowed: `graph`, `input`, `layers`")
    layers = tuple(_read_own_layer(index, item) for index, item in enumerate(as_list(raw.get("layers"), "layers")))
    return Graph(as_shape(raw.get("input"), "input"), layers)


def _read_own_layer(index: int, item: Any) -> Layer:
    place = f"layers[{index}]"
    if not isinstance(item, dict):
        raise UserError(f"{place}: expected an object, found {kind(item)}")
    name = item.get("op")
    if name not in OPS:
        raise UserError(f"{place}: op is {short(name)}{did_you_mean(str(name)[:40], OPS)}; allowed: {one_of(OPS)}")
    op = OPS.index(name)
    settings = _SETTINGS.get(op, {})
    unknown = [key for key in item if key not in ("op", "inputs", *settings)]
    if unknown:
        allowed = one_of(["op", "inputs", *settings])
        raise UserError(f"{place}: unknown key `{unknown[0][:40]}`; allowed: {allowed}")
    inputs = [whole(end, f"{place}.inputs") for end in as_list(item.get("inputs"), f"{place}.inputs")]
    values = {field: setting(op, item.get(key), f"{place}.{key}") for key, field in settings.items()}
    return Layer(op, *ends(op, inputs, place), **values)


# ---- values of a file, each checked before anything is made of it


def ends(op: int, inputs: list[int], place: str) -> tuple[int, int]:
    wanted = 2 if op in (ADD, CONCAT) else 1
    if len(inputs) != wanted:
        raise UserError(f"{place}: `{OPS[op]}` reads {wanted}, found {len(inputs)} inputs")
    return inputs[0], inputs[1] if wanted == 2 else NONE


def setting(op: int, value: Any, place: str) -> int:
    return _millionths(value, place) if op == DROPOUT else whole(value, place)


def _millionths(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise UserError(f"{place}: found {short(value)}; allowed is a rate from 0 to below 1")
    return min(round(value * 1e6), 999_999)


def whole(value: Any, place: str) -> int:
    """A whole number; a float that is one counts, as NNI writes some."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{place}: found {short(value)}; a whole number is needed")
    return value


def as_list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise UserError(f"{place}: expected a list, found {kind(value)}")
    return value


def as_shape(value: Any, place: str) -> tuple[int, ...]:
    return tuple(whole(side, place) for side in as_list(value, place)[:5])


def short(value: Any) -> str:
    text = repr(value) if not isinstance(value, list | dict) else kind(value)
    return text if len(text) <= 40 else text[:37] + "…"


def kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(value), f"`{str(value)[:40]}`")
