"""Graphs as AIPerf and NNI write them: tensors are numbered, and a layer says which it reads and which it makes."""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.automl.graph import graph as ops
from trainmark.automl.graph.graph import Graph, Layer, check
from trainmark.automl.graph.graph_json import as_list, as_shape, ends, kind, setting, short, whole
from trainmark.errors import UserError, did_you_mean, one_of

_STUBS = {
    "StubConv": ops.CONV,
    "StubBatchNormalization": ops.BN,
    "StubReLU": ops.RELU,
    "StubPooling": ops.MAXPOOL,
    "StubGlobalPooling": ops.GAP,
    "StubDense": ops.DENSE,
    "StubDropout": ops.DROPOUT,
    "StubAdd": ops.ADD,
    "StubConcatenate": ops.CONCAT,
    "StubFlatten": ops.FLATTEN,
    "StubSoftmax": ops.SOFTMAX,
}
# Those whose name ends with the number of dimensions.
_DIMENSIONAL = ("StubConv", "StubBatchNormalization", "StubPooling", "StubGlobalPooling", "StubDropout")
# kind → fields of `Layer` after the name, what is read and what is made; None is implied by the rest
_STUB_FIELDS: dict[int, tuple[str | None, ...]] = {
    ops.CONV: (None, "width", "kernel", "stride", None),
    ops.DENSE: (None, "width"),
    ops.BN: (None,),
    ops.DROPOUT: ("extra",),
    ops.MAXPOOL: ("kernel", "stride", "extra"),
}


class _Stub(msgspec.Struct):
    op: int
    reads: list[int]
    makes: int
    values: list[Any]
    place: str


def from_aiperf(raw: dict[str, Any]) -> Graph:
    shape = as_shape(raw.get("input_shape"), "input_shape")
    stubs = [_stub(index, item, len(shape)) for index, item in enumerate(as_list(raw["layer_list"], "layer_list"))]
    makers: dict[int, int] = {}
    for index, stub in enumerate(stubs):
        if stub.makes in makers:
            raise UserError(f"{stub.place}: tensor {stub.makes} is made by layer {makers[stub.makes]} too")
        makers[stub.makes] = index
    sources = sorted({end for stub in stubs for end in stub.reads} - set(makers))
    if len(sources) != 1:
        found = ", ".join(map(str, sources[:8])) or "none"
        raise UserError(f"layer_list: one tensor must be made by no layer, the input; found {found}")
    makers[sources[0]] = ops.INPUT
    _check_edges(raw.get("adj_list"), stubs)
    graph = Graph(shape, tuple(_unstub(stub, makers) for stub in stubs))
    _check_implied(check(graph, "layer_list"), stubs)
    return graph


def _stub(index: int, item: Any, sides: int) -> _Stub:
    place = f"layer_list[{index}]"
    pair = as_list(item, place)
    if len(pair) != 2 or whole(pair[0], place) != index:
        raise UserError(f"{place}: expected [{index}, [type, reads, makes, …]]")
    parts = as_list(pair[1], place)
    name = parts[0] if parts and isinstance(parts[0], str) else ""
    base = name[:-2] if name[-2:] in ("1d", "2d") and name[:-2] in _DIMENSIONAL else name
    if base not in _STUBS or (base in _DIMENSIONAL and base == name) or (name == "StubConv1d" and sides != 2):
        known = [f"{stub}2d" if stub in _DIMENSIONAL else stub for stub in _STUBS]
        raise UserError(f"{place}: type is {short(name)}{did_you_mean(name[:40], known)}; allowed: {one_of(known)}")
    op = _STUBS[base]
    if len(parts) != 3 + len(_STUB_FIELDS.get(op, ())):
        raise UserError(f"{place}: `{name}` has {3 + len(_STUB_FIELDS.get(op, ()))} entries, found {len(parts)}")
    reads = parts[1] if isinstance(parts[1], list) else [parts[1]]
    return _Stub(op, [whole(end, place) for end in reads], whole(parts[2], place), parts[3:], place)


def _unstub(stub: _Stub, makers: dict[int, int]) -> Layer:
    pair = ends(stub.op, [makers[end] for end in stub.reads], stub.place)
    named = zip(_STUB_FIELDS.get(stub.op, ()), stub.values, strict=True)
    values = {field: setting(stub.op, value, stub.place) for field, value in named if field}
    return Layer(stub.op, *pair, **values)


def _check_edges(raw: Any, stubs: list[_Stub]) -> None:
    """`adj_list` says the same once more; a file that contradicts itself is refused."""
    if raw is None:
        return
    if not isinstance(raw, dict):
        raise UserError(f"adj_list: expected an object, found {kind(raw)}")
    listed = {(str(end), stub.makes, index) for index, stub in enumerate(stubs) for end in stub.reads}
    found = set()
    for key, edges in raw.items():
        for edge in as_list(edges, f"adj_list[{key[:20]}]"):
            pair = [whole(end, f"adj_list[{key[:20]}]") for end in as_list(edge, f"adj_list[{key[:20]}]")[:3]]
            found.add((key, *pair))
    if listed != found:
        odd = min(listed ^ found, key=str)
        raise UserError(f"adj_list and layer_list differ, for instance in the edge {odd[0][:20]} → {odd[1:2]}")


def _check_implied(graph: Graph, stubs: list[_Stub]) -> None:
    """Channels that a layer says it reads, and the padding of a convolution, must be what they are."""
    for layer, stub in zip(graph.layers, stubs, strict=True):
        if layer.op in (ops.CONV, ops.DENSE, ops.BN):
            channels = graph.shapes[layer.a][-1]
            if whole(stub.values[0], stub.place) != channels:
                raise UserError(f"{stub.place}: says it reads {short(stub.values[0])} channels; it gets {channels}")
        if layer.op == ops.CONV and whole(stub.values[4], stub.place) != layer.kernel // 2:
            raise UserError(
                f"{stub.place}: padding is {short(stub.values[4])}; kernel {layer.kernel} needs {layer.kernel // 2}"
            )
