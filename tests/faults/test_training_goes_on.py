"""A real training is cut off: its next attempt goes on from the last checkpoint, on every rank."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.faults.conftest import claims, wait_for
from trainmark.i18n.speaker import say

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]


def write_images(folder: Path, train: int = 600, test: int = 100) -> None:
    """Grey noise in the files MNIST has, the brighter the higher its label, so that there is something to learn."""
    folder.mkdir()
    draw = random.Random(1)
    darker = [bytes(value * (label + 1) // 10 for value in range(256)) for label in range(10)]
    for name, count in (("train", train), ("t10k", test)):
        labels = bytes(draw.randrange(10) for _ in range(count))
        pixels = b"".join(draw.randbytes(28 * 28).translate(darker[label]) for label in labels)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + pixels)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + labels)


def test_the_next_attempt_goes_on_from_the_last_checkpoint(cli: Cli, tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        f"schema: 1\nname: s\npreset: smoke\nseed: 3\ncases:\n  - case: mnist:pytorch:cpu:1:2:1\n"
        f"    data: {tmp_path / 'images'}\n    set: {{steps: 200, checkpoint_every: 20, eval_every: 200}}\n"
    )
    process = cli.start("run", str(suite), "--json")
    wait_for(lambda: list(cli.runs.glob("*/*/round1/checkpoints/node0/step-*.pt")))
    os.kill(claims(cli)[0]["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, out + err
    (case,) = json.loads(out)["cases"]
    (note,) = [note for note in [say(one) for one in case["notes"]] if "went on from step" in note]
    begun = int(note.split("step ")[1].split()[0])
    assert begun > 0 and begun % 20 == 0
    assert case["measurements"]["steps"]["value"] == 200 - begun
    (events,) = cli.runs.glob("*/*/round1/attempt2/*/events.jsonl")
    notes = [json.loads(line) for line in events.read_text().splitlines() if '"weights_sha256"' in line]
    assert len({note["value"] for note in notes}) == 1 and len(notes) == 2, "ranks ended with different weights"
