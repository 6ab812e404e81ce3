"""Reasons and formulas in Chinese: what scoring says is found again, and what is not known is left alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainmark.score
from trainmark.report.i18n.speaker import Speaker
from trainmark.report.phrases import said
from trainmark.score.figures.definitions import DEFINITIONS, definition

CHINESE = Speaker("zh")
# Where single figures, windows, gates and the ends of rounds get their sentences.
SCORING = ("attempt", "step_times", "case", "energy", "compute", "window", "contention", "convergence")
GIVEN_AS = ("Figure", "known", "ratio")


def _chinese(text: str) -> bool:
    shown = said(CHINESE, text).text
    return any("\u4e00" <= letter <= "\u9fff" for letter in shown)


def _sentences() -> list[str]:
    """The reasons that scoring gives for a figure without a value, with 7 for whatever changes."""
    found = set()
    for name in SCORING:
        tree = ast.parse((Path(trainmark.score.__file__).parent / "figures" / f"{name}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in GIVEN_AS:
                found |= {text for argument in node.args if (text := _text(argument))}
            if isinstance(node, ast.keyword) and node.arg == "reason" and (text := _text(node.value)):
                found.add(text)
    return sorted(found)


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "7" for part in node.values)
    return ""


@pytest.mark.parametrize("text", _sentences())
def test_every_reason_of_scoring_is_known(text: str) -> None:
    assert _chinese(text) or text == "7: 7", text  # a host and why: each reason is a sentence of its own


@pytest.mark.parametrize("name", [*DEFINITIONS, "evaluation_accuracy"])
def test_every_formula_is_known(name: str) -> None:
    assert _chinese(definition(name).formula)


def test_sentences_one_after_another() -> None:
    text = "round 2 was disturbed: n1: tasks waited for a processor 99 % of the time (limit 10 %); 1 more"
    assert said(CHINESE, text).text == "第 2 轮受干扰：n1：任务有 99 % 的时间在等处理器（上限 10 %）；另有 1 项"


def test_a_sentence_with_a_joint_of_its_own() -> None:
    text = "the vendor's dense peak of `fp32` on `cpu` is not known to trainmark; a site says it with `vendor_peaks:`"
    assert said(CHINESE, text).text.startswith("trainmark 不知道 `cpu` 上 `fp32`")


def test_text_that_is_not_known_stays() -> None:
    text = "Traceback: KeyError: 'x'; see there"
    assert said(CHINESE, text).text == text


@given(st.text(alphabet=st.sampled_from("no steps{0}:; 7é"), max_size=60))
def test_english_is_never_changed(text: str) -> None:
    label = said(Speaker("en"), text)
    assert label.text == text
    assert not label.parts or "".join(part.text for part in label.parts) == text
