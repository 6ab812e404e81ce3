"""How numbers are written: here and nowhere else, so that a terminal, a page and a chart say the same."""

from __future__ import annotations

import math
import time

from trainmark.score.records import Measurement

NONE = "–"
_SI = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = tuple((1024.0**power, f"{letter}iB") for power, letter in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "K")))
_TIME = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"), (1.0, 1.0, "s"), (1e-3, 1e-3, "ms"), (1e-6, 1e-6, "µs"))
_TAKES_PREFIX = frozenset(("FLOP/s", "FLOPS", "FLOP", "FLOPs", "W", "J", "Hz", "B/s", "bytes/s"))


def number(value: float) -> str:
    """Four significant digits, thousands set apart."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{value:.3e}"
    return f"{value:,.4g}" if size < 999.95 else f"{value:,.0f}"


def scale(unit: str, size: float) -> tuple[float, str]:
    """What to divide by, and the unit to write, so that `size` is easily read."""
    if unit in ("s", "seconds"):
        return next(
            ((by, name) for least, by, name in _TIME if size >= least), (1.0, "s") if size <= 0 else (1e-9, "ns")
        )
    if unit in ("B", "bytes"):
        return next(((by, name) for by, name in _BINARY if size >= by), (1.0, "B"))
    if unit == "fraction":
        return 0.01, "%"
    if unit in _TAKES_PREFIX:
        return next(((by, prefix + unit) for by, prefix in _SI if size >= by), (1.0, unit))
    return 1.0, unit


def quantity(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    if not math.isfinite(value):
        return number(value)
    by, name = scale(unit, abs(value))
    return f"{number(value / by)} {name}".rstrip()


def value(found: Measurement | None) -> str:
    return NONE if found is None else quantity(found.value, found.unit)


def interval(found: Measurement | None) -> str:
    if found is None or found.value is None or found.ci_low is None or found.ci_high is None:
        return NONE
    by, _ = scale(found.unit, abs(found.value))
    low, high = found.ci_low / by, found.ci_high / by
    ends = [number(low), number(high)]
    if low < high and math.isfinite(high - low) and ends[0] == ends[1]:
        # Runs so alike need more digits, or the interval would seem to be none.
        digits = min(9, 1 - math.floor(math.log10(high - low)))
        ends = [f"{low:,.{digits}f}", f"{high:,.{digits}f}"]
    half = half_width(found)
    return " … ".join(ends) + ("" if half is None else f" (±{_percent(half)} %)")


def span(low: float | None, high: float | None) -> str:
    """The ends of an interval, whose unit stands elsewhere."""
    return NONE if low is None or high is None else f"{number(low)} … {number(high)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share >= 0.0005 or share == 0 else f"{100 * share:.1g}"


def half_width(found: Measurement) -> float | None:
    """Of an interval, relative. Intervals of rates are even on the logarithm."""
    if found.ci_low is None or found.ci_high is None or not 0 < found.ci_low <= found.ci_high < math.inf:
        return None
    return float((found.ci_high / found.ci_low) ** 0.5 - 1)


def moment(seconds: float | None) -> str:
    """Wall time, to the minute."""
    if seconds is None:
        return NONE
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return NONE


def axis(unit: str, size: float) -> tuple[float, str, str]:
    """Divisor, what follows each tick, and the unit written once beside an axis that reaches `size`."""
    by, name = scale(unit, size)
    if by != 1.0 or size < 1e5:
        return by, "", name
    return next((big, letter, name) for big, letter in _SI if size >= big)


def tick(value: float, step: float) -> str:
    """As many decimals as the distance between two ticks asks for."""
    if value and (abs(value) >= 1e9 or step < 1e-6):
        return f"{value:.3g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:,.{decimals}f}"
