"""Products and sums over every pair of entries; in the result, the entry of the second input changes fastest.

>>> KroneckerParameter((2, 3), (4, 5)).shape, BlockKroneckerParameter((2, 6), (4, 5), blocks1=2, blocks2=1).shape
((8, 15), (8, 30))
>>> OuterSumParameter((2, 3), (2, 5), axis=-1).shape
(2, 15)

Numbers of an operation have a fold axis ahead of their shape:

>>> import numpy as np
>>> import plica.numpy as pnp
>>> x, y = np.array([[1.0, 10.0]]), np.array([[1.0, 2.0, 3.0]])
>>> OuterProductParameter((2,), (3,)).evaluate(pnp, x, y)
array([[ 1.,  2.,  3., 10., 20., 30.]])
>>> KroneckerSumParameter((2,), (3,)).evaluate(pnp, x, y)
array([[ 2.,  3.,  4., 11., 12., 13.]])
>>> BlockKroneckerSumParameter((1, 2), (1, 3), blocks1=1, blocks2=3).evaluate(pnp, x[None], y[None])
array([[[ 2., 11.,  3., 12.,  4., 13.]]])
"""

import operator
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, final

from plica.arguments import integer
from plica.errors import ShapeError
from plica.ir.ranges import Range
from plica.symbolic.parameters.nodes import (
    Array,
    BinaryOp,
    Namespace,
    Shape,
    check_axis,
    range_as,
    underflow_of_products,
)


