"""A hook of MkDocs: pages are written to be read in the repository, too; their links become those of the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority

_REPOSITORY = "https://github.com/trainmark/trainmark/blob/main/"
# The link to the page in the other language, alone on its line or before others.
_LANGUAGE = r"^\[(?:中文|中文版|English|英文)[^\]]*\]\([\w-]+(?:\.zh)?\.md\)(?:\s*$| · )"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The site has a switch of its own for the language, and files beside `docs` are in the repository only."""
    if page.file.src_uri.endswith(".zh.md"):
        # One index for both languages: whoever looks for an English word finds the English pages first.
        page.meta.setdefault("search", {"boost": 0.2})
    text = re.sub(_LANGUAGE, "", markdown, flags=re.M)
    text = re.sub(r"\]\(([\w-]+)\.zh\.md(#[^)]*)?\)", r"](\1.md\2)", text)
    text = re.sub(r"\]\((?:\.\./)+([^)]+)\)", rf"]({_REPOSITORY}\1)", text)
    return re.sub(r"\]\((notebook\.ipynb|schemas/[^)]*)\)", rf"]({_REPOSITORY}docs/\1)", text)


@event_priority(-200)
def on_post_build(config: Any, **_: Any) -> None:
    """The index for pages that are opened as files. The plugin `offline` writes it before the languages are joined."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text("utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", "utf-8")
