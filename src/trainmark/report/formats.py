"""The kinds of report, by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainmark.report.records import Report

FORMATS = ("text", "html", "md", "json", "csv")
_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json", ".csv": "csv"}


def chosen(asked: str | None, output: Path | None) -> str:
    """What was asked for, else what the file's name says, else text."""
    return asked or (_SUFFIXES.get(output.suffix.lower(), "text") if output is not None else "text")


def render(report: Report, kind: str, language: str | None = None) -> str:
    """`language` None is English, but in a page, which follows its reader's browser. What programs read has none."""
    if kind == "html":
        from trainmark.report.page.render import render as page

        return page(report, language)
    if kind == "md":
        from trainmark.report import markdown

        return markdown.render(report, language or "en")
    if kind == "csv":
        from trainmark.report import sheet

        return sheet.render(report)
    if kind == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"
    from trainmark.report import text

    return text.render(report, language or "en")
