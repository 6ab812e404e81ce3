"""What MindSpore's resnet50 takes beside the others, and its number formats."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.workloads.conftest import RANK_PATH, WORKLOADS
from trainmark import environments

from .conftest import Told

pytestmark = pytest.mark.frameworks


def test_resnet50_takes_the_names_and_settings_of_other_tools(cli, whole_cache):
    sets = ["batch_size=2", "train_steps=4", "data_sink_steps=2", "classes=10"]
    words = [word for one in sets for word in ("--set", one)]
    said = cli("run", "resnet50:mindspore:cpu:1:1:1", "--preset", "smoke", "--json", *words).stdout
    case = json.loads(said)["cases"][0]
    assert case["case"] == "resnet50:mindspore:cpu:1:1:1@batch=2,classes=10,data_sink_steps=2,preset=smoke,steps=4"
    told = Told(cli)
    assert [event["n"] for event in told.of(0, "STEP_END")] == [2] * 4
    assert len(told.losses()) == 4


# As if this CPU computed in fp16: slow, but the same numbers.
PRETEND = """
import runpy, sys
sys.path[:0] = sys.argv[2:]
import trainmark_job
trainmark_job.cpu_flags = lambda: {"avx512_fp16"}
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_fp16_learns_with_a_loss_scale(whole_cache, digits, tmp_path):
    python = environments.python_of("mindspore")
    assert python is not None
    params = {"batch": 16, "steps": 15, "dtype": "fp16", "target_accuracy": 0.0}
    (tmp_path / "config.json").write_text(json.dumps({"params": params, "data": str(digits), "seed": 1}))
    folder = WORKLOADS / "mnist"
    argv = [python, "-c", PRETEND, str(folder / "train_mindspore.py"), *RANK_PATH, str(folder)]
    env = {**os.environ, "TRAINMARK_CONFIG": str(tmp_path / "config.json")}
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    loss = float(done.stdout.strip().splitlines()[-1].rpartition("loss ")[2])
    assert loss < 2.0, "it began at 2.3"
