"""The data of an experiment, whichever of the known forms it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tfrecords
import trainmark_images
from trainmark_images import Batch, Random, Source
from trainmark_job import InputError

# Of Fashion-MNIST's training pixels; near enough for its relatives.
GREY_MEAN, GREY_STD = 0.2860, 0.3530
IMAGENET_TEST = 50_000
_IDX = "train-images-idx3-ubyte"


class FirstImages:
    """The first so many images of a source."""

    def __init__(self, source: Source, count: int) -> None:
        self.source, self._count = source, min(count, len(source))
        self.mean, self.std = source.mean, source.std

    def __len__(self) -> int:
        return self._count

    def batch(self, indices: Any, random: Random | None) -> Batch:
        return self.source.batch(indices, random)


def is_decoded(source: Source) -> bool:
    """Whether reading an image of it takes a processor's time: pictures in files, not arrays in memory."""
    inner = source.source if isinstance(source, FirstImages) else source
    return isinstance(inner, trainmark_images.Folder | tfrecords.Records)


class SyntheticImages(trainmark_images.Synthetic):
    """Random pixels, as many images as wanted."""

    def __init__(self, size: int, channels: int, classes: int, count: int) -> None:
        super().__init__(size, classes)
        self.mean, self.std, self._channels, self._count = (0.5,) * channels, (0.25,) * channels, channels, count

    def __len__(self) -> int:
        return self._count

    def batch(self, indices: Any, random: Random | None) -> Batch:
        made = super().batch(indices, random)
        images = made.images if self._channels == 3 else made.images[:, :1].repeat(self._channels, axis=1)
        return Batch(images, made.labels)


class Wanted:
    """What the experiment takes: the size of images, and how many of them."""

    def __init__(self, size: int, channels: int, classes: int, train: int, test: int) -> None:
        self.size, self.channels, self.classes, self.train, self.test = size, channels, classes, train, test


def open_data(data: str, val_data: str | None, wanted: Wanted, cache: Path) -> tuple[Source, Source, str]:
    """Training images, test images, and what was found."""
    if data == "synthetic":
        size, channels, classes = wanted.size, wanted.channels, wanted.classes
        train = SyntheticImages(size, channels, classes, wanted.train or trainmark_images.IMAGENET_TRAIN)
        return train, SyntheticImages(size, channels, classes, wanted.test or IMAGENET_TEST), "synthetic"
    train, test, kind = _found(Path(data), Path(val_data) if val_data else None, wanted, cache)
    if len(train.mean) != wanted.channels:
        raise InputError(f"{data} has images of {len(train.mean)} channels, `image.channels` is {wanted.channels}")
    if wanted.train:
        train = FirstImages(train, wanted.train)
    return train, FirstImages(test, wanted.test) if wanted.test else test, kind


def _found(root: Path, other: Path | None, wanted: Wanted, cache: Path) -> tuple[Source, Source, str]:
    size, classes = wanted.size, wanted.classes
    if any((root / f"{_IDX}{ending}").is_file() for ending in ("", ".gz")):
        return (*trainmark_images.open_idx(str(root), classes, GREY_MEAN, GREY_STD), "idx")
    for train, test in ((root, other or root), (root / "train", (other or root) / "validation")):
        if tfrecords.shards(train, "train"):
            return (*tfrecords.open_records(train, test, size, classes, cache), "tfrecord")
    train, test, kind = trainmark_images.open_pictures(str(root), size, classes)
    if test is None and other is not None:
        names = sorted(entry.name for entry in root.iterdir() if entry.is_dir())
        test = trainmark_images.Folder(other, size, names)
    if test is None:
        raise InputError(f"{root} has no test images: accuracy needs a folder `val` in it, or `val_data:`")
    return train, test, kind
