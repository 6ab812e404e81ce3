"""The templates of all reasons, from one catalogue per room that gives reasons."""

from __future__ import annotations

from functools import cache
from string import Formatter
from typing import NamedTuple

from trainmark.report.i18n import (
    reasons_agent,
    reasons_automl,
    reasons_campaign,
    reasons_common,
    reasons_launch,
    reasons_report,
    reasons_run,
    reasons_score,
)

CATALOGUES: tuple[dict[str, tuple[str, str]], ...] = (
    reasons_common.REASONS,
    # One line for each room, in alphabetical order.
    reasons_agent.REASONS,
    reasons_automl.REASONS,
    reasons_campaign.REASONS,
    reasons_launch.REASONS,
    reasons_report.REASONS,
    reasons_run.REASONS,
    reasons_score.REASONS,
)
REASONS: dict[str, tuple[str, str]] = {code: pair for catalogue in CATALOGUES for code, pair in catalogue.items()}


class Field(NamedTuple):
    """`{seconds:.1f}`"""

    name: str
    spec: str


@cache
def parts(template: str) -> list[tuple[str, Field | None]]:
    """Literal text, each piece followed by a field (None: the template ends there)."""
    return [
        (literal, None if name is None else Field(name, spec or ""))
        for literal, name, spec, _ in Formatter().parse(template)
    ]
