"""Where a series of step times settles, and whether it stays so. Arrays in, words out.

All thresholds stand here by name; docs/metrics.md gives the reasons and the error rates that simulation shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from trainmark.score.stats.confidence import t_limit

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats

# What is cut off must differ from the rest by this many standard errors, at a lag-one autocorrelation of at most this.
START_LIMIT = 4.0
MOST_MEMORY = 0.9
# A run must have settled by its half; a fast beginning (a processor's boost) may last a quarter.
LATEST_START = 0.5
LATEST_FAST_START = 0.25
# With fewer intervals between edges nothing can be tested.
LEAST_INTERVALS = 8
# Batches of the slope and half-against-half tests: few, so that each is longer than the noise remembers.
BATCHES = 10
ALPHA = 0.01
# 99 % point of the self-normalised change-point statistic: 20,000 white series of 50 and of 400 values give 68 and 71.
CHANGE_LIMIT = 70.0
# Changes smaller than this, over the whole window, do not matter to anybody.
TOLERANCE = 0.02
# Pieces of a window that are held against each other: at least so long, at least BATCHES
# and at most so many.
PIECE, MOST_PIECES = 10, 30
# Noise that remembers for longer than this share of a piece cannot be told from levels.
MOST_SHARE = 0.35
# A change of level is placed no nearer to the ends of a window than this share of it.
TRIM = 0.05
# Single stalls, further out than this many scaled median deviations, do not make a trend.
CLIP = 5.0
MAD_SCALE = 1.4826

Outcome = Literal["steady", "drifting", "two-level", "unsteady"]


class Trend(msgspec.Struct, frozen=True):
    """`change` is relative: 0.05 is 5 % slower at the end than at the beginning (or after the step than before)."""

    outcome: Outcome
    change: float = 0.0
    # Half of the 95 % interval of `change`.
    error: float = 0.0
    # Position of the level change in the series, for two-level.
    at: int | None = None
    # The speed at its slowest and fastest level ÷ the speed of the whole series.
    slowest: float = 1.0
    fastest: float = 1.0


def start(series: Floats) -> int:
    """How many leading values belong to the warm-up; 0 as well when the series has not settled by its half.

    Repeated splits: where the beginning differs most from all that follows it is cut off, as long as it differs by
    more than the noise, which is taken from what follows and widened for its autocorrelation.
    """
    logs = _logs(series)
    latest = int(len(logs) * LATEST_START)
    begin = 0
    while True:
        cut, fast = _split(logs[begin:], latest - begin)
        if cut == 0:
            return begin
        begin += cut
        # A run that gets slower for good, or settles too late, is judged as a whole.
        if begin > (len(logs) * LATEST_FAST_START if fast else latest - 1):
            return 0


def _split(logs: Floats, most: int) -> tuple[int, bool]:
    """Where to cut (0: nowhere), and whether what is cut off was faster."""
    import numpy as np

    n = len(logs)
    most = min(most, n - LEAST_INTERVALS)
    if most < 1:
        return 0, False
    k = np.arange(1, most + 1)
    sums = logs.cumsum()
    shift = sums[:most] / k - (sums[-1] - sums[:most]) / (n - k)
    cut = int((shift**2 * k * (n - k)).argmax()) + 1
    rest = logs[cut:] - mean(logs[cut:])
    noise = math.sqrt(mean(rest**2) * _memory(rest) * (1 / cut + 1 / (n - cut)))
    moved = float(shift[cut - 1])
    return (cut, moved < 0) if abs(moved) > START_LIMIT * noise + 1e-9 else (0, False)


def _memory(rest: Floats) -> float:
    """How many times autocorrelation widens the variance of a mean."""
    total = float((rest**2).sum())
    if total <= 0:
        return 1.0
    lag = min(max(float((rest[1:] * rest[:-1]).sum()) / total, 0.0), MOST_MEMORY)
    return (1 + lag) / (1 - lag)


def judge(series: Floats) -> Trend:
    """Slope, change point, half against half and the range of levels, each held against the noise of the series, on
    the logarithm, with single stalls clipped."""
    import numpy as np

    logs = _logs(series)
    batches = batch_means(logs, BATCHES)
    slope, halves = _slope(batches), _halves(batches)
    at, shift = _change(logs)
    sudden = at is not None and abs(shift) > TOLERANCE
    trending = any(abs(change) > TOLERANCE for change in (slope, halves))
    pieces = _restless(logs)
    if not trending and not sudden and pieces is None:
        return Trend("steady")
    cut, _ = best_split(logs)
    places = np.arange(len(logs))
    line: Floats = np.polyval(np.polyfit(places, logs, 1), places).astype(np.float64)
    if float(((logs - line) ** 2).sum()) > float(((logs - _levels(logs, cut)) ** 2).sum()):
        # Stalls are clipped around each level: around both they would pull the levels together.
        own = np.concatenate((_logs(series[:cut]), _logs(series[cut:])))
        levels = _levels(own, cut)
        step, error = float(levels[-1] - levels[0]), _error(own - levels) * math.sqrt(1 / cut + 1 / (len(own) - cut))
        if abs(step) > START_LIMIT * error:
            return _trend("two-level", step, error, own, levels, cut)
    elif slope or halves:
        # Of a line over n values: twelve times the variance of a mean.
        return _trend(
            "drifting", float(line[-1] - line[0]), _error(logs - line) * math.sqrt(12 / len(logs)), logs, line
        )
    return _trend("unsteady", 0.0, 0.0, logs, batches if pieces is None else pieces)


def _levels(logs: Floats, cut: int) -> Floats:
    import numpy as np

    return np.where(np.arange(len(logs)) < cut, mean(logs[:cut]), mean(logs[cut:]))


def _trend(outcome: Outcome, change: float, error: float, logs: Floats, levels: Floats, at: int | None = None) -> Trend:
    middle = mean(logs)
    return Trend(
        outcome,
        change=math.expm1(change),
        error=1.96 * error,
        at=at,
        slowest=min(1.0, math.exp(middle - float(levels.max()))),
        fastest=max(1.0, math.exp(middle - float(levels.min()))),
    )


def _error(rest: Floats) -> float:
    """Standard deviation of what is left, widened by its memory: ÷ √n it is the error of a mean of n."""
    return math.sqrt(mean(rest**2) * _memory(rest))


def _restless(logs: Floats) -> Floats | None:
    """The means of equal pieces, if one lies further from all than noise explains, in whatever order they come.

    The noise is that inside a typical piece, so that levels are not taken for noise. Means of few values take some of
    it away, from its variance as from its memory; both are put back."""
    pieces = min(max(len(logs) // PIECE, BATCHES), MOST_PIECES)
    size = len(logs) // pieces
    if size < PIECE:
        return None
    means = batch_means(logs, pieces)
    inside = logs[len(logs) - pieces * size :].reshape(pieces, size) - means[:, None]
    squares = (inside**2).sum(axis=1)
    if squares.min() <= 0:
        return means if float(means.max() - means.min()) > TOLERANCE else None
    lags = (inside[:, 1:] * inside[:, :-1]).sum(axis=1) / squares
    lag = min(max((median(lags) + 1 / size) / (1 - 3 / size), 0.0), MOST_MEMORY)
    share = (1 + lag) / (1 - lag) / size
    if share >= MOST_SHARE:
        return None
    # The median of χ² lies below its mean.
    typical = median(squares) / (1 - 2 / (9 * (size - 1))) ** 3 / size
    spread = math.sqrt(typical * share / (1 - share))
    furthest = float(abs(means - mean(means)).max())
    # Stricter than the other tests: the noise's memory is itself a guess.
    limit = t_limit(len(logs) - pieces, 1 - ALPHA / 10 / pieces) * spread
    return means if furthest > max(TOLERANCE, limit) else None


def _logs(series: Floats) -> Floats:
    import numpy as np

    return np.log(np.maximum(clipped(series), 1e-12))


def clipped(series: Floats) -> Floats:
    import numpy as np

    middle = median(series)
    reach = CLIP * MAD_SCALE * median(np.abs(series - middle))
    return np.minimum(np.maximum(series, middle - reach), middle + reach) if reach > 0 else series


def mean(values: Floats) -> float:
    """(NumPy's own takes twice as long for a few hundred values, and gives the same.)"""
    return float(values.sum() / len(values))


def median(values: Floats) -> float:
    """(NumPy's own takes five times as long for a few hundred values.)"""
    return quantiles(values, (0.5,))[0]


def quantiles(values: Floats, shares: Sequence[float]) -> list[float]:
    """Between two values of the sorted series by a straight line, as NumPy's default does."""
    import numpy as np

    places = [divmod(share * (len(values) - 1), 1.0) for share in shares]
    low = [int(place) for place, _ in places]
    high = [min(place + 1, len(values) - 1) for place in low]
    ordered = np.partition(values, sorted({*low, *high}))
    return [
        float(ordered[a] + (ordered[b] - ordered[a]) * part) for a, b, (_, part) in zip(low, high, places, strict=True)
    ]


def batch_means(values: Floats, batches: int) -> Floats:
    """Means of equally long pieces; what is left over lies at the beginning."""
    import numpy as np

    if len(values) < 2 * batches:
        return values
    size = len(values) // batches
    return np.asarray(values[len(values) - size * batches :].reshape(batches, size).mean(axis=1))


def _slope(means: Floats) -> float:
    """The change from the first to the last batch if it is significant, else 0."""
    import numpy as np

    x = np.arange(len(means)) - (len(means) - 1) / 2
    squares = float((x**2).sum())
    slope = float((x * means).sum()) / squares
    rest = means - mean(means) - slope * x
    error = math.sqrt(float((rest**2).sum()) / (len(means) - 2) / squares)
    return slope * (len(means) - 1) if abs(slope) > t_limit(len(means) - 2, 1 - ALPHA) * error else 0.0


def _halves(means: Floats) -> float:
    """The second half's level over the first's if the difference is significant, else 0."""
    half = len(means) // 2
    early, late = means[:half], means[len(means) - half :]
    before, after = mean(early), mean(late)
    difference = after - before
    spread = float(((early - before) ** 2).sum()) + float(((late - after) ** 2).sum())
    error = math.sqrt(spread / (2 * half - 2) * 2 / half)
    return difference if abs(difference) > t_limit(2 * half - 2, 1 - ALPHA) * error else 0.0


def _change(logs: Floats) -> tuple[int | None, float]:
    """Shao and Zhang's self-normalised test: its scale is the series' own, whatever the autocorrelation."""
    import numpy as np

    n = len(logs)
    k = np.arange(1.0, n)
    squares = (k**2).cumsum()
    total = logs.cumsum()
    bridge = (total[:-1] - k / n * total[-1]) / math.sqrt(n)
    left = _around(total[:-1], k, squares)
    right = _around(logs[:0:-1].cumsum(), k, squares)[::-1]
    scale = (left + right) / n**2
    trim = max(2, n // 20)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(scale > 1e-24, bridge**2 / scale, 0.0)[trim - 1 : n - trim]
    if not len(statistic) or statistic.max() <= CHANGE_LIMIT:
        return None, 0.0
    cut = int(statistic.argmax()) + trim
    return cut, float(logs[cut:].mean() - logs[:cut].mean())


def _around(sums: Floats, k: Floats, squares: Floats) -> Floats:
    """Partial sums of the first k values around their own mean, squared and summed: in closed form, O(n)."""
    found: Floats = (sums**2).cumsum() - 2 * sums / k * (k * sums).cumsum() + (sums / k) ** 2 * squares
    return found


def best_split(logs: Floats) -> tuple[int, float]:
    """Where two levels fit best, and the second less the first. A few values at an end are no level."""
    import numpy as np

    n = len(logs)
    trim = max(2, int(TRIM * n))
    k = np.arange(trim, n - trim + 1)
    sums = np.cumsum(logs)
    gain = (sums[k - 1] - k / n * sums[-1]) ** 2 / (k * (n - k))
    cut = int(k[gain.argmax()])
    return cut, float(logs[cut:].mean() - logs[:cut].mean())
