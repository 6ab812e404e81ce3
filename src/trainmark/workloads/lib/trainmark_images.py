"""Labelled images from the formats people have: IDX files, folders of pictures, CIFAR-10 binaries; or synthetic.

Every source gives batches of bytes by index, and a broken file is an InputError that names it. `ArrayFeed` makes them
batches of normalised floats for frameworks that are fed with NumPy's arrays.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import trainmark_probe as probe
from trainmark_job import InputError
from trainmark_loop import Rank, Shards

Random = np.random.Generator

IMAGENET_TRAIN = 1_281_167
CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR_TEST = "test_batch.bin"
CIFAR_RECORD, CIFAR_CLASSES = 1 + 3 * 32 * 32, 10
PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm"}
IDX_BYTES = 0x08
# Batches that each thread reads ahead.
AHEAD = 2


class Batch(NamedTuple):
    """Arrays, or what a framework makes of them."""

    images: Any
    labels: Any


class Source(Protocol):
    """Images with labels. `mean` and `std` are per channel, of pixels from 0 to 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray[Any, Any], random: Random | None) -> Batch:
        """Images (N, C, H, W) as bytes, and labels. With `random` they are varied for training."""


class Arrays:
    """Images held in memory."""

    def __init__(self, images: Any, labels: Any, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.images, self.labels = images, labels.astype(np.int64)
        self.mean, self.std = mean, std

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: np.ndarray[Any, Any], random: Random | None) -> Batch:  # noqa: ARG002
        return Batch(self.images[indices], self.labels[indices])


class Synthetic:
    """Random pixels and labels, the same ones at every step: for speed, never for accuracy."""

    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.25, 0.25, 0.25)

    def __init__(self, size: int, classes: int) -> None:
        self._size, self._classes = size, classes

    def __len__(self) -> int:
        return IMAGENET_TRAIN

    def batch(self, indices: np.ndarray[Any, Any], random: Random | None) -> Batch:
        random = random or np.random.default_rng(0)
        shape = (len(indices), 3, self._size, self._size)
        pixels = random.integers(0, 256, shape, dtype=np.uint8)
        return Batch(pixels, random.integers(0, self._classes, len(indices)))


class Folder:
    """Pictures in one folder per class, decoded when they are asked for."""

    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def __init__(self, root: Path, size: int, names: list[str]) -> None:
        self._size = size
        self.files = [
            (file, label)
            for label, name in enumerate(names)
            if (root / name).is_dir()
            for file in sorted((root / name).iterdir())
            if file.suffix.lower() in PICTURES
        ]
        if not self.files:
            raise InputError(f"{root} holds no pictures ({', '.join(sorted(PICTURES))}) in its class folders")

    def __len__(self) -> int:
        return len(self.files)

    def batch(self, indices: np.ndarray[Any, Any], random: Random | None) -> Batch:
        chosen = [self.files[index] for index in indices]
        pixels = np.stack([decode(file, self._size, random) for file, _ in chosen])
        return Batch(pixels.transpose(0, 3, 1, 2), np.array([label for _, label in chosen]))


def decode(file: Path, size: int, random: Random | None) -> Any:
    """One picture as (size, size, 3) bytes: a random part, perhaps mirrored, or the middle without `random`."""
    from PIL import Image

    try:
        with Image.open(file) as opened:
            # A JPEG is decoded at the smallest scale that is still enough.
            opened.draft("RGB", (size * 2, size * 2))
            picture = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{file} is not a readable picture: {error}") from None
    box = _random_box(picture.size, random) if random else _middle_box(picture.size)
    pixels = np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR, box))
    return pixels[:, ::-1] if random and random.random() < 0.5 else pixels


def _middle_box(extent: tuple[int, int]) -> tuple[float, float, float, float]:
    """The middle square, 7/8 of the shorter side, as is usual for evaluation."""
    side = min(extent) * 0.875
    left, top = (extent[0] - side) / 2, (extent[1] - side) / 2
    return left, top, left + side, top + side


