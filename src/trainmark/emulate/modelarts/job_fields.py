"""What a request may hold, by the official client's own records: a field that they do not have is refused."""

from __future__ import annotations

import re
from typing import Any

from trainmark import extras
from trainmark.emulate.modelarts.answers import ApiError

_LIST = re.compile(r"list\[(.+)\]$")
_PLAIN: dict[str, Any] = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}


def check(value: Any, kind: str) -> None:
    """ApiError that names the first field that is unknown or of another type."""
    models = extras.load("huaweicloudsdkmodelarts.v1", "`trainmark emulate modelarts`")
    _check(value, kind, "body", models)


def _check(value: Any, kind: str, place: str, models: Any) -> None:
    if value is None:
        return
    if inner := _LIST.match(kind):
        _expect(isinstance(value, list), place, kind)
        for index, one in enumerate(value):
            _check(one, inner[1], f"{place}[{index}]", models)
    elif kind.startswith("dict("):
        _expect(isinstance(value, dict), place, kind)
    elif kind in _PLAIN:
        _expect(isinstance(value, _PLAIN[kind]), place, kind)
    else:
        model = getattr(models, kind)
        _expect(isinstance(value, dict), place, kind)
        names = {wire: name for name, wire in model.attribute_map.items()}
        for wire, one in value.items():
            if wire not in names:
                raise ApiError(400, "ModelArts.0102", f"{place}.{wire}: the service has no such field")
            _check(one, model.openapi_types[names[wire]], f"{place}.{wire}", models)


def _expect(good: bool, place: str, kind: str) -> None:
    if not good:
        raise ApiError(400, "ModelArts.0102", f"{place}: must be {kind}")
