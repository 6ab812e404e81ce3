"""Reasons and methods that scoring gives, in English and Chinese."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    # Why there is no figure, or no interval.
    "no-steps": ("no steps", "没有训练步"),
    "no-window": ("no window", "没有窗口"),
    "no-events": ("no events", "没有事件"),
    "no-mark": ("no {mark}", "没有 {mark}"),
    "no-figure": ("no {figure}", "没有 {figure}"),
    "no-run-succeeded": ("no run succeeded", "没有成功的运行"),
    "no-target": ("no target is set", "未设定目标"),
    "no-peak": ("no peak is known", "峰值未知"),
    "no-loss": ("no loss was told", "没有损失值"),
    "not-in-every-run": ("not told in every run", "并非每次运行都给出"),
    "interval-needs-runs": ("an interval needs at least 2 runs", "至少 2 次运行才有区间"),
    "value-not-positive": ("a value is not positive", "有一个值不是正数"),
    "impossible-steps": (
        "{count} step record(s) cannot be true, so no speed can be",
        "{count} 条步记录不可能为真，因此不给出速度",
    ),
    "silent-ranks": (
        "{count} of {world} ranks told no steps: {ranks}",
        "{world} 个进程中有 {count} 个没有给出训练步：{ranks}",
    ),
    "ranks-not-measured": ("{count} of {world} ranks were measured", "{world} 个进程中测量了 {count} 个"),
    "ranks-stopped-early": (
        "rank {ranks} stopped at step {step} of {last}: later steps do not count",
        "进程 {ranks} 在第 {step} 步停止（共 {last} 步）：之后的步不计",
    ),
    "samples-unknown": (
        "how many samples a step trains is not known: no batch of a DataLoader was seen; say it with --batch",
        "每步训练多少样本未知：没有看到 DataLoader 的批；用 --batch 给出",
    ),
    "optimizer-and-loaders-differ": (
        "rank {rank}: the optimizer stepped {updates} times, the loader's {batches} batches make {steps} steps "
        "({samples} samples): what a step is cannot be told, so no speed is given",
        "进程 {rank}：优化器更新了 {updates} 次，而加载器的 {batches} 个批构成 {steps} 步（{samples} 个样本）："
        "无法判断一步是什么，因此不给出速度",
    ),
    "batch-and-loaders-differ": (
        "rank {rank}: {steps} steps of batch {batch} make {expected} samples, its loaders gave {samples} "
        "in {batches} batches: more than {percent:.0f}% apart, so no speed is given; check --batch",
        "进程 {rank}：{steps} 步、批大小 {batch} 应有 {expected} 个样本，而加载器以 {batches} 个批给出 {samples} 个："
        "相差超过 {percent:.0f}%，因此不给出速度；请检查 --batch",
    ),
    "single-rank": ("one rank has nobody to wait for", "只有一个进程，无需等待"),
    "nodes-not-sampled": ("not every node was sampled in the window", "窗口内并非每个节点都有采样"),
    "peak-memory-not-noted": ("not every rank noted its peak memory", "并非每个进程都记录了峰值内存"),
    "matmul-not-noted": (
        "not every rank noted `matmul_flops_per_s`, its measured matrix product",
        "并非每个进程都记录了实测矩阵乘速度 `matmul_flops_per_s`",
    ),
    "no-hardware-flops": ("`hardware_flops_per_sample` was not noted", "未记录 `hardware_flops_per_sample`"),
    "no-flops-per-sample": ("the workload does not say its FLOPs per sample", "该负载未给出每样本 FLOPs"),
    "no-number-format": ("the case does not say its number format", "用例未给出数值格式"),
    "vendor-peak-unknown": (
        "the vendor's dense peak of `{dtype}` on `{device}` is not known to trainmark; "
        "a site says it with `vendor_peaks:`",
        "trainmark 不知道 `{device}` 上 `{dtype}` 的厂商稠密峰值；可在站点文件的 `vendor_peaks:` 中给出",
    ),
    "over-everything": (
        "{percent:.0f} % is over 100 %: FLOPs per sample or the peak must be wrong",
        "{percent:.0f} % 超过 100 %：每样本 FLOPs 或峰值有误",
    ),
    "of-peak": ("of {flops:.4g} FLOP/s, {source}", "相对于 {flops:.4g} FLOP/s，{source}"),
    "against-site-peaks": ("against the site's peaks", "相对于站点实测峰值"),
    "slowest-rank": ("slowest: rank {rank}", "最慢：进程 {rank}"),
    # Windows.
    "steps-make-no-window": ("{steps} step(s) make no window", "{steps} 步构不成窗口"),
    "window-too-short": (
        "{steps} steps in {seconds:.1f} s: at least {least_steps} steps and {least_seconds:.0f} s are needed",
        "{seconds:.1f} 秒内 {steps} 步：至少需要 {least_steps} 步和 {least_seconds:.0f} 秒",
    ),
    "few-edges": (
        "{count} times between edges: at least {least} are needed",
        "边界之间只有 {count} 个时间：至少需要 {least} 个",
    ),
    "drifting-slower": (
        "drifting: steps became {percent:.1f} % slower from step {first} to step {last}",
        "漂移：从第 {first} 步到第 {last} 步，训练步变慢 {percent:.1f} %",
    ),
    "drifting-faster": (
        "drifting: steps became {percent:.1f} % faster from step {first} to step {last}",
        "漂移：从第 {first} 步到第 {last} 步，训练步变快 {percent:.1f} %",
    ),
    "two-level-slower": (
        "two-level: steps are {percent:.1f} % slower from step {step} on",
        "两级：从第 {step} 步起，训练步慢 {percent:.1f} %",
    ),
    "two-level-faster": (
        "two-level: steps are {percent:.1f} % faster from step {step} on",
        "两级：从第 {step} 步起，训练步快 {percent:.1f} %",
    ),
    "steps-took-no-time": ("the steps took no time", "各步没有耗时"),
    "steps-not-timed": (
        "single steps of this device cannot be timed: it works behind the host, which sees block edges only",
        "该设备的单步无法计时：它落后于主机工作，主机只看到区块边界",
    ),
    "window-ends-late": (
        "the fixed window (skip {skip}, steps {steps}) ends after the last step that can be timed, {last}",
        "固定窗口（跳过 {skip}，计 {steps}）超出最后一个可计时的步 {last}",
    ),
    "window-begins-between": (
        "the fixed window (skip {skip}, steps {steps}) does not begin at a step that can be timed",
        "固定窗口（跳过 {skip}，计 {steps}）的起点不可计时",
    ),
    "repeated-split": ("repeated split", "反复二分"),
    "fixed-window": ("fixed: skip {skip}, steps {steps}", "固定：跳过 {skip} 步，计 {steps} 步"),
    "window-method": ("window: {method}", "窗口：{method}"),
    # How a figure was made of runs.
    "sum": ("sum", "求和"),
    "highest": ("highest", "最大值"),
    "single-run": ("single run", "单次运行"),
    "mean": ("mean, 95 % t interval", "均值，95 % t 区间"),
    "mean-over-sets": (
        "mean, 95 % t interval, over the means of {sets} sets of nodes",
        "{sets} 组节点各自均值的均值，95 % t 区间",
    ),
    "geometric-mean": ("geometric mean, 95 % t interval on the logarithm", "几何均值，对数上的 95 % t 区间"),
    "geometric-mean-over-sets": (
        "geometric mean, 95 % t interval on the logarithm, over the means of {sets} sets of nodes",
        "{sets} 组节点各自均值的几何均值，对数上的 95 % t 区间",
    ),
    "censored-median": (
        "median with censored runs as never, no interval",
        "中位数，删失的运行视为永不达到，无区间",
    ),
    "rounds-succeeded": ("{count} of {rounds} rounds succeeded", "{rounds} 轮中 {count} 轮成功"),
    "rounds-disturbed": ("{count} of {rounds} rounds were disturbed", "{rounds} 轮中 {count} 轮受干扰"),
    "rounds-apart": (
        "{count} of {rounds} rounds lie apart from the others and are counted",
        "{rounds} 轮中 {count} 轮偏离其他轮，仍计入",
    ),
    "target-missed": (
        "not reached in {count} of {runs} runs; censored at {ends:.4g} {unit}",
        "{runs} 次运行中 {count} 次未达到目标；删失于 {ends:.4g} {unit}",
    ),
    "runs-without-evaluation": (
        "{count} of {runs} run(s) made no evaluation",
        "{runs} 次运行中 {count} 次没有评估",
    ),
    # Energy.
    "nothing-sampled": ("nothing was sampled", "没有采样"),
    "no-energy-counter": ("has no energy counter", "没有能耗计数器"),
    "energy-window-short": (
        "the counter was not read around the window, and power needs a window of {seconds:.0f} s",
        "窗口前后未读计数器，而按功率计算需要 {seconds:.0f} 秒的窗口",
    ),
    "samples-end-early": ("samples do not reach over the window", "采样未覆盖窗口"),
    "energy-by-counter": (
        "energy counter at the edges; processor packages of all nodes (RAPL)",
        "窗口边界处的能耗计数器；所有节点的处理器封装（RAPL）",
    ),
    "energy-by-power": (
        "integrated power; processor packages of all nodes (RAPL)",
        "功率积分；所有节点的处理器封装（RAPL）",
    ),
    "energy-by-counter-and-power": (
        "energy counter at the edges and integrated power; processor packages of all nodes (RAPL)",
        "窗口边界处的能耗计数器与功率积分；所有节点的处理器封装（RAPL）",
    ),
    # Disturbances.
    "stolen-time": (
        "the hypervisor gave {percent:.0f} % of the processors' time to others (limit {limit:.0f} %)",
        "虚拟机监控器把 {percent:.0f} % 的处理器时间给了别人（上限 {limit:.0f} %）",
    ),
    "waited-for-processor": (
        "tasks waited for a processor {percent:.0f} % of the time (limit {limit:.0f} %)",
        "任务有 {percent:.0f} % 的时间在等处理器（上限 {limit:.0f} %）",
    ),
    "waited-for-memory": (
        "tasks waited for memory {percent:.0f} % of the time (limit {limit:.0f} %)",
        "任务有 {percent:.0f} % 的时间在等内存（上限 {limit:.0f} %）",
    ),
    "waited-for-disks": (
        "tasks waited for disks {percent:.0f} % of the time (limit {limit:.0f} %)",
        "任务有 {percent:.0f} % 的时间在等磁盘（上限 {limit:.0f} %）",
    ),
    "other-programs": (
        "other programs kept {processors:.2f} processors busy (limit {limit:.2f})",
        "其他程序占用了 {processors:.2f} 个处理器（上限 {limit:.2f}）",
    ),
    "clock-fell": (
        "the processors' clock fell from {high:.0f} to {low:.0f} MHz (limit {limit:.0f} %)",
        "处理器频率从 {high:.0f} 降到 {low:.0f} MHz（上限 {limit:.0f} %）",
    ),
    # Losses and their reference band.
    "final-loss-not-finite": ("the loss is not finite at step {step}", "第 {step} 步的损失不是有限值"),
    "loss-at-step": ("the loss is {loss} at step {step}", "第 {step} 步的损失是 {loss}"),
    "no-loss-in-band": (
        "no loss was told over steps {first} to {last}, where the reference band needs one",
        "第 {first} 到 {last} 步没有损失值，而参考区间需要",
    ),
    "loss-outside-band": (
        "the mean loss over steps {first} to {last} is {mean:.4g}; the reference band is {low:.4g} to {high:.4g}",
        "第 {first} 到 {last} 步的平均损失是 {mean:.4g}；参考区间是 {low:.4g} 到 {high:.4g}",
    ),
    "loss-does-not-fall": (
        "the loss does not fall: {start:.4g} over the first {steps} steps, {end:.4g} over the last",
        "损失没有下降：前 {steps} 步为 {start:.4g}，后段为 {end:.4g}",
    ),
    "band-inside": ("inside", "在带内"),
    "band-outside": ("outside", "在带外"),
    "band-not-applicable": ("not applicable: {why}", "不适用：{why}"),
    "no-band-for-preset": ("there is none for preset {preset}", "预设 {preset} 没有"),
    "starts-from-checkpoint": ("training starts from a checkpoint", "训练从检查点开始"),
    "other-data": ("the data is not {data}", "数据不是 {data}"),
    "other-global-batch": ("the global batch is {batch}, not {wanted}", "全局批量是 {batch}，而不是 {wanted}"),
    "other-parameter": ("{name} is {value}, not {wanted}", "{name} 是 {value}，而不是 {wanted}"),
    "diagnostic": ("a diagnostic round", "诊断轮"),
    # How the hooks of an unmodified program counted.
    "largest-optimizer": (
        "steps are those of {optimizer}, which has most parameters ({parameters:,}) of {count} optimizers",
        "训练步按 {optimizer} 计，它在 {count} 个优化器中参数最多（{parameters:,}）",
    ),
    "several-trainings": (
        "{count} trainings took turns; the steps of all of them count",
        "{count} 个训练轮流进行；所有训练的步都计入",
    ),
    "several-loaders": (
        "samples are those of all loaders that were read together: {samples}",
        "样本数是同时读取的所有加载器之和：{samples}",
    ),
    "steps-skipped": (
        "rank {rank}: {steps} step(s) were skipped by the gradient scaler",
        "进程 {rank}：梯度缩放器跳过了 {steps} 步",
    ),
    "ended-after-steps": ("ended after {steps} steps as asked", "按要求在 {steps} 步后结束"),
    # Comparisons.
    "welch-t": ("Welch t on logarithms", "对数上的 Welch t 检验"),
    "paired-t": ("t on logarithms, paired by block", "对数上的 t 检验，按区组配对"),
    "mean-of-ratios": ("geometric mean of {count} ratio(s)", "{count} 个比值的几何均值"),
    "within-margin": ("within ±{margin:g} %", "在 ±{margin:g} % 以内"),
    "faster-within-margin": (
        "faster by {percent:.2g} %, within ±{margin:g} %",
        "快 {percent:.2g} %，在 ±{margin:g} % 以内",
    ),
    "slower-within-margin": (
        "slower by {percent:.2g} %, within ±{margin:g} %",
        "慢 {percent:.2g} %，在 ±{margin:g} % 以内",
    ),
    "faster-by": ("faster by {percent:.2g} %", "快 {percent:.2g} %"),
    "slower-by": ("slower by {percent:.2g} %", "慢 {percent:.2g} %"),
    "faster-alone": (
        "faster by {percent:.2g} % when looked at alone, which is not enough among {cases} cases",
        "单独看快 {percent:.2g} %，但在 {cases} 个用例中证据不足",
    ),
    "slower-alone": (
        "slower by {percent:.2g} % when looked at alone, which is not enough among {cases} cases",
        "单独看慢 {percent:.2g} %，但在 {cases} 个用例中证据不足",
    ),
    "nothing-shown": (
        "neither a difference nor equality within ±{margin:g} % is shown",
        "既未证明有差异，也未证明在 ±{margin:g} % 以内相当",
    ),
    "near-margin": (
        "neither a difference nor equality within ±{margin:g} % is shown; {runs} runs settle {percent:.0f} % of such "
        "cases, this one lies near the margin",
        "既未证明有差异，也未证明在 ±{margin:g} % 以内相当；{runs} 轮可以判定 {percent:.0f} % 的此类用例，"
        "此用例接近界限",
    ),
    "spread-needs-runs": (
        "{a} run(s) of A and {b} of B: a spread needs at least 2 of each",
        "A 有 {a} 轮，B 有 {b} 轮：每侧至少 2 轮才有离散程度",
    ),
    # How many rounds a case gets.
    "pilot-too-small": (
        "{count} of {rounds} pilot rounds gave a speed, and {least} are needed to choose a number",
        "{rounds} 轮试验轮中 {count} 轮有速度，而确定轮数需要 {least} 轮",
    ),
    "rounds-not-allowed": (
        "{rounds} rounds would be needed for ±{percent:g} % after a pilot of {pilot} with a spread of {spread:.2g} %, "
        "and at most {most} are allowed",
        "{pilot} 轮试验的离散程度为 {spread:.2g} %，达到 ±{percent:g} % 需要 {rounds} 轮，而最多允许 {most} 轮",
    ),
    "rounds-enough": (
        "{rounds} rounds are enough for ±{percent:g} % after a pilot of {pilot} with a spread of {spread:.2g} %",
        "{pilot} 轮试验的离散程度为 {spread:.2g} %，{rounds} 轮足以达到 ±{percent:g} %",
    ),
    # Studies of scaling, and predictions.
    "ratio-of-medians": (
        "ratio of medians, 95 % t interval on the logarithm with the error of medians",
        "中位数之比，对数上的 95 % t 区间，采用中位数的误差",
    ),
    "more-than-linear": (
        "more than linear: look whether the baseline was held up",
        "超线性：请检查基准配置是否受阻",
    ),
    "slower-than": ("slower than {configuration}", "慢于 {configuration}"),
    "loss-per-doubling": (
        "loss per doubling of nodes from {first} and {second}",
        "由 {first} 与 {second} 得到节点数每翻一倍的损失",
    ),
    "all-reduce-share": (
        "all-reduce between two nodes takes {percent:.3g} % of a step on one node, hidden or not",
        "两节点间的 all-reduce 占单节点一步的 {percent:.3g} %，可能被隐藏也可能不被隐藏",
    ),
    "fade-from-tables": (
        "fade {fade:.2f} and errors from {rows} published rows",
        "衰减 {fade:.2f} 与误差取自 {rows} 行已发表数据",
    ),
    "efficiency-against": ("efficiency is against {configuration}", "并行效率相对于 {configuration}"),
    "two-nodes-not-measured": (
        "no speed on two nodes was measured: such predictions were not held against published tables",
        "没有测量两节点的速度：此类预测未与已发表数据核对",
    ),
    "one-run-at-a-point": (
        "one run only at a point: the spread between runs is not in the interval",
        "某个配置只有一轮：区间不含轮间离散",
    ),
    # Goodput.
    "no-checkpoint-saved": ("no checkpoint was saved", "没有保存检查点"),
    "no-checkpoint-loaded": ("no checkpoint was loaded", "没有加载检查点"),
    "few-checkpoints": ("fewer than two checkpoints were saved", "保存的检查点不足两个"),
    "no-rank-told": ("no rank told anything", "没有进程给出任何信息"),
    "forecast-needs-checkpoints": (
        "a forecast needs the time to start and to save a checkpoint: run with checkpoints",
        "预测需要启动时间和保存检查点的时间：请带检查点运行",
    ),
    "end-not-told": ("the program does not tell when that was over", "程序没有说明该阶段何时结束"),
    "attempt-without-end": ("the attempt has no end", "该次尝试没有结束"),
    "last-attempt-without-end": ("the last attempt has no end", "最后一次尝试没有结束"),
    "within-queue": ("within `queue`", "计入 `queue`"),
    "no-container": ("no container", "没有容器"),
    "agent-left-no-result": ("the agent left no result", "代理没有留下结果"),
    "nothing-compiled": ("nothing is compiled", "没有编译"),
    # Diagnoses.
    "in-no-round": ("no round has it", "没有一轮有此数值"),
    "few-rounds": ("{rounds} of at least {least} rounds", "{rounds} 轮，至少需要 {least} 轮"),
    "nothing-communicated": ("nothing was communicated", "没有通信"),
    "graphs-replayed": (
        "captured graphs were replayed: why the device was idle cannot be told",
        "重放了捕获的计算图：无法判断设备为何空闲",
    ),
    "not-all-left-out": ("not every part of it can be left out here", "这里并非每一部分都能去掉"),
    "trace-and-ablation-differ": (
        "the trace shows {trace_ms:.3g} ms of exposed communication, leaving it out wins {ablation_ms:.3g} ms: "
        "{percent:.0f} % between them",
        "跟踪显示未隐藏的通信为 {trace_ms:.3g} ms，去掉通信可省 {ablation_ms:.3g} ms：两者相差 {percent:.0f} %",
    ),
    "in-data-loader": ("the data loader, on every rank", "数据加载器，每个进程"),
    "in-host-program": ("the host program between operators, on every rank", "算子之间的主机程序，每个进程"),
    "in-copies": ("copies between host and device, on every rank", "主机与设备之间的拷贝，每个进程"),
    "in-operator-starts": ("the start of many small operators, on every rank", "大量小算子的启动，每个进程"),
    "in-communication": (
        "communication between {ranks} ranks on {hosts}",
        "{hosts} 上 {ranks} 个进程之间的通信",
    ),
    "in-collective": ("{call} between {ranks} ranks on {hosts}", "{hosts} 上 {ranks} 个进程之间的 {call}"),
    "late-by-computing": (
        "rank {rank} on {host}: its computing took longer than the others'",
        "{host} 上的进程 {rank}：其计算比其他进程久",
    ),
    "late-by-data": (
        "rank {rank} on {host}: its data took longer than the others'",
        "{host} 上的进程 {rank}：其数据比其他进程久",
    ),
    "late-by-host-program": (
        "rank {rank} on {host}: its host program took longer than the others'",
        "{host} 上的进程 {rank}：其主机程序比其他进程久",
    ),
    "late-by-copies": (
        "rank {rank} on {host}: its copies took longer than the others'",
        "{host} 上的进程 {rank}：其拷贝比其他进程久",
    ),
    "collectives-unmatched": (
        "{calls} collective calls have no counterpart on another rank",
        "{calls} 次集合通信在其他进程上没有对应",
    ),
    # Acceptance of nodes and links.
    "few-blocks": ("{blocks} blocks gave a speed: {why}", "{blocks} 个区组有速度：{why}"),
    "did-not-run": ("it did not run", "没有运行"),
    "rounds-failed": ("{rounds} of its rounds failed: {why}", "其中 {rounds} 轮失败：{why}"),
    "node-slow": (
        "{percent:.3g} % slower than the others, beyond doubt more than {margin:.3g} %",
        "比其他节点慢 {percent:.3g} %，确定超过 {margin:.3g} %",
    ),
    "node-maybe-slow": (
        "{percent:.3g} % slower than the others, which is not proven to be more than {margin:.3g} %",
        "比其他节点慢 {percent:.3g} %，未证明超过 {margin:.3g} %",
    ),
    "node-slow-by-noise": (
        "{percent:.3g} % slower than the others on average, which is within the noise",
        "平均比其他节点慢 {percent:.3g} %，在噪声范围内",
    ),
    "node-not-slow": (
        "not seen to be more than {margin:.3g} % slower than the others",
        "未见比其他节点慢 {margin:.3g} % 以上",
    ),
    "node-alone": (
        "a node alone has nothing to be compared with: give a contract or a criterion",
        "单个节点无可比较：请给出合同或判据",
    ),
    "two-nodes-agree": (
        "the two nodes agree within {margin:.3g} % as far as can be seen",
        "就所见而言，两个节点的差异在 {margin:.3g} % 以内",
    ),
    "two-nodes-differ": (
        "the two nodes differ by more than {margin:.3g} %, and nobody can say from that which is the slow one: "
        "give a contract or a criterion",
        "两个节点相差超过 {margin:.3g} %，但无法由此判断哪个慢：请给出合同或判据",
    ),
    "few-links": ("so few links have no others to be compared with", "链路太少，无可比较"),
    "all-links-slow": (
        "all its links have {percent:.3g} % less bandwidth than others, beyond doubt more than {margin:.3g} %",
        "其所有链路的带宽比其他低 {percent:.3g} %，确定超过 {margin:.3g} %",
    ),
    "all-links-maybe-slow": (
        "all its links have {percent:.3g} % less bandwidth than others, not proven to be more than {margin:.3g} %",
        "其所有链路的带宽比其他低 {percent:.3g} %，未证明超过 {margin:.3g} %",
    ),
    "link-slow": (
        "it has {percent:.3g} % less bandwidth than others, beyond doubt more than {margin:.3g} %",
        "其带宽比其他低 {percent:.3g} %，确定超过 {margin:.3g} %",
    ),
    "link-maybe-slow": (
        "it has {percent:.3g} % less bandwidth than others, not proven to be more than {margin:.3g} %",
        "其带宽比其他低 {percent:.3g} %，未证明超过 {margin:.3g} %",
    ),
    "speed-promised": (
        "{speed:.6g} {unit}/s, promised are {least:.6g}",
        "{speed:.6g} {unit}/s，承诺值为 {least:.6g}",
    ),
    "spread-promised": (
        "the fastest is {percent:.3g} % faster than the slowest, promised are at most {most:.3g} %",
        "最快比最慢快 {percent:.3g} %，承诺最多 {most:.3g} %",
    ),
    "slower-than-criterion": ("{percent:.3g} % slower than the stored criterion", "比保存的判据慢 {percent:.3g} %"),
    "faster-than-criterion": ("{percent:.3g} % faster than the stored criterion", "比保存的判据快 {percent:.3g} %"),
    "first-step-loss": (
        "in block {block} its first step, with the seed of the others, gave a loss of {value:.9g}, "
        "on machines like it {usual:.9g}",
        "在第 {block} 区组中，它以与其他节点相同的种子，第一步的损失为 {value:.9g}，同类机器为 {usual:.9g}",
    ),
    "first-step-gradient-norm": (
        "in block {block} its first step, with the seed of the others, gave a gradient norm of {value:.9g}, "
        "on machines like it {usual:.9g}",
        "在第 {block} 区组中，它以与其他节点相同的种子，第一步的梯度范数为 {value:.9g}，同类机器为 {usual:.9g}",
    ),
}
