"""What only some verbs need, when it is not installed: said in one line, with the command that adds it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark import environments, extras
from trainmark.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_names_the_packages_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, modules in extras.EXTRAS.items():
        listed = {requirement.partition(">")[0] for requirement in project["optional-dependencies"][extra]}
        assert set(modules.values()) == listed, extra


def test_a_missing_extra_is_named_with_the_command_that_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "parquet", {"no_such_module": "no-such-package"})
    with pytest.raises(UserError, match=r"needs no-such-package.*`pip install 'trainmark\[parquet\]'`"):
        extras.need("parquet", "export parquet")
    with pytest.raises(UserError, match=r"`pip install 'trainmark\[parquet\]'`"):
        extras.load("no_such_module", "export parquet")


@pytest.mark.parametrize(
    ("argv", "module", "cure"),
    [
        (["diagnose", "dlrm:pytorch:cpu:1:1:1"], "torch", "trainmark[torch]"),
        (["peaks"], "torch", "trainmark[torch]"),
        (["goodput", "resnet50:pytorch:cpu:1:1:1"], "torch", "trainmark[torch]"),
        (["run", "dlrm:pytorch:cpu:1:1:1"], "numpy", "pip install numpy"),
        (["run", "glm:pytorch:cpu:1:1:1"], "transformers", "trainmark[hub]"),
    ],
)
def test_nothing_starts_without_what_its_ranks_import(
    cli: Cli, argv: list[str], module: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "has", lambda _python, name, _env: name != module)
    said = cli(*argv, code=3).stderr
    assert "is not installed" in said and cure in said and said.count("\n") == 1
    assert not cli.runs.exists()


def test_an_experiment_says_what_its_search_needs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "present", lambda _module: False)
    said = cli("automl", "run", "demo", code=2).stderr
    assert "optuna" in said and "`pip install 'trainmark[automl]'`" in said and not cli.runs.exists()
