"""A hook of MkDocs: pages are written to be read in the repository, too; their links become those of the site."""

from __future__ import annotations

import re
from typing import Any

_REPOSITORY = "https://github.com/trainmark/trainmark/blob/main/"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The site has a switch of its own for the language, and files beside `docs` are in the repository only."""
    text = re.sub(r"^\[(?:中文|中文版|English|英文)[^\]]*\]\([\w-]+(?:\.zh)?\.md\)\s*$", "", markdown, flags=re.M)
    text = re.sub(r"\]\(([\w-]+)\.zh\.md(#[^)]*)?\)", r"](\1.md\2)", text)
    text = re.sub(r"\]\((?:\.\./)+([^)]+)\)", rf"]({_REPOSITORY}\1)", text)
    return re.sub(r"\]\((notebook\.ipynb|schemas/[^)]*)\)", rf"]({_REPOSITORY}docs/\1)", text)
