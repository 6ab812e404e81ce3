"""Every word a report says by itself, in English and Chinese. For text from data see phrases.py."""

from __future__ import annotations

import re

import msgspec

from trainmark.report import words_automl, words_studies, words_verdicts

LANGUAGES = ("en", "zh")

# key → (English, Chinese). {0}, {1} … are filled in.
WORDS: dict[str, tuple[str, str]] = {
    "title": ("Training benchmark report", "训练基准测试报告"),
    "suite": ("Suite", "测试集"),
    "run": ("Run", "运行"),
    "machine": ("Machine", "机器"),
    "machine_is": ("{0}: {1}, {2} threads, {3}", "{0}：{1}，{2} 线程，{3}"),
    "when": ("When", "时间"),
    "kept_in": ("Kept in", "保存于"),
    "cases": ("Cases", "用例"),
    "cases_succeeded": ("Cases succeeded", "成功用例"),
    "rounds_counted": ("Rounds counted", "计入轮次"),
    "rounds_disturbed": ("Rounds disturbed", "受干扰轮次"),
    "of": ("{0} of {1}", "{0} / {1}"),
    "summary": ("Summary", "摘要"),
    "throughput_by_case": ("Throughput by case", "各用例吞吐量"),
    "failures": ("What did not succeed", "未成功的用例"),
    "disturbances": ("Disturbed rounds", "受干扰的轮次"),
    "warnings": ("Warnings", "警告"),
    "environment": ("Environment", "环境"),
    "case": ("Case", "用例"),
    "state": ("State", "状态"),
    "runs": ("Runs", "轮数"),
    "interval": ("95 % interval", "95 % 置信区间"),
    "outcome": ("Window", "窗口"),
    "fraction": ("Compute use", "算力利用率"),
    "memory": ("Peak memory", "峰值内存"),
    "band": ("Loss band", "损失参考带"),
    "disturbed": ("Disturbed", "受干扰"),
    "outlier": ("outlier", "离群"),
    "batch": ("Batch", "批大小"),
    "average": ("Mean", "均值"),
    "median": ("Median", "中位数"),
    "speedup": ("Speed-up", "加速比"),
    "efficiency": ("Efficiency", "并行效率"),
    "no_cases": ("This run has no cases.", "本次运行没有用例。"),
    "no_throughput": ("No case gave a throughput.", "没有用例给出吞吐量。"),
    "state.PENDING": ("pending", "等待中"),
    "state.RUNNING": ("running", "运行中"),
    "state.PREEMPTED": ("preempted", "被抢占"),
    "state.SUCCEEDED": ("succeeded", "成功"),
    "state.FAILED": ("failed", "失败"),
    "state.INVALID": ("invalid", "无效"),
    "state.SKIPPED": ("skipped", "已跳过"),
    "state.CANCELLED": ("cancelled", "已取消"),
    "state.TIMEOUT": ("timed out", "超时"),
    "state.LOST": ("lost", "失联"),
    "outcome.steady": ("steady", "稳定"),
    "outcome.drifting": ("drifting", "漂移"),
    "outcome.two-level": ("two levels", "双水平"),
    "outcome.too short": ("too short", "过短"),
    "outcome.fixed": ("fixed", "固定"),
    "band.inside": ("inside", "在带内"),
    "band.outside": ("outside", "在带外"),
    "band.not applicable": ("not applicable", "不适用"),
    "preset": ("Preset", "预设"),
    "division": ("Division", "组别"),
    "division.closed": ("closed", "封闭"),
    "division.open": ("open", "开放"),
    "fingerprint": ("Fingerprint", "指纹"),
    "variance": ("Interval covers", "区间涵盖"),
    "reason": ("Reason", "原因"),
    "notes": ("Remarks", "备注"),
    "measurements": ("Measurements", "测量值"),
    "measurement": ("Measurement", "测量项"),
    "value": ("Value", "数值"),
    "formula": ("Formula", "公式"),
    "method": ("Method", "方法"),
    "inputs": ("Inputs", "输入值"),
    "scorer": ("Scorer version", "评分器版本"),
    "seed": ("Seed", "随机种子"),
    "rounds": ("Rounds", "轮次"),
    "round": ("Round", "轮次"),
    "round_n": ("round {0}", "第 {0} 轮"),
    "attempt_n": ("attempt {0}", "第 {0} 次尝试"),
    "sustained": ("Sustained", "持续吞吐量"),
    "hosts": ("Hosts", "主机"),
    "window_steps": ("Steps", "窗口步骤"),
    "end_to_end": ("End to end", "总时长"),
    "first_failure": ("First failing rank", "首个失败进程"),
    "last_lines": ("Last lines", "最后输出"),
    "last_lines_of": ("last lines of rank {0}", "进程 {0} 的最后输出"),
    "kind": ("Kind", "类别"),
    "exit_code": ("Exit code", "退出码"),
    "signal": ("Signal", "信号"),
    "warning": ("warning", "警告"),
    "language": ("Language", "语言"),
    "theme": ("Theme", "主题"),
    "theme.auto": ("Auto", "自动"),
    "theme.light": ("Light", "浅色"),
    "theme.dark": ("Dark", "深色"),
    "as_table": ("As a table", "以表格显示"),
    "skip": ("Skip to the summary", "跳到摘要"),
    "made_by": ("Made by trainmark from the raw events of the run", "由 trainmark 根据本次运行的原始事件生成"),
    "more_lines": ("{0} more not shown", "另有 {0} 条未显示"),
    "chart.runs": ("Throughput of each run", "每轮吞吐量"),
    "chart.step_time": ("Step time", "单步时间"),
    "chart.histogram": ("Distribution of step times", "单步时间分布"),
    "chart.loss": ("Training loss", "训练损失"),
    "chart.evaluation": ("Evaluation: {0}", "评估：{0}"),
    "chart.flag": ("disturbed or outlier", "受干扰或离群"),
    "use": ("{1}, round {0}", "{1}，第 {0} 轮"),
    "use.cpu": ("Processors in use, round {0}", "处理器利用率，第 {0} 轮"),
    "use.mem_used": ("Memory in use, round {0}", "内存用量，第 {0} 轮"),
    "use.power_w": ("Power, round {0}", "功率，第 {0} 轮"),
    "chart.phases": ("Where the time went", "时间分布"),
    "chart.desc": (
        "{0} series. Horizontal axis from {1} to {2}, vertical axis from {3} to {4}.",
        "{0} 个序列。横轴从 {1} 到 {2}，纵轴从 {3} 到 {4}。",
    ),
    "chart.desc_rows": ("{0} rows, from {1} to {2}.", "{0} 行，从 {1} 到 {2}。"),
    "chart.legend_run": ("one run", "单轮"),
    "chart.legend_interval": ("mean and 95 % interval", "均值与 95 % 置信区间"),
    "chart.legend_loose": ("not a result", "非正式结果"),
    "chart.window": ("window", "窗口"),
    "chart.band": ("reference band", "参考带"),
    "chart.log": ("log scale", "对数刻度"),
    "chart.cut": ("higher values cut off", "超出部分已截断"),
    "axis.step": ("step", "步"),
    "axis.steps": ("steps", "步数"),
    "axis.time": ("time since start", "开始后的时间"),
    "axis.seconds": ("time", "时间"),
    "axis.loss": ("loss", "损失"),
    "phase.init": ("start-up", "启动"),
    "phase.train": ("training", "训练"),
    "phase.evaluate": ("evaluation", "评估"),
    "phase.checkpoint": ("checkpoint", "检查点"),
    "phase.data": ("data", "数据"),
    "phase.other": ("other", "其他"),
    "env.host": ("Host", "主机"),
    "env.python": ("Python", "Python"),
    "env.packages": ("Packages", "软件包"),
    "env.code": ("Code", "代码"),
    "env.environment": ("Environment variables", "环境变量"),
    "short.mfu": ("MFU", "MFU"),
    "short.matmul_fraction": ("of matmul", "（相对矩阵乘）"),
    "m.throughput": ("Throughput", "吞吐量"),
    "m.sustained_throughput": ("Sustained throughput", "持续吞吐量"),
    "m.steps": ("Steps", "步数"),
    "m.samples": ("Samples", "样本数"),
    "m.step_time_p50": ("Step time, median", "单步时间中位数"),
    "m.step_time_p90": ("Step time, 90th percentile", "单步时间 90 百分位"),
    "m.step_time_p99": ("Step time, 99th percentile", "单步时间 99 百分位"),
    "m.step_time_max": ("Step time, longest", "最长单步时间"),
    "m.straggler": ("Straggler", "最慢进程落后"),
    "m.data_wait": ("Waiting for data", "等待数据"),
    "m.end_to_end_time": ("End-to-end time", "总时长"),
    "m.init_time": ("Start-up time", "启动时间"),
    "m.train_time": ("Training time", "训练时间"),
    "m.train_no_eval_time": ("Training time without evaluation", "训练时间（不含评估）"),
    "m.pure_compute_time": ("Pure computing time", "纯计算时间"),
    "m.p_whole": ("Throughput of the whole training", "整个训练的吞吐量"),
    "m.p_train": ("Throughput without evaluation", "不含评估的吞吐量"),
    "m.p_core": ("Throughput of pure computing", "纯计算吞吐量"),
    "m.achieved_flops": ("Achieved FLOP/s", "实际 FLOP/s"),
    "m.mfu": ("MFU", "MFU"),
    "m.hfu": ("HFU", "HFU"),
    "m.matmul_fraction": ("Share of measured matmul speed", "占实测矩阵乘速度之比"),
    "m.peak_memory": ("Peak memory of a rank", "单进程峰值内存"),
    "m.cpu_utilisation": ("CPU utilisation", "CPU 利用率"),
    "m.memory_used": ("Memory in use", "内存用量"),
    "m.agent_cpu": ("CPU used by the agent", "代理占用的 CPU"),
    "m.energy": ("Energy", "能耗"),
    "m.energy_per_sample": ("Energy per sample", "单样本能耗"),
    "m.final_loss": ("Final loss", "最终损失"),
    "m.time_to_target": ("Time to target", "达标时间"),
    "m.samples_to_target": ("Samples to target", "达标样本数"),
    "m.evaluation": ("Evaluation: {0}", "评估：{0}"),
    "m.disturbed_rounds": ("Disturbed rounds", "受干扰轮次"),
}
WORDS |= words_verdicts.WORDS | words_studies.WORDS | words_automl.WORDS


