"""Tuning choices: pure, recorded, and never against the user."""

from __future__ import annotations

from typing import Any

import pytest

from trainmark.agent import device_watch
from trainmark.agent.node_plan import NodePlan, RankPlan
from trainmark.agent.tuning import Machine, Settings, choose, slices
from trainmark.devices.node_side.visible import of_rank

from .harness import words


def plan(count: int = 1, vendor: str = "cpu", visible: str | None = None, **more: Any) -> NodePlan:
    ranks = [{"rank": rank, "local_rank": rank, "argv": ["x"], "env": more.get("rank_env")} for rank in range(count)]
    return NodePlan(
        {
            "schema": 1, "token": "ab", "dir": "/nowhere", "ranks": ranks,
            "device": {"vendor": vendor, "visible": visible},
            "env": more.get("env"), "unset": more.get("unset"), "tuning": more.get("tuning"),
        }
    )  # fmt: skip


def chosen(plan: NodePlan, machine: Machine, **inherited: str) -> Settings:
    return choose(plan, machine, inherited)


EIGHT = Machine(list(range(8)))
TC = "/usr/lib/libtcmalloc_minimal.so.4"


@pytest.mark.parametrize(("count", "threads", "cpus"), [
    (1, 8, [[0, 1, 2, 3, 4, 5, 6, 7]]),
    (2, 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
    (3, 2, [[0, 1], [2, 3], [4, 5]]),
    (8, 1, [[cpu] for cpu in range(8)]),
])  # fmt: skip
def test_threads_and_cores_are_shared_equally(count: int, threads: int, cpus: list[list[int]]) -> None:
    settings = chosen(plan(count), EIGHT)
    assert (settings.threads, settings.cpus, settings.pinned) == (threads, cpus, count > 1)
    assert settings.env["OMP_NUM_THREADS"] == settings.env["MKL_NUM_THREADS"] == str(threads)


def test_more_ranks_than_cores() -> None:
    settings = chosen(plan(4), Machine([0, 1]))
    assert (settings.threads, settings.pinned, words(settings.warnings)) == (1, False, ["4 ranks share 2 cores"])


def test_fewer_cores_than_planned() -> None:
    asked = plan()
    asked.cpus = 8
    assert words(chosen(asked, Machine([0, 1])).warnings) == ["8 cores were planned, 2 may be used"]
    assert chosen(asked, EIGHT).warnings == []


def test_no_core_is_cut_in_two() -> None:
    threads_of_cores = [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert slices(Machine(list(range(8)), threads_of_cores), 2) == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert slices(Machine(list(range(8)), threads_of_cores), 3) == [[0, 4], [1, 5], [2, 6]]
    assert slices(Machine(list(range(8)), threads_of_cores), 8) == [[cpu] for cpu in (0, 4, 1, 5, 2, 6, 3, 7)]


def test_affinity_can_be_left_alone() -> None:
    settings = chosen(plan(2, tuning={"affinity": "none"}), EIGHT)
    assert (settings.pinned, settings.cpus) == (False, [list(range(8))] * 2)


def test_a_quota_counts() -> None:
    settings = chosen(plan(1), Machine(list(range(8)), quota=2.5))
    assert (settings.threads, words(settings.warnings)) == (2, ["a quota of 2.5 processors limits 8 cores"])


@pytest.mark.parametrize("where", ["env", "rank_env"])
def test_the_users_threads_win(where: str) -> None:
    settings = chosen(plan(1, tuning={"threads": 3}, **{where: {"OMP_NUM_THREADS": "5"}}), EIGHT)
    assert (settings.threads, "OMP_NUM_THREADS" in settings.env) == (5, False)
    assert words(settings.warnings) == ["OMP_NUM_THREADS=5 was set by the user"]


def test_inherited_threads_win_over_auto_but_not_over_the_plan() -> None:
    assert chosen(plan(1), EIGHT, OMP_NUM_THREADS="6").threads == 6
    assert chosen(plan(1, tuning={"threads": 3}), EIGHT, OMP_NUM_THREADS="6").threads == 3
    assert chosen(plan(1, unset=["OMP_NUM_THREADS"]), EIGHT, OMP_NUM_THREADS="6").threads == 8


@pytest.mark.parametrize(("wanted", "machine", "vendor", "allocator"), [
    ("auto", Machine([0], tcmalloc=TC), "cpu", "tcmalloc"),
    ("auto", Machine([0]), "cpu", "glibc"),
    ("auto", Machine([0], glibc=False), "cpu", "default"),
    ("auto", Machine([0], tcmalloc=TC), "nvidia", "default"),
    ("glibc", Machine([0], tcmalloc=TC), "nvidia", "glibc"),
    ("tcmalloc", Machine([0], tcmalloc=TC), "nvidia", "tcmalloc"),
    ("tcmalloc", Machine([0]), "cpu", "default"),
    ("default", Machine([0], tcmalloc=TC), "cpu", "default"),
])  # fmt: skip
def test_allocators(wanted: str, machine: Machine, vendor: str, allocator: str) -> None:
    settings = chosen(plan(1, vendor, tuning={"allocator": wanted}), machine)
    assert settings.allocator == allocator
    assert settings.env.get("LD_PRELOAD") == (TC if allocator == "tcmalloc" else None)
    assert ("MALLOC_TOP_PAD_" in settings.env) == (allocator == "glibc")
    assert bool([why for why in settings.warnings if why["code"] == "tcmalloc-not-found"]) == (
        wanted == "tcmalloc" != allocator
    )


@pytest.mark.parametrize("name", ["LD_PRELOAD", "MALLOC_ARENA_MAX"])
def test_the_users_allocator_wins(name: str) -> None:
    machine = Machine([0], tcmalloc=TC)
    for settings in (chosen(plan(1, env={name: "x"}), machine), chosen(plan(1), machine, **{name: "x"})):
        assert (settings.allocator, set(settings.env)) == ("user", {"OMP_NUM_THREADS", "MKL_NUM_THREADS"})


def test_each_rank_gets_one_device_of_what_was_inherited() -> None:
    name = "CUDA_VISIBLE_DEVICES"
    for settings, inherited in (
        (chosen(plan(2, "nvidia", name), EIGHT), None),
        (chosen(plan(2, "nvidia", name), EIGHT, CUDA_VISIBLE_DEVICES="6,3"), "6,3"),
        (chosen(plan(2, "nvidia", name, env={name: "5,4"}), EIGHT, CUDA_VISIBLE_DEVICES="6,3"), "5,4"),
    ):
        assert (settings.visible, settings.inherited) == (name, inherited)
    assert [of_rank("6,3", rank) for rank in (0, 1, 2)] == ["6", "3", None]
    assert [of_rank(None, 1), of_rank("all", 1), of_rank("GPU-a,MIG-b", 1)] == ["1", "1", "MIG-b"]
    assert (of_rank("0,-1,2", 0), of_rank("0,-1,2", 1), of_rank("", 0)) == ("0", None, None)


def test_a_plan_may_give_ranks_devices_of_their_own() -> None:
    name = "CUDA_VISIBLE_DEVICES"
    ranks = [RankPlan({"rank": 0, "argv": ["x"], "env": {name: "2,3"}})]
    facts = {"devices": [{"index": index} for index in range(4)], "count": 4}
    assert device_watch.wanted(ranks, name, None) == (2, "2,3")
    assert device_watch.used(facts, 2, "2,3") == [2, 3] and not device_watch.check(facts, "nvidia", 2, "2,3")
    assert device_watch.wanted([RankPlan({"rank": 0, "argv": ["x"]})], name, "1,0") == (1, "1,0")
    assert device_watch.used(facts, 1, "1,0") == [1]
