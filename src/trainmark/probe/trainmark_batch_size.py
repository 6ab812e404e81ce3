"""How many samples, or tokens, a batch of a loader holds.

The loader is asked first: how many indices its sampler drew for the batch, or its own `batch_size`. Sizes inside the
batch come last, and what disagrees is counted. No framework is imported: a tensor is what has a shape and a dtype.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Iterator

_DEEPEST = 4
_MOST_PARTS = 64  # of a batch that are looked at
# Where a batch tells its tokens.
_IDS = ("input_ids", "tokens", "ids")
_MASK = "attention_mask"


class BatchSize:
    """What one iterator of a loader gives. `batch_size`: the loader's own, `sampled`: its sampler tells each batch."""

    def __init__(self, batch_size: int | None = None, sampled: bool = False, tokens: bool = False) -> None:
        self.batch_size = batch_size
        self.drawn: deque[int] | None = deque() if sampled else None  # sizes of the batches on their way
        self.tokens = tokens
        self.first_sizes = 0  # samples by the first dimension of the first tensor, where that is another count
        self.other_sizes = 0  # samples of those batches by the loader
        self._place: tuple[Any, ...] | None = None  # where in a batch its size stands

    def of(self, batch: Any) -> tuple[int, bool]:
        """The samples of `batch` (0 for unknown), and whether that is sure."""
        drawn = self.drawn.popleft() if self.drawn else None
        if self.tokens:
            found = tokens_in(batch)
            return (found or 0), found is not None
        return self._of_sampler(batch, drawn) if drawn is not None else self._of_parts(batch)

    def _of_sampler(self, batch: Any, drawn: int) -> tuple[int, bool]:
        first = first_size(batch)
        if first == drawn:
            return drawn, True
        if first is not None:
            self.first_sizes += first
            self.other_sizes += drawn
        # A collate function may leave samples out: then the number stands nowhere in the batch.
        return drawn, any(size == drawn for _, size in sizes_in(batch))

    def _of_parts(self, batch: Any) -> tuple[int, bool]:
        """Without a sampler that tells, the size is read where the first batch had the loader's `batch_size`."""
        if self._place is None:
            self._place = self._find(batch)
        if self._place == ():
            return first_size(batch) or 0, False
        for place, size in sizes_in(batch):
            if place == self._place:
                first = first_size(batch)
                if first is not None and first != size:
                    self.first_sizes += first
                    self.other_sizes += size
                return size, True
        return 0, False

    def _find(self, batch: Any) -> tuple[Any, ...]:
        """The place of the size, () where it cannot be told."""
        found = list(sizes_in(batch))
        if self.batch_size is not None:
            places = [place for place, size in found if size == self.batch_size]
            # A first batch may be a small one; then all tensors must agree, as without a `batch_size`.
            if places:
                return places[0]
        known = [place for place, _ in found if place[-1] == "count"]
        if known:
            return known[0]
        rows = [(place, size) for place, size in found if place[-1] == "rows"]
        if not rows:
            rows = [(place, size) for place, size in found if place[-1] == "length"]
            rows = rows[1:2] or rows[:1] if isinstance(batch, (list, tuple)) else rows[:1]
        small = self.batch_size is None or all(size <= self.batch_size for _, size in rows)
        return rows[0][0] if rows and small and len({size for _, size in rows}) == 1 else ()


def sizes_in(batch: Any) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Every number in a batch that may be its size, with its place, the likeliest first: a count that the object
    itself tells, first dimensions of tensors, lengths of lists, second dimensions."""
    later: list[tuple[tuple[Any, ...], int]] = []
    last: list[tuple[tuple[Any, ...], int]] = []
    parts: deque[tuple[tuple[Any, ...], Any]] = deque([((), batch)])
    looked = 0
    while parts and looked < _MOST_PARTS:
        looked += 1
        place, part = parts.popleft()
        count = _own_count(part)
        if count is not None:
            yield (*place, "count"), count
            continue
        shape = _shape(part)
        if shape is not None:
            if len(shape):
                yield (*place, "rows"), int(shape[0])
            if len(shape) > 1:
                last.append(((*place, "columns"), int(shape[1])))
            continue
        if isinstance(part, (list, tuple)):
            later.append(((*place, "length"), len(part)))
        if len(place) < _DEEPEST:
            parts.extend(((*place, key), inner) for key, inner in _inner(part))
    yield from later
    yield from last


def first_size(value: Any, depth: int = 0) -> int | None:
    """The first dimension of the first tensor in a nest of lists, mappings and records."""
    plain = isinstance(value, (list, tuple)) and len(value) > 0
    shape = _shape(value[0] if plain else value)  # the first of a list is mostly a tensor
    if shape is not None and (len(shape) or not plain):
        return int(shape[0]) if len(shape) else None
    count = _own_count(value)
    if count is not None or depth > _DEEPEST:
        return count
    for _, part in _inner(value):
        found = first_size(part, depth + 1)
        if found is not None:
            return found
    return None


def tokens_in(batch: Any) -> int | None:
    """How many tokens a batch holds, without padding where a mask tells it; None when it does not show."""
    if _is_mapping(batch):
        mask: Any = batch[_MASK] if _MASK in batch.keys() else None
        if _shape(mask) is not None and getattr(getattr(mask, "device", None), "type", "cpu") == "cpu":
            return int(mask.sum())
        named = [batch[name] for name in _IDS if name in batch.keys()]
        if named and _shape(named[0]) is not None:
            return _elements(named[0])
    packed = getattr(batch, "data", None)
    if hasattr(batch, "batch_sizes") and _shape(packed) is not None:
        return _elements(packed)
    for part in [batch] if _shape(batch) is not None else [inner for _, inner in _inner(batch)]:
        if hasattr(part, "batch_sizes"):
            return tokens_in(part)
        shape = _shape(part)
        if shape is not None and len(shape) >= 2 and "int" in str(part.dtype):
            return _elements(part)
    return None


def _elements(tensor: Any) -> int:
    found = 1
    for size in _shape(tensor) or ():
        found *= int(size)
    return found


def _own_count(value: Any) -> int | None:
    """What an object itself tells: a batch of graphs is one large graph, a packed sequence has its first step."""
    count = getattr(value, "num_graphs", None)
    if isinstance(count, int) and not isinstance(count, bool):
        return count
    packed = getattr(value, "batch_sizes", None)
    if packed is not None and hasattr(value, "data") and _shape(packed):
        return int(packed[0])
    return None


def _shape(value: Any) -> Any:
    return value.shape if hasattr(value, "dtype") and hasattr(value, "shape") else None


def _is_mapping(value: Any) -> bool:
    return hasattr(value, "keys") and hasattr(value, "__getitem__") and _shape(value) is None


def _inner(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, (str, bytes, int, float)) or value is None:
        return
    if isinstance(value, (list, tuple)):
        yield from enumerate(value[:_MOST_PARTS])
    elif _is_mapping(value):
        for key in list(value.keys()):  # not every mapping iterates over its keys
            yield key, value[key]
    else:
        yield from getattr(value, "__dict__", {}).items()
