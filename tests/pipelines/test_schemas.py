"""The published JSON Schemas, held by a real validator against real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.conftest import Cli
from trainmark.spec import schemas

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "docs" / "schemas"
FILES = {
    "suite": [*(ROOT / "src/trainmark/suites").glob("*.yaml"), ROOT / "src/trainmark/cli/examples/suite.yaml"],
    "site": [*(ROOT / "sites").glob("*.yaml"), ROOT / "src/trainmark/cli/examples/site.yaml"],
    "workload": [*(ROOT / "src/trainmark/workloads").glob("*/workload.yaml")],
}


def faults(kind: str, content: Any) -> list[str]:
    made = json.loads((PUBLISHED / f"{kind}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(made)
    return [error.message for error in jsonschema.Draft202012Validator(made).iter_errors(content)]


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_the_published_schema_is_the_one_that_is_made(kind: str) -> None:
    assert (PUBLISHED / f"{kind}.schema.json").read_text() == schemas.text(kind), f"trainmark schema {kind} -o …"


@pytest.mark.parametrize(("kind", "file"), [(kind, file) for kind, files in FILES.items() for file in files])
def test_our_own_files_fit(kind: str, file: Path) -> None:
    assert faults(kind, yaml.safe_load(file.read_text())) == []


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("suite", {"cases": ["mnist:pytorch:cpu:1:1"]}),
        ("suite", {"cases": []}),
        ("suite", {"cases": ["noop:none:cpu:1:1:1"], "retrys": 1}),
        ("suite", {"cases": [{"command": "python train.py"}]}),
        ("site", {"hosts": "node1"}),
        ("site", {"container": {"image": "x", "pul": "never"}}),
        ("workload", {"schema": 1, "name": "x"}),
    ],
)
def test_what_is_wrong_is_found(kind: str, content: Any) -> None:
    assert faults(kind, content)


@pytest.mark.parametrize(
    "content",
    [
        {"cases": {"resnet50:pytorch:A100:1:8:1": "/data"}},
        {"cases": [{"case": "noop:none:cpu:1:1:1", "repeat": "auto"}, {"command": ["python", "x.py"], "batch": 4}]},
    ],
)
def test_every_spelling_of_cases_fits(content: Any) -> None:
    assert faults("suite", content) == []


def test_files_are_checked_before_a_commit(cli: Cli) -> None:
    """What the hook of pre-commit calls."""
    cli("init")
    cli("schema", "check", "suite.yaml", "site.yaml", str(ROOT / "src/trainmark/workloads/mnist/workload.yaml"))
    (cli.folder / "suite.yaml").write_text("cases: [noop:none:cpu:1:1:1]\nretrys: 2\n")
    (cli.folder / "other.yaml").write_text("cases: [nosuch:none:cpu:1:1:1]\n")
    said = cli("schema", "check", "suite.yaml", "other.yaml", code=2).stderr
    assert "did you mean `retries`" in said and "no workload `nosuch`" in said
    first = (cli.folder / "site.yaml").read_text().splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=") and (PUBLISHED / first.rpartition("/")[2]).is_file()
