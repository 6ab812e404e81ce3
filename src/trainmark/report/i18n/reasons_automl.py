"""Reasons of `trainmark.automl`: rules and how they were met, remarks on a result, why a trial failed."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    "automl-tunnel-again": ("{host}: the tunnel to the ledger is made again", "{host}：重新建立到账本的隧道"),
    "automl-progress": (
        "{trials} trials done; {minutes:.1f} min left at most",
        "已完成 {trials} 个试验；最多还有 {minutes:.1f} 分钟",
    ),
    "automl-progress-best": (
        "{trials} trials done, best accuracy {percent:.2f} %; {minutes:.1f} min left at most",
        "已完成 {trials} 个试验，最佳正确率 {percent:.2f} %；最多还有 {minutes:.1f} 分钟",
    ),
    "automl-rule-missed": ("{rule}: {found}, wanted is {wanted}", "{rule}：{found}，要求 {wanted}"),
    "automl-rule-data": ("data", "数据"),
    "automl-rule-accuracy": ("accuracy", "正确率"),
    "automl-rule-time": ("time", "时长"),
    "automl-rule-precision": ("precision", "精度"),
    "automl-rule-batch": ("batch", "批大小"),
    "automl-data-wanted": ("real data", "真实数据"),
    "automl-data-real": ("real", "真实"),
    "automl-data-synthetic": ("synthetic", "合成"),
    "automl-accuracy-wanted": ("at least {percent:g} %", "至少 {percent:g} %"),
    "automl-accuracy-found": ("{percent:.2f} %", "{percent:.2f} %"),
    "automl-time-wanted": ("at least {time}", "至少 {time}"),
    "automl-minutes": ("{minutes:.4g} min", "{minutes:.4g} 分钟"),
    "automl-hours": ("{hours:.4g} h", "{hours:.4g} 小时"),
    "automl-precision-wanted": ("at least {bits} bits", "至少 {bits} 位"),
    "automl-precision-found": ("{dtypes}", "{dtypes}"),
    "automl-nothing-trained": ("nothing was trained", "未训练任何网络"),
    "automl-batch-wanted": ("{per_gib:g} samples per GiB of device memory", "每 GiB 设备内存 {per_gib:g} 个样本"),
    "automl-batch-met": ("as wanted", "符合要求"),
    "automl-batch-wrong": ("{batch} instead of {right:g}", "{batch}，应为 {right:g}"),
    "automl-no-device-memory": ("the devices have no memory of their own", "设备没有自己的内存"),
    "automl-synthetic": ("synthetic data: for speed alone, never valid", "合成数据：仅供测速，分数无效"),
    "automl-pretrained": (
        "pretrained: the first networks began with weights from a file",
        "预训练：最初的网络使用了文件中的权重",
    ),
    "automl-epochs-repeated": (
        "{count} epochs were told again by workers that went on with a trial; each counts once",
        "{count} 个 epoch 由接手试验的工作进程再次报告，各计一次",
    ),
    "automl-records-unreadable": (
        "{count} records could not be read and were left out",
        "{count} 条记录无法读取，未计入",
    ),
    "automl-duration-over": ("the experiment's time of {duration} is up", "实验时间 {duration} 已到"),
    "automl-all-trials-done": ("all {count} trials are done", "{count} 个试验已全部完成"),
    "automl-crashed-workers": ("it crashed {count} workers", "先后弄垮 {count} 个工作进程"),
    "automl-time-up": ("the time was up in its first epoch", "第一个 epoch 未完成时间已到"),
    "automl-out-of-memory": ("out of memory: {text}", "内存不足：{text}"),
    "automl-loss-not-finite": ("the loss is not finite", "损失不是有限值"),
}
