"""Pictures of the documentation, in `docs/pictures`: one of each concept, and figures on statistics.

Each is a small SVG in English and in Chinese (`NAME.zh.svg`), for light and dark pages. `--check`
says which are stale.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from pathlib import Path

from tools import statistics_figures
from tools.sketch import Sketch

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def case(s: Sketch) -> None:
    fields = [
        ("mnist", s("workload", "负载")), ("pytorch", s("framework", "框架")), ("cpu", s("device", "设备")),
        ("1", s("nodes", "节点数")), ("2", s("processes", "进程数")), ("3", s("rounds", "轮数")),
    ]  # fmt: skip
    for place, (value, name) in enumerate(fields):
        s.box(10 + 104 * place, 50, 92, 40, value, mark=place == 0)
        s.text(56 + 104 * place, 112, name, small=True)
        if place:
            s.text(4 + 104 * place, 75, ":")
    s.text(
        320, 28, s("A case is what is measured. Its id is its address.", "用例是被测量的对象，其地址由六个字段组成。")
    )


def round_(s: Sketch) -> None:
    s.text(
        320,
        28,
        s(
            "A round is one repetition: training starts, warms up, is measured, ends.",
            "轮是一次重复：训练启动、预热、测量、结束。",
        ),
    )
    for place in range(3):
        top = 48 + 30 * place
        s.text(60, top + 16, s(f"round {place + 1}", f"第 {place + 1} 轮"))
        s.box(110, top, 60, 22, s("start", "启动"))
        s.box(170, top, 90, 22, s("warm-up", "预热"))
        s.box(260, top, 280, 22, s("measured steps", "测量的步"), mark=True)
        s.text(590, top + 16, f"{(2051, 2044, 2063)[place]} /s", small=True)


def attempt(s: Sketch) -> None:
    s.text(
        320,
        28,
        s(
            "An attempt is one try of a round. Only one attempt of a round counts.",
            "尝试是执行一轮的一次努力。每轮只有一次尝试计入。",
        ),
    )
    s.text(70, 70, s("round 1", "第 1 轮"))
    s.box(120, 52, 180, 30, s("attempt 1: a node was lost", "尝试 1：节点失联"), bad=True)
    s.box(320, 52, 220, 30, s("attempt 2: succeeded, counts", "尝试 2：成功，计入"), mark=True)
    s.text(70, 116, s("round 2", "第 2 轮"))
    s.box(120, 98, 220, 30, s("attempt 1: succeeded, counts", "尝试 1：成功，计入"), mark=True)


def block(s: Sketch) -> None:
    s.text(
        320,
        28,
        s(
            "A block has each case once, in random order. Slow changes hit all cases alike.",
            "每个区组含每个用例一轮，顺序随机。缓慢变化对所有用例的影响相同。",
        ),
    )
    for number, order in enumerate(("B A C", "A C B", "C B A")):
        left = 20 + 206 * number
        s.frame(left, 46, 192, 74, s(f"block {number + 1}", f"区组 {number + 1}"))
        for place, name in enumerate(order.split()):
            s.box(left + 12 + 58 * place, 74, 50, 34, name, mark=name == "A")


def run(s: Sketch) -> None:
    s.text(
        320,
        28,
        s("A run is the folder of results of one call of trainmark run.", "运行是一次 trainmark run 的结果目录。"),
    )
    s.box(20, 50, 150, 66, "runs/2026…-quick", mark=True)
    parts = [
        ("manifest.json", s("the plan", "计划")), ("journal.jsonl", s("what happened", "发生的事")),
        ("events.jsonl", s("every step", "每一步")), ("samples.jsonl", s("load, power", "负荷、功率")),
    ]  # fmt: skip
    for place, (name, what) in enumerate(parts):
        left, top = 200 + 220 * (place % 2), 50 + 36 * (place // 2)
        s.box(left, top, 110, 28, name)
        s.text(left + 160, top + 19, what, small=True)


def site(s: Sketch) -> None:
    s.text(
        320,
        28,
        s(
            "A site says where cases run: hosts, launcher, Python, containers, devices.",
            "站点说明用例在哪里运行：主机、启动器、Python、容器、设备。",
        ),
    )
    s.box(10, 66, 110, 36, s("your machine", "您的机器"))
    s.line(120, 84, 240, 84, s("ssh, Slurm, …", "ssh、Slurm 等"))
    s.frame(246, 46, 384, 76, "site.yaml")
    for place in range(3):
        s.box(264 + 120 * place, 72, 106, 36, f"node{place + 1}", mark=True)


def division(s: Sketch) -> None:
    s.text(320, 28, s("The division says which parameters may be changed.", "分组说明哪些参数可以改变。"))
    s.frame(20, 46, 290, 76, s("closed: results compare", "closed：结果可以比较"))
    s.box(36, 74, 120, 34, s("learning rate: locked", "学习率：锁定"), bad=True)
    s.box(172, 74, 120, 34, s("batch: free", "批大小：可改"), mark=True)
    s.frame(330, 46, 290, 76, s("open: what was changed is said", "open：注明改变之处"))
    s.box(346, 74, 120, 34, s("learning rate: free", "学习率：可改"), mark=True)
    s.box(482, 74, 120, 34, s("batch: free", "批大小：可改"), mark=True)


def window(s: Sketch) -> None:
    s.text(
        320,
        28,
        s(
            "The window has the steps that count. Its start is found, not guessed.",
            "窗口是计入的步。其起点是找出来的，不是猜的。",
        ),
    )
    s.area(196, 44, 404, 74)
    s.curve([(24 + 6 * n, 108 - 8 * ((n * 7) % 3) / 3 - 56 * 0.82**n) for n in range(97)])
    s.text(108, 132, s("warm-up", "预热"), small=True)
    s.text(398, 132, s("window: throughput = samples ÷ time", "窗口：吞吐量 = 样本数 ÷ 时间"), small=True)


def verdict(s: Sketch) -> None:
    s.text(
        320, 22, s("A verdict compares an interval with the margin of ±3 %.", "结论把置信区间与 ±3 % 的界限相比较。")
    )
    s.area(260, 34, 120, 100)
    rows = [
        (s("faster", "更快"), 420, 500), (s("equivalent", "等效"), 290, 350),
        (s("slower", "更慢"), 150, 230), (s("inconclusive", "无法判定"), 220, 430),
    ]  # fmt: skip
    for place, (name, low, high) in enumerate(rows):
        s.interval(low, high, 46 + 24 * place, name)
    for left, word in ((260, "−3 %"), (320, "0"), (380, "+3 %")):
        s.text(left, 148, word, small=True)


CONCEPTS: dict[str, Callable[[Sketch], None]] = {
    "case": case, "round": round_, "attempt": attempt, "block": block, "run": run, "site": site, "division": division,
    "window": window, "verdict": verdict,
}  # fmt: skip


def made() -> dict[str, str]:
    found = {}
    for chinese, suffix in ((False, ".svg"), (True, ".zh.svg")):
        for name, draw in {**CONCEPTS, **statistics_figures.FIGURES}.items():
            sketch = Sketch(chinese)
            draw(sketch)
            found[name + suffix] = sketch.svg(escape(name))
    return found


def main() -> None:
    pictures = made()
    if sys.argv[1:] == ["--check"]:
        stale = [
            name for name, svg in pictures.items() if not (OUT / name).is_file() or (OUT / name).read_text() != svg
        ]
        raise SystemExit(f"stale: {', '.join(stale)}; run `python -m tools.pictures`" if stale else 0)
    OUT.mkdir(exist_ok=True)
    for name, svg in pictures.items():
        (OUT / name).write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
