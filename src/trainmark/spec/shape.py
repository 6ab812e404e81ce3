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
_BATCH = ("batch", "train_batch_size")
_SEQUENCE = ("context", "max_seq_length")
_IMAGE = ("image_size",)


def sequence_length(params: Mapping[str, Value]) -> int | None:
    """Tokens of a sample."""
    return _first(params, _SEQUENCE)


def image_size(params: Mapping[str, Value]) -> int | None:
    """Pixels along each side."""
    return _first(params, _IMAGE)


def steps(params: Mapping[str, Value]) -> int | None:
    """Updates of the weights; 0: as many as the epochs have."""
    return _first(params, STEPS)


def samples_of_a_step(params: Mapping[str, Value], unit: str) -> int | None:
    """What one rank trains before each update, in the workload's unit."""
    batch, passes = _first(params, _BATCH), _first(params, ("accumulate",)) or 1
    tokens = sequence_length(params) if unit == "tokens" else 1
    return None if batch is None or tokens is None else batch * passes * tokens


# With which power of it the work of a sample grows, roughly: matrices have the width on both sides.
_POWERS = {"layers": 1, "width": 2, "image_size": 2, "patch": -2}


def relative_work(params: Mapping[str, Value], published: Mapping[str, Value], unit: str) -> float:
    """The work of a sample beside that of the published size, to the nearest factor of about two."""
    powers = _POWERS if unit == "tokens" else {**_POWERS, **dict.fromkeys(_SEQUENCE, 1)}
    ratio = 1.0
    for name, power in powers.items():
        value, usual = params.get(name), published.get(name)
        if type(value) is int and type(usual) is int and value > 0 and usual > 0:
            ratio *= (value / usual) ** power
    return ratio


def _first(params: Mapping[str, Value], names: tuple[str, ...]) -> int | None:
    """Of the first that is a whole number: an imported run may hold anything."""
    return next((value for name in names if type(value := params.get(name)) is int), None)
