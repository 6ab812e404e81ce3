"""A figure of a case as a badge: a label and a message on two fields."""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.report.render import escape

_COLOURS = {"good": "#2e7d32", "weak": "#8d6e00", "bad": "#b71c1c"}
_HEIGHT, _PADDING, _LETTER = 20, 6, 6.6


class Badge(msgspec.Struct, frozen=True):
    label: str
    message: str
    color: str


def of_case(case: Any, label: str | None = None) -> Badge:
    """The case's throughput with its interval; a figure that is no result stands in brackets and is not green."""
    workload = case.case.partition(":")[0]
    found = case.measurements.get("throughput")
    if str(case.state) not in ("SUCCEEDED", "SKIPPED") or found is None:
        return Badge(label or workload, str(case.state).lower(), _COLOURS["bad"])
    if found.value is None:
        return Badge(label or workload, "no result", _COLOURS["weak"])
    half = None if found.ci_low is None or found.ci_high is None else (found.ci_high - found.ci_low) / 2
    share = f" ±{100 * half / found.value:.1f} %" if half is not None and found.value else ""
    return Badge(label or workload, f"{_number(found.value)} {found.unit}{share}", _COLOURS["good"])


def to_json(badge: Badge) -> str:
    """As services that draw badges read it."""
    return msgspec.json.encode({"schemaVersion": 1, **msgspec.to_builtins(badge)}).decode() + "\n"


def to_svg(badge: Badge) -> str:
    left, right = (round(len(text) * _LETTER + 2 * _PADDING) for text in (badge.label, badge.message))
    label, message = escape.html(badge.label), escape.html(badge.message)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
        f'aria-label="{label}: {message}"><title>{label}: {message}</title>'
        f'<rect width="{left}" height="{_HEIGHT}" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{badge.color}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2:g}" y="14" textLength="{left - 2 * _PADDING}">{label}</text>'
        f'<text x="{left + right / 2:g}" y="14" textLength="{right - 2 * _PADDING}">{message}</text></g></svg>\n'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
