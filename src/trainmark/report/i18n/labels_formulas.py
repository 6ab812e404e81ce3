"""The formulas of figures, by the name of the figure. In English they are part of their definition."""

from __future__ import annotations

from trainmark.score.figures.definitions import DEFINITIONS

_STEP_TIME = "窗口内最慢进程单步时间的"
_CHINESE: dict[str, str] = {
    "steps": "步数最少的进程的步数，所有计入的运行",
    "samples": "所有进程的样本数，所有计入的运行",
    "throughput": "窗口内所有进程的样本数 ÷ 最慢进程的时长，不含声明的阶段",
    "sustained_throughput": "窗口内所有进程的样本数 ÷ 最慢进程的时长，含声明的阶段",
    "step_time_p50": f"{_STEP_TIME}中位数",
    "step_time_p90": f"{_STEP_TIME}第 90 百分位",
    "step_time_p99": f"{_STEP_TIME}第 99 百分位",
    "step_time_max": f"{_STEP_TIME}最大值",
    "straggler": "窗口内最慢进程的时长 ÷ 各进程中位数 − 1",
    "data_wait": "等数据最久的进程的等待时间 ÷ 窗口时长",
    "end_to_end_time": "INIT_START 到 FINISHED（或最后一个事件），各进程中最长",
    "init_time": "INIT_START 到 INIT_END，各进程中最长",
    "train_time": "TRAIN_START 到 TRAIN_END，各进程中最长",
    "train_no_eval_time": "train_time − 评估，各进程中最长",
    "pure_compute_time": "train_time − 评估 − 检查点 − 等待数据，各进程中最长",
    "p_whole": "全部样本 ÷ train_time",
    "p_train": "全部样本 ÷ train_no_eval_time",
    "p_core": "全部样本 ÷ pure_compute_time",
    "achieved_flops": "每样本 FLOPs × 吞吐量",
    "mfu": "achieved_flops ÷ 该数值格式的厂商稠密峰值，所有设备",
    "hfu": "每样本硬件 FLOPs × 吞吐量 ÷ 与 mfu 相同的峰值",
    "matmul_fraction": "achieved_flops ÷ 所有进程实测矩阵乘 FLOP/s",
    "peak_memory": "任一进程、任一运行的最大 `peak_memory_bytes`",
    "cpu_utilisation": "窗口内处理器工作的平均占比，按节点平均",
    "memory_used": "窗口内任一节点、任一运行的最大内存占用",
    "agent_cpu": "窗口内 trainmark 代理占用处理器的平均数，按节点平均",
    "energy": "窗口内所有节点的能耗",
    "energy_per_sample": "能耗 ÷ 窗口内样本数",
    "final_loss": "最后一个有损失值的步的损失，按进程平均",
    "disturbed_rounds": "计入的轮中，机器并非独占的轮数",
}
_FROM_START = "from the start of training to the evaluation"
LABELS: dict[str, tuple[str, str]] = {
    **{f"formula.{name}": (one.formula, _CHINESE[name]) for name, one in DEFINITIONS.items()},
    "formula.evaluation": ("`{0}` of the last evaluation", "最后一次评估的 `{0}`"),
    "formula.time_to_target": (f"seconds {_FROM_START} with {{0}}", "从训练开始到评估达到 {0} 的秒数"),
    "formula.samples_to_target": (
        f"samples of all ranks {_FROM_START} with {{0}}",
        "从训练开始到评估达到 {0} 的所有进程样本数",
    ),
    "formula.time_to_no_target": (f"seconds {_FROM_START}", "从训练开始到评估的秒数"),
    "formula.samples_to_no_target": (f"samples of all ranks {_FROM_START}", "从训练开始到评估的所有进程样本数"),
}
