"""What is believed of architectures that were not trained: a linear model of their features, by Bayes' rule.

It is a Gaussian process whose kernel is the product of two feature vectors, kept as sums over all observations. So a
prediction costs the same after ten thousand as after ten, and no observation, however often repeated, can break it: what
is factorised is a sum of squares plus the identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any]


class Surrogate:
    """`noise`: the variance of an observation beside that of what is observed, which is 1."""

    def __init__(self, width: int, noise: float) -> None:
        self._noise = noise
        # Sums over what was seen at all, and over what has a value.
        self._seen, self._known = np.zeros((width, width)), np.zeros((width, width))
        self._sum, self._product = np.zeros(width), np.zeros(width)
        self.points = 0
        self._total = self._squares = 0.0

    def see(self, rows: Numbers) -> None:
        """Points whose value will come, or never comes: there is less to be learnt near them."""
        self._seen += rows.T @ rows

    def tell(self, row: Numbers, value: float) -> None:
        """The value of a point that was seen."""
        self._known += np.outer(row, row)
        self._sum += row
        self._product += value * row
        self.points += 1
        self._total += value
        self._squares += value * value

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

    def predict(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Mean and deviation, in units of `scale` from `centre`. Points that were seen and have no value are taken to
        have the mean: they change the deviation only."""
        from scipy.linalg import cho_factor, cho_solve, solve_triangular

        target = (self._product - self.centre * self._sum) / (self.scale * self._noise)
        weights = cho_solve(cho_factor(self._precision(self._known), lower=True, check_finite=False), target)
        factor = np.linalg.cholesky(self._precision(self._seen))
        spread = solve_triangular(factor, rows.T, lower=True, check_finite=False)
        return rows @ weights, np.sqrt(np.einsum("ij,ij->j", spread, spread))

    def _precision(self, sums: Numbers) -> Numbers:
        precision = sums / self._noise
        precision[np.diag_indices_from(precision)] += 1.0
        return precision
