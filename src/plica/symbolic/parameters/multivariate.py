"""Products of the multivariate normal densities of two layers: of every pair, from the means and factors of both.

    N(x; m, S) N(x; n, T) = exp(log_partition) N(x; mean, C),  S = L L^T,  T = M M^T,  B = M^-1 L,  z = M^-1 (n - m)
    C = L (I + B^T B)^-1 L^T,  mean = m + L (I + B^T B)^-1 B^T z,  log_partition = log N(m; n, S + T)

No covariance is inverted, and `I + B^T B` has no eigenvalue below 1. Entry `i * K2 + j` belongs to entry i of the first
layer and entry j of the second.

>>> MultivariateProductFactor((2, 4), (2, 4, 4), (3, 4), (3, 4, 4)).shape
(6, 4, 4)

Of two standard normal densities, one of mean 0 and one of mean 2, with a fold axis ahead of their shapes:

>>> import torch
>>> import plica.numpy as pnp
>>> shapes, mean, factor = ((1, 2), (1, 2, 2), (1, 2), (1, 2, 2)), torch.zeros(1, 1, 2), torch.eye(2)[None, None]
>>> MultivariateProductMean(*shapes).evaluate(pnp, mean, factor, mean + 2.0, factor)
tensor([[[1., 1.]]])
>>> MultivariateProductLogPartition(*shapes).evaluate(pnp, mean, factor, mean + 2.0, factor)
tensor([[-4.5310]])
"""

import math
from dataclasses import dataclass
from typing import final

from plica.errors import ShapeError
from plica.symbolic.parameters.gaussians import TwoGaussiansOp
from plica.symbolic.parameters.nodes import Array, Namespace, Shape

_LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class MultivariateProductOp(TwoGaussiansOp):
    """An operation on the mean and the lower triangular factor of each of two layers."""

    def pairs_of_shape(self) -> Shape:
        """`(K1 * K2, V)`.

        Raises:
            ShapeError: Other shapes than `(K1, V)`, `(K1, V, V)`, `(K2, V)` and `(K2, V, V)`.
        """
        means = (self.in_shape1, self.in_shape3)
        factors = tuple((*mean, mean[-1]) for mean in means if len(mean) == 2)
        if factors != (self.in_shape2, self.in_shape4) or means[0][1] != means[1][1]:
            raise ShapeError(
                f"{type(self).__name__}: expected mean (K, V) and factor (K, V, V) of the first layer, then those of "
                f"the second, found shapes {', '.join(map(str, self.in_shapes))}; check the order"
            )
        return (means[0][0] * means[1][0], means[0][1])


@final
@dataclass(frozen=True, slots=True, eq=False)
class MultivariateProductMean(MultivariateProductOp):
    """The means of the products, `(K1 * K2, V)`."""

    def infer_shape(self) -> Shape:
        """`(K1 * K2, V)`."""
        return self.pairs_of_shape()

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """M + L (I + B^T B)^-1 B^T z."""
        ratio, distance = _ratio(xp, *arrays), _distance(xp, *arrays)
        factor = xp.expand_dims(xp.tril(arrays[1]), axis=2)
        transposed = xp.matrix_transpose(ratio)
        moved = xp.linalg.solve(_increased(xp, xp.matmul(transposed, ratio)), xp.matmul(transposed, distance))
        mean = xp.expand_dims(arrays[0], axis=2) + xp.squeeze(xp.matmul(factor, moved), axis=-1)
        return xp.reshape(mean, (mean.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class MultivariateProductFactor(MultivariateProductOp):
    """The lower triangular factors of the covariances of the products, `(K1 * K2, V, V)`."""

    def infer_shape(self) -> Shape:
        """`(K1 * K2, V, V)`."""
        pairs, size = self.pairs_of_shape()
        return (pairs, size, size)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """L R^-1 with R lower triangular and R^T R = I + B^T B: the Cholesky factor from the last row on."""
        ratio = _ratio(xp, *arrays)
        increased = _increased(xp, xp.matmul(xp.matrix_transpose(ratio), ratio))
        upper = xp.flip(xp.linalg.cholesky(xp.flip(increased, axis=(-2, -1))), axis=(-2, -1))  # R^T
        factor = xp.expand_dims(xp.matrix_transpose(xp.tril(arrays[1])), axis=2)
        factors = xp.tril(xp.matrix_transpose(xp.linalg.solve(upper, factor)))
        return xp.reshape(factors, (factors.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class MultivariateProductLogPartition(MultivariateProductOp):
    """The logarithms of the integrals of the products, `(K1 * K2,)`."""

    def infer_shape(self) -> Shape:
        """`(K1 * K2,)`."""
        return self.pairs_of_shape()[:1]

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """-(z^T (I + B B^T)^-1 z + log det(I + B B^T) + 2 log det M + V log(2 pi)) / 2."""
        ratio, distance = _ratio(xp, *arrays), _distance(xp, *arrays)
        increased = _increased(xp, xp.matmul(ratio, xp.matrix_transpose(ratio)))
        squares = xp.sum(distance * xp.linalg.solve(increased, distance), axis=(-2, -1))
        volume = xp.sum(xp.log(xp.linalg.diagonal(xp.linalg.cholesky(increased))), axis=-1)
        scale = xp.sum(xp.log(xp.abs(xp.linalg.diagonal(arrays[3]))), axis=-1)
        volume = volume + xp.expand_dims(scale, axis=1)
        logs = -0.5 * squares - volume - 0.5 * arrays[0].shape[-1] * _LOG_TWO_PI
        return xp.reshape(logs, (logs.shape[0], *self.shape))


def _ratio(xp: Namespace, mean1: Array, factor1: Array, mean2: Array, factor2: Array) -> Array:  # noqa: ARG001
    """B, `(F, K1, K2, V, V)`."""
    return xp.linalg.solve(xp.expand_dims(xp.tril(factor2), axis=1), xp.expand_dims(xp.tril(factor1), axis=2))


def _distance(xp: Namespace, mean1: Array, factor1: Array, mean2: Array, factor2: Array) -> Array:  # noqa: ARG001
    """z, `(F, K1, K2, V, 1)`."""
    distance = xp.expand_dims(mean2, axis=1) - xp.expand_dims(mean1, axis=2)
    return xp.linalg.solve(xp.expand_dims(xp.tril(factor2), axis=1), xp.expand_dims(distance, axis=-1))


def _increased(xp: Namespace, matrix: Array) -> Array:
    """A matrix plus the identity."""
    return matrix + xp.eye(matrix.shape[-1], dtype=matrix.dtype)
