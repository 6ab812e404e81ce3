"""Reasons of `trainmark.run` and `trainmark.store`: requests to stop, cases that cannot run, notes of the loop."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    "stopped": ("stopped", "已停止"),
    "stopped-by-command": ("stopped by `trainmark stop`", "被 `trainmark stop` 停止"),
    "stopped-by-caller": ("stopped by its caller", "被调用者停止"),
    "stopped-by-ctrl-c": ("stopped by Ctrl-C", "被 Ctrl-C 停止"),
    "stopped-by-sigterm": ("stopped by SIGTERM", "被 SIGTERM 停止"),
    "stopped-terminal-gone": (
        "stopped: the terminal is gone (`run --detach` would have gone on)",
        "已停止：终端已断开（用 `run --detach` 会继续运行）",
    ),
    "skipped": ("skipped", "已跳过"),
    "agent-stuck": (
        "the agent could not be ended; it is stuck in the kernel",
        "无法结束代理；它卡在内核中",
    ),
    "past-all-deadlines": ("the agent is past all its deadlines", "代理已超过所有期限"),
    "data-not-named": (
        "it needs data: name it with `data:` in the suite or `--set data=PATH`",
        "需要数据：在测试集中用 `data:` 或用 `--set data=PATH` 指定",
    ),
    "data-set-missing": (
        "data is not at {path}: `trainmark data get {name}` gets it",
        "数据不在 {path}：用 `trainmark data get {name}` 获取",
    ),
    "data-missing": (
        "data is not at {path}: check `data:` in the suite or site",
        "数据不在 {path}：检查测试集或站点中的 `data:`",
    ),
    "checkpoint-missing": (
        "checkpoint is not at {path}: check `checkpoint:` in the suite",
        "检查点不在 {path}：检查测试集中的 `checkpoint:`",
    ),
    "starter-missing": (
        "{program} is not on PATH: install it, as Debian's openmpi-bin does mpirun, or set PATH in `env:`",
        "{program} 不在 PATH 中：请安装（如 Debian 的 openmpi-bin 提供 mpirun），或在 `env:` 中设置 PATH",
    ),
    "cpu-without-units": (
        "this CPU has no {dtype} units ({units}): use dtype=fp32, or a device that has them",
        "该 CPU 没有 {dtype} 单元（{units}）：请用 dtype=fp32，或有此单元的设备",
    ),
    "rank-not-killed": (
        "warning: {case}: rank {rank} was not killed: all had ended soon after the second checkpoint; set more steps",
        "警告：{case}：进程 {rank} 未被终止：第二个检查点之后不久全部已结束；请增加步数",
    ),
    # Lines of the run's log.
    "warning": ("warning: {text}", "警告：{text}"),
    "error": ("error: {text}", "错误：{text}"),
    "waiting": ("waiting: {why}", "等待：{why}"),
    "of-case": ("{case}: {why}", "{case}：{why}"),
    "following-attempt": (
        "following attempt {attempt} of {case} round {round}, begun by an earlier controller",
        "继续跟踪先前控制端开始的 {case} 第 {round} 轮第 {attempt} 次尝试",
    ),
}
