"""Text as numbers: from text files by characters or bytes, from files of tokens made elsewhere, or synthetic.

A broken or missing file is an InputError that names it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import trainmark_probe as probe
from trainmark_job import InputError
from trainmark_loop import Rank, Shards

# Without a val.txt, this share at the end of the text is held out.
HELD_OUT = 10
VALIDATION = "val.txt"
TOKENS = ("train.bin", "val.bin")
# Labels with this number are not counted.
IGNORED = -100
SYNTHETIC_TOKENS = 1 << 30
CODE_POINTS = 0x110000


@dataclass(frozen=True)
class Corpus:
    """Tokens to train on and tokens held out; `vocabulary` has the text of each, where that is known."""

    train: Any
    test: Any
    kinds: int
    tokenizer: str
    vocabulary: tuple[str, ...] = ()
    synthetic: bool = False


def open_corpus(config: dict[str, Any]) -> Corpus:
    """The text of the run; what it is stands in the result."""
    params = config["params"]
    corpus = open_text(config["data"], params["tokenizer"], params["vocabulary"])
    probe.note("data", "synthetic" if corpus.synthetic else f"text as {corpus.tokenizer}")
    probe.note("vocabulary", corpus.kinds)
    found = "synthetic: random tokens" if corpus.synthetic else f"{len(corpus.train):,} {corpus.tokenizer}"
    print(f"data: {found}, {corpus.kinds} kinds", flush=True)
    return corpus


def facts(name: str, corpus: Corpus, heads: int) -> dict[str, Any]:
    """What the weights of a language model do not tell."""
    known = {"name": name, "heads": heads}
    if corpus.synthetic:
        return known
    return {**known, "tokenizer": corpus.tokenizer, "vocabulary": list(corpus.vocabulary)}


def open_text(data: str | None, tokenizer: str, kinds: int) -> Corpus:
    """The corpus in a text file or a folder; `kinds` is how many tokens the model knows, 0: as many as there are."""
    if data is None:
        raise InputError("a language model needs data: a text file, or a folder with some; see `trainmark data list`")
    if data == "synthetic":
        nothing = np.empty(0, np.uint16)
        return Corpus(nothing, nothing, kinds or 256, "synthetic", synthetic=True)
    corpus = _open_tokens(Path(data), kinds) if tokenizer == "tokens" else _open_plain(Path(data), tokenizer)
    if kinds and corpus.kinds > kinds:
        raise InputError(f"{data} has {corpus.kinds} kinds of tokens; the model has {kinds}: set vocabulary=0")
    return corpus if not kinds else Corpus(corpus.train, corpus.test, kinds, tokenizer, corpus.vocabulary)


def _open_plain(root: Path, tokenizer: str) -> Corpus:
    train_files, test_files = _text_files(root)
    train, test = _content(train_files), _content(test_files)
    if tokenizer == "bytes":
        both = np.frombuffer(train, np.uint8), np.frombuffer(test, np.uint8)
        vocabulary: tuple[str, ...] = ()
        kinds = 256
    else:
        codes = [_codes(train, train_files), _codes(test, test_files)]
        present = np.zeros(CODE_POINTS, bool)
        for part in codes:
            present[part] = True
        found = np.flatnonzero(present)
        number = np.zeros(CODE_POINTS, np.uint16 if len(found) <= 1 << 16 else np.int32)
        number[found] = np.arange(len(found))
        both = number[codes[0]], number[codes[1]]
        vocabulary, kinds = tuple(map(chr, found)), len(found)
    if not test_files:
        edge = len(both[0]) - len(both[0]) // HELD_OUT
        both = both[0][:edge], both[0][edge:]
    return Corpus(*both, kinds, tokenizer, vocabulary)


def _text_files(root: Path) -> tuple[list[Path], list[Path]]:
    """Files to train on, and those for validation if there are any."""
    if root.is_file():
        return [root], []
    if not root.is_dir():
        raise InputError(f"data {root} does not exist")
    files = sorted(path for path in root.glob("*.txt") if path.name != VALIDATION)
    if not files:
        raise InputError(f"{root} holds no text (*.txt)")
    held_out = root / VALIDATION
    return files, [held_out] if held_out.is_file() else []


def _content(files: list[Path]) -> bytes:
    parts = []
    for file in files:
        try:
            parts.append(file.read_bytes())
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}") from None
        if not parts[-1]:
            raise InputError(f"{file} is empty")
    return b"".join(parts)


def _codes(content: bytes, files: list[Path]) -> Any:
    """The number of each character."""
    try:
        return np.frombuffer(content.decode().encode("utf-32-le"), np.uint32)
    except UnicodeDecodeError as error:
        sizes = itertools.accumulate(file.stat().st_size for file in files)
        number, end = next((n, size) for n, size in enumerate(sizes) if size > error.start)
        at = error.start - (end - files[number].stat().st_size)
        raise InputError(f"{files[number]} is not UTF-8 text at byte {at}: set tokenizer=bytes") from None


def _open_tokens(root: Path, kinds: int) -> Corpus:
    """Numbers of 16 bits, or of 32 where the vocabulary needs them, little-endian, as other programs write them."""
    if not kinds:
        raise InputError("with tokenizer=tokens the size of the vocabulary must be given: set vocabulary")
    width = np.dtype("<u2" if kinds <= 1 << 16 else "<u4")
    both = []
    for name in TOKENS:
        path = root / name
        if not path.is_file():
            raise InputError(
                f"{root} holds no {name} (tokens as {8 * width.itemsize}-bit numbers); "
                "set tokenizer=bytes for plain text, or data=synthetic"
            )
        size = path.stat().st_size
        if not size or size % width.itemsize:
            raise InputError(f"{path} is cut short: {size} bytes are no {8 * width.itemsize}-bit numbers")
        both.append(np.memmap(path, width, "r"))
    return Corpus(both[0], both[1], kinds, "tokens")


class Windows:
    """Pieces of `length` tokens: random ones to train on, evenly spread ones to evaluate.

    They are NumPy's arrays, or what `to_device` makes of these.
    """

    def __init__(
        self,
        corpus: Corpus,
        length: int,
        ranks: Rank,
        seed: int,
        to_device: Callable[[Any], Any] = lambda array: array,
    ) -> None:
        self._corpus, self._length, self._ranks, self._seed = corpus, length, ranks, seed
        self._to_device = to_device
        self._held_out = (len(corpus.test) - 1) // (length - 1)
        if self._held_out < 1 and not corpus.synthetic:
            raise InputError(
                f"{len(corpus.test)} held out {corpus.tokenizer} are fewer than one window of {length}: "
                "give more text or set a smaller context"
            )

    def shards(self, batch: int, accumulate: int) -> Shards:
        """Which windows this rank trains on. Neighbours share a token, so that each but the first is predicted once."""
        tokens = SYNTHETIC_TOKENS if self._corpus.synthetic else len(self._corpus.train)
        windows = (tokens - 1) // (self._length - 1)
        kind = f"windows of {self._length} tokens in the text"
        return Shards(max(0, windows), batch, self._ranks, self._seed, accumulate, kind)

    def training(self, shards: Shards, numbers: range, batch: int) -> Generator[Any, None, None]:
        if self._corpus.synthetic:
            # One batch, already on the device: the speed of the model alone.
            random = np.random.default_rng([self._seed, self._ranks.rank])
            fixed = self._ready(random.integers(0, self._corpus.kinds, (batch, self._length)))
            yield from (fixed for _ in numbers)
            return
        for number in numbers:
            yield self._take(self._corpus.train, shards.indices(number) * (self._length - 1))

    def evaluation(self, most: int, batch: int) -> Iterator[tuple[Any, Any, Any]] | None:
        """(windows, their numbers, which of them count) of this rank, at most `most` windows over all ranks.

        Every rank has as many batches, as models spread over ranks need; windows beyond the last do not count.
        """
        if self._corpus.synthetic:
            return None
        chosen = np.linspace(0, self._held_out - 1, min(most, self._held_out)).astype(np.int64)
        return self._evaluation(chosen, batch)

    def _evaluation(self, chosen: Any, batch: int) -> Iterator[tuple[Any, Any, Any]]:
        world = self._ranks.world
        for first in range(self._ranks.rank, len(chosen) + self._ranks.rank, batch * world):
            mine = first + np.arange(batch) * world
            numbers = chosen[np.minimum(mine, len(chosen) - 1)]
            counts = self._to_device(mine < len(chosen))
            yield self._take(self._corpus.test, numbers * (self._length - 1)), numbers, counts

    def _take(self, tokens: Any, starts: Any) -> Any:
        taken = tokens[starts[:, None] + np.arange(self._length)]
        if taken.max() >= self._corpus.kinds:
            raise InputError(f"the data has the token {taken.max()}; the model knows 0 to {self._corpus.kinds - 1}")
        return self._ready(taken)

    def _ready(self, tokens: Any) -> Any:
        return self._to_device(tokens.astype(np.int64))
