"""Reasons that agents write into result.json: how a round ended on a node, warnings, disturbances."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    # How a round ended.
    "all-ranks-ended-well": ("all ranks ended well", "所有进程正常结束"),
    "ended-as-asked": ("ended after {steps} steps as asked", "按要求在 {steps} 步后结束"),
    "rank-exited": ("rank {rank} exited with code {code}", "进程 {rank} 退出码 {code}"),
    "rank-killed": ("rank {rank} was killed by signal {signal} ({name})", "进程 {rank} 被信号 {signal}（{name}）终止"),
    "rank-was-killed": ("rank {rank} was killed", "进程 {rank} 被终止"),
    "rank-silent": ("rank {rank} ended without speaking to the probe", "进程 {rank} 结束时从未与探针通信"),
    "command-exited": ("the command exited with code {code}", "命令退出码 {code}"),
    "command-killed": ("the command was killed by signal {signal} ({name})", "命令被信号 {signal}（{name}）终止"),
    "command-was-killed": ("the command was killed", "命令被终止"),
    "command-silent": ("the command ended without speaking to the probe", "命令结束时从未与探针通信"),
    "node-silent": (
        "the ranks of this node ended without speaking to the probe",
        "该节点的进程结束时从未与探针通信",
    ),
    "out-of-memory-kernel": (
        "out of memory: {ended} and the kernel's oom_kill count rose by {count}",
        "内存不足：{ended}，内核的 oom_kill 计数增加了 {count}",
    ),
    "out-of-memory-log": ("out of memory: {ended} and its log says: {line}", "内存不足：{ended}，其日志写道：{line}"),
    "disk-full": ("the disk is full: a file could not be written", "磁盘已满：有文件无法写入"),
    "disk-full-at": ("the disk is full: {path} could not be written", "磁盘已满：{path} 无法写入"),
    "disk-full-log": ("the disk is full: {ended} and its log says: {line}", "磁盘已满：{ended}，其日志写道：{line}"),
    "loss-not-finite": ("loss is {value} at step {step} on rank {rank}", "进程 {rank} 第 {step} 步的损失是 {value}"),
    "round-too-long": ("the round did not end within {seconds:g} s", "该轮在 {seconds:g} 秒内没有结束"),
    "rank-not-training": (
        "rank {rank} did not reach its first step within {seconds:g} s",
        "进程 {rank} 在 {seconds:g} 秒内没有到达第一步",
    ),
    "rank-not-training-silent": (
        "rank {rank} did not reach its first step within {seconds:g} s (it never spoke to the probe)",
        "进程 {rank} 在 {seconds:g} 秒内没有到达第一步（它从未与探针通信）",
    ),
    "rank-hung": (
        "rank {rank} was silent for more than {seconds:g} s after step {step}",
        "进程 {rank} 在第 {step} 步之后沉默超过 {seconds:g} 秒",
    ),
    "rank-hung-in-first-step": (
        "rank {rank} was silent for more than {seconds:g} s before its first step ended",
        "进程 {rank} 在第一步结束前沉默超过 {seconds:g} 秒",
    ),
    "stopped-by-controller": ("stopped by the controller", "被控制端停止"),
    "stopped-by-controller-because": ("stopped by the controller: {why}", "被控制端停止：{why}"),
    "stopped-by-signal": ("stopped by a signal", "被信号停止"),
    "guardian-killed": ("the guardian of the agent was killed", "代理的守护进程被终止"),
    "agent-failed": ("the agent failed: {error}: {text}", "代理出错：{error}: {text}"),
    "agent-killed": ("the agent was killed by signal {signal}", "代理被信号 {signal} 终止"),
    "agent-without-result": (
        "the agent ended with code {code} and no result",
        "代理以退出码 {code} 结束，没有结果",
    ),
    "helper-exited": ("the {name} ended with exit code {code}", "{name} 以退出码 {code} 结束"),
    "helper-killed": ("the {name} ended with signal {signal}", "{name} 被信号 {signal} 终止"),
    "said-last": ("{what}: {line}", "{what}：{line}"),
    # Why a process could not be started.
    "rank-not-started": ("rank {rank} cannot be started: {why}", "进程 {rank} 无法启动：{why}"),
    "helper-not-started": ("the {name} cannot be started: {why}", "{name} 无法启动：{why}"),
    "program-not-on-path": ("the program {name} is not on PATH", "程序 {name} 不在 PATH 中"),
    "program-missing": ("the program {path} does not exist", "程序 {path} 不存在"),
    "program-not-executable": ("the program {path} is not executable", "程序 {path} 不可执行"),
    "program-failed": ("{path}: {why}", "{path}：{why}"),
    "folder-missing": ("the working folder {path} does not exist", "工作目录 {path} 不存在"),
    "process-not-ready": (
        "its process did not get ready within {seconds:g} s",
        "其进程在 {seconds:g} 秒内没有就绪",
    ),
    "port-unusable": ("port {port} cannot be used: {error}", "端口 {port} 无法使用：{error}"),
    "port-taken": ("port {port} is taken", "端口 {port} 已被占用"),
    "port-taken-by": ("port {port} is taken by pid {pid} ({command})", "端口 {port} 已被进程 {pid}（{command}）占用"),
    # Why a command without ranks of ours has no training steps.
    "no-training-step": ("no training step was seen because {why}", "没有看到训练步，因为{why}"),
    "no-line-matched": (
        "no line of the output told one: check --pattern against `trainmark logs`",
        "输出中没有一行给出训练步：请对照 `trainmark logs` 检查 --pattern",
    ),
    "hooks-failed": ("the hooks failed: {error}", "钩子出错：{error}"),
    "no-optimizer-step": ("no optimizer of torch.optim stepped; {cure}", "torch.optim 的优化器没有走过一步；{cure}"),
    "torch-without-training": (
        "torch was imported and nothing was trained with it: no batch of a DataLoader, no backward pass; {cure}",
        "导入了 torch，但没有用它训练：没有 DataLoader 的批，也没有反向传播；{cure}",
    ),
    "python-without-torch": (
        "the Python that ran never imported torch; {cure}",
        "所运行的 Python 从未导入 torch；{cure}",
    ),
    "pythons-without-torch": (
        "none of the {count} Pythons that ran imported torch; {cure}",
        "所运行的 {count} 个 Python 都没有导入 torch；{cure}",
    ),
    "python-flag-without-hooks": (
        "Python was started with {flag}, which keeps trainmark's hooks out: leave it away, or {cure}",
        "Python 以 {flag} 启动，trainmark 的钩子因此不起作用：请去掉它，或者{cure}",
    ),
    "no-python-watched": (
        "no Python of the command could be watched: it is no Python program, or Python was started with -I, -E or -S, "
        "or PYTHONPATH was replaced on the way; keep what is in PYTHONPATH, or {cure}",
        "命令中没有可观察的 Python：它不是 Python 程序，或 Python 以 -I、-E 或 -S 启动，或 PYTHONPATH 中途被替换；"
        "请保留 PYTHONPATH 中的内容，或者{cure}",
    ),
    "pattern-or-probe": (
        "name the lines it prints with --pattern, or have the program speak to the probe",
        "用 --pattern 给出它打印的行，或让程序调用探针",
    ),
    # Containment.
    "containment-unknown": ("containment '{asked}' is not known ({known})", "未知的隔离方式 '{asked}'（{known}）"),
    "containment-unusable": (
        "containment {kind} was asked for but cannot be used: {why}",
        "要求的隔离方式 {kind} 无法使用：{why}",
    ),
    "containment-asked-for": ("{kind} was asked for", "要求使用 {kind}"),
    "containment-not-used": ("{kind}: {why}", "{kind}：{why}"),
    "no-containment": ("no containment can be used: {why}", "没有可用的隔离方式：{why}"),
    "no-cgroup-v2": ("no version 2 cgroup is mounted here", "此处没有挂载 cgroup v2"),
    "cgroup-not-made": ("{path} cannot be made: {error}", "无法创建 {path}：{error}"),
    "no-cgroup-kill": (
        "the kernel has no cgroup.kill (5.14 or later has)",
        "内核没有 cgroup.kill（5.14 及以后才有）",
    ),
    "cgroup-kill-not-writable": ("cgroup.kill may not be written", "cgroup.kill 不可写"),
    "needs-capability": ("needs {name}", "需要 {name}"),
    "mount-hidden": ("{path} is a mount that the ranks would no longer see", "{path} 是一个挂载点，进程将看不到它"),
    "namespace-not-started": ("the keeper did not start: {error}", "命名空间的首个进程没有启动：{error}"),
    # Warnings.
    "process-left": ("1 process was left by the ranks and killed", "1 个进程残留，已终止"),
    "processes-left": ("{count} processes were left by the ranks and killed", "{count} 个进程残留，已终止"),
    "events-not-read": (
        "rank {rank}: its events are not read: {path}: {error}",
        "进程 {rank}：其事件未被读取：{path}：{error}",
    ),
    "long-line-left-out": (
        "rank {rank} wrote a line of more than 1 MiB, left out",
        "进程 {rank} 写了一行超过 1 MiB 的内容，已略去",
    ),
    "long-lines-left-out": (
        "rank {rank} wrote {count} lines of more than 1 MiB, left out",
        "进程 {rank} 写了 {count} 行超过 1 MiB 的内容，已略去",
    ),
    "foreign-event-left-out": (
        "rank {rank} wrote 1 event in the name of another rank, left out",
        "进程 {rank} 以另一个进程的名义写了 1 个事件，已略去",
    ),
    "foreign-events-left-out": (
        "rank {rank} wrote {count} events in the name of another rank, left out",
        "进程 {rank} 以另一个进程的名义写了 {count} 个事件，已略去",
    ),
    "last-event-cut-off": (
        "rank {rank}: its last event was cut off and is dropped",
        "进程 {rank}：最后一个事件不完整，已丢弃",
    ),
    "pattern-too-slow": (
        "the pattern took more than {seconds:g} s for a line, which was left out",
        "模式匹配某行超过 {seconds:g} 秒，该行已略去",
    ),
    "pattern-earlier-steps": (
        "{count} line(s) told a step before the last one: left out as another rank's",
        "{count} 行给出的步早于上一步：视为另一个进程的行，已略去",
    ),
    "pattern-later-steps": (
        "{count} line(s) were left out: more than {steps} steps passed before each",
        "{count} 行已略去：每行之前都超过 {steps} 步",
    ),
    "second-process-of-rank": (
        "process {pid} trained as rank {rank} while another one did, and is not in the figures",
        "进程号 {pid} 与另一个进程同时作为进程 {rank} 训练，未计入数据",
    ),
    "rank-restarted": (
        "rank {rank} was {count} processes one after another; the time between them counts",
        "进程 {rank} 先后是 {count} 个进程；其间的时间计入",
    ),
    "measured-in-part": ("training is measured only in part: {why}", "训练只测量了一部分：{why}"),
    "quota-limits-cores": (
        "a quota of {quota:.3g} processors limits {cores} cores",
        "{quota:.3g} 个处理器的配额限制了 {cores} 个核",
    ),
    "threads-set-by-user": ("{name}={value} was set by the user", "{name}={value} 由用户设定"),
    "fewer-cores-than-planned": (
        "{planned} cores were planned, {cores} may be used",
        "计划使用 {planned} 个核，可用 {cores} 个",
    ),
    "ranks-share-cores": ("{ranks} ranks share {cores} cores", "{ranks} 个进程共用 {cores} 个核"),
    "tcmalloc-not-found": (
        "tcmalloc was asked for, but no libtcmalloc was found: the default is used",
        "要求使用 tcmalloc，但没有找到 libtcmalloc：使用默认分配器",
    ),
    "caches-not-cleared": ("caches were not cleared: {why}", "缓存未清除：{why}"),
    # Disturbances.
    "other-attempt-on-host": (
        "another attempt of trainmark ran on this host at the same time",
        "同一主机上同时运行了 trainmark 的另一次尝试",
    ),
    "other-attempts-on-host": (
        "{count} other attempts of trainmark ran on this host at the same time",
        "同一主机上同时运行了 trainmark 的另外 {count} 次尝试",
    ),
}