@dataclass(frozen=True, slots=True, eq=False)
class PairsOp(BinaryOp):
    """An operation on pairs of entries of two inputs."""

    @staticmethod
    @abstractmethod
    def combine(first: Array, second: Array, /) -> Array:
        """The operation on each pair."""

    @abstractmethod
    def paired(self, xp: Namespace, first: Array, second: Array) -> tuple[Array, Array]:
        """The inputs in shapes that broadcast to all pairs, in the order of the result."""

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The results of all pairs."""
        pairs = self.combine(*self.paired(xp, arrays[0], arrays[1]))
        return xp.reshape(pairs, (pairs.shape[0], *self.shape))


@dataclass(frozen=True, slots=True, eq=False)
class KroneckerOp(PairsOp):
    """An operation on every pair of entries of two inputs of as many axes."""

    def infer_shape(self) -> Shape:
        """Along each axis the product of the two sizes."""
        if len(self.in_shape1) != len(self.in_shape2):
            raise ShapeError(
                f"{type(self).__name__}: expected two inputs of as many axes, found {self.in_shape1} and "
                f"{self.in_shape2}; add axes of size 1 to one of them"
            )
        return tuple(size1 * size2 for size1, size2 in zip(self.in_shape1, self.in_shape2, strict=True))

    def paired(self, xp: Namespace, first: Array, second: Array) -> tuple[Array, Array]:
        """The inputs as `(F, m, 1, n, 1)` and `(F, 1, p, 1, q)`."""
        left = [size for size1 in self.in_shape1 for size in (size1, 1)]
        right = [size for size2 in self.in_shape2 for size in (1, size2)]
        return xp.reshape(first, (first.shape[0], *left)), xp.reshape(second, (first.shape[0], *right))


@final
@dataclass(frozen=True, slots=True, eq=False)
class KroneckerParameter(KroneckerOp):
    """The Kronecker product of two inputs of as many axes."""

    combine = staticmethod(operator.mul)
    range: ClassVar[Callable[..., Range | None]] = range_as("multiply")
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda _: 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class KroneckerSumParameter(KroneckerOp):
    """Sums in place of the products of a Kronecker product: its logarithm, from the logarithms of both inputs."""

    combine = staticmethod(operator.add)
    range: ClassVar[Callable[..., Range | None]] = range_as("add")


@dataclass(frozen=True, slots=True, eq=False)
class BlockKroneckerOp(PairsOp):
    """An operation on every pair of entries of two matrices, the pairs of blocks of columns one after another.

    Columns are those of a Kronecker product in another order: `[A_1 kron B_1, A_1 kron B_2, .., A_2 kron B_1, ..]`.

    Args:
        blocks1: The number of blocks of the first input, side by side.
        blocks2: That of the second.
    """

    blocks1: int = field(kw_only=True)
    blocks2: int = field(kw_only=True)

    def infer_shape(self) -> Shape:
        """`(O*P, H*G*I*J)` from H blocks `(O, H*I)` and G blocks `(P, G*J)`."""
        name = type(self).__name__
        for shape, blocks in ((self.in_shape1, self.blocks1), (self.in_shape2, self.blocks2)):
            if len(shape) != 2 or shape[1] % integer(name, "a number of blocks", blocks, least=1):
                raise ShapeError(
                    f"{name}: expected a matrix of {blocks} block(s) of columns, found shape {shape}; give the number "
                    "of inputs of the sum layer whose weight it is"
                )
        return self.in_shape1[0] * self.in_shape2[0], self.in_shape1[1] * self.in_shape2[1]

    def paired(self, xp: Namespace, first: Array, second: Array) -> tuple[Array, Array]:
        """The inputs as `(F, O, 1, H, 1, I, 1)` and `(F, 1, P, 1, G, 1, J)`."""
        (rows1, columns1), (rows2, columns2) = self.in_shape1, self.in_shape2
        left = (rows1, 1, self.blocks1, 1, columns1 // self.blocks1, 1)
        right = (1, rows2, 1, self.blocks2, 1, columns2 // self.blocks2)
        return xp.reshape(first, (first.shape[0], *left)), xp.reshape(second, (first.shape[0], *right))


@final
@dataclass(frozen=True, slots=True, eq=False)
class BlockKroneckerParameter(BlockKroneckerOp):
    """The Kronecker products of all pairs of blocks: the weight of the product of two sums of several inputs."""

    combine = staticmethod(operator.mul)
    range: ClassVar[Callable[..., Range | None]] = range_as("multiply")
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda _: 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class BlockKroneckerSumParameter(BlockKroneckerOp):
    """Sums in place of the products of a `BlockKroneckerParameter`: its logarithm, from those of both inputs."""

    combine = staticmethod(operator.add)
    range: ClassVar[Callable[..., Range | None]] = range_as("add")


@dataclass(frozen=True, slots=True, eq=False)
class OuterOp(PairsOp):
    """An operation on every pair of entries along one axis; along other axes it pairs entries at equal positions."""

    axis: int = field(default=-1, kw_only=True)

    def infer_shape(self) -> Shape:
        """The common shape, with the product of the two sizes at `axis`."""
        first, second = self.in_shape1, self.in_shape2
        check_axis(self, first, self.axis)
        at = self.axis % len(first)
        if len(first) != len(second) or first[:at] + first[at + 1 :] != second[:at] + second[at + 1 :]:
            raise ShapeError(
                f"{type(self).__name__}: expected two inputs that differ at axis {self.axis} at most, "
                f"found {first} and {second}; choose another axis, or use KroneckerParameter"
            )
        return (*first[:at], first[at] * second[at], *first[at + 1 :])

    def paired(self, xp: Namespace, first: Array, second: Array) -> tuple[Array, Array]:
        """The inputs with an axis of size 1 each, so that an operation broadcasts to `(F, ..., m, n, ...)`."""
        at = self.axis % len(self.in_shape1) + 1
        return xp.expand_dims(first, axis=at + 1), xp.expand_dims(second, axis=at)


@final
@dataclass(frozen=True, slots=True, eq=False)
class OuterProductParameter(OuterOp):
    """The product of every pair of entries along `axis`."""

    combine = staticmethod(operator.mul)
    range: ClassVar[Callable[..., Range | None]] = range_as("multiply")
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda _: 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class OuterSumParameter(OuterOp):
    """The sum of every pair of entries along `axis`."""

    combine = staticmethod(operator.add)
    range: ClassVar[Callable[..., Range | None]] = range_as("add")
