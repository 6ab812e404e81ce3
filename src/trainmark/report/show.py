"""Any record of a report as text: the one function that the command line, the library and a notebook call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainmark.errors import UserError
from trainmark.report.document import Document

FORMATS = ("text", "html", "md", "json", "csv")
_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json", ".csv": "csv", ".pdf": "pdf"}


def format_of(asked: str | None, output: Path | None) -> str:
    """What was asked for, else what the file's name says, else text."""
    return asked or (_SUFFIXES.get(output.suffix.lower(), "text") if output is not None else "text")


def show(record: Any, format: str = "text", language: str | None = None) -> str:
    """`record`: whatever a function of `report` gives, a list of comparisons or histories, or a document.

    `language` None is English, but in a page, which follows its reader's browser. What programs read has none: `csv`
    of a run, `json`, and `json-line`, which is the same without line breaks.
    """
    if format in ("json", "json-line", "csv"):
        from trainmark.report.render import data

        make = {"json": data.to_json, "json-line": data.to_json_line, "csv": data.to_csv}[format]
        return make(record)
    found = record if isinstance(record, Document) else document_of(record)
    if format == "html":
        from trainmark.report.render import html

        return html.render(found, language)
    if format == "pdf":
        raise UserError(
            "PDF is made of a run's report only: `trainmark report RUN -o FILE.pdf`; others can be printed from .html"
        )
    if format == "md":
        from trainmark.report.render import markdown

        return markdown.render(found, language or "en")
    from trainmark.report.render import text

    return text.render(found, language or "en")


def document_of(record: Any) -> Document:
    """The module of `kinds` is found by the record's type; most processes need one of them."""
    from importlib import import_module

    first = record[0] if isinstance(record, list) else record
    kind, several = _KINDS[type(first).__name__]
    module = import_module(f"trainmark.report.kinds.{kind}")
    found: Document = module.document(record if isinstance(record, list) or not several else [record])
    return found


# Type of a record → its module in `kinds`, and whether that shows several at once.
_KINDS = {
    "Report": ("run", False),
    "Comparison": ("compare", True),
    "History": ("history", True),
    "PredictedRun": ("predict", False),
    "Acceptance": ("acceptance", False),
    "Diagnosis": ("diagnosis", True),
    "Why": ("why", True),
    "GoodputRun": ("goodput", False),
    "Peaks": ("peaks", False),
    "Score": ("score", False),
}
