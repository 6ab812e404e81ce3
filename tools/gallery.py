"""Makes `docs/gallery`: reports of this machine as pages and pictures. `gallery.py NAME …` makes those only, and
`gallery.py pictures` the pictures of the pages that are there.

The acceptance needs several hosts, which the lab makes: that one runs as root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "gallery"
LAB = Path("/var/lib/trainmark-lab/gallery")
# Of a desk and of a telephone, and in Chinese: end of the name → width and language.
SHEETS = {"": (1280, "en-US"), "-390": (390, "en-US"), ".zh": (1280, "zh-CN"), "-390.zh": (390, "zh-CN")}
# How much of a page its picture shows, in pixels: down to what the page is about.
HEIGHT, HEIGHTS = 900, {"diagnose": 1500, "automl": 1500}
_MNIST = "mnist:pytorch:cpu:1:1:5"
# name → the commands that make its runs; the last writes PAGE, or is followed by a report of the newest run.
PAGES: dict[str, list[list[str]]] = {
    "quick": [["run", "quick"]],
    "compare": [
        [
            *("compare", "--live", _MNIST, "--preset", "smoke", "--seconds", "3", "--set-b", "batch=128"),
            *("-o", "PAGE"),
        ]
    ],
    "scaling": [["run", "scaling"]],
    "diagnose": [["diagnose", "resnet50:pytorch:cpu:1:2:1", "--preset", "smoke"]],
    "automl": [["automl", "run", "demo"]],
    "accept": [
        [
            *("accept", "--site", str(LAB / "site.yaml"), "--one-at-a-time", "--case", _MNIST, "--preset", "smoke"),
            *("--seconds", "2", "--time", "4m", "-o", "PAGE"),
        ]
    ],
}


def main() -> None:
    OUT.mkdir(exist_ok=True)
    if sys.argv[1:] == ["pictures"]:
        for page in sorted(OUT.glob("*.html")):
            _pictures(page)
        return
    for name in sys.argv[1:] or PAGES:
        page = OUT / f"{name}.html"
        with tempfile.TemporaryDirectory(prefix="trainmark-gallery-") as folder:
            if name == "accept":
                _lab("up", "--hosts", "3", "--install")
            try:
                _make(PAGES[name], page, Path(folder))
            finally:
                if name == "accept":
                    _lab("down")
            page.write_text(_without_places(page.read_text("utf-8"), Path(folder)), "utf-8")
        _pictures(page)


def _make(commands: list[list[str]], page: Path, folder: Path) -> None:
    for argv in commands:
        _trainmark(folder, *(str(page) if word == "PAGE" else word for word in argv))
    if "PAGE" in commands[-1]:
        return
    own = list((folder / "runs").glob("*/results/Report_*.html"))
    if own:
        shutil.copy(own[0], page)
    else:
        _trainmark(folder, "report", "last", "-o", str(page))


def _without_places(text: str, folder: Path) -> str:
    """Where things lie on the machine that made a page is nobody's matter, and neither are its variables."""
    for place, name in ((folder, "~"), (ROOT, "~/trainmark"), (LAB, "~/lab"), (Path.home(), "~")):
        text = text.replace(str(place), name)
    plain = _plain().values()
    told = [name for name, value in os.environ.items() if len(value) > 15 and value in text and value not in plain]
    if told:
        raise SystemExit(f"the page tells the value of {', '.join(told)}")
    return text


def _pictures(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for suffix, (width, locale) in SHEETS.items():
            size = {"width": width, "height": HEIGHTS.get(page.stem, HEIGHT)}
            sheet = browser.new_page(viewport=size, locale=locale)
            sheet.goto(page.as_uri())
            sheet.screenshot(path=page.with_name(f"{page.stem}{suffix}.png"))
        browser.close()


def _lab(verb: str, *options: str) -> None:
    subprocess.run([sys.executable, "-m", "lab", verb, "--name", "gallery", *options], cwd=ROOT, check=True)


def _trainmark(folder: Path, *argv: str) -> None:
    """A result that does not count is shown as such: only bad input ends the gallery."""
    done = subprocess.run([sys.executable, "-m", "trainmark", *argv], cwd=folder, env=_plain(), check=False)
    if done.returncode in (2, 3):
        raise SystemExit(f"trainmark {' '.join(argv)}: exit code {done.returncode}")


def _plain() -> dict[str, str]:
    """Variables for commands whose pages show them."""
    return {"PATH": os.defpath, "HOME": str(Path.home()), "LANG": "C.UTF-8"}


if __name__ == "__main__":
    main()
