"""Sentences of scoring and running, found again in the text of a result, so that a report can say them in Chinese.

Records keep English text: it is data, read by people and programs alike. Whatever is not found here is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from trainmark.report.i18n.speaker import LANGUAGES, Label, Sayable, Speaker

# English → Chinese. {0}, {1} … stand for what changes, in English in this order.
_SENTENCES = {
    # Why there is no figure, or no interval.
    "no steps": "没有训练步",
    "no window": "没有窗口",
    "no events": "没有事件",
    "no {0}": "没有 {0}",
    "no run succeeded": "没有成功的运行",
    "no target is set": "未设定目标",
    "no peak is known": "峰值未知",
    "no loss was told": "没有损失值",
    "single run": "单次运行",
    "an interval needs at least 2 runs": "至少 2 次运行才有区间",
    "a value is not positive": "有一个值不是正数",
    "not told in every run": "并非每次运行都给出",
    "{0} step(s) make no window": "{0} 步构不成窗口",
    "{0} steps in {1} s: at least {2} steps and {3} s are needed": "{1} 秒内 {0} 步：至少需要 {2} 步和 {3} 秒",
    "{0} times between edges: at least {1} are needed": "边界之间只有 {0} 个时间：至少需要 {1} 个",
    "drifting: steps became {0} from step {1} to step {2}": "漂移：从第 {1} 步到第 {2} 步，步时变化 {0}",
    "two-level: steps are {0} from step {1} on": "两级：从第 {1} 步起，步时变化 {0}",
    "the steps took no time": "各步没有耗时",
    "fixed: skip {0}, steps {1}": "固定：跳过 {0} 步，计 {1} 步",
    "the fixed window (skip {0}, steps {1}) ends after the last step that can be timed, {2}": (
        "固定窗口（跳过 {0}，计 {1}）超出最后一个可计时的步 {2}"
    ),
    "the fixed window (skip {0}, steps {1}) does not begin at a step that can be timed": (
        "固定窗口（跳过 {0}，计 {1}）的起点不可计时"
    ),
    "single steps of this device cannot be timed: it works behind the host, which sees block edges only": (
        "该设备的单步无法计时：它落后于主机工作，主机只看到区块边界"
    ),
    "{0} step record(s) cannot be true, so no speed can be": "{0} 条步记录不可能为真，因此不给出速度",
    "{0} of {1} ranks told no steps: {2}": "{1} 个进程中有 {0} 个没有给出训练步：{2}",
    "{0} of {1} ranks were measured": "{1} 个进程中测量了 {0} 个",
    "rank {0} stopped at step {1} of {2}: later steps do not count": (
        "进程 {0} 在第 {1} 步停止（共 {2} 步）：之后的步不计"
    ),
    "one rank has nobody to wait for": "只有一个进程，无需等待",
    "slowest: rank {0}": "最慢：进程 {0}",
    "not every node was sampled in the window": "窗口内并非每个节点都有采样",
    "not every rank noted its peak memory": "并非每个进程都记录了峰值内存",
    "not every rank noted `matmul_flops_per_s`, its measured matrix product": (
        "并非每个进程都记录了实测矩阵乘速度 `matmul_flops_per_s`"
    ),
    "`hardware_flops_per_sample` was not noted": "未记录 `hardware_flops_per_sample`",
    "the workload does not say its FLOPs per sample": "该负载未给出每样本 FLOPs",
    "the case does not say its number format": "用例未给出数值格式",
    "the vendor's dense peak of {0} on {1} is not known to trainmark; a site says it with `vendor_peaks:`": (
        "trainmark 不知道 {1} 上 {0} 的厂商稠密峰值；可在站点文件的 `vendor_peaks:` 中给出"
    ),
    "{0} % is over 100 %: FLOPs per sample or the peak must be wrong": "{0} % 超过 100 %：每样本 FLOPs 或峰值有误",
    "against the site's peaks": "相对于站点实测峰值",
    "the loss is not finite at step {0}": "第 {0} 步的损失不是有限值",
    "not reached in {0} of {1} runs": "{1} 次运行中 {0} 次未达到目标",
    "censored at {0}": "删失于 {0}",
    "{0} of {1} run(s) made no evaluation": "{1} 次运行中 {0} 次没有评估",
    "not told by {0}": "{0} 未给出",
    # Energy.
    "nothing was sampled": "没有采样",
    "has no energy counter": "没有能耗计数器",
    "the counter was not read around the window, and power needs a window of {0} s": (
        "窗口前后未读计数器，而按功率计算需要 {0} 秒的窗口"
    ),
    "samples do not reach over the window": "采样未覆盖窗口",
    "processor packages of all nodes (RAPL)": "所有节点的处理器封装（RAPL）",
    "energy counter at the edges": "窗口边界处的能耗计数器",
    "integrated power": "功率积分",
    # How a figure was made of runs.
    "mean, 95 % t interval": "均值，95 % t 区间",
    "mean, 95 % t interval, over the means of {0} sets of nodes": "{0} 组节点各自均值的均值，95 % t 区间",
    "geometric mean, 95 % t interval on the logarithm": "几何均值，对数上的 95 % t 区间",
    "geometric mean, 95 % t interval on the logarithm, over the means of {0} sets of nodes": (
        "{0} 组节点各自均值的几何均值，对数上的 95 % t 区间"
    ),
    "median with censored runs as never, no interval": "中位数，删失的运行视为永不达到，无区间",
    "sum": "求和",
    "highest": "最大值",
    "window: {0}": "窗口：{0}",
    "window: repeated split": "窗口：反复二分",
    "{0} of {1} rounds succeeded": "{1} 轮中 {0} 轮成功",
    "{0} of {1} rounds were disturbed": "{1} 轮中 {0} 轮受干扰",
    "{0} of {1} rounds lie apart from the others and are counted": "{1} 轮中 {0} 轮偏离其他轮，仍计入",
    "{0} run, {1} allocation, node {2}": "{0} 次运行，{1} 次分配，节点 {2}",
    "{0} runs, {1} allocation, node {2}": "{0} 次运行，{1} 次分配，节点 {2}",
    "{0} runs, {1} allocation, nodes {2}": "{0} 次运行，{1} 次分配，节点 {2}",
    "{0} runs, {1} allocations, nodes {2}": "{0} 次运行，{1} 次分配，节点 {2}",
    "{0} runs, {1} allocations, {2} sets of nodes": "{0} 次运行，{1} 次分配，{2} 组节点",
    # Studies.
    "the baseline {0} has no speed, so no speed-up can be told": "基准配置 {0} 没有速度，因此无法给出加速比",
    "it was not measured": "未测量",
    "more than linear: look whether the baseline was held up": "超线性：请检查基准配置是否受阻",
    "slower than {0}": "慢于 {0}",
    "{0} is the largest multiple of {1} that fits ({2} ran out of memory)": (
        "{0} 是放得下的最大的 {1} 的倍数（{2} 时内存不足）"
    ),
    "{0} is the largest multiple of {1} that fits (no larger one was tried)": (
        "{0} 是放得下的最大的 {1} 的倍数（没有试更大的）"
    ),
    # Peaks.
    "not measured": "未测量",
    "this CPU has no {0} units ({1}) and would emulate them": "该 CPU 没有 {0} 单元（{1}），只能模拟",
    "set dtype=fp32": "请设 dtype=fp32",
    "dtype tf32 is a format of NVIDIA devices": "tf32 是 NVIDIA 设备的数值格式",
    # Disturbances.
    "the hypervisor gave {0} of the processors' time to others (limit {1})": (
        "虚拟机监控器把 {0} 的处理器时间给了别人（上限 {1}）"
    ),
    "tasks waited for a processor {0} of the time (limit {1})": "任务有 {0} 的时间在等处理器（上限 {1}）",
    "tasks waited for memory {0} of the time (limit {1})": "任务有 {0} 的时间在等内存（上限 {1}）",
    "tasks waited for disks {0} of the time (limit {1})": "任务有 {0} 的时间在等磁盘（上限 {1}）",
    "the processors' clock fell from {0} to {1} MHz (limit {2})": "处理器频率从 {0} 降到 {1} MHz（上限 {2}）",
    "other programs kept {0} processors busy (limit {1})": "其他程序占用了 {0} 个处理器（上限 {1}）",
    "round {0} was disturbed": "第 {0} 轮受干扰",
    "round {0}": "第 {0} 轮",
    "{0} more": "另有 {0} 项",
    # Bands.
    "the global batch is {0}, not {1}": "全局批量是 {0}，而不是 {1}",
    "there is none for preset {0}": "预设 {0} 没有",
    "training starts from a checkpoint": "训练从检查点开始",
    "the data is not {0}": "数据不是 {0}",
    "{0} is {1}, not {2}": "{0} 是 {1}，而不是 {2}",
    "the loss is {0} at step {1}": "第 {1} 步的损失是 {0}",
    "the mean loss over steps {0} to {1} is {2}": "第 {0} 到 {1} 步的平均损失是 {2}",
    "the reference band is {0} to {1}": "参考区间是 {0} 到 {1}",
    "the loss does not fall: {0} over the first {1} steps, {2} over the last": (
        "损失没有下降：前 {1} 步为 {0}，后段为 {2}"
    ),
    # Remarks.
    "data is synthetic": "数据是合成的",
    "a diagnostic round: its speed is no result": "诊断轮：其速度不是结果",
    "open division: changed {0}": "开放组：改变了 {0}",
    "imported from {0}": "从 {0} 导入",
    "round {0} went on from step {1} of an earlier attempt": "第 {0} 轮从先前尝试的第 {1} 步继续",
    "rank {0} ended without `finish()`": "进程 {0} 结束时没有调用 `finish()`",
    "how many samples a step trains is not known: no batch of a DataLoader was seen; say it with --batch": (
        "每步训练多少样本未知：没有看到 DataLoader 的批；用 --batch 给出"
    ),
    "rank {0}: {1} step(s) were skipped by the gradient scaler": "进程 {0}：梯度缩放器跳过了 {1} 步",
    "ended after {0} steps as asked": "按要求在 {0} 步后结束",
    # How a case ended.
    "all ranks ended well": "所有进程正常结束",
    "rank {0} exited with code {1}": "进程 {0} 退出码 {1}",
    "rank {0} was killed by signal {1} ({2})": "进程 {0} 被信号 {1}（{2}）终止",
    "rank {0} ended without speaking to the probe": "进程 {0} 结束时从未与探针通信",
    "rank {0} did not reach its first step within {1} s": "进程 {0} 在 {1} 秒内没有到达第一步",
    "rank {0} did not reach its first step within {1} s (it never spoke to the probe)": (
        "进程 {0} 在 {1} 秒内没有到达第一步（它从未与探针通信）"
    ),
    "rank {0} was silent for more than {1} s after step {2}": "进程 {0} 在第 {2} 步之后沉默超过 {1} 秒",
    "rank {0} was silent for more than {1} s before its first step ended": "进程 {0} 在第一步结束前沉默超过 {1} 秒",
    "rank {0} cannot be started": "进程 {0} 无法启动",
    "the round did not end within {0} s": "该轮在 {0} 秒内没有结束",
    "the disk is full": "磁盘已满",
    "{0} could not be written": "{0} 无法写入",
    "out of memory": "内存不足",
    "loss is {0} at step {1} on rank {2}": "进程 {2} 第 {1} 步的损失是 {0}",
    "stopped by the controller": "被控制端停止",
    "stopped by a signal": "被信号停止",
    "stopped by `trainmark stop`": "被 `trainmark stop` 停止",
    "the guardian of the agent was killed": "代理的守护进程被终止",
    "the agent failed": "代理出错",
    "the agent was gone without a result": "代理消失，没有结果",
    "the agent was gone without a result (signal {0})": "代理消失，没有结果（信号 {0}）",
    "{0} process was left by the ranks and killed": "{0} 个进程残留，已终止",
    "{0} processes were left by the ranks and killed": "{0} 个进程残留，已终止",
    "data is not at {0}": "数据不在 {0}",
    "`trainmark data get {0}` gets it": "用 `trainmark data get {0}` 获取",
    "check `data:` in the suite or site": "检查测试集或站点中的 `data:`",
    "this CPU has no {0} units ({1})": "该 CPU 没有 {0} 单元（{1}）",
    "use dtype=fp32, or a device that has them": "请用 dtype=fp32，或换用有该单元的设备",
    # Formulas.
    "steps of the rank with the fewest, all counted runs": "步数最少的进程的步数，所有计入的运行",
    "samples of every rank, all counted runs": "所有进程的样本数，所有计入的运行",
    "samples of the window over all ranks ÷ longest duration of any rank, declared phases left out": (
        "窗口内所有进程的样本数 ÷ 最慢进程的时长，不含声明的阶段"
    ),
    "samples of the window over all ranks ÷ longest duration of any rank, declared phases included": (
        "窗口内所有进程的样本数 ÷ 最慢进程的时长，含声明的阶段"
    ),
    "median of single step times of the slowest rank in the window": "窗口内最慢进程单步时间的中位数",
    "{0}th percentile of single step times of the slowest rank in the window": "窗口内最慢进程单步时间的第 {0} 百分位",
    "largest of single step times of the slowest rank in the window": "窗口内最慢进程单步时间的最大值",
    "duration of the slowest rank in the window ÷ median over ranks − 1": "窗口内最慢进程的时长 ÷ 各进程中位数 − 1",
    "time the slowest-fed rank waited for data ÷ duration of the window": "等数据最久的进程的等待时间 ÷ 窗口时长",
    "INIT_START to FINISHED (or the last event), longest over ranks": (
        "INIT_START 到 FINISHED（或最后一个事件），各进程中最长"
    ),
    "INIT_START to INIT_END, longest over ranks": "INIT_START 到 INIT_END，各进程中最长",
    "TRAIN_START to TRAIN_END, longest over ranks": "TRAIN_START 到 TRAIN_END，各进程中最长",
    "train_time − evaluation, longest over ranks": "train_time − 评估，各进程中最长",
    "train_time − evaluation − checkpoints − waiting for data, longest over ranks": (
        "train_time − 评估 − 检查点 − 等待数据，各进程中最长"
    ),
    "all samples ÷ {0}": "全部样本 ÷ {0}",
    "FLOPs per sample × throughput": "每样本 FLOPs × 吞吐量",
    "achieved_flops ÷ the vendor's dense peak of the number format, all devices": (
        "achieved_flops ÷ 该数值格式的厂商稠密峰值，所有设备"
    ),
    "hardware FLOPs per sample × throughput ÷ the same peak as mfu": "每样本硬件 FLOPs × 吞吐量 ÷ 与 mfu 相同的峰值",
    "achieved_flops ÷ measured matrix product FLOP/s of all ranks": "achieved_flops ÷ 所有进程实测矩阵乘 FLOP/s",
    "largest `peak_memory_bytes` of any rank and run": "任一进程、任一运行的最大 `peak_memory_bytes`",
    "mean share of all processors at work in the window, over nodes": "窗口内处理器工作的平均占比，按节点平均",
    "largest memory in use of any node in the window, any run": "窗口内任一节点、任一运行的最大内存占用",
    "mean processors used by trainmark's agent in the window, over nodes": (
        "窗口内 trainmark 代理占用处理器的平均数，按节点平均"
    ),
    "energy of all nodes over the window": "窗口内所有节点的能耗",
    "energy ÷ samples of the window": "能耗 ÷ 窗口内样本数",
    "loss of the last step that has one, mean over ranks": "最后一个有损失值的步的损失，按进程平均",
    "counted rounds in which the machine was not the run's own": "计入的轮中，机器并非独占的轮数",
    "seconds from the start of training to the evaluation": "从训练开始到评估的秒数",
    "samples of all ranks from the start of training to the evaluation": "从训练开始到评估的所有进程样本数",
    "seconds from the start of training to the evaluation with {0}": "从训练开始到评估达到 {0} 的秒数",
    "samples of all ranks from the start of training to the evaluation with {0}": (
        "从训练开始到评估达到 {0} 的所有进程样本数"
    ),
    "{0} of the last evaluation": "最后一次评估的 {0}",
}
_JOINTS = {"; ": "；", ": ": "："}
PHRASES = {f"said.{number}": pair for number, pair in enumerate((_SENTENCES | _JOINTS).items())}
_JOINT_KEYS = {english: key for key, (english, _) in PHRASES.items() if english in _JOINTS}
_MOST_PIECES = 41
_ANY = "((?:(?!; |: ).)+?)"  # within a sentence


def said(speak: Speaker, text: Sayable) -> Label:
    """The text with its known sentences as words that can change their language."""
    if not isinstance(text, str):
        return speak.reason(text)
    parts = tuple(_labels(speak, text))
    if len(parts) == 1:
        return parts[0]
    return Label(text if speak.language == "en" else "".join(part.text for part in parts), parts=parts)


def _labels(speak: Speaker, text: str) -> Iterator[Label]:
    """A name before a sentence, such as a host's, stays as it is; so does all of a text without any known sentence."""
    pieces = list(_pieces(text))
    if not any(key for _, key, _ in pieces):
        yield Label(text)
        return
    for piece, key, args in pieces:
        key = key or _JOINT_KEYS.get(piece, "")
        yield _phrase(speak, key, args) if key else Label(piece)


