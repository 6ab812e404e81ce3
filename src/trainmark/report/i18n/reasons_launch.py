"""Reasons that launchers give: how an attempt ended where its agents could not say it, and what it waits for."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    # How an attempt ended on one node.
    "disk-full-below": ("the disk is full: nothing more could be written to {path}", "磁盘已满：{path} 无法再写入"),
    "run-taken-over": (
        "another controller had taken the run over before the agent began",
        "代理开始之前另一个控制端已接管该运行",
    ),
    "agent-gone": ("the agent was gone without a result", "代理消失，没有结果"),
    "agent-gone-signal": (
        "the agent was gone without a result (signal {signal})",
        "代理消失，没有结果（信号 {signal}）",
    ),
    "agent-gone-from-step": (
        "{hosts}: the agent was gone without a result (code {code}): {line}",
        "{hosts}：代理消失，没有结果（退出码 {code}）：{line}",
    ),
    "agent-gone-from-silent-step": (
        "{hosts}: the agent was gone without a result (code {code}): srun said nothing",
        "{hosts}：代理消失，没有结果（退出码 {code}）：srun 没有输出",
    ),
    "agent-destroyed": ("{hosts}: the agent was ended without being asked", "{hosts}：代理未经询问即被终止"),
    "agent-never-began": ("the controller ended before the agent began", "控制端在代理开始之前结束"),
    "agent-not-started": ("the agent did not start, exit code {code}", "代理没有启动，退出码 {code}"),
    "agent-not-started-because": (
        "the agent did not start, exit code {code}: {line}",
        "代理没有启动，退出码 {code}：{line}",
    ),
    "folder-removed": (
        "something in the round removed its own folder, and the result with it: {path}",
        "该轮中的某个程序删除了自己的文件夹及其中的结果：{path}",
    ),
    "result-replaced-by-link": (
        "something in the round put a link where the agent writes its result: {path}",
        "该轮中的某个程序在代理写结果的位置放了一个链接：{path}",
    ),
    "result-replaced-by-folder": (
        "something in the round put a folder where the agent writes its result: {path}",
        "该轮中的某个程序在代理写结果的位置放了一个文件夹：{path}",
    ),
    "result-replaced": (
        "something in the round put something that is no file where the agent writes its result: {path}",
        "该轮中的某个程序在代理写结果的位置放了不是文件的东西：{path}",
    ),
    "no-sign-of-life": ("no sign of life for {seconds:.0f} s", "{seconds:.0f} 秒没有动静"),
    "no-contact": (
        "no contact for {seconds:.0f} s: {why}; its agent ends at its own deadline",
        "{seconds:.0f} 秒没有联系：{why}；它的代理到期限时自行结束",
    ),
    # Orders to agents.
    "peer-failed": ("{host} has failed", "{host} 失败"),
    "controller-took-over": ("another controller took over", "另一个控制端接管"),
    # Slurm.
    "slurm-job": ("Slurm job {job}: {why}", "Slurm 作业 {job}：{why}"),
    "slurm-job-begins": ("its steward is starting", "它的管理进程正在启动"),
    "slurm-job-late": (
        "Slurm job {job} did not start within {seconds:g} s: {why}",
        "Slurm 作业 {job} 在 {seconds:g} 秒内没有开始：{why}",
    ),
    "slurm-withdrawn": ("it was taken back before it began", "开始之前被撤回"),
    "slurm-step-over-memory": (
        "over its memory; ask for more with `slurm.memory`: {line}",
        "超出内存；请用 `slurm.memory` 申请更多：{line}",
    ),
    "slurm-completed": ("it ended by itself before the round was done", "它在该轮完成之前自行结束"),
    "slurm-failed": ("its batch script failed", "它的批处理脚本失败"),
    "slurm-boot-failed": ("a node did not boot", "某个节点没有启动"),
    "slurm-node-failed": ("a node failed", "某个节点失效"),
    "slurm-launch-failed": ("a node could not start it", "某个节点无法启动它"),
    "slurm-deadline": ("it reached its deadline", "它到达了截止时间"),
    "slurm-timeout": (
        "it reached its time limit; ask for more with `slurm.time`",
        "它到达了时限；请用 `slurm.time` 申请更多",
    ),
    "slurm-out-of-memory": (
        "it ran out of memory; ask for more with `slurm.memory`",
        "它内存不足；请用 `slurm.memory` 申请更多",
    ),
    "slurm-preempted": ("another job took its nodes", "另一个作业占用了它的节点"),
    "slurm-cancelled": ("it was cancelled", "它被取消"),
    "slurm-cancelled-by": ("it was cancelled by {user}", "它被 {user} 取消"),
    "slurm-cancelled-by-id": ("it was cancelled by user {user}", "它被用户 {user} 取消"),
    "slurm-revoked": ("another cluster of the federation started it", "联盟中的另一个集群启动了它"),
    "slurm-requeued": ("it was put back into the queue", "它被放回队列"),
    "slurm-state": ("it is in state {state}", "它处于状态 {state}"),
    "slurm-with-nodes": ("{why} (it had {nodes})", "{why}（它拥有 {nodes}）"),
    # What a Slurm job waits for.
    "slurm-waits": ("{why} ({term})", "{why}（{term}）"),
    "slurm-waits-other": ("it waits: {term}", "它在等待：{term}"),
    "slurm-waits-in-queue": ("it waits in the queue", "它在队列中等待"),
    "slurm-waits-limit": ("a limit of the account or QoS is reached", "账户或 QoS 已达上限"),
    "slurm-waits-nodes-down": ("nodes it needs are down, drained or reserved", "它需要的节点宕机、被排空或被预留"),
    "slurm-waits-priority": ("jobs of higher priority come first", "优先级更高的作业在前"),
    "slurm-waits-resources": ("the nodes it wants are busy", "它需要的节点正忙"),
    "slurm-waits-begin-time": ("its begin time has not come", "尚未到它的开始时间"),
    "slurm-waits-dependency": ("it waits for another job", "它在等待另一个作业"),
    "slurm-waits-partition-time-limit": (
        "its time limit is longer than the partition allows",
        "它的时限超过分区允许的时限",
    ),
    "slurm-waits-partition-node-limit": ("the partition does not give so many nodes", "分区不提供这么多节点"),
    "slurm-waits-partition-down": ("the partition is down", "分区已停用"),
    "slurm-waits-partition-inactive": ("the partition takes no jobs now", "分区目前不接受作业"),
    "slurm-waits-req-node-not-avail": ("a node it names is not available", "它指定的节点不可用"),
    "slurm-waits-node-down": ("a node it needs is down", "它需要的节点已宕机"),
    "slurm-waits-bad-constraints": ("no node can ever give what it asks for", "没有节点能满足它的要求"),
    "slurm-waits-reservation": ("it waits for its reservation", "它在等待预留"),
    "slurm-waits-licenses": ("it waits for a licence", "它在等待许可证"),
    "slurm-waits-job-held-user": ("it is held; `scontrol release` lets it go", "它被挂起；`scontrol release` 可放行"),
    "slurm-waits-job-held-admin": ("an administrator holds it", "管理员挂起了它"),
    "slurm-waits-job-array-task-limit": (
        "its array runs as many tasks at once as it may",
        "它的作业数组同时运行的任务已达上限",
    ),
    "slurm-waits-cleaning": ("what is left of its last run is being cleaned up", "正在清理它上次运行留下的内容"),
    "slurm-waits-association-job-limit": ("the account runs as many jobs as it may", "该账户运行的作业已达上限"),
    "slurm-waits-qos-max-jobs-per-user-limit": ("you run as many jobs as the QoS allows", "您运行的作业已达 QoS 上限"),
    "slurm-waits-qos-max-node-per-user-limit": (
        "you have as many nodes as the QoS allows",
        "您占用的节点已达 QoS 上限",
    ),
    "slurm-waits-qos-max-gres-per-user": ("you have as many devices as the QoS allows", "您占用的设备已达 QoS 上限"),
    "slurm-waits-invalid-account": ("the account is not valid", "账户无效"),
    "slurm-waits-invalid-qos": ("the QoS is not valid", "QoS 无效"),
    "slurm-waits-qos-usage-threshold": ("the QoS has used up its share", "QoS 的份额已用完"),
    "slurm-waits-launch-failed-requeued-held": (
        "a node could not start it, and it is held",
        "某个节点无法启动它，它被挂起",
    ),
}