def _random_box(extent: tuple[int, int], random: Random) -> tuple[float, float, float, float]:
    """8 % to 100 % of the area, sides 3:4 to 4:3; the middle when ten tries do not fit."""
    width, height = extent
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        across, down = np.sqrt(area * ratio), np.sqrt(area / ratio)
        if across <= width and down <= height:
            left, top = random.uniform(0, width - across), random.uniform(0, height - down)
            return left, top, left + across, top + down
    return _middle_box(extent)


def open_idx(root: str, classes: int, mean: float, std: float) -> tuple[Arrays, Arrays]:
    """Training and test images from the four IDX files of MNIST and its kin, packed by gzip or not."""
    folder = _folder(root)
    both = []
    for part in ("train", "t10k"):
        images = read_idx(_either(folder, f"{part}-images-idx3-ubyte"), 3)
        path = _either(folder, f"{part}-labels-idx1-ubyte")
        labels = read_idx(path, 1)
        if len(images) != len(labels):
            raise InputError(f"{path} has {len(labels)} labels for {len(images)} images")
        _check_labels(path, labels, classes)
        both.append(Arrays(images[:, None], labels, (mean,), (std,)))
    return both[0], both[1]


def read_idx(path: Path, dimensions: int) -> Any:
    """The array of bytes in an IDX file."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    head = 4 + 4 * dimensions
    magic = bytes((0, 0, IDX_BYTES, dimensions))
    if content[:4] != magic:
        raise InputError(f"{path} is no IDX file: it begins with {content[:4].hex()}, wanted is {magic.hex()}")
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, head, 4)]
    wanted = head + math.prod(shape)
    if len(content) != wanted:
        raise InputError(f"{path} is cut short or too long: {len(content)} bytes, wanted are {wanted}")
    # A copy, because some frameworks share the memory of arrays and have no read-only tensors.
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape).copy()


def open_images(config: dict[str, Any]) -> tuple[Source, Source | None]:
    """The training images of the run, and its test images if there are any; what they are stands in the result."""
    size, classes = config["params"]["image_size"], config["params"]["classes"]
    train, test, kind = open_pictures(config["data"], size, classes)
    probe.note("data", kind)
    print(f"data: {kind}, {len(train)} images of {size} x {size}", flush=True)
    return train, test


def open_pictures(data: str | None, size: int, classes: int) -> tuple[Source, Source | None, str]:
    """Training images, test images if there are any, and what was found: `synthetic`, `cifar10` or `folder`."""
    if data is None or data == "synthetic":
        return Synthetic(size, classes), None, "synthetic"
    root = _folder(data)
    for folder in (root, root / "cifar-10-batches-bin"):
        if (folder / CIFAR_TRAIN[0]).is_file():
            train = _cifar([folder / name for name in CIFAR_TRAIN], classes)
            return train, _cifar([folder / CIFAR_TEST], classes), "cifar10"
    return (*_open_folders(root, size, classes), "folder")


def _open_folders(root: Path, size: int, classes: int) -> tuple[Source, Source | None]:
    base = root / "train" if (root / "train").is_dir() else root
    names = sorted(entry.name for entry in base.iterdir() if entry.is_dir())
    if not names:
        raise InputError(f"{base} holds no class folders, and {root} no CIFAR-10 binaries ({CIFAR_TRAIN[0]}, …)")
    if len(names) > classes:
        raise InputError(f"{base} holds {len(names)} classes; the model has {classes}: set classes={len(names)}")
    train = Folder(base, size, names)
    test = root / "val"
    if base == root or not test.is_dir():
        return train, None
    strange = sorted(entry.name for entry in test.iterdir() if entry.is_dir() and entry.name not in names)
    if strange:
        raise InputError(f"{test / strange[0]} is a class that {base} does not have")
    return train, Folder(test, size, names)


def _cifar(paths: list[Path], classes: int) -> Arrays:
    records = []
    for path in paths:
        try:
            content = np.fromfile(path, np.uint8)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        if not len(content) or len(content) % CIFAR_RECORD:
            raise InputError(f"{path} is cut short: {len(content)} bytes are no multiple of {CIFAR_RECORD}")
        _check_labels(path, content[::CIFAR_RECORD], min(classes, CIFAR_CLASSES))
        records.append(content.reshape(-1, CIFAR_RECORD))
    whole = np.concatenate(records)
    images = np.ascontiguousarray(whole[:, 1:]).reshape(-1, 3, 32, 32)
    return Arrays(images, whole[:, 0], (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


def _check_labels(path: Path, labels: Any, classes: int) -> None:
    if not len(labels):
        raise InputError(f"{path} is empty")
    if labels.max() >= classes:
        raise InputError(f"{path} has the label {labels.max()}; allowed are 0 to {classes - 1}")


def _folder(data: str) -> Path:
    root = Path(data)
    if not root.is_dir():
        raise InputError(f"data folder {root} does not exist")
    return root


def _either(folder: Path, name: str) -> Path:
    """A file, packed or plain."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(f"{folder} lacks {name} (or {name}.gz)")


