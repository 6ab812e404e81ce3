"""Writes the reference pages of the documentation, made from parsers and schemas: `docs/reference/*.md`."""

from __future__ import annotations

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
_COLUMNS = {"en": "| key | type | default |", "zh": "| 键 | 类型 | 默认值 |"}


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for place, language in enumerate(("en", "zh")):
        suffix = "" if language == "en" else ".zh"
        for name, make in (("cli", cli), ("keys", keys), ("library", library)):
            text = "\n".join([f"# {_TITLES[name][place]}", "", *make(language)]) + "\n"
            (OUT / f"{name}{suffix}.md").write_text(text, "utf-8")


def cli(language: str) -> Iterator[str]:
    """As `--help` says it, verb by verb."""
    for group, verbs in GROUPS.items():
        yield from (f"## {phrase(group, language)}", "")
        for verb in verbs:
            yield from (f"### trainmark {verb}", "")
            for one in help.with_children(parser(verb, language)):
                yield from ("```text", one.format_help().rstrip(), "```", "")


def keys(language: str) -> Iterator[str]:
    for kind in schemas.KINDS:
        made = schemas.schema(kind)
        yield from (f"## {kind}", "", *_table(made, language))
        for name, part in made["$defs"].items():
            if "properties" in part:
                yield from (f"### {name}", "", *_table(part, language))


def _table(part: dict[str, Any], language: str) -> Iterator[str]:
    yield from (_COLUMNS[language], "|---|---|---|")
    for key, value in part["properties"].items():
        default = "" if "default" not in value else f"`{value['default']!r}`"
        yield f"| `{key}` | {_type(value)} | {default} |"
    yield ""


def _type(value: dict[str, Any]) -> str:
    if "anyOf" in value:
        return ", ".join(dict.fromkeys(_type(one) for one in value["anyOf"]))
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if "$ref" in value:
        return value["$ref"].rpartition("/")[2]
    kind = value.get("type", "any")
    return f"list of {_type(value['items'])}" if kind == "array" and value.get("items") else str(kind)


def library(_language: str) -> Iterator[str]:
    yield "::: trainmark.api"
    yield ""
    yield "::: trainmark.api_campaigns"


if __name__ == "__main__":
    main()
