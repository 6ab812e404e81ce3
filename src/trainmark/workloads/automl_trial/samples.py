"""What networks of an experiment are trained and tested on: images, or pieces of a text as long as a network reads."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Protocol

import image_data
import torch
import trainmark_text
from torch import Tensor
from trainmark_images import Batch, Source
from trainmark_loop import Shards
from trainmark_text import Corpus, Windows
from trainmark_torch import Ranks
from trainmark_torch_images import Feed

from trainmark.automl.experiment.config import Experiment, image_of, text_of
from trainmark.automl.graph.graph import Graph


class Samples(Protocol):
    """`train`, `test`: how many there are; `kind`: their name; `data`: what was found."""

    train: int
    test: int
    kind: str
    data: str

    def for_network(self, graph: Graph) -> Samples:
        """As this network reads them."""

    def training(self, shards: Shards, numbers: range, seed: int) -> Generator[Batch, None, None]:
        """The batches of these numbers, on the device."""

    def evaluation(self, batch: int) -> Iterator[Batch]:
        """This rank's share of all samples to test on."""


# Images to train on, images to test on, and what was found; or a text.
Data = tuple[Source, Source, str] | Corpus


def open_data(experiment: Experiment, config: dict[str, Any], home: Path) -> Data:
    """Before ranks meet: to look through files may take long."""
    training, text = experiment.training, text_of(experiment)
    if text is not None:
        corpus = trainmark_text.open_text(config["data"], text.tokenizer, text.kinds)
        return _first(corpus, training.images, training.test_images)
    image = image_of(experiment)
    wanted = image_data.Wanted(image.size, image.channels, image.classes, training.images, training.test_images)
    return image_data.open_data(config["data"], experiment.val_data, wanted, home / "index")


def samples_of(experiment: Experiment, data: Data, ranks: Ranks) -> Samples:
    if isinstance(data, Corpus):
        return Texts(data, ranks, experiment.seed)
    train, test, found = data
    training, size = experiment.training, image_of(experiment).size
    feed, test_feed = (Feed(source, ranks, size, training.channels_last) for source in (train, test))
    loaders = _spare_cores(train, ranks) if training.loaders is None else training.loaders
    return Images(feed, test_feed, loaders, found)


def flat(answers: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """One answer after the other, of all tokens of all texts."""
    return answers.flatten(0, -2), labels.flatten()


class Images:
    kind = "images"

    def __init__(self, feed: Feed, test_feed: Feed, loaders: int, found: str) -> None:
        self._feed, self._test_feed, self._loaders, self.data = feed, test_feed, loaders, found
        self.train, self.test = len(feed.source), len(test_feed.source)

    def for_network(self, graph: Graph) -> Samples:  # noqa: ARG002 - one size fits all
        return self

    def training(self, shards: Shards, numbers: range, seed: int) -> Generator[Batch, None, None]:
        return self._feed.training(shards, numbers, seed, self._loaders)

    def evaluation(self, batch: int) -> Iterator[Batch]:
        return self._test_feed.evaluation(batch, self._loaders)


class Texts:
    """Pieces of one text. Before a network is known they are its single tokens."""

    def __init__(self, corpus: Corpus, ranks: Ranks, seed: int, context: int = 1) -> None:
        self._corpus, self._ranks, self._seed, self._context = corpus, ranks, seed, context
        self.kind = "tokens" if context == 1 else "pieces of text"
        self.data = "synthetic" if corpus.synthetic else f"text as {corpus.tokenizer}"
        whole = trainmark_text.SYNTHETIC_TOKENS if corpus.synthetic else len(corpus.train)
        # A piece has one token more than is read: that which comes after the last.
        self.train, self.test = (whole - 1) // context, max(0, len(corpus.test) - 1) // context
        self._windows = Windows(corpus, context + 1, ranks, seed, self._to_device)

    def _to_device(self, array: Any) -> Any:
        return torch.from_numpy(array).to(self._ranks.device)

    def for_network(self, graph: Graph) -> Samples:
        (context,) = graph.shape
        return Texts(self._corpus, self._ranks, self._seed, context)

    def training(self, shards: Shards, numbers: range, seed: int) -> Generator[Batch, None, None]:  # noqa: ARG002
        # All of an epoch is read in an order that the shards have drawn.
        for tokens in self._windows.training(shards, numbers, len(shards.indices(0))):
            yield Batch(tokens[:, :-1], tokens[:, 1:])

    def evaluation(self, batch: int) -> Iterator[Batch]:
        for tokens, _, counts in self._windows.evaluation(self.test, batch) or ():
            yield Batch(tokens[counts][:, :-1], tokens[counts][:, 1:])


def _first(corpus: Corpus, train: int, test: int) -> Corpus:
    """The first so many tokens to train and to test on; 0: all."""
    kept = corpus.train[: train or None], corpus.test[: test or None]
    return Corpus(*kept, corpus.kinds, corpus.tokenizer, corpus.vocabulary, corpus.synthetic)


def _spare_cores(source: Source, ranks: Ranks) -> int:
    """Loader processes for a rank: the cores that it leaves. A rank on a CPU leaves none, and pictures that lie decoded
    in memory need none."""
    if ranks.device.type == "cpu" or not image_data.is_decoded(source):
        return 0
    share = (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(share, len(os.sched_getaffinity(0))) - 1)
