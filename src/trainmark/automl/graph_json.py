"""Graphs as JSON: trainmark's own form, and that of AIPerf and NNI. Whatever a file holds, it is data and has limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trainmark.automl.graph import (
    ADD,
    BN,
    CONCAT,
    CONV,
    DENSE,
    DROPOUT,
    INPUT,
    MAXPOOL,
    NONE,
    OPS,
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
}


def load(path: Path) -> Graph:
    """The graph in a file, of either form."""
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"{path}: larger than {MAX_BYTES >> 20} MiB; no graph within the limits is")
    return decode(path.read_bytes(), str(path))


def decode(data: bytes | str, where: str = "graph") -> Graph:
    """The graph in a text, of either form."""
    if len(data) > MAX_BYTES:
        raise UserError(f"{where}: larger than {MAX_BYTES >> 20} MiB; no graph within the limits is")
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UserError(f"{where}: not JSON: {error}") from None
    except RecursionError:
        raise UserError(f"{where}: nested too deeply; a graph is a flat list of layers") from None
    if not isinstance(raw, dict):
        raise UserError(f"{where}: expected an object with `layers` (or AIPerf's `layer_list`), found {_kind(raw)}")
    try:
        graph = _from_aiperf(raw) if "layer_list" in raw else _from_own(raw)
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
            f"`graph` is {_short(raw.get('graph'))}; this trainmark reads version {VERSION} and AIPerf's `layer_list`"
        )
    unknown = [key for key in raw if key not in ("graph", "input", "layers")]
    if unknown:
        raise UserError(f"unknown key `{unknown[0][:40]}`; allowed: `graph`, `input`, `layers`")
    layers = tuple(_read_own_layer(index, item) for index, item in enumerate(_list(raw.get("layers"), "layers")))
    return Graph(_shape(raw.get("input"), "input"), layers)


def _read_own_layer(index: int, item: Any) -> Layer:
    place = f"layers[{index}]"
    if not isinstance(item, dict):
        raise UserError(f"{place}: expected an object, found {_kind(item)}")
    name = item.get("op")
    if name not in OPS:
        raise UserError(f"{place}: op is {_short(name)}{did_you_mean(str(name)[:40], OPS)}; allowed: {one_of(OPS)}")
    op = OPS.index(name)
    settings = _SETTINGS.get(op, {})
    unknown = [key for key in item if key not in ("op", "inputs", *settings)]
    if unknown:
        allowed = one_of(["op", "inputs", *settings])
        raise UserError(f"{place}: unknown key `{unknown[0][:40]}`; allowed: {allowed}")
    inputs = [_whole(end, f"{place}.inputs") for end in _list(item.get("inputs"), f"{place}.inputs")]
    values = {field: _setting(op, item.get(key), f"{place}.{key}") for key, field in settings.items()}
    return Layer(op, *_ends(op, inputs, place), **values)


def _ends(op: int, inputs: list[int], place: str) -> tuple[int, int]:
    wanted = 2 if op in (ADD, CONCAT) else 1
    if len(inputs) != wanted:
        raise UserError(f"{place}: `{OPS[op]}` reads {wanted}, found {len(inputs)} inputs")
    return inputs[0], inputs[1] if wanted == 2 else NONE


def _setting(op: int, value: Any, place: str) -> int:
    return _millionths(value, place) if op == DROPOUT else _whole(value, place)


def _millionths(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise UserError(f"{place}: found {_short(value)}; allowed is a rate from 0 to below 1")
    return min(round(value * 1e6), 999_999)


def _whole(value: Any, place: str) -> int:
    """A whole number; a float that is one counts, as NNI writes some."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{place}: found {_short(value)}; a whole number is needed")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise UserError(f"{place}: expected a list, found {_kind(value)}")
    return value


def _shape(value: Any, place: str) -> tuple[int, ...]:
    return tuple(_whole(side, place) for side in _list(value, place)[:5])


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, list | dict) else _kind(value)
    return text if len(text) <= 40 else text[:37] + "…"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(value), f"`{str(value)[:40]}`")