class Label(msgspec.Struct, frozen=True):
    """Words that can change their language in the page. Without a key: text from data, which cannot."""

    text: str
    key: str = ""
    args: tuple[str, ...] = ()
    # Words and text one after another, in place of a key; `text` is all of them.
    parts: tuple[Label, ...] = ()


class Speaker:
    """Says words in one language."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._column = LANGUAGES.index(language)

    def __call__(self, key: str, *args: object) -> Label:
        shown = tuple(str(arg) for arg in args)
        return Label(self._fill(WORDS[key][self._column], shown), key, shown)

    def text(self, key: str, *args: object) -> str:
        return self(key, *args).text

    def phrase(self, key: str, pair: tuple[str, str], args: tuple[str, ...]) -> Label:
        """A sentence that was found in data."""
        return Label(self._fill(pair[self._column], args), key, args)

    def sentence(self, text: str) -> str:
        """Text from data in this language, as far as its sentences are known."""
        if self.language == "en":
            return text
        from trainmark.report.phrases import said

        return said(self, text).text

    def named(self, group: str, name: str) -> Label:
        """The word for a name that comes from data, or the name itself where there is none."""
        key = f"{group}.{name}"
        if group == "m" and name.startswith("evaluation_"):
            return self("m.evaluation", name.removeprefix("evaluation_").replace("_", " "))
        return self(key) if key in WORDS else Label(name.replace("_", " ") if group == "m" else name)

    @staticmethod
    def _fill(template: str, args: tuple[str, ...]) -> str:
        if not args:
            return template
        # Not str.format: what is filled in is data, and may hold braces itself.
        return re.sub(r"\{(\d)\}", lambda found: args[int(found[1])], template)
