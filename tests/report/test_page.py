"""The page as text: whole, safe, in order, and not too large."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from tests.report import samples
from tests.report.samples import page

_VOID = {"meta", "link", "wbr", "br", "img", "input"}


class Reader(HTMLParser):
    """Tags, attributes and text, with a complaint for each tag that is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.text.append(data)


@pytest.mark.parametrize("name", samples.PAGES)
def test_page_is_whole_and_in_order(name: str) -> None:
    found = Reader(page(samples.PAGES[name]()))
    levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(attrs.get("scope") in ("row", "col") for tag, attrs in found.tags if tag == "th")
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [str(attrs["href"])[1:] for tag, attrs in found.tags if tag == "a"]
    assert set(links) <= set(ids)
    assert all(attrs.get("tabindex") == "0" for _, attrs in found.tags if attrs.get("class") == "scroll")
    pictures = re.findall(r'<svg[^>]*role="img".*?</svg>', page(samples.PAGES[name]()), re.S)
    assert not any("<a " in one for one in pictures), "a picture hides what can be clicked from a screen reader"


def test_page_asks_nothing_of_the_network() -> None:
    html = page(samples.everything())
    found = Reader(html)
    policy = next(attrs["content"] for _, attrs in found.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert not any("src" in attrs or "style" in attrs for _, attrs in found.tags)
    assert not re.search(r"https?://|url\(|@import", html)


def test_text_from_data_stays_text() -> None:
    html = page(samples.nasty())
    found = Reader(html)
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert not any(tag == "img" or any(name.startswith("on") for name in attrs) for tag, attrs in found.tags)
    assert samples.HOSTILE in "".join(found.text)
    assert "\x1b" not in html and "\u202e" not in html


def test_page_says_what_a_reader_needs() -> None:
    text = " ".join(" ".join(Reader(page(samples.everything())).text).split())
    for needed in (
        "20261115-234558-quick-aacd",
        "2026-11-15 23:45 UTC",
        "n1: Example CPU 8375C, 8 threads, 31 GiB",
        "24.58 images/s",
        "23.42 … 25.78 (±4.9 %)",
        "3 runs, 1 allocation, node n1",
        "geometric mean, 95 % t interval on the logarithm",
        "samples of the window over all ranks ÷ longest duration of any rank",
        "First failing rank 2",
        "allocating 4,096 MiB …",
        "steal 4.1 %",
        "memory pressure 12 %",
        "loss 7.31 at step 200 is outside its band",
        "no device `nvidia` on this site",
        "no energy counter on this machine",
        "OMP_NUM_THREADS",
        "line 41 is torn",
    ):
        assert needed in text, needed


def test_a_case_that_computed_wrongly_shows_no_speed() -> None:
    html = page(samples.report(samples.invalid()))
    assert "images/s" not in html and "5,900" not in html


def test_many_cases_make_a_page_that_can_be_sent_around() -> None:
    assert len(page(samples.many(200)).encode()) <= 5_500_000