class ArrayFeed:
    """Images of a source in 32-bit floats, normalised, at the size and memory layout the model wants."""

    def __init__(self, source: Source, ranks: Rank, size: int, channels_last: bool) -> None:
        self._source, self._ranks, self._size, self._last = source, ranks, size, channels_last
        channels = (1, len(source.mean), 1, 1)
        mean, std = np.array(source.mean) * 255, np.array(source.std) * 255
        self._scale = (1 / std).astype(np.float32).reshape(channels)
        self._shift = (-mean / std).astype(np.float32).reshape(channels)

    def training(self, shards: Shards, numbers: range, seed: int, workers: int) -> Generator[Batch, None, None]:
        """The batches of `numbers`, varied at random; with `workers`, threads read ahead."""

        def read(number: int) -> Batch:
            random = np.random.default_rng([seed, self._ranks.rank, number])
            return self._batch(shards.indices(number), random)

        if isinstance(self._source, Synthetic):
            # One batch, ready: the speed of the model alone.
            fixed = read(0)
            yield from (fixed for _ in numbers)
        else:
            yield from _ahead(read, numbers, workers)

    def evaluation(self, batch: int) -> Iterator[tuple[Any, Any, Any]]:
        """(images, labels, 1 for each image that counts, else 0); all batches have one shape, as compilers like it."""
        mine = np.arange(self._ranks.rank, len(self._source), self._ranks.world)
        for start in range(0, len(mine), batch):
            wanted = np.arange(start, start + batch)
            counts = (wanted < len(mine)).astype(np.float32)
            yield *self._batch(mine[np.minimum(wanted, len(mine) - 1)], None), counts

    def _batch(self, indices: Any, random: Random | None) -> Batch:
        images, labels = self._source.batch(indices, random)
        normal = images * self._scale + self._shift
        if normal.shape[-1] != self._size:
            normal = _resized(_resized(normal, self._size, 2), self._size, 3)
        if self._last:
            normal = normal.transpose(0, 2, 3, 1)
        return Batch(np.ascontiguousarray(normal, np.float32), labels.astype(np.int32))


def _resized(images: Any, size: int, axis: int) -> Any:
    """Linear between the two nearest pixels along one axis, pixels being areas."""
    length = images.shape[axis]
    at = np.clip((np.arange(size) + 0.5) * length / size - 0.5, 0, length - 1)
    low = np.floor(at).astype(np.int64)
    part = (at - low).astype(np.float32).reshape([-1 if place == axis else 1 for place in range(4)])
    near, far = images.take(low, axis), images.take(np.minimum(low + 1, length - 1), axis)
    return near + (far - near) * part


def _ahead(read: Callable[[int], Batch], numbers: range, workers: int) -> Generator[Batch, None, None]:
    """Batches in order; with `workers`, that many threads read and decode ahead."""
    if not workers:
        yield from map(read, numbers)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Any] = deque()
        for number in numbers:
            waiting.append(pool.submit(read, number))
            if len(waiting) >= workers * AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
