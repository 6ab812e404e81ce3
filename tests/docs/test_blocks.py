"""Blocks of code in the documentation: YAML is parsed, commands of trainmark are understood by its parsers."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trainmark.cli.main import VERBS, parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "README.zh.md", ROOT / "CONTRIBUTING.md"])
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.M | re.S)
# A line of these pages is a pattern, or has words of its own for what stands there.
_PATTERN = re.compile(r"[|…\[\]]|\.\.\.|<")


def blocks(page: Path, *kinds: str) -> Iterator[str]:
    yield from (text for kind, text in _BLOCK.findall(page.read_text("utf-8")) if kind in kinds)


def commands(page: Path) -> Iterator[list[str]]:
    for text in blocks(page, "sh", "bash", "console"):
        for line in text.replace("\\\n", " ").splitlines():
            with contextlib.suppress(ValueError):
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words[:1] == ["trainmark"] and len(words) > 1 and not _PATTERN.search(line.partition("#")[0]):
                    yield words[1 : words.index(">")] if ">" in words else words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_yaml_is_yaml(page: Path) -> None:
    for text in blocks(page, "yaml", "yml"):
        list(yaml.safe_load_all(text))


@pytest.fixture(scope="module")
def parsers() -> dict[str, argparse.ArgumentParser]:
    return {verb: parser(verb) for verb in VERBS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_understood(page: Path, parsers: dict[str, argparse.ArgumentParser]) -> None:
    """Not run: most take minutes or hosts. What they are called with is what the parsers know."""
    for words in commands(page):
        if words[0].startswith("-"):
            continue
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
            parsers[words[0]].parse_args(words[1:])
        assert said.getvalue() == "", f"{page.name}: trainmark {shlex.join(words)}: {said.getvalue()}"


def test_pages_exist_in_both_languages() -> None:
    only_english = {"decisions", "tour"}
    names = {page.name.partition(".")[0] for page in (ROOT / "docs").glob("*.md")}
    missing = {name for name in names - only_english if not (ROOT / "docs" / f"{name}.zh.md").is_file()}
    assert not missing


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = {page.name for page in (ROOT / "docs").glob("*.md") if ".zh." not in page.name}
    assert not {page for page in pages if page not in nav}


def test_one_address_of_the_project() -> None:
    """A placeholder so far, as CONTRIBUTING says, and the same in every file that has one."""
    named = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "tools/docs_hook.py", "SECURITY.md")
    named += ("docs/pipelines.md", "docs/pipelines.zh.md", "docs/compatibility.md", ".github/ISSUE_TEMPLATE/config.yml")
    named += ("src/trainmark/cli/examples/site.yaml", "src/trainmark/cli/examples/suite.yaml", "CONTRIBUTING.md")
    for name in named:
        found = set(re.findall(r"https://github\.com/(trainmark/[\w-]+|[\w-]+/trainmark)", (ROOT / name).read_text()))
        assert found == {"trainmark/trainmark"}, name


def test_pictures_are_as_they_would_be_made_now() -> None:
    from tools import pictures

    stale = [name for name, svg in pictures.made().items() if (pictures.OUT / name).read_text("utf-8") != svg]
    assert not stale, "run `python -m tools.pictures`"


def test_every_concept_has_its_picture() -> None:
    """The nine words of the page are words of the glossary, each with a picture, in both languages."""
    from tools import pictures

    for suffix in ("", ".zh"):
        shown = re.findall(r"\(pictures/(\w+)[.\w]*\)", (ROOT / "docs" / f"concepts{suffix}.md").read_text("utf-8"))
        assert shown == list(pictures.CONCEPTS)
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8").lower()
    assert not [name for name in pictures.CONCEPTS if f"**{name}**" not in glossary]


def test_chinese_has_one_word_for_each_thing() -> None:
    """The words of the glossary: a suite is 测试套件, a round 轮, what modules may import 模块边界."""
    wrong = re.compile("测试集|轮次|回合|之间的墙|信任区间")
    files = [*(ROOT / "docs").rglob("*.zh.md"), ROOT / "README.zh.md", *(ROOT / "src/trainmark/i18n").glob("*.json")]
    found = {file.name: set(wrong.findall(file.read_text("utf-8"))) for file in files}
    assert not {name: words for name, words in found.items() if words}
