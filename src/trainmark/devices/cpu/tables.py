"""The kernel's tables about a host, turned into numbers. Pure functions on their text."""

from __future__ import annotations

SHARES = ("cpu", "user", "system", "iowait", "steal")
_SECTOR = 512


def count_list(text: str | None) -> int | None:
    """How many numbers '0-3,8' names."""
    if not text:
        return None
    total = 0
    for part in text.split(","):
        low, _, high = part.partition("-")
        total += int(high or low) - int(low) + 1
    return total


def cpu_times(stat: bytes) -> list[int] | None:
    """user, nice, system, idle, iowait, irq, softirq, steal in ticks, of all processors."""
    fields = stat.partition(b"\n")[0].split()
    return [int(value) for value in fields[1:9]] if len(fields) >= 9 else None


def cpu_shares(before: list[int] | None, now: list[int] | None) -> dict[str, float | None]:
    """Shares of all processors' time; `cpu` is what the host really ran."""
    if before is None or now is None or sum(now) <= sum(before):
        return dict.fromkeys(SHARES)
    step = [max(0, late - early) for late, early in zip(now, before)]  # noqa: B905
    user, system = step[0] + step[1], step[2] + step[5] + step[6]
    total = float(sum(step))
    ran = (user + system, user, system, step[4], step[7])
    return {name: round(value / total, 4) for name, value in zip(SHARES, ran)}  # noqa: B905


def disk_bytes(table: bytes, block: set[bytes]) -> tuple[int | None, int | None]:
    """Bytes read and written by the disks of the host (partitions and stacked devices would count twice)."""
    rows = [row for row in map(bytes.split, table.splitlines()) if len(row) > 9 and row[2] in block]
    if not rows:
        return None, None
    return sum(int(row[5]) for row in rows) * _SECTOR, sum(int(row[9]) for row in rows) * _SECTOR


def net_bytes(table: bytes, cards: set[bytes]) -> tuple[int | None, int | None]:
    """Bytes received and sent by the real cards; without any (in a container), by all interfaces but `lo`."""
    rows = {}
    for line in table.splitlines()[2:]:
        name, _, rest = line.partition(b":")
        rows[name.strip()] = rest.split()
    chosen = [row for name, row in rows.items() if name in cards]
    chosen = chosen or [row for name, row in rows.items() if name != b"lo"]
    if not chosen:
        return None, None
    return sum(int(row[0]) for row in chosen), sum(int(row[8]) for row in chosen)


def stalled(pressure: bytes) -> int | None:
    """Microseconds in which some task waited for the resource."""
    for line in pressure.splitlines():
        if line.startswith(b"some"):
            return int(line.rpartition(b"total=")[2])
    return None
