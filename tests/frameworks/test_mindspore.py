"""What MindSpore's resnet50 takes beside the others, and what programs refuse in one line."""

from __future__ import annotations

import json

import pytest

from .conftest import Told

pytestmark = pytest.mark.frameworks


def test_resnet50_takes_the_names_and_settings_of_other_tools(cli, whole_cache):
    sets = ["batch_size=2", "train_steps=4", "data_sink_steps=2", "classes=10"]
    words = [word for one in sets for word in ("--set", one)]
    said = cli("run", "resnet50:mindspore:cpu:1:1:1", "--preset", "smoke", "--json", *words, timeout=600).stdout
    case = json.loads(said)["cases"][0]
    assert case["case"] == "resnet50:mindspore:cpu:1:1:1@batch=2,classes=10,data_sink_steps=2,steps=4"
    told = Told(cli)
    assert [event["n"] for event in told.of(0, "STEP_END")] == [2] * 4
    assert len(told.losses()) == 4


@pytest.mark.parametrize(
    ("setting", "words"),
    [("dtype=bf16", "dtype bf16 is not offered in MindSpore"), ("accumulate=2", "accumulate=2 is for PyTorch")],
)
def test_what_a_framework_does_not_offer_is_one_line(cli, whole_cache, setting, words):
    said = cli("run", "resnet50:mindspore:cpu:1:1:1", "--preset", "smoke", "--set", setting, code=1).stdout
    assert words in said
