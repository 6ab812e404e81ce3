"""The page as a browser shows it: without errors, without overflow, with labels that can be read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.report import samples
from tests.report.samples import page as page_of

WIDTHS = (1280, 390)
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_CURE = "run tools/get-chromium as root, or name one: TRAINMARK_CHROMIUM=/path/to/chromium"

OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const boxes = [...svg.querySelectorAll('text')].map(node => [node.textContent, node.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    boxes.forEach(([text, box], index) => {
      if (box.left < -1 || box.right > innerWidth + 1) found.push(`outside: ${text}`);
      for (const [other, place] of boxes.slice(index + 1)) {
        const wide = Math.min(box.right, place.right) - Math.max(box.left, place.left);
        const high = Math.min(box.bottom, place.bottom) - Math.max(box.top, place.top);
        if (wide > 1 && high > 2) found.push(`${text} × ${other}`);
      }
    });
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    named = os.environ.get("TRAINMARK_CHROMIUM")
    program = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.fail(f"no Chromium on this machine: {_CURE}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program)
        yield started
        started.close()


class Opened:
    """A page that keeps everything it complained of and asked for."""

    def __init__(self, browser: Any, html: str, folder: Path, width: int = 1280, **options: Any) -> None:
        file = folder / "report.html"
        file.write_text(html, encoding="utf-8")
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def open_all(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true })")

    def overflow(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def close(self) -> None:
        self.context.close()


@pytest.mark.parametrize("name", samples.PAGES)
def test_shows_without_errors_overflow_or_overlap(browser: Any, tmp_path: Path, name: str) -> None:
    opened = Opened(browser, page_of(samples.PAGES[name]()), tmp_path, locale="en-US")
    for width in WIDTHS:
        opened.page.set_viewport_size({"width": width, "height": 900})
        assert opened.overflow() <= 0
    opened.open_all()
    for language in ("zh", "en"):
        opened.page.click(f"[data-lang={language}]")
        for width in WIDTHS:
            opened.page.set_viewport_size({"width": width, "height": 900})
            assert opened.overflow() <= 0
            assert opened.page.evaluate(OVERLAPS) == []
    assert opened.complaints == []
    assert len(opened.requests) == 1, "a page asks for nothing but itself"
    opened.close()


def test_language_follows_the_browser_until_told(browser: Any, tmp_path: Path) -> None:
    report = samples.everything()

    def heading(opened: Opened) -> str:
        return str(opened.page.text_content("#summary h2"))

    chinese = Opened(browser, page_of(report), tmp_path, locale="zh-CN")
    assert heading(chinese) == "结果"
    chinese.open_all()
    assert "第 2 轮" in chinese.page.inner_text("#case-1")
    chinese.page.click("[data-lang=en]")
    assert heading(chinese) == "Results" and chinese.page.get_attribute("html", "lang") == "en"
    assert "结果" not in chinese.page.inner_text("body")
    chinese.close()
    forced = Opened(browser, page_of(report, "en"), tmp_path, locale="zh-CN")
    assert heading(forced) == "Results"
    forced.close()
    plain = Opened(browser, page_of(report, "zh"), tmp_path, java_script_enabled=False)
    assert heading(plain) == "结果"
    assert not plain.page.is_visible(".switches")
    plain.close()


def test_theme_follows_the_system_until_told(browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, page_of(samples.everything()), tmp_path, color_scheme="dark")

    def ground() -> str:
        return str(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = ground()
    opened.page.click("[data-set-theme=light]")
    light = ground()
    assert light != dark
    opened.page.click("[data-set-theme=auto]")
    assert ground() == dark
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert ground() == light, "paper is light"
    opened.close()


def test_pointer_reads_values_back(browser: Any, tmp_path: Path) -> None:
    """Accuracy is 30 % at step 100 and 66 % at step 400; the tip must say so."""
    opened = Opened(browser, page_of(samples.report(samples.steady()), "en"), tmp_path)
    drawing = opened.page.locator("figure", has_text="Evaluation: accuracy").locator("svg")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + box["height"] / 2)
    first, *lines = opened.page.inner_text(".tip").split("\n")
    assert first == "400" and lines == [f"round {number}: 66 %" for number in (1, 2, 3)]
    opened.page.mouse.move(0, 0)
    assert not opened.page.is_visible(".tip")
    assert opened.complaints == []
    opened.close()


def test_link_in_the_summary_opens_its_case(browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, page_of(samples.report(*samples.everything().cases, *samples.many(4).cases)), tmp_path)
    assert opened.page.get_attribute("#case-7", "open") is None
    opened.page.click("#summary a[href='#case-7']")
    opened.page.wait_for_selector("#case-7[open]")
    opened.page.emulate_media(media="print")
    opened.page.set_viewport_size({"width": 720, "height": 1000})
    assert opened.overflow() <= 0, "nothing is cut off at the edge of a sheet"
    assert len(opened.page.pdf()) > 20_000
    assert opened.page.get_attribute("#case-1", "open") is not None, "paper shows every case"
    opened.close()


def test_a_leaderboard_lets_its_reader_choose_in_both_languages(browser: Any, tmp_path: Path) -> None:
    from trainmark.report.show import show
    from trainmark.trust import leaderboard

    row = leaderboard.Row(
        question="resnet50 quick", unit="images/s", system="A", framework="pytorch", device="cpu", nodes=1, procs=2,
        division="closed", dtype="fp32", value=50.0, ci_low=49.0, ci_high=51.0, inputs=[49.5, 50.0, 50.5],
        efficiency=0.5, energy=3.0, price=1e5, currency="USD", remarks=1, case="resnet50:pytorch:cpu:1:2:3",
        bundle="a.tmk", run="r", created=0, maker="lab", trusted=True,
    )  # fmt: skip
    others = [{"question": "bert quick", "system": "B"}, {"dtype": "bf16", "division": "open", "nodes": 2}]
    rows = [row, *(msgspec.structs.replace(row, **other) for other in others)]
    opened = Opened(browser, show(leaderboard.page_of(rows, "Board"), "html"), tmp_path, locale="en-US")
    shown = "[...document.querySelectorAll('tbody tr')].filter(row => row.offsetHeight > 0).length"
    for width in WIDTHS:
        opened.page.set_viewport_size({"width": width, "height": 900})
        for number, (value, left) in enumerate((("bert quick", 1), ("B", 1), ("2 × 2", 1), ("bf16", 1), ("open", 1))):
            choice = opened.page.locator(".filters select").nth(number)
            choice.select_option(value)
            assert opened.page.evaluate(shown) == left
            choice.select_option("")
        assert opened.page.evaluate(shown) == 3
        assert opened.overflow() <= 0
    opened.page.click("[data-lang=zh]")
    assert "名次" in opened.page.inner_text("table")
    assert opened.complaints == []
    assert opened.requests == [(tmp_path / "report.html").as_uri()]
    opened.close()
