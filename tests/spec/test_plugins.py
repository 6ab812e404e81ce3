"""Workloads that another package brings."""

from __future__ import annotations

import importlib

import pytest

from trainmark.spec import workload

YAML = "schema: 1\nname: {name}\ntitle: t\nunit: u\nentry: {{none: train.py}}\npresets: {{smoke: {{}}}}\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes a package that is installed, with an entry point for workloads; the folders named hold one each."""

    def make(name, *folders):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        for folder in (tmp_path / name / one for one in folders):
            folder.mkdir(exist_ok=True)
            (folder / "workload.yaml").write_text(YAML.format(name=folder.name))
            (folder / "train.py").write_text("")
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[trainmark.workloads]\n{name} = {name}\n")
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()

    return make


def test_a_package_that_holds_several(package):
    package("mymodels", "line", "curve")
    assert {"line", "curve"} <= set(workload.names())
    assert workload.find("curve", (), "here").folder.name == "curve"


def test_a_package_that_is_one(package):
    package("plane", ".")
    assert workload.find("plane", (), "here").workload.title == "t"


def test_a_package_without_any_is_told_and_skipped(package, capsys):
    package("hollow")
    assert "hollow" not in workload.names() and "mnist" in workload.names()
    assert "workload plug-in hollow is broken and skipped" in capsys.readouterr().err
