"""The command line in Chinese: all of its help, and no English inside Chinese sentences."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.security import fuzz
from tools.messages import templates
from tools.untranslated import missing
from trainmark.cli import help
from trainmark.cli.main import GROUPS, VERBS, overview, parser
from trainmark.errors import UserError
from trainmark.i18n import words

# What stays as it is in Chinese: code, options, names of files, formats, tools and keys.
_KEPT = re.compile(
    r"`[^`]*`|--?[a-z][\w-]*|%\S+|\$?[A-Z][A-Z_]+\b|[\w./-]*[./_:][\w./:*-]*|\b(run|throughput|sustained|smoke|quick|full|cpu|"
    r"samples|step|seconds|rank|html|json|csv|text|md|info|warning|trainmark|aiperf|dlperf|time|good|bad|suspect|untested|unsure|"
    r"baseline|last|all|ranks|agent|runs|bash|zsh|fish|git|ssh|unknown|main|job|label|message|color|schemaVersion|resnet50|"
    r"experiment|node exporter|Slurm|slurmctld|collectives|python3|all-reduce|command|gpt2|root|[A-Z]\w*( [A-Z]\w*)*|"
    r"\d\w*|[A-Z])\b"
)


@pytest.mark.parametrize("verb", VERBS)
def test_every_word_of_help_is_there_in_chinese(verb: str) -> None:
    assert not missing(verb)


CATALOGUES = ("help", "errors", "lines", "cells")


def test_every_error_is_there_in_chinese() -> None:
    assert not [f"{place}: {text}" for place, text in templates() if words.error(text, "zh") == text]


def test_what_is_wrong_with_a_file_is_told_in_chinese(tmp_path: Path) -> None:
    """Suites, sites and workloads made wrong at random: nothing that is said of them has an English sentence in it."""
    chance, told = random.Random(5), set()
    file = tmp_path / "input.yaml"
    for start, read in [
        (fuzz.SUITE, fuzz.read_suite),
        (fuzz.SITE, fuzz.read_site),
        (fuzz.WORKLOAD, fuzz.read_workload),
    ] * 100:
        file.write_bytes(fuzz.text_of(start, chance))
        try:
            read(file)
        except UserError as error:
            told.add(str(error))
    assert len(told) > 100
    for text in told:
        said = words.error(text, "zh")
        assert re.search(r"[\u4e00-\u9fff]", said) and not prose(said), (text, said)


def prose(text: str) -> list[str]:
    return re.findall(r"(?<![\w/.-])[a-z]{2,} [a-z]{2,}(?![\w/-])", re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "", text))


def test_no_english_is_left_inside_chinese() -> None:
    for name in CATALOGUES:
        for english, chinese in words.catalogue(name).items():
            left = re.findall(r"[A-Za-z]{2,} [a-z]{2,}", re.sub(r"\{\d+\}", "", _KEPT.sub("·", chinese)))
            assert not left, (english, left)


def test_translations_have_the_same_fields() -> None:
    for name in CATALOGUES:
        for english, chinese in words.catalogue(name).items():
            assert set(re.findall(r"\{\d+\}", english)) == set(re.findall(r"\{\d+\}", chinese)), english


def test_the_overview_begins_with_what_everybody_needs() -> None:
    assert len(next(iter(GROUPS.values()))) == 8
    assert overview("zh").index("  run ") < overview("zh").index("测量：")


@pytest.mark.parametrize("language", words.LANGUAGES)
@pytest.mark.parametrize("columns", [80, 120])
def test_help_fits_the_terminal(language: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    pages = [overview(language)] + [
        one.format_help() for verb in VERBS for one in help.with_children(parser(verb, language))
    ]
    for line in "\n".join(pages).splitlines():
        # A word may be longer than the line.
        assert help.length(line) <= columns or " " not in line.strip(), line


def test_words_are_never_broken() -> None:
    text = "one of ngc-tf-resnet50-time, a-very-long-name-that-has-no-place-in-a-line, 与中文 ngc-tf-bert-time 混排"
    for columns in range(12, 40):
        assert set(" ".join(help.wrap(text, columns)).split()) >= {"ngc-tf-resnet50-time,", "ngc-tf-bert-time"}


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({}, "en"),
        ({"TRAINMARK_LANG": "zh", "LC_ALL": "en_US.UTF-8"}, "zh"),
    ],
)
def test_the_locale_names_the_language(variables: dict[str, str], language: str) -> None:
    assert words.chosen(variables) == language


def test_errors_and_reports_are_chinese_where_that_is_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "没有名为 `rnu` 的命令（您是指 `run` 吗？）" in cli("rnu", "--lang", "zh", code=2).stderr
    assert "没有内置测试套件 `quik`（您是指 `quick` 吗？）" in cli("run", "quik", "--lang", "zh", code=2).stderr
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)
    assert "无法识别的参数：--sites" in cli("run", "noop", "--sites", "x", code=2).stderr
    assert "用例" in cli("run", "noop").stdout
    assert "case " in cli("report", "noop", "--lang", "en").stdout


def test_what_a_command_is_told_is_its_own(cli: Cli) -> None:
    assert "is not on PATH" in cli("exec", "--", "no-such-program", "--lang", "zh", code=2).stderr


@pytest.mark.slow
def test_tables_and_what_a_run_says_are_chinese(cli: Cli) -> None:
    cli("run", "noop:none:cpu:1:1:2", "--preset", "smoke", "--lang", "zh")
    verbs = [("run", "noop"), ("list",), ("status",), ("plan", "noop"), ("explain", "noop:none:cpu:1:1:1"), ("doctor",)]
    verbs += [("list", what) for what in ("suites", "workloads", "devices", "formats")]
    verbs += [("baseline", "set"), ("baseline", "list"), ("data", "list"), ("env", "list"), ("top",)]
    for verb in verbs:
        done = cli(*verb, "--lang", "zh")
        for line in (done.stdout + done.stderr).splitlines():
            assert not prose(_KEPT.sub("·", line)), (verb, line)


def test_english_stays_as_it_is(cli: Cli) -> None:
    cli("run", "noop:none:cpu:1:1:1", "--preset", "smoke")
    assert cli("list").stdout.split()[:5] == ["run", "created", "suite", "state", "cases"]
    cli("plan", "noop", "--lang", "zh")
    assert "block 1: " in cli("plan", "noop").stdout
