"""A hook of MkDocs: pages are written to be read in the repository, too; their links become those of the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority

_REPOSITORY = "https://github.com/trainmark/trainmark/blob/main/"
# The link to the page in the other language, alone on its line or before others.
_LANGUAGE = r"^\[(?:中文|中文版|English|英文)[^\]]*\]\([\w-]+(?:\.zh)?\.md\)(?:\s*$| · )"

# Chinese letters and marks.
_WIDE = "[\u2e80-\u9fff\u3001-\u3011\uff01-\uff5e]"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The site has a switch of its own for the language, and files beside `docs` are in the repository only."""
    if page.file.src_uri.endswith(".zh.md"):
        # One index for both languages: whoever looks for an English word finds the English pages first.
        page.meta.setdefault("search", {"boost": 0.2})
    text = re.sub(_LANGUAGE, "", _joined(markdown), flags=re.M)
    text = re.sub(r"\]\(([\w-]+)\.zh\.md(#[^)]*)?\)", r"](\1.md\2)", text)
    if "/" not in page.file.src_uri:
        text = re.sub(r"\]\((?:\.\./)+([^)]+)\)", rf"]({_REPOSITORY}\1)", text)
    return re.sub(r"\]\((notebook\.ipynb|schemas/[^)]*)\)", rf"]({_REPOSITORY}docs/\1)", text)


def _joined(markdown: str) -> str:
    """Chinese has no spaces between words: the end of a line of the source is none, either. Code stays as it is."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else re.sub(f"(?<={_WIDE})\n(?={_WIDE})", "", part) for part in parts)


def on_page_content(html: str, config: Any, **_: Any) -> str:
    """Pictures of the gallery: a telephone shows those that were made for one."""

    def both(found: re.Match[str]) -> str:
        narrow = f"{found[2]}-390{found[3]}.png"
        there = (Path(config.docs_dir) / "gallery" / Path(narrow).name).is_file()
        source = f'<source media="(max-width: 600px)" srcset="{narrow}">'
        return f"<picture>{source}{found[1]}</picture>" if there else found[1]

    return re.sub(r'(<img [^>]*src="([^"]*gallery/[\w-]+)((?:\.zh)?)\.png"[^>]*>)', both, html)


@event_priority(-200)
def on_post_build(config: Any, **_: Any) -> None:
    """The index for pages that are opened as files. The plugin `offline` writes it before the languages are joined."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text("utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", "utf-8")
