"""Reasons that reports give while they are made: notes on rounds, and why something is not compared or predicted."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    "no-speed": ("no speed", "没有速度"),
    "all-reduce-by-peaks": (
        "all-reduce of {megabytes:,.3g} MB of gradients: {milliseconds:,.3g} ms by the site's peaks "
        "({run}: {hosts} hosts, one rank on each)",
        "{megabytes:,.3g} MB 梯度的 all-reduce：按站点实测峰值为 {milliseconds:,.3g} ms"
        "（{run}：{hosts} 台主机，每台一个进程）",
    ),
    "all-reduce-by-peaks-of-more": (
        "all-reduce of {megabytes:,.3g} MB of gradients: {milliseconds:,.3g} ms by the site's peaks "
        "({run}: {hosts} hosts, told for two, one rank on each)",
        "{megabytes:,.3g} MB 梯度的 all-reduce：按站点实测峰值为 {milliseconds:,.3g} ms"
        "（{run}：{hosts} 台主机，折算为两台，每台一个进程）",
    ),
}
