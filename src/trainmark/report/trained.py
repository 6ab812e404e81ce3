"""What a case trained, in one line: a speed means nothing without it."""

from __future__ import annotations

from trainmark.i18n.texts import Text, joined, label
from trainmark.plan.records import IMPORTED_PRESET
from trainmark.report.records import CaseReport, Trained
from trainmark.spec.case_id import Value

_LONGEST = 60
_SCALES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def describe(case: CaseReport) -> Text:
    """`16.1 M parameters (3 layers × 384), batch 8, 128 tokens each, fp32, synthetic data, preset quick`, if known."""
    if case.trained is None:
        return label("trained.preset", case.preset) if case.preset else None
    return describe_trained(case.trained)


def describe_trained(found: Trained | None) -> Text:
    if found is None:
        return None
    own = found.command is not None or found.preset == IMPORTED_PRESET
    parts: list[Text] = [
        _shortened(found.command) if found.command else None,
        model(found),
        label("trained.updated", _count(found.updated)) if found.updated else None,
        _batch(found),
        label("trained.sequence", f"{found.sequence_length:,}") if found.sequence_length else None,
        label("trained.image", str(found.image_size)) if found.image_size else None,
        found.dtype,
        label("trained.synthetic") if found.synthetic else found.data,
        label("trained.preset", found.preset) if found.preset and not own else None,
    ]
    return joined(*parts, joint=", ") if any(parts) else None


def _shortened(command: str) -> str:
    """Its end says what was trained; its beginning mostly which Python."""
    return command if len(command) <= _LONGEST else "… " + command[-_LONGEST:]


def model(found: Trained) -> Text:
    """How large the model is: its parameters, or what sets their number."""
    shape = _shape(found.model)
    if found.parameters is None:
        return shape
    count = label("trained.parameters", _count(found.parameters))
    return label("trained.parameters_of", _count(found.parameters), shape) if shape else count


def _count(parameters: int) -> str:
    """Three digits: 124 M, 25.6 M."""
    scale, letter = next(((by, name) for by, name in _SCALES if parameters >= by), (1, ""))
    shown = f"{parameters / scale:.3g}"
    return f"{shown} {letter}".rstrip() if "e" not in shown else f"{parameters / scale:,.0f} {letter}".rstrip()


def _shape(model: dict[str, Value]) -> Text:
    """Layers and their width say most; of other models all that is known."""
    layers, width = model.get("layers"), model.get("width")
    if layers is not None and width is not None:
        return label("trained.layers_width", str(layers), str(width))
    if layers is not None:
        return label("trained.layers", str(layers))
    return ", ".join(f"{name} {value}" for name, value in model.items())


def _batch(found: Trained) -> Text:
    if found.batch_per_rank is None:
        return None
    if found.ranks is None or found.ranks == 1:
        return label("trained.batch", f"{found.batch_per_rank:,}")
    return label("trained.batch_of_ranks", f"{found.batch_per_rank:,}", str(found.ranks))


def fields(case: CaseReport) -> dict[str, Value | None]:
    """For tables that programs read: a value for each column of `COLUMNS`."""
    found = case.trained or Trained("", case.preset, "")
    return {
        "preset": None if found.command is not None else found.preset,
        "parameters": found.parameters,
        "model": " ".join(f"{name}={value}" for name, value in found.model.items()),
        "batch_per_rank": found.batch_per_rank,
        "global_batch": found.global_batch,
        "sequence_length": found.sequence_length,
        "image_size": found.image_size,
        "dtype": found.dtype,
        "data": found.data,
        "command": found.command,
        "updated_parameters": found.updated,
    }


COLUMNS = (
    *("preset", "parameters", "model", "batch_per_rank", "global_batch", "sequence_length", "image_size"),
    *("dtype", "data", "command", "updated_parameters"),
)
