"""The document around a report: style, script, words, and the rules that keep everything else out."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path

from trainmark.report.charts import palette
from trainmark.report.i18n.speaker import Speaker
from trainmark.report.markup import ALL, element, escape, heard


@cache
def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def wrap(speak: Speaker, title: str, body: str, *, forced: bool) -> str:
    """Only this style and this script may run, by their hashes, and nothing may be fetched: even markup that slipped
    through could do nothing. `forced`: the language was chosen, so the browser's does not matter."""
    style, script = palette.css() + _file("page.css"), _file("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    # Within a script element only the end tag means anything.
    words = json.dumps(list(ALL.values()), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    choice = ' data-forced="1"' if forced else ""
    return (
        f'<!doctype html>\n<html lang="{speak.language}"{choice}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{element('a', speak('skip'), ' class=skip href=#summary')}\n{body}\n"
        f'<script type="application/json" id="words">{words}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def switches(speak: Speaker) -> str:
    """Hidden until the script that serves them runs."""
    languages = "".join(
        f'<button type="button" data-lang="{code}" lang="{code}">{name}</button>'
        for code, name in (("en", "English"), ("zh", "中文"))
    )
    themes = "".join(
        element("button", speak(f"theme.{name}"), f' type="button" data-set-theme="{name}"')
        for name in ("auto", "light", "dark")
    )
    return (
        '<div class="switches" hidden>'
        f'<div role="group"{heard(speak("language"))}>{languages}</div>'
        f'<div role="group"{heard(speak("theme"))}>{themes}</div></div>'
    )
