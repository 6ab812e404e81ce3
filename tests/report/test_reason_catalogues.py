"""Every reason that the package can give has words in every language, and no catalogue has words for nobody."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import trainmark
from trainmark.i18n.catalogues import REASONS, read

SOURCE = Path(trainmark.__file__).parent
MAKERS = ("reason", "Reason")
TEXT = "text"  # words of older runs and other tools


@cache
def texts() -> dict[Path, str]:
    found = {file.relative_to(SOURCE): file.read_text() for file in sorted(SOURCE.rglob("*.py"))}
    return {inside: text for inside, text in found.items() if inside != Path("reasons.py")}


@cache
def calls() -> list[tuple[str, ast.Call, ast.AST]]:
    """Where reasons are made: place, call, and the function (or module) around it."""
    return list(_calls())


def _calls() -> Iterator[tuple[str, ast.Call, ast.AST]]:
    for file, text in texts().items():
        if not any(f"{maker}(" in text for maker in MAKERS):
            continue
        tree = ast.parse(text)
        nodes: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
        while nodes:
            node, scope = nodes.pop()
            if isinstance(node, ast.Call) and node.args and _name(node.func) in MAKERS:
                yield f"{file}:{node.lineno}", node, scope
            inner = node if isinstance(node, ast.FunctionDef) else scope
            nodes += [(child, inner) for child in ast.iter_child_nodes(node)]


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


def _wrong(call: ast.Call, scope: ast.AST) -> Iterator[str]:
    for pattern in _codes(call.args[0], scope):
        if not _known(pattern):
            yield f"no template for {pattern}"
    given = {one.arg for one in call.keywords}
    code = call.args[0].value if isinstance(call.args[0], ast.Constant) else TEXT
    if code != TEXT and code in REASONS and _name(call.func) == "reason" and None not in given:
        wanted = _fields(REASONS[code][0])
        if wanted != given:
            yield f"`{code}` is given {sorted(map(str, given))}, its template has {sorted(wanted)}"


@cache
def _known(pattern: str) -> bool:
    return any(re.fullmatch(pattern, code) for code in REASONS)


def test_a_reason_has_a_template_with_its_arguments() -> None:
    assert len(calls()) > 100
    assert [f"{place}: {text}" for place, call, scope in calls() for text in _wrong(call, scope)] == []


def test_languages_fill_in_the_same() -> None:
    differ = [code for code, (english, chinese) in REASONS.items() if _fields(english) != _fields(chinese)]
    assert not differ


def test_a_code_is_in_one_catalogue() -> None:
    counts = Counter(code for catalogue in read("reasons").values() for code in catalogue)
    assert [code for code, count in counts.items() if count > 1] == []


def test_every_template_is_used() -> None:
    quoted = {found for text in texts().values() for found in re.findall(r"""["']([a-z][a-z0-9-]*)["']""", text)}
    patterns = {pattern for _, call, scope in calls() for pattern in _codes(call.args[0], scope)}
    unused = [
        code for code in REASONS if code not in quoted and not any(re.fullmatch(pattern, code) for pattern in patterns)
    ]
    assert set(unused) <= {TEXT, "and-more"}, unused
