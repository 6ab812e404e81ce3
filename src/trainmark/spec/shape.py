"""Which parameters of a workload say how large its model and its samples are, by the names that workloads use.

The longer names are those of FlagPerf. A workload of one's own that uses these names is described without further ado.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainmark.spec.case_id import Value

# The size of the model itself.
MODEL = ("layers", "width", "heads", "inner", "patch", "vocabulary", "classes", "rows", "bottom", "top")
# How many updates of the weights there are.
STEPS = ("steps", "max_steps")
_SEQUENCE = ("context", "max_seq_length")
_IMAGE = ("image_size",)


def sequence_length(params: Mapping[str, Value]) -> int | None:
    """Tokens of a sample."""
    return _first(params, _SEQUENCE)


def image_size(params: Mapping[str, Value]) -> int | None:
    """Pixels along each side."""
    return _first(params, _IMAGE)


def _first(params: Mapping[str, Value], names: tuple[str, ...]) -> int | None:
    """Of the first that is a whole number: an imported run may hold anything."""
    return next((value for name in names if type(value := params.get(name)) is int), None)
