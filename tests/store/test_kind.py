"""The kind of a run: said by its plan, and made out once where an older plan does not say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.plans import plan
from trainmark.plan.records import Diagnostic
from trainmark.store import rundir

IMPORTED = {
    "format": "perflog", "source": "x", "sha256": "0", "files": 1, "bytes": 1, "tools": {}, "options": {}, "missing": []
}  # fmt: skip


def written(folder: Path, changes: dict[str, Any], case: dict[str, Any], **more: Any) -> rundir.RunDir:
    """A run whose manifest was written before plans said their kind."""
    made = msgspec.structs.replace(plan([1]), **changes)
    made = msgspec.structs.replace(made, cases=tuple(msgspec.structs.replace(one, **case) for one in made.cases))
    manifest = rundir.Manifest(rundir.SCHEMA, "old", 1, "0", [], made, {})
    raw = json.loads(msgspec.json.encode(manifest)) | more
    del raw["plan"]["kind"]
    (folder / rundir.MANIFEST).write_text(json.dumps(raw))
    return rundir.RunDir(folder)


@pytest.mark.parametrize(
    ("kind", "changes", "case", "more"),
    [
        ("benchmark", {}, {}, {}),
        ("acceptance", {"suite": "accept"}, {}, {}),
        ("goodput", {"recover": True}, {}, {}),
        ("diagnosis", {}, {"diagnostic": Diagnostic("plain", "thing:none:cpu:1:1:1", 1, 20)}, {}),
        ("peaks", {}, {"workload": "peaks"}, {}),
        ("automl", {}, {"params": {"experiment": "{}"}}, {}),
        ("import", {}, {}, {"imported": IMPORTED}),
    ],
)
def test_an_older_manifest_gets_its_kind(
    tmp_path: Path, kind: str, changes: dict[str, Any], case: dict[str, Any], more: dict[str, Any]
) -> None:
    assert written(tmp_path, changes, case, **more).manifest().plan.kind == kind


def test_what_a_plan_says_is_not_guessed_again(tmp_path: Path) -> None:
    """A benchmark may be called `accept`."""
    made = msgspec.structs.replace(plan([1]), suite="accept")
    run = rundir.RunDir(tmp_path)
    rundir.write_manifest(run, rundir.Manifest(rundir.SCHEMA, "new", 1, "0", [], made, {}))
    assert rundir.RunDir(tmp_path).manifest().plan.kind == "benchmark"
