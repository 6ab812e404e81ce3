"""What FlagPerf's file names tell: `[run…/]CASE/roundN/HOST_noderankI/FILE`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.interop.reading.records import UNKNOWN, CaseFields, Kept, clean
from trainmark.spec.case_id import CaseId, Value

_ROUND = re.compile(r"round(\d{1,6})")
_NODE = re.compile(r"(.+)_noderank(\d{1,6})")
# `rank0.out.log` of most frameworks, `rank0.log.txt` of the LLM ones, `noderank0.*` where a node has one process.
_RANK = re.compile(r"(?:node)?rank(\d{1,7})\.(?:out\.log|log\.txt)(?:\.gz|\.zst)?")
# Where the LLM frameworks write what they measured.
_OWN = re.compile(r"(?:flagscale_main|megatron|flagperf)\.log\.txt(?:\.gz|\.zst)?|host_(\d{1,6})_.*\.output")
MONITOR = re.compile(r"(cpu|mem|pwr|[\w-]+?)_monitor\.log(?:\.gz|\.zst)?")
# Names of 2022: GLM_TORCH_DEMO_A100_1X8.
_LEGACY = re.compile(r"(\w+?)_(TORCH|PADDLE|TF)\w*?_([A-Z0-9]+)_(\d{1,4})X(\d{1,4})")
_LEGACY_NAMES = {"TORCH": "pytorch", "PADDLE": "paddle", "TF": "tensorflow2"}


class Log(msgspec.Struct, frozen=True):
    """One file of a round. `rank` is None for a monitor's."""

    file: Kept
    node: int
    host: str
    rank: int | None
    monitor: str = ""


class Round(msgspec.Struct):
    """Files of one round of one case."""

    key: str
    number: int
    fields: CaseFields
    logs: list[Log]

    @property
    def label(self) -> str:
        return f"{self.key} round {self.number}"


def wanted(name: str) -> bool:
    last = name.rpartition("/")[2]
    return bool(_RANK.fullmatch(last) or _OWN.fullmatch(last) or MONITOR.fullmatch(last))


def rounds(files: Sequence[Kept], options: Mapping[str, Any]) -> list[Round]:
    """The files by round, in order of their names and numbers."""
    found: dict[tuple[str, str, int], Round] = {}
    for file in files:
        *folders, last = ([file.above] if file.above else []) + file.name.split("/")
        at = next((index for index in range(len(folders) - 1, -1, -1) if _ROUND.fullmatch(folders[index])), None)
        number = int(_ROUND.fullmatch(folders[at])[1]) if at is not None else 1  # type: ignore[index]
        key = options.get("case") or (folders[at - 1] if at else "")
        node, host = _node(folders[at + 1 :] if at is not None else folders[-1:])
        before = "/".join(folders[: at - 1]) if at else ""
        group = (before, key, number)
        if group not in found:
            found[group] = Round(key or UNKNOWN, number, case_of(key, options), [])
        found[group].logs.append(_log(file, last, node, host))
    return [found[group] for group in sorted(found)]


def _node(folders: Sequence[str]) -> tuple[int, str]:
    for folder in folders:
        if named := _NODE.fullmatch(folder):
            return int(named[2]), clean(named[1])
    return 0, "node0"


def _log(file: Kept, last: str, node: int, host: str) -> Log:
    if ranked := _RANK.fullmatch(last):
        # A node that has one process names its log by the node.
        return Log(file, node, host, None if last.startswith("node") else int(ranked[1]), "")
    monitor = MONITOR.fullmatch(last)
    return Log(file, node, host, None, monitor[1] if monitor else "")


def case_of(key: str, options: Mapping[str, Any]) -> CaseFields:
    """The case a folder is named after; unknown where its name tells nothing."""
    device = options.get("device")
    try:
        found = CaseId.parse(":".join(key.replace("%2F", "/").split(":")[:6]))
        params: dict[str, Value] = dict(found.variant)
        return CaseFields(
            found.workload, found.framework_text, found.nnodes, found.nproc, device or found.device, params=params
        )
    except UserError:
        pass
    if old := _LEGACY.fullmatch(key):
        framework = _LEGACY_NAMES[old[2]]
        size = max(1, int(old[4])), max(1, int(old[5]))
        return CaseFields(clean(old[1].lower()), framework, *size, device or clean(old[3]))
    return CaseFields(clean(key) if key else UNKNOWN, UNKNOWN, 1, 1, device or UNKNOWN)


# What one sample is, for models whose figures are known (docs/flagperf.md).
# fmt: off
_IMAGES = (
    "resnet50", "vit", "swin_transformer", "efficientnet", "mobilenetv2", "detr", "mask_rcnn", "faster_rcnn",
    "retinanet", "bigtransfer",
)
_SEQUENCES = ("bert", "bert_hf", "cpm", "glm", "gpt2", "distilbert", "longformer", "t5_small", "transformer_xl")
# fmt: on


def unit_of(workload: str, keys: Sequence[str]) -> str:
    """What is counted, from the names of figures, else from the model."""
    for key in keys:
        if "images_per_second" in key:
            return "images"
        if "sequences_per_second" in key or key == "seq/s":
            return "sequences"
    return "images" if workload in _IMAGES else "sequences" if workload in _SEQUENCES else "samples"
