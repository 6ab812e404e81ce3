"""Messages of errors, read from the source: `messages.py` lists those that have no Chinese yet."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "trainmark"
_RAISED = ("UserError", "SiteError", "Damaged", "NotABundle", "CampaignStopped", "Owned")
# Of the server alone: the emulated cloud has a `Refused` of its own, which speaks to programs.
_RAISED_BY_SERVER = (*_RAISED, "NotFound", "Refused", "Conflict", "SignInFailed")
# What an import remarks on a file: (kind, place, text).
_REMARK = "Flag"


def templates(folder: Path = ROOT) -> Iterator[tuple[str, str]]:
    """(place, template): what is filled in stands as {0}, {1} …"""
    for file in sorted(folder.rglob("*.py")):
        if "workloads" in file.parts or "testing" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            raised = _RAISED_BY_SERVER if "web" in file.parts else _RAISED
            said = node.args[:1] if called in raised else []
            if called == _REMARK and "interop" in file.parts and len(node.args) > 2:
                said = [node.args[0], node.args[2]]
            for text in map(_template, said):
                if text is not None:
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def _template(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    text, number = "", 0
    for value in node.values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
        else:
            text += f"{{{number}}}"
            number += 1
    return text


def main() -> None:
    from trainmark.i18n.words import error

    for place, text in templates():
        if error(text, "zh") == text:
            sys.stdout.write(f"{place}: {text}\n")


if __name__ == "__main__":
    main()