# AIPerf and NNI: tensors are numbered, and each layer says which it reads and which it makes.

_STUBS = {
    "StubConv": CONV,
    "StubBatchNormalization": BN,
    "StubReLU": OPS.index("relu"),
    "StubPooling": MAXPOOL,
    "StubGlobalPooling": OPS.index("global_avg_pool"),
    "StubDense": DENSE,
    "StubDropout": DROPOUT,
    "StubAdd": ADD,
    "StubConcatenate": CONCAT,
    "StubFlatten": OPS.index("flatten"),
    "StubSoftmax": OPS.index("softmax"),
}
# Those whose name ends with the number of dimensions.
_DIMENSIONAL = ("StubConv", "StubBatchNormalization", "StubPooling", "StubGlobalPooling", "StubDropout")
# kind → fields of `Layer` after the name, what is read and what is made; None is implied by the rest
_STUB_FIELDS: dict[int, tuple[str | None, ...]] = {
    CONV: (None, "width", "kernel", "stride", None),
    DENSE: (None, "width"),
    BN: (None,),
    DROPOUT: ("extra",),
    MAXPOOL: ("kernel", "stride", "extra"),
}


class _Stub(msgspec.Struct):
    op: int
    reads: list[int]
    makes: int
    values: list[Any]
    place: str


def _from_aiperf(raw: dict[str, Any]) -> Graph:
    shape = _shape(raw.get("input_shape"), "input_shape")
    stubs = [_stub(index, item, len(shape)) for index, item in enumerate(_list(raw["layer_list"], "layer_list"))]
    makers: dict[int, int] = {}
    for index, stub in enumerate(stubs):
        if stub.makes in makers:
            raise UserError(f"{stub.place}: tensor {stub.makes} is made by layer {makers[stub.makes]} too")
        makers[stub.makes] = index
    sources = sorted({end for stub in stubs for end in stub.reads} - set(makers))
    if len(sources) != 1:
        found = ", ".join(map(str, sources[:8])) or "none"
        raise UserError(f"layer_list: one tensor must be made by no layer, the input; found {found}")
    makers[sources[0]] = INPUT
    _check_edges(raw.get("adj_list"), stubs)
    graph = Graph(shape, tuple(_unstub(stub, makers) for stub in stubs))
    _check_implied(check(graph, "layer_list"), stubs)
    return graph


def _stub(index: int, item: Any, sides: int) -> _Stub:
    place = f"layer_list[{index}]"
    pair = _list(item, place)
    if len(pair) != 2 or _whole(pair[0], place) != index:
        raise UserError(f"{place}: expected [{index}, [type, reads, makes, …]]")
    parts = _list(pair[1], place)
    name = parts[0] if parts and isinstance(parts[0], str) else ""
    base = name[:-2] if name[-2:] in ("1d", "2d") and name[:-2] in _DIMENSIONAL else name
    if base not in _STUBS or (base in _DIMENSIONAL and base == name) or (name == "StubConv1d" and sides != 2):
        known = [f"{stub}2d" if stub in _DIMENSIONAL else stub for stub in _STUBS]
        raise UserError(f"{place}: type is {_short(name)}{did_you_mean(name[:40], known)}; allowed: {one_of(known)}")
    op = _STUBS[base]
    if len(parts) != 3 + len(_STUB_FIELDS.get(op, ())):
        raise UserError(f"{place}: `{name}` has {3 + len(_STUB_FIELDS.get(op, ()))} entries, found {len(parts)}")
    reads = parts[1] if isinstance(parts[1], list) else [parts[1]]
    return _Stub(op, [_whole(end, place) for end in reads], _whole(parts[2], place), parts[3:], place)


def _unstub(stub: _Stub, makers: dict[int, int]) -> Layer:
    ends = _ends(stub.op, [makers[end] for end in stub.reads], stub.place)
    named = zip(_STUB_FIELDS.get(stub.op, ()), stub.values, strict=True)
    values = {field: _setting(stub.op, value, stub.place) for field, value in named if field}
    return Layer(stub.op, *ends, **values)


