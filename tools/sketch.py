"""A small SVG: boxes, text, curves; a card of its own, so that it can be read on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

WIDTH, HEIGHT = 640, 156
_STYLE = """\
.card{fill:#fff;stroke:#d0d7de}.box{fill:#f3f5f7;stroke:#8a949e}.mark{fill:#cdeee9;stroke:#00796b}.bad{fill:#fbe0dc;stroke:#b3402f}
.area{fill:#e2f3f0}.frame{fill:none;stroke:#8a949e;stroke-dasharray:4 3}.line{fill:none;stroke:#00796b;stroke-width:2}
.miss{fill:none;stroke:#b3402f;stroke-width:2}.dot{fill:#00796b}.missdot{fill:#b3402f}.axis{stroke:#8a949e}
text{fill:#1f2328;font:13px system-ui,"Noto Sans CJK SC","Microsoft YaHei",sans-serif;text-anchor:middle}
.small{font-size:11px;fill:#57606a}
.left{text-anchor:start}
@media(prefers-color-scheme:dark){.card{fill:#1b2026;stroke:#3b444d}.box{fill:#2a3138;stroke:#8a949e}.mark{fill:#0f4a43;stroke:#4db6ac}
.bad{fill:#54251e;stroke:#e2826f}.area{fill:#12332f}.line{stroke:#4db6ac}.miss{stroke:#e2826f}.dot{fill:#4db6ac}.missdot{fill:#e2826f}
text{fill:#e6edf3}.small{fill:#9aa4ae}}"""


class Sketch:
    def __init__(self, chinese: bool, height: int = HEIGHT) -> None:
        self._chinese, self.height = chinese, height
        self._parts: list[str] = []

    def __call__(self, english: str, chinese: str) -> str:
        return chinese if self._chinese else english

    def text(self, x: float, y: float, words: str, *, small: bool = False, left: bool = False) -> None:
        names = " ".join(name for name, wanted in (("small", small), ("left", left)) if wanted)
        named = f' class="{names}"' if names else ""
        self._parts.append(f'<text x="{x:g}" y="{y:g}"{named}>{escape(words)}</text>')

    def box(self, x: float, y: float, w: float, h: float, words: str, *, mark: bool = False, bad: bool = False) -> None:
        kind = "mark" if mark else "bad" if bad else "box"
        self._parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4"/>')
        # What would not fit between its walls is written smaller.
        self.text(x + w / 2, y + h / 2 + 4, words, small=_width(words) * 7.2 > w - 8)

    def frame(self, x: float, y: float, w: float, h: float, title: str) -> None:
        self._parts.append(f'<rect class="frame" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6"/>')
        self.text(x + w / 2, y + 18, title, small=True)

    def area(self, x: float, y: float, w: float, h: float) -> None:
        self._parts.append(f'<rect class="area" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, words: str = "", kind: str = "line") -> None:
        self._parts.append(f'<line class="{kind}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')
        if words:
            self.text((x1 + x2) / 2, y1 - 8, words, small=True)

    def curve(self, points: Iterable[tuple[float, float]], kind: str = "line") -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline class="{kind}" points="{path}"/>')

    def dot(self, x: float, y: float, kind: str = "dot") -> None:
        self._parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')

    def interval(self, low: float, high: float, y: float, words: str = "", *, miss: bool = False) -> None:
        self.line(low, y, high, y, kind="miss" if miss else "line")
        self.dot((low + high) / 2, y, "missdot" if miss else "dot")
        if words:
            self.text(20, y + 4, words, small=True, left=True)

    def svg(self, name: str) -> str:
        card = f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="8"/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-label="{name}">'
            f"<style>{_STYLE}</style>{card}{''.join(self._parts)}</svg>\n"
        )


def _width(words: str) -> float:
    return sum(1.8 if ord(letter) > 0x2E80 else 1 for letter in words)
