"""Makes `docs/gallery`: reports of this machine as pages and pictures. `gallery.py NAME …` makes those only."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "docs" / "gallery"
BROWSER = ("chromium", "--headless", "--disable-gpu", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,900")
_CASE = "mnist:pytorch:cpu:1:1:3"
# name → the commands that make its runs, and the one that writes its page.
PAGES: dict[str, tuple[list[list[str]], list[str]]] = {
    "quick": ([["run", "quick"]], ["report", "quick"]),
    "compare": ([["run", _CASE], ["run", _CASE, "--set", "batch=32"]], ["compare", "FIRST", "SECOND", "--force"]),
    "scaling": ([["run", "scaling"]], ["report", "scaling"]),
    "diagnose": ([["diagnose", "resnet50:pytorch:cpu:1:2:1", "--preset", "smoke"]], ["report", "last"]),
    "automl": ([["automl", "run", "demo"]], ["report", "last"]),
}


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory(prefix="trainmark-gallery-") as folder:
            _make(name, Path(folder))


def _make(name: str, folder: Path) -> None:
    before, page = PAGES[name]
    for argv in before:
        _trainmark(folder, *argv)
    runs = sorted((folder / "runs").iterdir(), key=lambda path: (path / "manifest.json").stat().st_mtime_ns)
    named = {"FIRST": runs[0].name, "SECOND": runs[-1].name}
    written = OUT / f"{name}.html"
    if name == "automl":
        (found,) = (folder / "runs").glob("*/results/Report_*.html")
        shutil.copy(found, written)
    else:
        _trainmark(folder, *(named.get(word, word) for word in page), "-o", str(written))
    subprocess.run([*BROWSER, f"--screenshot={OUT / name}.png", written.as_uri()], check=True, capture_output=True)


def _trainmark(folder: Path, *argv: str) -> None:
    """A result that does not count is shown as such: only bad input ends the gallery."""
    done = subprocess.run([sys.executable, "-m", "trainmark", *argv], cwd=folder, check=False)
    if done.returncode in (2, 3):
        raise SystemExit(f"trainmark {' '.join(argv)}: exit code {done.returncode}")


if __name__ == "__main__":
    main()
