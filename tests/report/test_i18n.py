"""Reasons as text in both languages: nested, listed, old, unknown, and in a page that switches language."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.i18n import catalogues
from trainmark.i18n.speaker import say
from trainmark.reasons import Reason, as_reason, reason
from trainmark.report.render.markup import Markup


@pytest.fixture(autouse=True)
def _some_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    for code, pair in {
        "t-plain": ("no steps", "没有步"),
        "t-late": ("rank {rank} was silent for {seconds:.1f} s", "{seconds:.1f} 秒内进程 {rank} 没有消息"),
        "t-round": ("round {round}: {why}", "第 {round} 轮：{why}"),
    }.items():
        monkeypatch.setitem(catalogues.REASONS, code, pair)


LATE = reason("t-late", rank=3, seconds=1.25)


def test_arguments_are_formatted_by_the_template() -> None:
    assert say(LATE) == "rank 3 was silent for 1.2 s"
    assert say(LATE, "zh") == "1.2 秒内进程 3 没有消息"


def test_nested_reasons_and_lists() -> None:
    nested = reason("t-round", round=2, why=[LATE, reason("t-plain")])
    assert say(nested) == "round 2: rank 3 was silent for 1.2 s; no steps"
    assert say(nested, "zh") == "第 2 轮：1.2 秒内进程 3 没有消息；没有步"
    assert say([LATE, "as it was"], "zh") == "1.2 秒内进程 3 没有消息；as it was"


def test_what_was_written_to_a_file_is_said_the_same() -> None:
    nested = reason("t-round", round=2, why=[LATE])
    assert say(json.loads(msgspec.json.encode(nested))) == say(nested)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_text_of_older_runs_stays(language: str) -> None:
    assert say("rank 0 {exited}", language) == "rank 0 {exited}"
    assert say(as_reason("rank 0 exited"), language) == "rank 0 exited"
    assert say(None, language) == say([], language) == ""


def test_unknown_codes_and_missing_arguments_do_not_fail() -> None:
    assert say(reason("t-new", rank=3, why=reason("t-plain"))) == "t-new (rank=3, why=no steps)"
    assert say(reason("t-new")) == "t-new"
    assert say(reason("t-late", rank=3)) == "rank 3 was silent for ? s"
    assert say(reason("t-late", rank=3, seconds="a while")) == "rank 3 was silent for a while s"


def test_data_with_braces_stays_data() -> None:
    assert say(reason("t-late", rank="{1}", seconds=2)) == "rank {1} was silent for 2.0 s"


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["code", "arguments"]), inner),
    max_leaves=6,
)


@given(st.sampled_from(["t-late", "t-round", "text", "x"]), st.dictionaries(st.sampled_from(["rank", "why"]), _ANY))
def test_nothing_makes_it_fail(code: str, arguments: dict[str, Any]) -> None:
    for language in ("en", "zh"):
        assert isinstance(say(Reason(code, arguments), language), str)


def test_a_page_holds_both_languages() -> None:
    page = Markup("zh")
    late = reason("t-round", round=2, why=LATE)
    assert page.element("p", late) == f"<p data-t=0>{say(late, 'zh')}</p>"
    assert page.element("b", late) == f"<b data-t=0>{say(late, 'zh')}</b>"
    assert page.element("p", reason("t-new")) == "<p>t-new</p>", "nothing to change"
    assert json.loads(page.all_text()) == [[say(late), say(late, "zh")]]
