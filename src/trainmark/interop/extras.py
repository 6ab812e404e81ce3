"""Packages that only some formats need: imported when one of them is used, named when one is missing."""

from __future__ import annotations

import importlib
from typing import Any

from trainmark.errors import UserError


def load(module: str, package: str, name: str) -> Any:
    """The module, or an error that tells how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(
            f"export {name}: needs the package `{package}`, which is not installed: `pip install trainmark[{name}]`"
        ) from None
