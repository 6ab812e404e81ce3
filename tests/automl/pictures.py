"""Small images that can be learnt: ten patterns under noise, in the files of MNIST."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write(folder: Path, train: int = 1920, test: int = 500, size: int = 28) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    patterns = random.integers(0, 200, (10, size, size))
    for part, count in (("train", train), ("t10k", test)):
        labels = random.integers(0, 10, count)
        noise = random.integers(-120, 120, (count, size, size))
        images = np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8)
        head = bytes((0, 0, 8, 3)) + b"".join(int(n).to_bytes(4, "big") for n in images.shape)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = bytes((0, 0, 8, 1)) + count.to_bytes(4, "big")
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + labels.astype(np.uint8).tobytes())
    return folder
