"""A diagnosis as text for a terminal."""

from __future__ import annotations

from trainmark.report.i18n.speaker import say
from trainmark.report.plain import clean
from trainmark.score.diagnosis.breakdown import CLASSES
from trainmark.score.records import Diagnosis, Value

NAMES = {
    "compute": "computing",
    "transfer": "exposed communication: transfer",
    "waiting": "exposed communication: waiting for ranks",
    "copies": "exposed copies",
    "data": "waiting for data",
    "host": "host",
    "launch": "launch gaps",
    "unexplained": "unexplained",
}


def render(found: Diagnosis) -> str:
    lines = [found.case, f"  {found.rounds} traced rounds; seconds per step, mean over ranks, 95 % interval", ""]
    step = found.traced_step.value
    width = max(len(name) for name in NAMES.values())
    for name in CLASSES:
        value = found.classes[name]
        share = f"{100 * value.value / step:5.1f} %" if value.value is not None and step else "      –"
        lines.append(f"  {NAMES[name].ljust(width)}  {share}  {milli(value)}")
    lines.append(f"  {'a traced step'.ljust(width)}           {milli(found.traced_step)}")
    lines += ["", f"  untraced step {milli(found.plain_step)}; tracing slows it down by {percent(found.slow_down)}"]
    lines.append(f"  communication hidden behind computing: {percent(found.overlap)}")
    if found.by_ablation.value is not None:
        told = f"by training without it {milli(found.by_ablation)}, by the trace {milli(found.by_trace)}"
        lines.append(f"  exposed communication: {told}")
    if found.disagreement:
        lines.append(f"  DISAGREEMENT: {say(found.disagreement)}")
    lines += ["", *_causes(found)]
    lines += [f"  remark: {say(remark)}" for remark in found.remarks]
    return "\n".join(clean(line) for line in lines) + "\n"


def _causes(found: Diagnosis) -> list[str]:
    if found.traced_step.value is None:
        return [f"  no cause can be named: {say(found.traced_step.reason)}"]
    if not found.causes:
        return ["  nothing worth a hundredth of a step is lost outside computing"]
    lines = ["  causes, by what a step would win without them:"]
    for place, one in enumerate(found.causes, 1):
        lines.append(f"  {place}. {NAMES[one.kind]}: {milli(one.seconds)}, {100 * one.share:.1f} %: {say(one.place)}")
    return lines


def milli(found: Value) -> str:
    if found.value is None:
        return f"– ({say(found.reason)})"
    interval = "" if found.low is None or found.high is None else f" ({1000 * found.low:.3g} … {1000 * found.high:.3g})"
    return f"{1000 * found.value:.3g} ms{interval}"


def percent(found: Value) -> str:
    if found.value is None:
        return f"– ({say(found.reason)})"
    interval = "" if found.low is None or found.high is None else f" ({100 * found.low:.1f} … {100 * found.high:.1f})"
    return f"{100 * found.value:.1f} %{interval}"
