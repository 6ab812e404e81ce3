"""Colours of both themes. Series stay apart for colour-blind eyes: they differ in lightness and along blue–orange."""

from __future__ import annotations

LIGHT = {
    "bg": "#f5f6f8",
    "card": "#ffffff",
    "ink": "#1b2330",
    "muted": "#556072",
    "rule": "#dde1e8",
    "grid": "#e9ecf1",
    "link": "#005a9c",
    "focus": "#005a9c",
    "good": "#0b6b46",
    "good-bg": "#e2f3ea",
    "bad": "#a61b1b",
    "bad-bg": "#fbe6e4",
    "warn": "#7a4d00",
    "warn-bg": "#fcf0d6",
    "calm": "#47536a",
    "calm-bg": "#e9edf3",
    "window": "#e3eefa",
    "band": "#dcefe6",
    "s1": "#0072b2",
    "s2": "#c44e00",
    "s3": "#00805c",
    "s4": "#a23b87",
    "s5": "#7a6a00",
    "s6": "#5a6272",
}

DARK = {
    "bg": "#10141b",
    "card": "#181e28",
    "ink": "#e6eaf1",
    "muted": "#a3aebf",
    "rule": "#2d3645",
    "grid": "#262e3b",
    "link": "#79bdf2",
    "focus": "#79bdf2",
    "good": "#6fd3a4",
    "good-bg": "#143327",
    "bad": "#ff9c92",
    "bad-bg": "#43191a",
    "warn": "#f0c167",
    "warn-bg": "#3a2c0e",
    "calm": "#b4c0d3",
    "calm-bg": "#273041",
    "window": "#1d3048",
    "band": "#1a3a2e",
    "s1": "#56b4e9",
    "s2": "#f0894a",
    "s3": "#3cc79a",
    "s4": "#e08cc4",
    "s5": "#d9c24a",
    "s6": "#a9b3c2",
}


def css() -> str:
    """The reader's system decides, unless the page was told; paper is always light."""

    def rules(colours: dict[str, str]) -> str:
        return "".join(f"--{name}:{value};" for name, value in colours.items())

    light, dark = f"color-scheme:light;{rules(LIGHT)}", f"color-scheme:dark;{rules(DARK)}"
    return (
        f":root{{{light}}}"
        f'@media (prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{dark}}}}}'
        f':root[data-theme="dark"]{{{dark}}}'
        f"@media print{{:root:root:root{{{light}}}}}"
    )
