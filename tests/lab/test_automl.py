"""Experiments over ssh: weights go from host to host through a folder that all see, or nothing is started."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from lab.lab import Lab
from tests.automl import pictures
from tests.conftest import Cli
from trainmark.automl.experiment import record
from trainmark.store.rundir import RunDir

pytestmark = pytest.mark.lab


def experiment(folder: Path, data: Path) -> str:
    content: dict[str, Any] = {
        **{"schema": 1, "name": "ssh", "data": str(data), "rules": "none", "start": "small_cnn"},
        **{"start_options": {"blocks": 2, "width": 4}, "image": {"size": 28, "channels": 1, "classes": 10}},
        **{"policy": "random", "workers": 2, "max_trials": 16, "max_duration": "20m", "hpo": {"searches": 0}},
        "training": {"batch": 64, "epochs": [2], "lr": 0.1, "images": 640, "test_images": 200},
    }
    file = folder / "experiment.yaml"
    file.write_text(json.dumps(content))
    return str(file)


def test_two_hosts_inherit_from_each_other_or_are_refused(
    lab: Lab, cli: Cli, site_file: Callable[..., Path], tmp_path: Path
) -> None:
    shared = lab.layout.shared / f"automl-{os.getpid()}"
    shared.mkdir()
    file = experiment(tmp_path, pictures.write(shared / "data"))
    refused = cli("automl", "run", file, "--site", str(site_file("apart", shared_dir=None)), code=2)
    assert "need `shared_dir`" in refused.stderr and not list(cli.runs.glob("*"))
    cli("automl", "run", file, "--site", str(site_file("together", shared_dir=str(shared))), code=1)
    (manifest,) = cli.runs.glob("*/manifest.json")
    found = record.read(RunDir(manifest.parent))
    hosts = {begin.number: begin.host for begin in found.begins}
    parents = {begin.number: begin.parent for begin in found.begins}
    assert sorted(hosts) == list(range(16)) and len(set(hosts.values())) == 2
    heirs = [end.number for end in found.ends if end.inherited]
    # Only what was chosen before there was a trained parent may have fresh weights, and the page says so.
    fresh = {end.number for end in found.ends if parents[end.number] is not None and not end.inherited}
    assert fresh <= {1, 2, 3} and len(heirs) >= 12
    assert any(hosts[number] != hosts[parents[number]] for number in heirs), "from one host to the other"
    first = {epoch.trial: epoch.loss for epoch in found.epochs if epoch.epoch == 1}
    assert mean(first[number] for number in heirs) < first[0]