def _phrase(speak: Speaker, key: str, args: tuple[str, ...]) -> Label:
    template = PHRASES[key][LANGUAGES.index(speak.language)]
    return Label(re.sub(r"\{(\d)\}", lambda found: args[int(found[1])], template) if args else template, key, args)


def _pieces(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(text, key, args) in order, sentences as long as possible: they may hold joints themselves."""
    words = re.split("(; |: )", text)
    if len(words) > _MOST_PIECES:
        yield (text, "", ())
        return
    at = 0
    while at < len(words):
        tries = ((end, "".join(words[at:end])) for end in range(len(words), at, -2))
        end, piece, (key, args) = next(
            ((end, piece, found) for end, piece in tries if (found := _known(piece)) is not None),
            (at + 1, words[at], ("", ())),
        )
        yield (piece, key, args)
        if end < len(words):
            yield (words[end], "", ())
        at = end + 1


@lru_cache(maxsize=10_000)
def _known(text: str) -> tuple[str, tuple[str, ...]] | None:
    for key, pattern in _patterns():
        found = pattern.fullmatch(text)
        if found:
            return key, found.groups()
    return None


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Those with the most words of their own first: `no {0}` would take what is meant for `no steps`."""
    found = [(key, english) for key, (english, _) in PHRASES.items() if english not in _JOINTS]
    found.sort(key=lambda one: -len(re.sub(r"\{\d\}", "", one[1])))
    return [(key, re.compile(re.sub(r"\\\{\d\\\}", _ANY, re.escape(english)))) for key, english in found]
