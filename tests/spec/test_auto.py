"""Device `auto`: what the machine has, by a device that another package brings; and the preset in a case's id."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.errors import SiteError, UserError
from trainmark.launch.sites import for_suite
from trainmark.run import planning
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.case import Case
from trainmark.spec.site import Accelerators, Site

HERE = Site(hosts=["here"])
DEVICE = """
from trainmark.devices.protocol import Device

class Abacus(Device):
    vendor = "abacus"
    visible = "ABACUS_VISIBLE"
    backends = {"pytorch": "beads"}
    node = "abacus_node"
"""
NODE = """
def detect():
    return {"devices": [{"model": "B1"}] * COUNT}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A package with a device of its own, of which there are so many here."""

    def make(node: str) -> None:
        (tmp_path / "abacus_device.py").write_text(DEVICE)
        (tmp_path / "abacus_node.py").write_text(node)
        about = tmp_path / "abacus-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[trainmark.devices]\nabacus = abacus_device:Abacus\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(importlib.import_module("sys").modules, "abacus_node", raising=False)
        importlib.invalidate_caches()

    return make


def expand(*cases: str, preset: str = "quick", site: Site = HERE) -> list[Case]:
    loaded = suites.named("s", list(cases), preset)
    return suite_cases.expand(loaded, for_suite(loaded, site), {})


def test_without_accelerators_it_is_the_cpu() -> None:
    (case,) = expand("gpt2:pytorch:auto:1:auto:3")
    assert str(case.id) == "gpt2:pytorch:cpu:1:1:3" and case.params["layers"].value == 3


def test_all_accelerators_are_taken_with_sizes_for_them(install: Callable[[str], None]) -> None:
    install(NODE.replace("COUNT", "4"))
    (case,) = expand("gpt2:pytorch:auto:2:auto:3")
    assert str(case.id) == "gpt2:pytorch:abacus:2:4:3@preset=quick-accelerator"
    assert (case.params["dtype"].value, case.params["context"].value, case.vendor) == ("bf16", 1024, "abacus")
    assert case.length is not None and case.length.whole
    loaded = suites.load(suites.find("quick"))
    plan = planning.plan_suite(loaded, HERE, {}, 1)
    assert {case.vendor for case in plan.cases} == {"abacus"} and plan.cases[0].backend == "beads"
    assert all(case.world == 4 and case.visible == "ABACUS_VISIBLE" for case in plan.cases)


def test_a_device_that_is_broken_or_not_there_is_passed_over(
    install: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("def detect():\n    raise OSError('no driver')\n")
    (case,) = expand("gpt2:pytorch:auto:1:auto:3")
    assert case.id.device == "cpu"
    assert "device abacus is broken and skipped: OSError: no driver" in capsys.readouterr().err


def test_a_site_says_what_its_hosts_have() -> None:
    site = Site(hosts=["a", "b"], accelerators=Accelerators("A100", 8), devices={"A100": "nvidia"})
    cases = expand("gpt2:pytorch:auto:2:auto:1", "gpt2:pytorch:A100:1:auto:1", "gpt2:pytorch:cpu:1:auto:1", site=site)
    assert [str(case.id) for case in cases] == [
        "gpt2:pytorch:A100:2:8:1@preset=quick-accelerator",
        "gpt2:pytorch:A100:1:8:1",
        "gpt2:pytorch:cpu:1:1:1",
    ]
    with pytest.raises(UserError, match="has no ascend, it has A100"):
        expand("gpt2:pytorch:npu:1:auto:1", site=site)
    with pytest.raises(UserError, match=r"is not known here.*accelerators: \{device: nvidia, count: 8\}"):
        suite_cases.expand(suites.single("gpt2:pytorch:auto:1:1:1", "quick"), HERE, {})


def test_gpu_is_whatever_accelerator_there_is_and_no_cpu() -> None:
    site = Site(hosts=["here"], accelerators=Accelerators("ascend", 8))
    (case,) = expand("mnist:pytorch:gpu:1:auto:1", site=site)
    assert (case.id.device, case.id.nproc) == ("ascend", 8)
    with pytest.raises(SiteError, match="no accelerator was found here"):
        expand("mnist:pytorch:gpu:1:1:1", site=Site(hosts=["here"], accelerators=Accelerators("cpu")))


@pytest.mark.parametrize("name", ["xpu", "accelerator", "GPUS"])
def test_a_word_for_any_accelerator_is_never_a_cpu(name: str) -> None:
    with pytest.raises(UserError) as said:
        planning.plan_suite(suites.single(f"mnist:pytorch:{name}:1:1:1", "smoke"), HERE, {}, 1)
    assert "did you mean" not in str(said.value) and "`auto` takes what the machine has" in str(said.value)


def test_cuda_and_npu_are_names_of_vendors() -> None:
    cases = expand("mnist:pytorch:cuda:1:1:1", "mnist:pytorch:npu:1:1:1")
    assert [case.id.device for case in cases] == ["nvidia", "ascend"]
    own = Site(hosts=["here"], devices={"cuda": "iluvatar"})
    (case,) = expand("mnist:pytorch:cuda:1:1:1", site=own)
    assert (case.id.device, case.vendor) == ("cuda", "iluvatar"), "the site's word stands"


def test_presets_are_part_of_the_id_and_two_of_them_stand_in_one_suite() -> None:
    cases = expand(
        "mnist:pytorch:cpu:1:1:3", "mnist:pytorch:cpu:1:1:3@preset=smoke", "mnist:pytorch:cpu:1:1:3@preset=full"
    )
    assert [str(case.id) for case in cases] == [
        "mnist:pytorch:cpu:1:1:3",
        "mnist:pytorch:cpu:1:1:3@preset=smoke",
        "mnist:pytorch:cpu:1:1:3@preset=full",
    ]
    assert [case.preset for case in cases] == ["quick", "smoke", "full"]
    # The same, said in two ways.
    with pytest.raises(UserError, match="is the same case"):
        expand("mnist:pytorch:cpu:1:1:3", "mnist:pytorch:cpu:1:1:5@preset=quick")
    with pytest.raises(UserError, match=r"has no preset `smok` .did you mean `smoke`"):
        expand("mnist:pytorch:cpu:1:1:3@preset=smok")
