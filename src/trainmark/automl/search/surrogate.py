"""What is believed of architectures that were not trained: a linear model of their features, by Bayes' rule.

It is a Gaussian process whose kernel is the product of two feature vectors, stored as sums over all observations. So a
prediction costs the same after ten thousand as after ten, and no observation, however often repeated, can break it:
what is inverted is a sum of squares plus the identity.
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


class Surrogate:
    """`noise`: the variance of an observation beside that of what is observed, which is 1."""

    def __init__(self, width: int, noise: float) -> None:
        self._noise = noise
        # By what was seen at all, and by what has a value.
        self._seen, self._known = _Covariance(width, noise), _Covariance(width, noise)
        self._sum, self._product = np.zeros(width), np.zeros(width)
        self.points = 0
        self._total = self._squares = 0.0

    def see(self, rows: Numbers) -> None:
        """Points whose value will come, or never comes: there is less to be learnt near them."""
        self._seen.add(rows)

    def tell(self, rows: Numbers, values: Sequence[float]) -> None:
        """The values of points that were seen."""
        self._known.add(rows)
        self._sum += rows.sum(0)
        self._product += values @ rows
        self.points += len(values)
        self._total += sum(values)
        self._squares += sum(value * value for value in values)

    @property
    def centre(self) -> float:
        return self._total / self.points if self.points else 0.0

    @property
    def scale(self) -> float:
        """The deviation of the values; 1 while they do not differ."""
        if not self.points:
            return 1.0
        variance = self._squares / self.points - self.centre**2
        return variance**0.5 if variance > 1e-12 else 1.0

    def means(self, rows: Numbers) -> Numbers:
        """In units of `scale` from `centre`."""
        target = (self._product - self.centre * self._sum) / (self.scale * self._noise)
        expected: Numbers = rows @ (self._known.matrix @ target)
        return expected

    def deviations(self, rows: Numbers) -> Numbers:
        """In units of `scale`. Points that were seen and have no value are taken to have their mean: they change
        nothing but this."""
        variances = np.einsum("ij,ij->i", rows @ self._seen.matrix, rows)
        spread: Numbers = np.sqrt(np.maximum(variances, 0.0))
        return spread
