"""Reasons of campaigns: bisection, the search for the largest batch."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    "bisect-broken": (
        "{commit} gives no speed, so nothing can be held against it: {why}",
        "{commit} 没有给出速度，无法与之比较：{why}",
    ),
    "bisect-passed-over": ("{commit} gives no speed and is passed over: {why}", "{commit} 没有给出速度，跳过：{why}"),
    "bisect-slower": ("bad is {verdict} ({rounds} rounds each)", "bad：{verdict}（各 {rounds} 轮）"),
    "bisect-good": ("{commit} is good ({rounds} round(s))", "{commit} 是 good（{rounds} 轮）"),
    "bisect-bad": ("{commit} is bad ({rounds} round(s))", "{commit} 是 bad（{rounds} 轮）"),
    "bisect-no-speed": ("{case}: {state}: {why}{last} ({run})", "{case}：{state}：{why}{last}（{run}）"),
    "fit-fits": ("{case}: a batch of {batch} fits", "{case}：批大小 {batch} 放得下"),
    "fit-largest": (
        "{batch} is the largest multiple of {step} that fits ({beyond} ran out of memory)",
        "{batch} 是放得下的最大的 {step} 的倍数（{beyond} 内存不足）",
    ),
    "fit-largest-tried": (
        "{batch} is the largest multiple of {step} that fits (no larger one was tried)",
        "{batch} 是放得下的最大的 {step} 的倍数（没有试过更大的）",
    ),
    "fit-does-not-fit": ("{case}: a batch of {batch} does not fit: {why}", "{case}：批大小 {batch} 放不下：{why}"),
}
