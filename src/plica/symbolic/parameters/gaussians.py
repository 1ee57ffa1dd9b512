"""Products of the normal densities of two layers: of every pair, from the means and deviations of both.

    N(x; m, s) N(x; n, t) = exp(log_partition) N(x; mean, stddev)
    r^2 = s^2 + t^2,  stddev = s t / r,  mean = m (t/r)^2 + n (s/r)^2,  log_partition = log N(m; n, r)

Entry `i * K2 + j` belongs to entry i of the first layer and entry j of the second. Parameters of several variables have
further axes, `(K, V)`: each variable is paired with itself.

>>> GaussianProductMean((2,), (2,), (3,), (3,)).shape, GaussianProductStddev((2,), (3,)).shape
((6,), (6,))

Of standard normal densities, with a fold axis ahead of their shapes:

>>> import numpy as np
>>> import plica.numpy as pnp
>>> mean, stddev = np.array([[0.0]]), np.array([[1.0]])
>>> GaussianProductLogPartition((1,), (1,), (1,), (1,)).evaluate(pnp, mean, stddev, mean, stddev).round(3)
array([[-1.266]])
>>> GaussianExpectedLog((1,), (1,), (1,), (1,)).evaluate(pnp, mean, stddev, mean, stddev).round(3)
array([[-1.419]])
>>> GaussianMoments((1,), (1,), degree=4).evaluate(pnp, mean, stddev)
array([[[1., 0., 1., 0., 3.]]])
>>> np.exp(LogGaussianProductStddev((1,), (1,)).evaluate(pnp, np.log([[3.0]]), np.log([[4.0]]))).round(3)
array([[2.4]])
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, final

from plica.arguments import integer
from plica.errors import ShapeError
from plica.ir.ranges import ANYTHING, NOT_NEGATIVE, Range
from plica.symbolic.parameters.nodes import Array, BinaryOp, Namespace, ParameterOp, Shape, as_shape


def _pairs_shape(op: ParameterOp, first: Shape, second: Shape) -> Shape:
    if not first or not second or first[1:] != second[1:]:
        raise ShapeError(
            f"{type(op).__name__}: expected shapes (K1,) and (K2,), with equal further axes if any, found {first} and "
            f"{second}; give the parameters of two Gaussian layers of the same variables"
        )
    return (first[0] * second[0], *first[1:])


def _paired(xp: Namespace, first: Array, second: Array) -> tuple[Array, Array]:
    """The inputs as `(F, K1, 1, ...)` and `(F, 1, K2, ...)`."""
    return xp.expand_dims(first, axis=2), xp.expand_dims(second, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class TwoGaussiansOp(ParameterOp):
    """An operation on the two parameters of each of two layers."""

    input_range: ClassVar[tuple[int, int | None]] = (4, 4)
    range: ClassVar[Callable[..., Range | None]] = lambda op, *_: ANYTHING  # noqa: ARG005

    in_shape1: Shape  # of the means of the first layer
    in_shape2: Shape  # of its deviations
    in_shape3: Shape  # of the means of the second
    in_shape4: Shape

    def __post_init__(self) -> None:
        for number in range(1, 5):
            object.__setattr__(self, f"in_shape{number}", as_shape(getattr(self, f"in_shape{number}"), self))
        object.__setattr__(self, "shape", self.infer_shape())

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the means and the deviations."""
        return (self.in_shape1, self.in_shape2, self.in_shape3, self.in_shape4)


