"""What is believed of architectures that were not trained: a linear model of their features, by Bayes' rule.

It is a Gaussian process whose kernel is the product of two feature vectors, stored as sums over all observations. So a
prediction costs the same after ten thousand as after ten, and no observation, however often repeated, can break it:
what is inverted is a sum of squares plus the identity.

A network is better than another also because its weights were trained for longer. That part is told apart by a curve:
what is usual after so many epochs, a constant and two falling powers of their number. The process is about what an
architecture has above the curve.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainmark.automl.search.features import Numbers

# After so many corrections an inverse is made anew, so that their rounding never adds up.
_FRESH = 256
# From so many at once on, making it anew is cheaper than correcting it.
_MANY = 32


class _Covariance:
    """That of the weights: the inverse of 1 + the sum of squares of the rows ÷ noise."""

    def __init__(self, width: int, noise: float) -> None:
        self._noise = noise
        self._squares: Numbers = np.zeros((width, width))
        # Rows that are not yet among the squares.
        self._late: list[Numbers] = []
        self.matrix: Numbers = np.eye(width)

    def add(self, rows: Numbers) -> None:
        self._late.extend(rows)
        if len(rows) >= _MANY or len(self._late) >= _FRESH:
            late = np.stack(self._late)
            self._late.clear()
            self._squares += late.T @ late
            self.matrix = np.linalg.inv(np.eye(len(self.matrix)) + self._squares / self._noise)
            return
        for row in rows:
            turned = self.matrix @ row
            self.matrix -= np.outer(turned, turned / (self._noise + row @ turned))


# The powers of 1 + epochs that the curve is made of, and how much a weight of one is held back: where all were trained
# alike nothing can be learnt of longer training, and the curve is level.
_POWERS = np.array((0.0, -0.5, -1.0))
_HELD = np.diag((0.0, 0.01, 0.01))


class Surrogate:
    """`noise`: the variance of an observation beside that of what is observed, which is 1."""

    def __init__(self, width: int, noise: float) -> None:
        self._noise = noise
        # By what was seen at all, and by what has a value.
        self._seen, self._known = _Covariance(width, noise), _Covariance(width, noise)
        powers = len(_POWERS)
        # Sums over all observations of products: of row and powers, row and value, powers and powers, powers and value.
        self._row_powers, self._row_values = np.zeros((width, powers)), np.zeros(width)
        self._powers, self._power_values = np.zeros((powers, powers)), np.zeros(powers)
        self.points = 0
        self._squares = 0.0
        self._curve: Numbers = np.zeros(powers)

    def see(self, rows: Numbers) -> None:
        """Points whose value will come, or never comes: there is less to be learnt near them."""
        self._seen.add(rows)

    def tell(self, rows: Numbers, values: Sequence[float], epochs: Sequence[float] | None = None) -> None:
        """The values of points that were seen, and how many epochs their weights have seen."""
        self._known.add(rows)
        found, powers = np.asarray(values), _powers(epochs if epochs is not None else np.zeros(len(values)))
        self._row_powers += rows.T @ powers
        self._row_values += found @ rows
        self._powers += powers.T @ powers
        self._power_values += found @ powers
        self.points += len(found)
        self._squares += float(found @ found)
        self._curve = np.linalg.solve(self._powers + _HELD, self._power_values)

    def usual(self, epochs: Sequence[float]) -> Numbers:
        """The value that is usual after so many epochs."""
        expected: Numbers = _powers(epochs) @ self._curve
        return expected

    @property
    def scale(self) -> float:
        """The deviation of values from the curve; 1 while there is none."""
        if not self.points:
            return 1.0
        left = self._squares - 2 * self._curve @ self._power_values + self._curve @ self._powers @ self._curve
        variance = float(left) / self.points
        return variance**0.5 if variance > 1e-12 else 1.0

    def means(self, rows: Numbers) -> Numbers:
        """In units of `scale` from the curve."""
        target = (self._row_values - self._row_powers @ self._curve) / (self.scale * self._noise)
        expected: Numbers = rows @ (self._known.matrix @ target)
        return expected

    def deviations(self, rows: Numbers) -> Numbers:
        """In units of `scale`. Points that were seen and have no value are taken to have their mean: they change
        nothing but this."""
        variances = np.einsum("ij,ij->i", rows @ self._seen.matrix, rows)
        spread: Numbers = np.sqrt(np.maximum(variances, 0.0))
        return spread


def _powers(epochs: Sequence[float] | Numbers) -> Numbers:
    made: Numbers = (1.0 + np.asarray(epochs, float))[:, None] ** _POWERS
    return made
