"""What reports themselves say of runs and cases, in English and Chinese."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    # Remarks on a case.
    "imported-from": ("imported from {format}", "从 {format} 导入"),
    "not-told-by": ("not told by {format}", "{format} 未给出"),
    "data-synthetic": ("data is synthetic", "数据是合成的"),
    "diagnostic-round": ("a diagnostic round: its speed is no result", "诊断轮：其速度不是结果"),
    "open-division": ("open division: changed {changed}", "开放组：改变了 {changed}"),
    "round-went-on": (
        "round {round} went on from step {step} of an earlier attempt",
        "第 {round} 轮从先前尝试的第 {step} 步继续",
    ),
    "ended-without-finish": ("rank {ranks} ended without `finish()`", "进程 {ranks} 结束时没有调用 `finish()`"),
    "round-disturbed": ("round {round} was disturbed: {why}", "第 {round} 轮受干扰：{why}"),
    "first-of-several": ("{why}; {more} more", "{why}；另有 {more} 项"),
    "in-round": ("round {round}: {why}", "第 {round} 轮：{why}"),
    "variance-level": ("{runs}, {allocations}, {nodes}", "{runs}，{allocations}，{nodes}"),
    "one-run": ("1 run", "1 次运行"),
    "several-runs": ("{count} runs", "{count} 次运行"),
    "one-allocation": ("1 allocation", "1 次分配"),
    "several-allocations": ("{count} allocations", "{count} 次分配"),
    "one-node": ("node {node}", "节点 {node}"),
    "several-nodes": ("nodes {first}–{last}", "节点 {first}–{last}"),
    "sets-of-nodes": ("{count} sets of nodes", "{count} 组节点"),
    "events-missing": (
        "{folder}: {recorded} events were recorded, {found} are there",
        "{folder}：记录了 {recorded} 个事件，现有 {found} 个",
    ),
    # Studies and contests.
    "baseline-without-speed": (
        "the baseline {baseline} has no speed, so no speed-up can be told: {why}",
        "基准配置 {baseline} 没有速度，因此无法给出加速比：{why}",
    ),
    "not-measured": ("it was not measured", "未测量"),
    "case-state": ("{state}", "{state}"),
    "nothing-measured": ("nothing was measured", "没有测量"),
    # Diagnoses.
    "of-mode": ("{mode}: {why}", "{mode}：{why}"),
    "classes-left-out": ("round {round}: {why}; its classes are left out", "第 {round} 轮：{why}；其分类未计入"),
    "no-shared-gradients": (
        "no module shares its gradients by DistributedDataParallel: there is no round without communication",
        "没有模块通过 DistributedDataParallel 共享梯度：没有不带通信的轮",
    ),
    "no-trace-of-ranks": ("no trace of rank {ranks}", "没有进程 {ranks} 的跟踪"),
    "trace-too-large": ("{file}: larger than {gib} GiB", "{file}：大于 {gib} GiB"),
    "trace-unreadable": ("{file}: cannot be read: {error}", "{file}：无法读取：{error}"),
    "trace-without-steps": ("rank {rank}: no step is marked in the trace", "进程 {rank}：跟踪中没有标记训练步"),
    "few-steps-traced": (
        "rank {rank}: {steps} of {wanted} steps were traced",
        "进程 {rank}：{wanted} 步中跟踪了 {steps} 步",
    ),
    "no-rank-told-a-step": ("no rank told a step", "没有进程给出训练步"),
    # Predictions.
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
    # Histories.
    "no-speed": ("no speed", "没有速度"),
    # Acceptances.
    "round-state": ("it is {state}", "状态为 {state}"),
    "no-bandwidth": ("it told no bandwidth", "没有给出带宽"),
    "told-no-speed": ("it told no speed", "没有给出速度"),
    "its-network": ("its network: {why}", "其网络：{why}"),
    "disturbed-rounds-count": (
        "{count} of {rounds} rounds were disturbed; they count",
        "{rounds} 轮中 {count} 轮受干扰，仍计入",
    ),
    "noisy-nodes": (
        "noisy: only a loss of {percent:.3g} % and more would have been found for certain on {count} of {nodes} "
        "nodes; more blocks or a quieter site would find less",
        "噪声大：在 {nodes} 个节点中的 {count} 个上，只有 {percent:.3g} % 以上的损失才能确定检出；"
        "更多区组或更安静的站点可检出更小的损失",
    ),
    "low-peak": (
        "{node}: its matrix products reached {percent:.3g} % less than the median node's when peaks were measured",
        "{node}：测量峰值时，其矩阵乘比中位节点低 {percent:.3g} %",
    ),
    # Comparisons.
    "side-invalid": ("{side} is INVALID: {why}", "{side} 无效：{why}"),
    "side-without-result": ("{side} ({state}) has no {metric}: {why}", "{side}（{state}）没有 {metric}：{why}"),
    "side-not-finished": (
        "{side} is not finished ({state}): compared by force, as far as it is there",
        "{side} 未完成（{state}）：强制比较已有部分",
    ),
    "other-workload": (
        "the workload itself was changed (version {before} → {after}), so speeds are of different work; "
        "--force compares all the same",
        "负载本身已改变（版本 {before} → {after}），速度对应不同的工作；--force 可强制比较",
    ),
    "workload-changed": ("the workload itself was changed", "负载本身已改变"),
    "only-in": ("only in {side}", "仅在 {side} 中"),
    "never-same-nodes": (
        "A and B never ran on the same nodes: part of the difference may be that of the nodes",
        "A 与 B 从未在相同节点上运行：部分差异可能来自节点",
    ),
    "fingerprints-differ": ("fingerprints differ ({a}, {b}): {changes}", "指纹不同（{a}，{b}）：{changes}"),
    "side-weak": (
        "{side}: {state}, {counted} of {rounds} rounds count",
        "{side}：{state}，{rounds} 轮中计入 {counted} 轮",
    ),
    "side-weak-why": (
        "{side}: {state}, {counted} of {rounds} rounds count: {why}",
        "{side}：{state}，{rounds} 轮中计入 {counted} 轮：{why}",
    ),
    "side-disturbed": ("{side}: round {round} was disturbed: {why}", "{side}：第 {round} 轮受干扰：{why}"),
    "changed": ("{what}: {before} → {after}", "{what}：{before} → {after}"),
}
