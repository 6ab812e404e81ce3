from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.errors import UserError
from trainmark.spec.case_id import CaseId

names = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=12).filter(lambda s: s[0].isalnum())
plain_names = names.filter(lambda s: "_" not in s)
keys = st.text(string.ascii_lowercase + "_", min_size=1, max_size=8)
values = st.text(max_size=10)
ids = st.builds(
    lambda w, f, v, d, nodes, procs, repeat, variant: CaseId(
        w, f, v, d, nodes, procs, repeat, tuple(sorted(variant.items()))
    ),
    names,
    plain_names,
    st.one_of(st.just(""), plain_names),
    names,
    st.integers(1, 10**5),
    st.integers(1, 64),
    st.one_of(st.integers(1, 100), st.just("auto")),
    st.dictionaries(keys, values, max_size=2),
)


@given(ids)
def test_text_and_back(case_id: CaseId) -> None:
    try:
        assert CaseId.parse(str(case_id)) == case_id
    except UserError as error:
        assert "too long" in str(error)


@given(ids)
def test_folder_name_and_back(case_id: CaseId) -> None:
    name = case_id.dir_name()
    assert not set(name) & set(":/ \0\n") and name not in (".", "..")
    assert name.isascii()
    try:
        assert CaseId.from_dir_name(name) == case_id
    except UserError as error:
        assert "too long" in str(error)


@given(ids, ids)
def test_different_ids_have_different_folders(one: CaseId, other: CaseId) -> None:
    assert (one == other) == (one.dir_name() == other.dir_name())


@given(ids)
def test_identity_is_everything_but_repeat(case_id: CaseId) -> None:
    import msgspec

    assert msgspec.structs.replace(case_id, repeat=77).identity == case_id.identity
    assert msgspec.structs.replace(case_id, nproc=case_id.nproc + 1).identity != case_id.identity


@pytest.mark.parametrize("key", ["bert:pytorch_1.8:A100:1:8:1", "glm:pytorch:TP1PP1SH2SP8A10040G:2:8:3"])
def test_flagperf_keys_are_valid_as_they_are(key: str) -> None:
    assert str(CaseId.parse(key)) == key


def test_version_is_apart_from_the_framework() -> None:
    found = CaseId.parse("bert:pytorch_1.8:A100:1:8:1")
    assert (found.framework, found.version) == ("pytorch", "1.8")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("bert:pytorch:A100:1:8", "5 fields, not 6"),
        ("bert:pytorch:A100:0:8:1", "nnodes is `0`, allowed is a whole number from 1"),
        ("bert:pytorch:A100:1:-2:1", "nproc is `-2`"),
        ("bert:pytorch:A100:1:8:some", "allowed is a whole number from 1 or `auto`"),
        ("bert:pytorch:A100:1:8:1@", "nothing follows"),
        ("bert:pytorch:A100:1:8:1@batch", "is not key=value"),
        ("bert:pytorch:A100:1:8:1@a=1,a=2", "given twice"),
        ("../x:pytorch:A100:1:8:1", "may hold letters"),
        ("bert:pytorch:A100:١:8:1", "nnodes is"),
    ],
)
def test_bad_ids_say_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        CaseId.parse(text)
