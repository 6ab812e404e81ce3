"""Values of a Python file, read without running it: constants, names, containers, and a little arithmetic on them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

LONGEST = 1 << 20
# A value that grows beyond this is a trap, not a setting.
_MOST_LETTERS = 1 << 16
_MOST_NUMBER = 10**30
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Unread(msgspec.Struct, frozen=True):
    """What could not be told without running the file."""

    line: int
    name: str
    why: str


class Module(msgspec.Struct):
    """What a file sets. Statements = read + passed over (documentation, imports) + unread."""

    values: dict[str, Any]
    unread: list[Unread]
    statements: int = 0
    passed: int = 0


class _Unknown(Exception):
    pass


def read(text: bytes, modules: Mapping[str, Module]) -> Module:
    """The names that a file sets at its top; `modules` are those that it may take names from."""
    found = Module({}, [])
    if len(text) > LONGEST:
        found.statements = 1
        found.unread.append(Unread(0, "", f"the file is longer than {LONGEST} bytes"))
        return found
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        found.statements = 1
        found.unread.append(Unread(getattr(error, "lineno", None) or 0, "", f"no Python that can be read: {error}"))
        return found
    for statement in tree.body:
        found.statements += 1
        try:
            _statement(statement, found, modules)
        except _Unknown as unknown:
            _forget(statement, found)
            names = ", ".join(_targets(statement)) or type(statement).__name__
            found.unread.append(Unread(statement.lineno, names[:200], str(unknown)[:200]))
        except RecursionError:
            found.unread.append(Unread(statement.lineno, "", "nested too deep"))
    return found


def _statement(statement: ast.stmt, found: Module, modules: Mapping[str, Module]) -> None:
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        value = _value(statement.value, found.values)
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            _assign(target, value, found.values)
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        before = _value(ast.Name(statement.target.id), found.values)
        found.values[statement.target.id] = _combine(statement.op, before, _value(statement.value, found.values))
    elif isinstance(statement, ast.ImportFrom) and any(name.name == "*" for name in statement.names):
        module = modules.get((statement.module or "").rpartition(".")[2])
        if module is None:
            raise _Unknown(f"takes all names from `{statement.module}`, which is not here")
        found.values.update(module.values)
    elif isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass) or _is_text(statement):
        found.passed += 1
    else:
        raise _Unknown(f"a `{type(statement).__name__}` would have to be run")


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _assign(target: ast.expr, value: Any, values: dict[str, Any]) -> None:
    if isinstance(target, ast.Name):
        values[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, list) and len(target.elts) == len(value):
        for one, inner in zip(target.elts, value, strict=True):
            _assign(one, inner, values)
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        whole, key = values.get(target.value.id), _value(target.slice, values)
        if not isinstance(whole, dict) or not isinstance(key, str | int | float):
            raise _Unknown("sets a part of something that is not known")
        whole[key] = value
    else:
        raise _Unknown("sets something that is no plain name")


def _targets(statement: ast.stmt) -> list[str]:
    names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return names[:8]


def _forget(statement: ast.stmt, found: Module) -> None:
    """A name that is set in a way that cannot be read has no longer the value it had before."""
    for name in _targets(statement):
        found.values.pop(name, None)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    kind = _KINDS.get(type(node))
    if kind is None:
        raise _Unknown(f"`{_short(node)}` would have to be run")
    return _bounded(kind(node, values))


def _short(node: ast.expr) -> str:
    try:
        return ast.unparse(node)[:80]
    except (ValueError, RecursionError):
        return type(node).__name__


def _bounded(value: Any) -> Any:
    if isinstance(value, str | list | dict) and len(value) > _MOST_LETTERS:
        raise _Unknown("grows too large")
    if isinstance(value, int | float) and not abs(value) < _MOST_NUMBER:
        raise _Unknown("is too large a number")
    return value


def _constant(node: Any, values: Mapping[str, Any]) -> Any:  # noqa: ARG001
    if node.value is None or isinstance(node.value, str | int | float | bool):
        return node.value
    raise _Unknown(f"`{_short(node)}` is no setting")


def _name(node: Any, values: Mapping[str, Any]) -> Any:
    if node.id not in values:
        raise _Unknown(f"`{node.id}` is not known")
    return values[node.id]


def _sequence(node: Any, values: Mapping[str, Any]) -> Any:
    return [_value(item, values) for item in node.elts]


def _mapping(node: Any, values: Mapping[str, Any]) -> Any:
    found: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            raise _Unknown("`**` would have to be run")
        name = _value(key, values)
        if not isinstance(name, str | int | float):
            raise _Unknown("a key is no plain value")
        found[name] = _value(value, values)
    return found


def _binary(node: Any, values: Mapping[str, Any]) -> Any:
    return _combine(node.op, _value(node.left, values), _value(node.right, values))


def _combine(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Pow) and isinstance(left, int | float) and isinstance(right, int | float):
        if abs(left) <= 1000 and abs(right) <= 10:
            return _bounded(left**right) if left or right >= 0 else None
        raise _Unknown("is too large a number")
    if type(op) not in _OPERATORS:
        raise _Unknown(f"`{type(op).__name__}` is not computed here")
    numbers = all(isinstance(side, int | float) for side in (left, right))
    joined = isinstance(op, ast.Add) and type(left) is type(right) and isinstance(left, str | list)
    if not numbers and not joined:
        raise _Unknown("is computed from something else than numbers")
    try:
        return _bounded(_OPERATORS[type(op)](left, right))
    except (ArithmeticError, ValueError) as error:
        raise _Unknown(str(error)) from None


def _unary(node: Any, values: Mapping[str, Any]) -> Any:
    value = _value(node.operand, values)
    if isinstance(node.op, ast.Not):
        return not value
    if not isinstance(value, int | float) or isinstance(node.op, ast.Invert):
        raise _Unknown("is computed from something else than numbers")
    return -value if isinstance(node.op, ast.USub) else value


def _choice(node: Any, values: Mapping[str, Any]) -> Any:
    return _value(node.body if _value(node.test, values) else node.orelse, values)


def _compare(node: Any, values: Mapping[str, Any]) -> Any:
    left = _value(node.left, values)
    for op, other in zip(node.ops, node.comparators, strict=True):
        right = _value(other, values)
        if type(op) not in _COMPARED:
            raise _Unknown(f"`{type(op).__name__}` is not computed here")
        try:
            if not _COMPARED[type(op)](left, right):
                return False
        except TypeError as error:
            raise _Unknown(str(error)) from None
        left = right
    return True


def _logic(node: Any, values: Mapping[str, Any]) -> Any:
    stop = isinstance(node.op, ast.Or)
    value: Any = None
    for item in node.values:
        value = _value(item, values)
        if bool(value) is stop:
            return value
    return value


def _text(node: Any, values: Mapping[str, Any]) -> Any:
    parts = []
    for part in node.values:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        if isinstance(part, ast.FormattedValue) and (part.format_spec is not None or part.conversion != -1):
            raise _Unknown("a formatted text would have to be run")
        parts.append(str(_value(inner, values)))
    return "".join(parts)


_KINDS: dict[type[ast.expr], Callable[[Any, Mapping[str, Any]], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Dict: _mapping,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.IfExp: _choice,
    ast.Compare: _compare,
    ast.BoolOp: _logic,
    ast.JoinedStr: _text,
}
