"""Secrets and, on request, names of users: found in the files of a run, and taken out of what is packed.

What is taken out is replaced by a marker of the same kind everywhere, and listed with its place in the original."""

from __future__ import annotations

import getpass
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from trainmark.trust.records import Original, Removal

# What known services' tokens and keys look like. Each begins with something that is quickly looked for, or refused, at
# every place of a large file; what may stand before it is looked at afterwards.
_SHAPES: dict[str, bytes] = {
    "private-key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:\\n|[^-])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    "token": (
        rb"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|"
        rb"hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|"
        rb"AIza[0-9A-Za-z_-]{35}|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|"
        rb"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"
    ),
    "url-password": rb"://(?P<value>[^/\s:@\"\\]{1,64}:[^/\s@\"\\]{1,256})@",
}
# Names that secrets are assigned to, each looked for by itself: a pattern that begins with plain letters is found ten
# times as fast as one with a choice.
_NAMES = (
    b"password", b"passwd", b"_pwd", b"secret", b"api_key", b"api-key", b"apikey", b"access_key", b"access-key",
    b"accesskey", b"token", b"credential", b"credentials",
)  # fmt: skip
_ASSIGNED = [re.compile(name + rb"[\"']?\s*[=:]\s*[\"']?(?P<value>[^\s\"'\\,;}]{6,256})") for name in _NAMES]
# What may be taken out, as it stands in markers.
KINDS = (*_SHAPES, "assigned", "random", "user")
# A token does not begin in the middle of a word.
_IN_WORD = re.compile(rb"[A-Za-z0-9_]")
# What tokenizers call their special tokens.
_NO_NAME = re.compile(rb"(?i)(?:mask|pad|eos|bos|unk|sep|cls)_$")
# Values that stand after such a name and are nobody's secret: the run's own tokens end with the run.
_NOT_SECRET = re.compile(rb"(?i)(?:null|none|true|false|default|\[removed:.*|%\w+%|\$\{?\w+\}?|[0-9.]+)$")
_OWN_TOKEN = re.compile(rb"[0-9a-f]{32}$")
_WORD = re.compile(rb"[A-Za-z0-9+=_-]{24,256}")
# Bits for each character from which a long word of a variable or an argument looks random.
_RANDOM_BITS = 4.3
_BLOCK, _OVERLAP = 4 * 1024 * 1024, 8 * 1024


class Scan(msgspec.Struct, frozen=True):
    """What is to be taken out of a file, and the file before and after."""

    removed: list[Removal]
    original: Original
    size: int
    sha256: str


# How much of a file may be a secret: shapes that cannot be anything else; also what is assigned to a telling name, in
# logs; also long random words, in variables and arguments.
Depth = Literal["shapes", "assigned", "random"]


class Search:
    """What to look for. `names`: texts that identify a user, only with `--anonymous`."""

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        shapes = [(kind, re.compile(shape)) for kind, shape in _SHAPES.items()]
        words = sorted({name for name in names if len(name) >= 3}, key=len, reverse=True)
        if words:
            any_of = b"|".join(re.escape(word) for word in words)
            shapes.append(("user", re.compile(rb"(?<![A-Za-z0-9])(?:" + any_of + rb")(?![A-Za-z0-9])")))
        self._shapes = shapes

    def spans(self, text: bytes, depth: Depth = "shapes") -> list[Removal]:
        """In the order of their places; none overlaps another."""
        found = [
            Removal(*_span(match), kind)
            for kind, shape in self._shapes
            for match in shape.finditer(text)
            if kind != "token" or not _IN_WORD.match(text[match.start() - 1 : match.start()])
        ]
        if depth != "shapes":
            lower = text.lower()
            matches = (match for shape in _ASSIGNED for match in shape.finditer(lower) if not _harmless(match))
            found += [Removal(*_span(match), "assigned") for match in matches]
        if depth == "random":
            found += [
                Removal(match.start(), len(match[0]), "random") for match in _WORD.finditer(text) if _random(match[0])
            ]
        found.sort(key=lambda one: (one.offset, -one.length))
        kept: list[Removal] = []
        for one in found:
            if not kept or one.offset >= kept[-1].offset + kept[-1].length:
                kept.append(one)
        return kept


def _span(match: re.Match[bytes]) -> tuple[int, int]:
    group = "value" if "value" in match.re.groupindex else 0
    return match.start(group), match.end(group) - match.start(group)


def _harmless(match: re.Match[bytes]) -> bool:
    """An assignment that is none of a secret, by its value or by what stands before the name."""
    before = match.string[max(0, match.start() - 5) : match.start()]
    value = match["value"]
    return bool(_NOT_SECRET.match(value) or _OWN_TOKEN.match(value) or _NO_NAME.search(before))


def _random(word: bytes) -> bool:
    """Letters in both cases and digits, evenly used; a digest in hexadecimal or a path is not."""
    if not (re.search(rb"[a-z]", word) and re.search(rb"[A-Z]", word) and re.search(rb"[0-9]", word)):
        return False
    counts = Counter(word).values()
    bits = -sum(count / len(word) * math.log2(count / len(word)) for count in counts)
    return bits >= min(_RANDOM_BITS, math.log2(len(word)) - 0.4)


def user_names(home: str | None = None) -> list[bytes]:
    """What `--anonymous` takes out: the home folder and the name of the user who packs."""
    found = [str(Path(home or Path.home()))]
    try:
        found.append(getpass.getuser())
    except (KeyError, OSError):
        pass
    # `root` names nobody, and stands in many texts.
    return [name.encode() for name in found if name not in ("/", "root", "/root")]


def scan(path: Path, search: Search, depth: Depth = "shapes") -> Scan:
    """Reads a file once, in pieces, however large it is."""
    original, after = hashlib.sha256(), hashlib.sha256()
    size = kept = 0
    removed: list[Removal] = []
    for offset, piece in _pieces(path):
        original.update(piece)
        size += len(piece)
        spans = search.spans(piece, depth)
        removed += [Removal(offset + one.offset, one.length, one.kind) for one in spans]
        for part in _without(piece, spans):
            after.update(part)
            kept += len(part)
    return Scan(removed, Original(size, original.hexdigest()), kept, after.hexdigest())


def content(path: Path, removed: list[Removal]) -> Iterator[bytes]:
    """The file with these places replaced."""
    left = list(removed)
    for offset, piece in _pieces(path):
        here = []
        while left and left[0].offset < offset + len(piece):
            one = left.pop(0)
            here.append(Removal(one.offset - offset, one.length, one.kind))
        yield from _without(piece, here)


def _without(piece: bytes, spans: list[Removal]) -> Iterator[bytes]:
    at = 0
    for one in spans:
        if one.offset > at:
            yield piece[at : one.offset]
        yield marker(one)
        at = one.offset + one.length
    if at < len(piece):
        yield piece[at:]


def marker(one: Removal) -> bytes:
    return f"[removed:{one.kind}]".encode()


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Large pieces that end at the end of a line where there is one, so that no line is cut between two."""
    offset, rest = 0, b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            rest += block
            cut = rest.rfind(b"\n") + 1
            if not cut and len(rest) < 2 * _BLOCK:
                continue
            cut = cut or len(rest) - _OVERLAP
            yield offset, rest[:cut]
            offset, rest = offset + cut, rest[cut:]
    if rest:
        yield offset, rest
