"""Draws docs/rooms.svg: the rooms of the package and who imports whom. `--check` tells whether it is stale."""

from __future__ import annotations

import ast
import sys
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "trainmark"
PICTURE = ROOT / "docs" / "rooms.svg"
NODE_SIDE = ("agent", "probe")
WIDTH, ROW, BOX_WIDTH, BOX_HEIGHT, MARGIN = 1120, 100, 196, 58, 20
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1b1f24 } .name { font-weight: 600 }
  .what { font-size: 11px; fill: #57606a }
  rect { fill: #fff; stroke: #8c959f; rx: 6 } rect.node { fill: #fff8e6; stroke: #bf8700 }
  path { fill: none; stroke: #afb8c1; stroke-width: 1.3 } .page { fill: #f6f8fa; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .what { fill: #9198a1 } rect { fill: #161b22; stroke: #6e7681 }
    rect.node { fill: #2a2411; stroke: #d29922 } path { stroke: #484f58 } .page { fill: #0d1117 }
  }
"""


def rooms() -> dict[str, str]:
    """Every room with the first clause of what it says of itself."""
    found = {"api": PACKAGE / "api.py"}
    found |= {path.parent.name: path for path in sorted(PACKAGE.glob("*/__init__.py"))}
    texts = {
        name: ast.get_docstring(ast.parse(path.read_text())) or "" for name, path in found.items() if path.is_file()
    }
    return {name: text.partition("\n")[0].partition(":")[0].partition(".")[0] for name, text in texts.items()}


def imports(names: list[str]) -> dict[str, set[str]]:
    """Which rooms each room imports, at any depth and at any moment."""
    graph = grimp.build_graph("trainmark")
    found: dict[str, set[str]] = {name: set() for name in names}
    for module in graph.modules:
        parts = module.split(".")
        for other in graph.find_modules_directly_imported_by(module):
            pair = (parts[1] if len(parts) > 1 else "", other.split(".")[1] if "." in other else "")
            if pair[0] in found and pair[1] in found and pair[0] != pair[1]:
                found[pair[0]].add(pair[1])
    return found


def levels(below: dict[str, set[str]]) -> dict[str, int]:
    """0 for rooms that import none; others stand above all they import. A circle would never settle."""
    found = dict.fromkeys(below, 0)
    for _ in below:
        for name, others in below.items():
            found[name] = max((found[other] + 1 for other in others), default=0)
    return found


def reduced(below: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without what is reached by another way: fewer lines say the same."""

    def reach(name: str) -> set[str]:
        return {far for other in below[name] for far in ({other} | reach(other))}

    return {name: {one for one in others if not any(one in reach(o) for o in others)} for name, others in below.items()}


def wrap(text: str, width: int = 32, most: int = 2) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [*lines[: most - 1], lines[most - 1] + "…"] if len(lines) > most else lines


def draw() -> str:
    said = rooms()
    below = imports(list(said))
    level = levels(below)
    top = max(level.values())
    rows = [sorted(name for name in said if level[name] == number) for number in range(top, -1, -1)]
    at: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        step = (WIDTH - 2 * MARGIN) / len(row)
        for index, name in enumerate(row):
            at[name] = (MARGIN + step * (index + 0.5), MARGIN + number * ROW)
    lines, boxes = [], []
    for name, others in sorted(reduced(below).items()):
        for other in sorted(others):
            (x1, y1), (x2, y2) = at[name], at[other]
            y1, bend = y1 + BOX_HEIGHT, (y2 - y1 - BOX_HEIGHT) / 2
            lines.append(
                f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"/>'
            )
    for name, (x, y) in sorted(at.items()):
        kind = ' class="node"' if name in NODE_SIDE else ""
        boxes.append(f'<rect{kind} x="{x - BOX_WIDTH / 2:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>')
        boxes.append(f'<text class="name" text-anchor="middle" x="{x:.0f}" y="{y + 18:.0f}">{name}</text>')
        for number, line in enumerate(wrap(said[name])):
            place = f'x="{x:.0f}" y="{y + 33 + 14 * number:.0f}"'
            boxes.append(f'<text class="what" text-anchor="middle" {place}>{escape(line)}</text>')
    height = 2 * MARGIN + top * ROW + BOX_HEIGHT
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    title = "<title>The rooms of trainmark: each imports only rooms below it</title>"
    page = f'<rect class="page" width="{WIDTH}" height="{height}"/>'
    return "\n".join([head, title, f"<style>{STYLE}</style>", page, *lines, *boxes, "</svg>"]) + "\n"


def main(argv: list[str]) -> int:
    picture = draw()
    if argv == ["--check"]:
        if PICTURE.is_file() and PICTURE.read_text() == picture:
            return 0
        print("docs/rooms.svg is stale: run `python tools/rooms_picture.py`")
        return 1
    PICTURE.write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