@dataclass(frozen=True, slots=True, eq=False)
class GaussianProductOp(TwoGaussiansOp):
    """An operation on the mean and the deviation of each of two layers."""

    def infer_shape(self) -> Shape:
        """`(K1 * K2,)`."""
        if self.in_shape1 != self.in_shape2 or self.in_shape3 != self.in_shape4:
            raise ShapeError(
                f"{type(self).__name__}: expected mean and deviation of the first layer, then those of the second, a "
                f"deviation for each mean, found shapes {', '.join(map(str, self.in_shapes))}; check the order"
            )
        return _pairs_shape(self, self.in_shape1, self.in_shape3)


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianProductMean(GaussianProductOp):
    """The means of the products, from means and deviations `(K1,)`, `(K1,)`, `(K2,)`, `(K2,)`."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The means of each pair, each weighted by the other's share of the summed variances."""
        mean1, mean2 = _paired(xp, arrays[0], arrays[2])
        stddev1, stddev2 = _paired(xp, arrays[1], arrays[3])
        deviation = xp.hypot(stddev1, stddev2)
        mean = mean1 * xp.square(stddev2 / deviation) + mean2 * xp.square(stddev1 / deviation)
        return xp.reshape(mean, (mean.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianProductLogPartition(GaussianProductOp):
    """The logarithms of the integrals of the products, from means and deviations as for `GaussianProductMean`."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The logarithm of the density of one mean about the other."""
        mean1, mean2 = _paired(xp, arrays[0], arrays[2])
        stddev1, stddev2 = _paired(xp, arrays[1], arrays[3])
        density = xp.log_normal(mean1, mean2, xp.log(xp.hypot(stddev1, stddev2)))
        return xp.reshape(density, (density.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianExpectedLog(GaussianProductOp):
    """The mean of `log N(x; n, t)` under `N(x; m, s)`, from means and deviations as for `GaussianProductMean`."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """Log N(m; n, t) - s^2 / (2 t^2)."""
        mean1, mean2 = _paired(xp, arrays[0], arrays[2])
        stddev1, stddev2 = _paired(xp, arrays[1], arrays[3])
        logs = xp.log_normal(mean1, mean2, xp.log(stddev2)) - 0.5 * xp.square(stddev1 / stddev2)
        return xp.reshape(logs, (logs.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianMoments(BinaryOp):
    """The means of the powers 0 to `degree` of a normal variable, `(K, degree + 1)`, from means and deviations `(K,)`.

    Args:
        degree: The highest power, at least 0.
    """

    range: ClassVar[Callable[..., Range | None]] = lambda op, *_: ANYTHING  # noqa: ARG005

    degree: int = field(kw_only=True)

    def infer_shape(self) -> Shape:
        """`(K, degree + 1)`."""
        object.__setattr__(self, "degree", integer("GaussianMoments", "degree", self.degree, least=0))
        if self.in_shape1 != self.in_shape2 or len(self.in_shape1) != 1:
            raise ShapeError(
                f"GaussianMoments: expected means and deviations of one shape (K,), found {self.in_shape1} and "
                f"{self.in_shape2}; give the parameters of one GaussianLayer"
            )
        return (*self.in_shape1, self.degree + 1)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """M_n = m M_(n-1) + (n-1) s^2 M_(n-2), with M_0 = 1 and M_1 = m."""
        mean, stddev = arrays
        moments = [xp.ones_like(mean), mean]
        for power in range(2, self.degree + 1):
            moments.append(mean * moments[-1] + float(power - 1) * xp.square(stddev) * moments[-2])
        return xp.stack(moments[: self.degree + 1], axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class StddevOp(BinaryOp):
    """An operation on the deviations of two layers."""

    def infer_shape(self) -> Shape:
        """`(K1 * K2,)`."""
        return _pairs_shape(self, self.in_shape1, self.in_shape2)


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianProductStddev(StddevOp):
    """The standard deviations of the products, from those of two layers, `(K1,)` and `(K2,)`."""

    range: ClassVar[Callable[..., Range | None]] = lambda op, *_: NOT_NEGATIVE  # noqa: ARG005

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The deviations, without squares that underflow."""
        stddev1, stddev2 = _paired(xp, arrays[0], arrays[1])
        stddev = stddev1 * (stddev2 / xp.hypot(stddev1, stddev2))
        return xp.reshape(stddev, (stddev.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogGaussianProductStddev(StddevOp):
    """The logarithms of the standard deviations of the products, from those of the deviations."""

    range: ClassVar[Callable[..., Range | None]] = lambda op, *_: ANYTHING  # noqa: ARG005

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """-log(exp(-2 a) + exp(-2 b)) / 2."""
        first, second = _paired(xp, arrays[0], arrays[1])
        logs = -0.5 * xp.logaddexp(-2.0 * first, -2.0 * second)
        return xp.reshape(logs, (logs.shape[0], *self.shape))
