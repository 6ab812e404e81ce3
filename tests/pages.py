"""Packages that pages of the documentation make, file by file, for tests that follow a page to the letter."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
# A file name in backticks at the end of a line, then its content as a block.
_FILE = re.compile(r"`([\w./-]+)`:\n\n```\w*\n(.*?)```\n", re.DOTALL)


def make_package(page: str, folder: Path) -> list[str]:
    """Writes the files that the page shows, and what an installation of its package would leave; gives their names."""
    files = dict(_FILE.findall((DOCS / page).read_text(encoding="utf-8")))
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))]
    about.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n")
    return list(files)
