"""Every reason that the package can give has words in every language, and no catalogue has words for nobody."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import trainmark
from trainmark.i18n.catalogues import REASONS, read

SOURCE = Path(trainmark.__file__).parent
MAKERS = ("reason", "Reason")
TEXT = "text"  # words of older runs and other tools


def _files() -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        inside = file.relative_to(SOURCE)
        if inside.parts[:2] != ("report", "i18n") and inside != Path("reasons.py"):
            yield inside, ast.parse(file.read_text())


FILES = dict(_files())


def _calls() -> Iterator[tuple[str, ast.Call, ast.AST]]:
    """Where reasons are made: place, call, and the function (or module) around it."""
    for file, tree in FILES.items():
        scopes: list[ast.AST] = [tree, *(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))]
        seen: dict[ast.Call, ast.AST] = {}
        for scope in scopes:  # the innermost comes last
            for node in ast.walk(scope):
                if isinstance(node, ast.Call) and node.args and _name(node.func) in MAKERS:
                    seen[node] = scope
        for node, scope in seen.items():
            yield f"{file}:{node.lineno}", node, scope


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _codes(node: ast.expr, scope: ast.AST) -> list[str]:
    """Codes, or patterns of them, that an expression may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [re.escape(node.value)]
    if isinstance(node, ast.JoinedStr):
        pieces = (re.escape(str(one.value)) if isinstance(one, ast.Constant) else "[a-z-]+" for one in node.values)
        return ["".join(pieces)]
    if isinstance(node, ast.BinOp):
        return [code + "[a-z-]+" for code in _codes(node.left, scope)]
    if isinstance(node, ast.IfExp):
        return _codes(node.body, scope) + _codes(node.orelse, scope)
    if isinstance(node, ast.Name):
        return [
            code
            for one in ast.walk(scope)
            if isinstance(one, ast.Assign) and any(_name(target) == node.id for target in one.targets)
            for code in _codes(one.value, scope)
        ]
    return []


def _fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


CALLS = list(_calls())


@pytest.mark.parametrize(("place", "call", "scope"), CALLS, ids=[place for place, _, _ in CALLS])
def test_a_reason_has_a_template_with_its_arguments(place: str, call: ast.Call, scope: ast.AST) -> None:
    del place
    given = {one.arg for one in call.keywords}
    patterns = _codes(call.args[0], scope)
    for pattern in patterns:
        known = [code for code in REASONS if re.fullmatch(pattern, code)]
        assert known, f"no template for {pattern}"
    literal = isinstance(call.args[0], ast.Constant) and call.args[0].value != TEXT
    if literal and _name(call.func) == "reason" and None not in given:
        assert _fields(REASONS[known[0]][0]) == given


def test_languages_fill_in_the_same() -> None:
    differ = [code for code, (english, chinese) in REASONS.items() if _fields(english) != _fields(chinese)]
    assert not differ


def test_a_code_is_in_one_catalogue() -> None:
    counts = Counter(code for catalogue in read("reasons").values() for code in catalogue)
    assert [code for code, count in counts.items() if count > 1] == []


def test_every_template_is_used() -> None:
    constants = {
        node.value
        for tree in FILES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    patterns = {pattern for _, call, scope in CALLS for pattern in _codes(call.args[0], scope)}
    unused = [
        code
        for code in REASONS
        if code not in constants and not any(re.fullmatch(pattern, code) for pattern in patterns)
    ]
    assert set(unused) <= {TEXT, "and-more"}, unused
