"""What a service answers with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """`file`: the body is a stretch of a file, from `at`, `size` bytes long."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = {}
    file: Path | None = None
    at: int = 0
    size: int = 0


class ApiError(Exception):
    """An error as ModelArts words it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code

    @property
    def answer(self) -> Answer:
        return of_json(self.status, {"error_code": self.code, "error_msg": str(self)})


def of_json(status: int, value: Any = None) -> Answer:
    return Answer(status, b"" if value is None else json.dumps(value).encode())
