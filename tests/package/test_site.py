"""The documentation as a site that is opened as files, in Chromium. Marker `package`: `make test-package`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.package.installed import BIN, ROOT

pytestmark = pytest.mark.package


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a broken link or a page outside the navigation is an error."""
    folder = tmp_path_factory.mktemp("site")
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    argv = [str(BIN / "mkdocs"), "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize(
    ("page", "words", "first"),
    [("index.html", "equivalent", "verdicts.html"), ("zh/index.html", "置信区间", "zh/statistics.html")],
)
def test_search_works_without_a_server_and_without_a_network(
    site: Path, browser: Any, page: str, words: str, first: str
) -> None:
    sheet, asked = browser.new_page(), []
    sheet.on("request", lambda request: asked.append(request.url))
    sheet.goto((site / page).as_uri())
    sheet.locator(".md-search__input").fill(words)
    sheet.keyboard.press("Shift")
    link = sheet.locator(".md-search-result__link").first
    assert (link.get_attribute("href") or "").partition("?")[0] == (site / first).as_uri()
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    sheet.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_window(site: Path, browser: Any, width: int) -> None:
    sheet = browser.new_page(viewport={"width": width, "height": 900})
    pages = [page for page in site.rglob("*.html") if "gallery" not in page.parent.name]
    wide = []
    for page in pages:
        sheet.goto(page.as_uri())
        if sheet.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
            wide.append(page.name)
    assert len(pages) > 100 and not wide
    sheet.close()
