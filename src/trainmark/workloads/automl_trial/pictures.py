"""The data of an experiment, whichever of the known forms it has."""

from __future__ import annotations

from pathlib import Path

import tfrecords
import trainmark_images
from trainmark_images import Source
from trainmark_job import InputError

# Of Fashion-MNIST's training pixels; near enough for its relatives.
GREY_MEAN, GREY_STD = 0.2860, 0.3530
_IDX = "train-images-idx3-ubyte"


def open_data(data: str, val_data: str | None, size: int, classes: int, cache: Path) -> tuple[Source, Source, str]:
    """Training images, test images, and what was found."""
    if data == "synthetic":
        made = trainmark_images.Synthetic(size, classes)
        return made, made, "synthetic"
    root, other = Path(data), Path(val_data or data)
    if any((root / f"{_IDX}{ending}").is_file() for ending in ("", ".gz")):
        return (*trainmark_images.open_idx(data, classes, GREY_MEAN, GREY_STD), "idx")
    for train, test in ((root, other), (root / "train", other / "validation")):
        if tfrecords.shards(train, "train"):
            return (*tfrecords.open_records(train, test, size, classes, cache), "tfrecord")
    train, test, kind = trainmark_images.open_pictures(data, size, classes)
    if test is None and val_data:
        names = sorted(entry.name for entry in root.iterdir() if entry.is_dir())
        test = trainmark_images.Folder(other, size, names)
    if test is None:
        raise InputError(f"{root} has no test images: accuracy needs a folder `val` in it, or `val_data:`")
    return train, test, kind
