"""A site file for the emulator, so that it can be tried out at once."""

from __future__ import annotations

import sys
from pathlib import Path

from trainmark.emulate.modelarts.server import CREDENTIALS, Emulator
from trainmark.emulate.modelarts.training_service import PROJECT

BUCKET = "trainmark"


def content(emulator: Emulator, **changes: object) -> dict[str, object]:
    """`changes` go into the part of the launcher."""
    launcher: dict[str, object] = {
        "name": "modelarts",
        "region": "emulated",
        "project": PROJECT,
        "endpoints": {"modelarts": emulator.url, "obs": emulator.url, "iam": emulator.url},
        "credentials": str(emulator.folder.resolve() / CREDENTIALS),
        "flavor": "emulated.2card",
        "nodes": 2,
        "engine": {"name": "PyTorch", "version": "emulated"},
        "code": f"obs://{BUCKET}/code/",
        "output": f"obs://{BUCKET}/output/",
        "poll_seconds": 1,
    }
    return {"schema": 1, "name": "emulated", "launcher": {**launcher, **changes}, "python": sys.executable}


def write(emulator: Emulator) -> Path:
    """Makes the bucket that the site names, too."""
    import yaml

    emulator.objects.create(BUCKET)
    path = emulator.folder / "site.yaml"
    path.write_text(yaml.safe_dump(content(emulator), sort_keys=False), encoding="utf-8")
    return path
