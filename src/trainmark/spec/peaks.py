"""What a site can reach, measured once and kept with it: `SITE.peaks.json` beside the site's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from trainmark.errors import UserError

SCHEMA = 1
# A product that was repeated for a shorter time says nothing of what can be kept up.
LEAST_SECONDS = 10.0
Scope = Literal["within", "between"]


class Matmul(msgspec.Struct, frozen=True):
    """FLOP/s of all `nproc` ranks of one host together, sustained over `seconds`."""

    host: str
    nproc: int
    dtype: str
    flops: float
    best: float
    seconds: float
    # Threads of each rank.
    threads: int | None = None

    @property
    def kept_up(self) -> bool:
        return self.seconds >= LEAST_SECONDS


class Bandwidth(msgspec.Struct, frozen=True):
    """Bytes per second of all `nproc` ranks of one host: memory, host_to_device or device_to_host."""

    what: str
    host: str
    nproc: int
    bandwidth: float


class Product(msgspec.Struct, frozen=True):
    """A matrix product of one size: operations per byte it must move, and the FLOP/s of a host's ranks in it."""

    host: str
    nproc: int
    dtype: str
    size: int
    intensity: float
    flops: float


class Message(msgspec.Struct, frozen=True):
    """One collective operation at one size: seconds of a message between `world` ranks, in a host or between hosts."""

    scope: Scope
    operation: str
    bytes: int
    world: int
    seconds: float
    bandwidth: float
    bus_bandwidth: float


class Line(msgspec.Struct, frozen=True):
    """seconds = latency + bytes ÷ bandwidth, fitted to messages of one operation."""

    latency: float
    bandwidth: float


class Published(msgspec.Struct, frozen=True):
    """What the vendor says that one device can do at most in a number format, and where that stands."""

    dtype: str
    flops: float
    source: str


class Peaks(msgspec.Struct, frozen=True):
    schema: int
    site: str
    device: str
    # Wall time in seconds, and the run that measured it.
    created: float
    run: str
    hosts: list[str]
    matmul: list[Matmul] = []
    bandwidths: list[Bandwidth] = []
    products: list[Product] = []
    messages: list[Message] = []
    # What was asked for and is not there, in words.
    missing: list[str] = []
    # By the formats that were measured; ranks have a device each.
    published: list[Published] = []

    def reachable(self, hosts: Sequence[str], nproc: int, dtype: str) -> float | None:
        """FLOP/s of a case's ranks together; None unless each of its hosts was measured just so."""
        known = {one.host: one.flops for one in self.matmul if (one.nproc, one.dtype) == (nproc, dtype) and one.kept_up}
        return sum(known[host] for host in hosts) if hosts and all(host in known for host in hosts) else None

    def usable(self) -> Peaks:
        """What other runs may be held against: without what was tried for a moment only."""
        matmul = [one for one in self.matmul if one.kept_up]
        known = {(one.host, one.nproc, one.dtype) for one in matmul}
        products = [one for one in self.products if (one.host, one.nproc, one.dtype) in known]
        return msgspec.structs.replace(self, matmul=matmul, products=products)

    def line(self, operation: str, scope: Scope) -> Line | None:
        """Latency and bandwidth of an operation; None without two sizes of it."""
        found = sorted(
            (one.bytes, one.seconds) for one in self.messages if (one.operation, one.scope) == (operation, scope)
        )
        return fit(found) if len({size for size, _ in found}) > 1 else None


def fit(points: Sequence[tuple[int, float]]) -> Line:
    """Through points of very different sizes: each counts by its relative error."""
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_x = sum(w * size for w, (size, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * seconds for w, (_, seconds) in zip(weights, points, strict=True)) / total
    across = sum(w * (size - mean_x) * (s - mean_y) for w, (size, s) in zip(weights, points, strict=True))
    slope = across / sum(w * (size - mean_x) ** 2 for w, (size, _) in zip(weights, points, strict=True))
    return Line(max(0.0, mean_y - slope * mean_x), 1 / slope if slope > 0 else float("inf"))


def load(path: Path) -> Peaks | None:
    """None when nothing was measured yet."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        found = msgspec.json.decode(content, type=Peaks)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: broken: {error}; remove it and run `trainmark peaks` again") from None
    if found.schema != SCHEMA:
        raise UserError(f"{path}: written with schema {found.schema}; this trainmark reads {SCHEMA}")
    return found
