"""The contract of workloads, kept by those that ship, and by the one that docs/adding-a-workload.md makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trainmark.spec import workload
from trainmark.testing.workloads import PRESETS, WorkloadContract

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(set(workload.names()) - {"noop"}))
def test_those_that_ship_say_what_they_are(name: str) -> None:
    found = workload.read(workload.BUILT_IN / name).workload
    assert set(PRESETS) <= set(found.presets)
    assert all(parameter.help for parameter in found.parameters.values())
    assert found.flops_per_sample or name not in ("resnet50", "gpt2", "bert")


def written_in(page: Path, folder: Path) -> Path:
    """The files of a page: each block that begins with a comment `# NAME` is that file, to the letter."""
    for text in re.findall(r"```(?:yaml|python)\n(.*?)```", page.read_text(), re.DOTALL):
        named = re.match(r"# workloads/(line/\S+)\n", text)
        if named:
            file = folder / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return folder / "line"


class TestTheOneOfThePage(WorkloadContract):
    @pytest.fixture(autouse=True)
    def _written(self, tmp_path: Path) -> None:
        self.folder = written_in(DOCS / "adding-a-workload.md", tmp_path / "workloads")


def test_both_languages_show_the_same_files(tmp_path: Path) -> None:
    pages = [written_in(DOCS / f"adding-a-workload{end}", tmp_path / end) for end in (".md", ".zh.md")]
    assert [file.read_text() for file in sorted(pages[0].iterdir())] == [
        file.read_text() for file in sorted(pages[1].iterdir())
    ]
