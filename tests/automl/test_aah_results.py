"""Result folders of AIPerf, scored again: against figures worked out from its own formulas."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.automl.aiperf_writer import to_aiperf
from tests.conftest import Cli
from trainmark.automl.aah import results
from trainmark.automl.graph.start_networks import resnet50
from trainmark.errors import UserError

# Of their resnet50.json, as their profiler counts an epoch.
EPOCH = 2.989875581795e16
LOG = """\
Epoch 1/3
[06/02/2020, 11:00:00 AM] 2502/2502 - loss: 6.1 - accuracy: 0.1 - val_loss: 5.0 - val_accuracy: 0.3000
Epoch 2/3
[06/02/2020, 12:00:00 PM] 2502/2502 - loss: 3.1 - accuracy: 0.4 - val_loss: 3.0 - val_accuracy: 0.7200
Epoch 3/3
 killed
"""
SECOND = """\
Epoch 1/1
[06/02/2020, 12:30:00 PM] 2502/2502 - val_acc: 0.7100
Epoch 1/1
[06/02/2020, 01:00:00 PM] 2502/2502 - val_acc: 0.7500
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """`mountdir/nni/experiments/ID` and `nni/experiments/ID`."""
    mount, nni = tmp_path / "mount" / "AbCd", tmp_path / "nni" / "AbCd"
    starts = {"b1": ["06/02/2020, 10:00:00"], "a2": ["06/02/2020, 12:00:00", "06/02/2020, 12:30:00"]}
    for number, (trial, log) in enumerate({"b1": LOG, "a2": SECOND, "dead": ""}.items()):
        about, there = mount / "hyperparameter_epoch" / trial, nni / "trials" / trial
        about.mkdir(parents=True)
        there.mkdir(parents=True)
        (about / "model.json").write_text(json.dumps(to_aiperf(resnet50())))
        for run, start in enumerate(starts.get(trial, [])):
            values = {"dropout_rate": 0.0, "kernel_size": 3, "batch_size": 448}
            (about / f"{run}.json").write_text(json.dumps({"hyperparameter": values, "start_date": start}))
        (there / "trial.log").write_text(log)
        (there / "parameter.cfg").write_text(json.dumps({"parameter_id": number}))
    return mount, nni


def test_the_score_is_theirs(folders: tuple[Path, Path]) -> None:
    found = results.read(folders[0], "release", folders[1])
    # Four epochs that ended, within three hours; the third of the first trial did not.
    assert found.seconds == 3 * 3600 and found.epochs == 4
    assert found.score == pytest.approx(4 * EPOCH / (3 * 3600), rel=1e-12)
    assert found.regulated == pytest.approx(found.score * abs(math.log(1 - 0.75)), rel=1e-12)
    assert found.valid and [trial.accuracy for trial in found.trials] == [0.72, 0.75]
    assert [trial.runs for trial in found.trials] == [1, 2]
    codes = [remark.code for remark in found.remarks]
    assert codes == ["automl-imported", "automl-imported-without"]
    # Nobody wrote down the number format: that is neither met nor missed.
    assert {one.rule: one.met for one in found.verdicts}["precision"] is None


def test_other_rules_judge_otherwise(folders: tuple[Path, Path], cli: Cli) -> None:
    arguments = (str(folders[0]), "--nni", str(folders[1]), "-o", str(cli.folder / "judged"))
    said = cli("automl", "import", *arguments, "--rules", "seed", code=1).stdout
    assert "NOT VALID" in said and "12" in said
    assert (cli.folder / "judged" / "Report_Failed.html").is_file()
    assert json.loads(cli("automl", "import", *arguments, "--json").stdout)["valid"] is True
    assert not (cli.folder / "judged" / "Report_Failed.html").exists()


def test_what_is_missing_is_named(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name the one of nni/experiments with --nni"):
        results.read(folders[0], "release")
    with pytest.raises(UserError, match="has no folder `hyperparameter_epoch`"):
        results.read(tmp_path, "release")
    with pytest.raises(UserError, match="no such rule set"):
        results.read(folders[0], "relase", folders[1])
    for log in folders[1].glob("trials/*/trial.log"):
        log.write_bytes(b"\xffEpoch 1/1\n[99/99/2020, 01:00:00 PM] x val_acc: 0.5\n")
    with pytest.raises(UserError, match="no epoch in the logs of 3"):
        results.read(folders[0], "release", folders[1])
