"""RESULTS.md, from what is on record: each run of a benchmark is a line of `results/NAME.jsonl`, the newest last."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]

INTRODUCTION = """\
# trainmark beside its peers

Made by `make perf`. A figure is measured side by side with the peer's, in one run, the two interleaved. The table has
the newest run of each benchmark; the last column names those before it, newest first; `results/` keeps all of them.
"""
HEAD = ["| figure | ours | peer | ratio or difference | bar | met | runs before |", "|---|---|---|---|---|---|---|"]
# So many runs before the newest are named.
BEFORE = 4


def keep(folder: Path, record: Record) -> None:
    """Adds a run to those on record."""
    folder.mkdir(exist_ok=True)
    with (folder / f"{record['benchmark']}.jsonl").open("a") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read(folder: Path, names: Sequence[str]) -> dict[str, list[Record]]:
    """The runs of each benchmark that has any, in the order of `names`."""
    files = {name: folder / f"{name}.jsonl" for name in names}
    return {
        name: [json.loads(line) for line in file.read_text().splitlines()]
        for name, file in files.items()
        if file.exists()
    }


def document(runs: Mapping[str, list[Record]], broken: Sequence[str] = ()) -> str:
    newest = [kept[-1] for kept in runs.values()]
    how = [f"- `{record['benchmark']}.py`: {record['how']}." for record in newest]
    when = [f"- `{record['benchmark']}.py`: {_circumstances(record)}." for record in newest]
    details = [f"- `{record['benchmark']}.py`: `{json.dumps(_without_tables(record))}`" for record in newest]
    parts = [[INTRODUCTION], table(runs), ["", *broken] if broken else []]
    for record in newest:
        for title, content in record["details"].get("shown_tables", {}).items():
            parts.append(["", f"## {title}", "", *_markdown(content), "", f"By `{record['benchmark']}.py`."])
    parts += [["", f"## {title}", "", *lines] for title, lines in (
        ("How each is measured", how), ("When, and on what", when), ("Details of the newest runs", details)
    )]  # fmt: skip
    return "\n".join(line for part in parts for line in part) + "\n"


def _without_tables(record: Record) -> Record:
    return {name: value for name, value in record["details"].items() if name != "shown_tables"}


def _markdown(content: Record) -> list[str]:
    rows = [content["head"], ["---"] * len(content["head"]), *content["rows"]]
    return [f"| {' | '.join(row)} |" for row in rows]


def table(runs: Mapping[str, list[Record]]) -> list[str]:
    lines = []
    for kept in runs.values():
        for row in kept[-1]["figures"]:
            lines.append(_line(row, [_same(row, record) for record in kept[-2 : -2 - BEFORE : -1]]))
    return HEAD + lines


def _line(row: Record, before: Sequence[Record | None]) -> str:
    theirs = f"{row['peer']} {row['theirs']:.3g} {row['unit']}" if row["peer"] else "–"
    compared = f"{row['value']:.3g} ({row['compared']})" if row["peer"] else "–"
    met = "yes" if row["met"] else "**no**"
    past = ", ".join(f"{one['value']:.3g}" for one in before if one) or "–"
    ours = f"{row['ours']:.3g} {row['unit']}".rstrip()
    return f"| {row['figure']} | {ours} | {theirs} | {compared} | {row['bar']} | {met} | {past} |"


def _same(row: Record, record: Record) -> Record | None:
    """The figure of another run that stands for the same."""
    key = ("figure", "peer")
    return next((one for one in record["figures"] if all(one[name] == row[name] for name in key)), None)


def _circumstances(record: Record) -> str:
    parts = [record["when"], f"load average before {record['load']}", record["machine"], record["versions"]]
    return "; ".join([*parts, record["note"]] if record.get("note") else parts)
