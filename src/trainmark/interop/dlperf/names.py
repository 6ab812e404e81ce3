"""What DLPerf's folders and file names say: `…/bz128/1n8g/rn50_b128_fp32_4.log`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.interop.reading.records import Kept

ENDINGS = (".log", ".log.gz", ".log.zst")
# Read from the right: models such as `bert_base` hold the separator themselves.
_FILE = re.compile(r"^(?P<model>.+)_b(?P<batch>\d{1,9})_(?P<dtype>[A-Za-z0-9]+)_(?P<repeat>\d{1,9})\.log(\.gz|\.zst)?$")
_CASE = re.compile(r"^(?:(?P<n>\d{1,6})n(?P<g>\d{1,6})g|n(?P<n2>\d{1,6})g(?P<g2>\d{1,6}))$")


class Name(msgspec.Struct, frozen=True):
    """What is known of one log. `group` is the folder that DLPerf makes one result of."""

    group: str
    case: str
    nodes: int
    cards: int
    model: str
    batch: int | None
    dtype: str | None
    repeat: int

    @property
    def speaking_dtype(self) -> str | None:
        """Sets of logs mix both words for one thing."""
        return "fp16" if self.dtype == "amp" else self.dtype


def parse_case(text: str) -> tuple[int, int] | None:
    found = _CASE.match(text)
    if not found:
        return None
    nodes, cards = int(found["n"] or found["n2"]), int(found["g"] or found["g2"])
    return (nodes, cards) if nodes and cards else None


def parse(file: Kept, options: Mapping[str, Any]) -> Name | str:
    """What the names say, completed by options; a text that tells what is missing."""
    parts = [part for part in f"{file.above}/{file.name}".split("/") if part]
    named = options.get("case")
    if named and parse_case(named) is None:
        raise UserError(f"--case {named}: expected nodes and devices of each, as in 4n8g")
    folder = parts[-2] if len(parts) > 1 else ""
    in_case = parse_case(folder) is not None
    case = named or (folder if in_case else "")
    size = parse_case(case)
    if size is None:
        return f"folder `{folder}` is not like 4n8g, so its nodes and devices are not known; say `--case 4n8g`"
    found = _FILE.match(parts[-1])
    batch = int(found["batch"]) if found else options.get("batch_size_per_device")
    above = parts[:-2] if in_case else parts[:-1]
    return Name(
        group="/".join(above),
        case=f"{size[0]}n{size[1]}g",
        nodes=size[0],
        cards=size[1],
        model=found["model"] if found else parts[-1].partition(".")[0],
        batch=batch,
        dtype=found["dtype"].lower() if found else None,
        repeat=int(found["repeat"]) if found else 1,
    )
