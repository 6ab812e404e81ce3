"""Writes the reference pages of the documentation, made from parsers and schemas: `docs/reference/*.md`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainmark.cli import help
from trainmark.cli.main import GROUPS, parser
from trainmark.i18n.words import phrase
from trainmark.spec import schemas

OUT = Path(__file__).resolve().parents[1] / "docs" / "reference"
_TITLES = {
    "cli": ("Command line", "命令行"),
    "keys": ("Keys of suites, sites and workloads", "测试套件、站点与负载的键"),
    "library": ("The library, from its docstrings", "库（取自代码中的文档）"),
}
_EVERY = {
    "en": "Every verb also takes `--log-level debug|info|warning|error`, `-q` (`--quiet`) and `--lang en|zh`.",
    "zh": "每个命令还接受 `--log-level debug|info|warning|error`、`-q`（`--quiet`）和 `--lang en|zh`。",
}
_TYPES_ZH = {
    "string": "字符串", "integer": "整数", "number": "数", "boolean": "布尔值", "object": "映射", "any": "任意",
}  # fmt: skip
_MEANING = {
    "en": "What they mean: [workloads](../workloads.md), [sites](../sites.md), [scaling studies](../scaling-study.md), "
    "[adding a workload](../adding-a-workload.md). `trainmark explain CASE` tells where each value comes from.",
    "zh": "其含义见[负载](../workloads.md)、[站点](../sites.md)、[扩展研究](../scaling-study.md)和"
    "[添加负载](../adding-a-workload.md)。`trainmark explain CASE` 说明每个取值从何而来。",
}
_COLUMNS = {"en": "| key | type | default |", "zh": "| 键 | 类型 | 默认值 |"}


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for place, language in enumerate(("en", "zh")):
        suffix = "" if language == "en" else ".zh"
        for name, make in (("cli", cli), ("keys", keys), ("library", library)):
            text = "\n".join([f"# {_TITLES[name][place]}", "", *make(language)]) + "\n"
            (OUT / f"{name}{suffix}.md").write_text(text, "utf-8")


def cli(language: str) -> Iterator[str]:
    """Verb by verb."""
    yield from (_EVERY[language], "")
    for group, verbs in GROUPS.items():
        yield from (f"## {phrase(group, language)}", "")
        for verb in verbs:
            yield from (f"### trainmark {verb}", "")
            for one in help.with_children(parser(verb, language)):
                yield from _help(one, language)


def _help(one: argparse.ArgumentParser, language: str) -> Iterator[str]:
    """As `--help` says it, with options as a table, which a narrow page can wrap."""
    if one.prog.count(" ") > 1:
        yield from (f"#### {one.prog}", "")
    if one.description:
        yield from (one.description, "")
    yield from ("```text", one.format_usage().strip(), "```", "")
    form = one._get_formatter()
    for group in one._action_groups:
        rows = [
            f"| {_cell(form._format_action_invocation(action), code=True)} | {_cell(form._expand_help(action))} |"
            for action in group._group_actions
            if action.help and action.help is not argparse.SUPPRESS and action.dest != "help"
        ]
        # Those of every verb are said once.
        if rows and group.title != phrase("of every verb", language):
            yield from (f"| {group.title} | |", "|---|---|", *rows, "")
    if one.epilog:
        yield from ("```text", help.fit(one.epilog, 78, language), "```", "")


def _cell(text: str, code: bool = False) -> str:
    plain = " ".join(text.split()).replace("|", "\\|")
    return f"`{plain}`" if code else plain.replace("<", "&lt;")


def keys(language: str) -> Iterator[str]:
    yield from (_MEANING[language], "")
    for kind in schemas.KINDS:
        made = schemas.schema(kind)
        yield from (f"## {kind}", "", *_table(made, language))
        for name, part in made["$defs"].items():
            if "properties" in part:
                yield from (f"### {name}", "", *_table(part, language))


def _table(part: dict[str, Any], language: str) -> Iterator[str]:
    yield from (_COLUMNS[language], "|---|---|---|")
    for key, value in part["properties"].items():
        yield f"| `{key}` | {_type(value, language)} | {_default(value)} |"
    yield ""


def _default(value: dict[str, Any]) -> str:
    """As YAML writes it; nothing where nothing is set."""
    found = value.get("default")
    return "" if found in (None, "", [], {}) else f"`{json.dumps(found, ensure_ascii=False)}`"


def _type(value: dict[str, Any], language: str) -> str:
    if "anyOf" in value:
        kinds = [_type(one, language) for one in value["anyOf"] if one.get("type") != "null"]
        return ", ".join(dict.fromkeys(kinds))
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    kind = value.get("type", "any")
    if kind == "array" and value.get("items"):
        of = _type(value["items"], language)
        return f"{of}的列表" if language == "zh" else f"list of {of}"
    return _TYPES_ZH.get(str(kind), str(kind)) if language == "zh" else str(kind)


def library(_language: str) -> Iterator[str]:
    yield "::: trainmark.api"
    yield ""
    yield "::: trainmark.api_campaigns"


if __name__ == "__main__":
    main()
