"""A page printed to PDF by a browser that is on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from trainmark.errors import SiteError, UserError
from trainmark.store.files import write_named

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "brave-browser")
_SECONDS = 120.0


def browser() -> str:
    """Looked for before the report is made."""
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise UserError(
            "PDF needs a browser, Chromium or Chrome, which is not on PATH; write .html and print it yourself"
        )
    return found


def write(program: str, page: str, output: Path) -> None:
    """`page` as HTML; `output` is written whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="trainmark-pdf-") as name:
        folder = Path(name)
        source, target = folder / "page.html", folder / "page.pdf"
        source.write_text(page, "utf-8")
        # The sandbox of Chromium does not work for root; what is shown is our own page, under its content policy.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        argv = [program, "--headless", "--disable-gpu", *sandbox, f"--user-data-dir={folder / 'profile'}"]
        argv += ["--no-pdf-header-footer", f"--print-to-pdf={target}", source.as_uri()]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise SiteError(f"{program} did not print the page within {_SECONDS:.0f} s") from None
        if not target.is_file():
            said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
            raise SiteError(f"{program} did not print the page: {said[-1]}")
        write_named(output, target.read_bytes())
