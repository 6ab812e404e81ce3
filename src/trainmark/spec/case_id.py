"""The address of a case: `workload:framework[_version]:device:nnodes:nproc:repeat[@key=value,…]`.

The same text is the key in a suite, the argument on the command line, the key in the index and, through
`dir_name`, the name of its folder. FlagPerf's keys are valid as they are.
"""

from __future__ import annotations

import msgspec

from trainmark.errors import UserError

AUTO = "auto"
SHAPE = "workload:framework[_version]:device:nnodes:nproc:repeat[@key=value,…]"

_ALNUM = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_IN_NAME = _ALNUM | set("._-")
_PLAIN = frozenset(char.encode()[0] for char in _IN_NAME | set("~/"))
# Folder names are limited to 255 bytes by common file systems; room is left for suffixes.
LONGEST = 240

Value = bool | int | float | str


class CaseId(msgspec.Struct, frozen=True, order=True):
    """One case's address. `variant` is sorted and holds only what differs from the preset.

    As it is written, `device` may be `auto` and `nproc` 0, which is written `auto`: what the site has. A case that was
    settled names both.
    """

    workload: str
    framework: str
    version: str
    device: str
    nnodes: int
    nproc: int
    repeat: int | str
    variant: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> CaseId:
        head, at, tail = text.partition("@")
        fields = head.split(":")
        if len(fields) != 6:
            raise UserError(f"case `{text}` has {len(fields)} fields, not 6: {SHAPE}")
        workload, framework, device = fields[0], fields[1], fields[2]
        for what, name in (("workload", workload), ("framework", framework), ("device", device)):
            if not is_name(name):
                raise UserError(f"case `{text}`: {what} `{name}` may hold letters, digits, `.`, `_`, `-`")
        if at and not tail:
            raise UserError(f"case `{text}`: nothing follows `@`; expected key=value,…")
        name, _, version = framework.partition("_")
        found = cls(
            workload=workload,
            framework=name,
            version=version,
            device=device,
            nnodes=_count(text, "nnodes", fields[3]),
            nproc=0 if fields[4] == AUTO else _count(text, "nproc", fields[4]),
            repeat=AUTO if fields[5] == AUTO else _count(text, "repeat", fields[5]),
            variant=_parse_variant(text, tail) if tail else (),
        )
        if len(found.dir_name().encode()) > LONGEST:
            raise UserError(f"case `{text}` is too long for a folder name ({LONGEST} bytes)")
        return found

    def __str__(self) -> str:
        return self._text(str(self.repeat))

    @property
    def identity(self) -> str:
        """Everything but `repeat`: two ids with one identity are the same case."""
        return self._text("*")

    @property
    def framework_text(self) -> str:
        return f"{self.framework}_{self.version}" if self.version else self.framework

    def with_variant(self, values: dict[str, Value]) -> CaseId:
        pairs = tuple(sorted((key, value_text(value)) for key, value in values.items()))
        return msgspec.structs.replace(self, variant=pairs)

    def dir_name(self) -> str:
        """A folder name without colons or slashes; `from_dir_name` gives the id back."""
        return str(self).replace(":", "+").replace("/", "%2F")

    @classmethod
    def from_dir_name(cls, name: str) -> CaseId:
        return cls.parse(name.replace("%2F", "/").replace("+", ":"))

    def _text(self, repeat: str) -> str:
        processes = self.nproc or AUTO
        head = f"{self.workload}:{self.framework_text}:{self.device}:{self.nnodes}:{processes}:{repeat}"
        if not self.variant:
            return head
        # `+`, `:`, `,`, `=`, `@` and `%` are escaped, `/` is not: dir_name relies on both.
        return head + "@" + ",".join(f"{key}={quote(value)}" for key, value in self.variant)


def is_name(text: str) -> bool:
    """Whether it may be part of an id, a folder's name or a host's: letters, digits, `.`, `_`, `-`."""
    return bool(text) and text[0] in _ALNUM and _IN_NAME.issuperset(text)


def quote(text: str) -> str:
    """Percent-escapes every byte that is not plain."""
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)


def unquote(text: str) -> str:
    head, *parts = text.encode("utf-8", "surrogateescape").split(b"%")
    data = head
    for part in parts:
        try:
            data += bytes([int(part[:2], 16)]) + part[2:] if len(part) >= 2 else b"%" + part
        except ValueError:
            data += b"%" + part
    return data.decode("utf-8", "surrogateescape")


def value_text(value: Value) -> str:
    """The one spelling of a parameter's value in ids and on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _count(text: str, what: str, found: str) -> int:
    if not (found.isascii() and found.isdigit() and len(found) < 10 and int(found) > 0):
        allowed = "a whole number from 1" + (" or `auto`" if what != "nnodes" else "")
        raise UserError(f"case `{text}`: {what} is `{found}`, allowed is {allowed}")
    return int(found)


def _parse_variant(text: str, tail: str) -> tuple[tuple[str, str], ...]:
    values: dict[str, str] = {}
    for part in tail.split(","):
        key, equals, value = part.partition("=")
        if not equals or not (key.isascii() and key.isidentifier()):
            raise UserError(f"case `{text}`: `{part}` is not key=value")
        if key in values:
            raise UserError(f"case `{text}`: `{key}` is given twice")
        values[key] = unquote(value)
    return tuple(sorted(values.items()))