def _check_edges(raw: Any, stubs: list[_Stub]) -> None:
    """`adj_list` says the same once more; a file that contradicts itself is refused."""
    if raw is None:
        return
    if not isinstance(raw, dict):
        raise UserError(f"adj_list: expected an object, found {_kind(raw)}")
    told = {(str(end), stub.makes, index) for index, stub in enumerate(stubs) for end in stub.reads}
    found = set()
    for key, edges in raw.items():
        for edge in _list(edges, f"adj_list[{key[:20]}]"):
            pair = [_whole(end, f"adj_list[{key[:20]}]") for end in _list(edge, f"adj_list[{key[:20]}]")[:3]]
            found.add((key, *pair))
    if told != found:
        odd = min(told ^ found, key=str)
        raise UserError(f"adj_list and layer_list differ, for instance in the edge {odd[0][:20]} → {odd[1:2]}")


def _check_implied(graph: Graph, stubs: list[_Stub]) -> None:
    """Channels that a layer says it reads, and the padding of a convolution, must be what they are."""
    for layer, stub in zip(graph.layers, stubs, strict=True):
        if layer.op in (CONV, DENSE, BN):
            channels = graph.shapes[layer.a][-1]
            if _whole(stub.values[0], stub.place) != channels:
                raise UserError(f"{stub.place}: says it reads {_short(stub.values[0])} channels; it gets {channels}")
        if layer.op == CONV and _whole(stub.values[4], stub.place) != layer.kernel // 2:
            raise UserError(
                f"{stub.place}: padding is {_short(stub.values[4])}; kernel {layer.kernel} needs {layer.kernel // 2}"
            )


def to_aiperf(graph: Graph) -> dict[str, Any]:
    """AIPerf's form. The input is tensor 0 and layer n makes tensor n + 1."""
    from trainmark.automl.graph import infer

    shapes = infer(graph, halving=True)
    forward: dict[str, list[list[int]]] = {str(tensor): [] for tensor in range(len(graph.layers) + 1)}
    backward: dict[str, list[list[int]]] = {str(tensor): [] for tensor in range(len(graph.layers) + 1)}
    stubs = []
    for index, layer in enumerate(graph.layers):
        ends = [end + 1 for end in (layer.a, layer.b) if end != NONE]
        for end in ends:
            forward[str(end)].append([index + 1, index])
            backward[str(index + 1)].append([end, index])
        stubs.append([index, _to_stub(graph, index, layer, ends)])
    return {
        "input_shape": list(graph.shape),
        "weighted": False,
        "vis": None,
        "operation_history": [],
        "layer_id_to_input_node_ids": {str(stub[0]): _as_list(stub[1][1]) for stub in stubs},
        "layer_id_to_output_node_ids": {str(index): [index + 1] for index in range(len(stubs))},
        "adj_list": forward,
        "reverse_adj_list": backward,
        "node_list": [[tensor, list(shapes[tensor - 1])] for tensor in range(len(graph.layers) + 1)],
        "layer_list": stubs,
    }


def _as_list(value: Any) -> list[int]:
    return value if isinstance(value, list) else [value]


def _to_stub(graph: Graph, index: int, layer: Layer, ends: list[int]) -> list[Any]:
    name = next(stub for stub, op in _STUBS.items() if op == layer.op)
    if name in _DIMENSIONAL:
        name += "2d" if len(graph.shape) == 3 else "1d"
    channels = graph.shapes[layer.a][-1]
    values: list[Any] = [
        channels if field is None else getattr(layer, field) for field in _STUB_FIELDS.get(layer.op, ())
    ]
    if layer.op == CONV:
        values[4] = layer.kernel // 2
    if layer.op == DROPOUT:
        values = [layer.extra / 1e6]
    return [name, ends if len(ends) == 2 else ends[0], index + 1, *values]
