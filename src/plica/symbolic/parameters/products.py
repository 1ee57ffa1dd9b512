"""Products and sums over every pair of entries; in the result, the entry of the second input changes fastest.

>>> KroneckerParameter((2, 3), (4, 5)).shape
(8, 15)
>>> OuterSumParameter((2, 3), (2, 5), axis=-1).shape
(2, 15)
>>> BlockKroneckerParameter((2, 3 * 4), (5, 6 * 7), arity1=3, arity2=6).shape == (2 * 5, 3 * 6 * 4 * 7)
True
"""

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
class KroneckerOp(BinaryOp):
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

    def joined(self, xp: Namespace, pairs: Array) -> Array:
        """`(F, m, p, n, q)` as `(F, m*p, n*q)`."""
        return xp.reshape(pairs, (pairs.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class KroneckerParameter(KroneckerOp):
    """The Kronecker product of two inputs of as many axes."""

    range: ClassVar[Callable[..., Range | None]] = range_as("multiply")
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda _: 1)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The products of all pairs."""
        return self.joined(xp, xp.multiply(*self.paired(xp, arrays[0], arrays[1])))


@final
@dataclass(frozen=True, slots=True, eq=False)
class KroneckerSumParameter(KroneckerOp):
    """Sums in place of the products of a Kronecker product: its logarithm, from the logarithms of both inputs."""

    range: ClassVar[Callable[..., Range | None]] = range_as("add")

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sums of all pairs."""
        return self.joined(xp, xp.add(*self.paired(xp, arrays[0], arrays[1])))


@dataclass(frozen=True, slots=True, eq=False)
class BlockKroneckerOp(BinaryOp):
    """An operation on every pair of entries of two matrices, whose columns are blocks of equal widths.

    The weights of two sum layers of several inputs are such matrices, with one block for each input. Where `arity2` or
    the width of the blocks of the first input is 1, the result is that of the plain Kronecker operation.

    Source: Tracy and Singh, A new matrix product and its applications in partitioned matrix differentiation, 1972.
    """

    arity1: int = field(kw_only=True)
    arity2: int = field(kw_only=True)

    def infer_shape(self) -> Shape:
        """`(O1*O2, H1*H2*I1*I2)` from `(O1, H1*I1)` and `(O2, H2*I2)`, where H1 and H2 are the arities."""
        name = type(self).__name__
        arities = tuple(integer(name, key, getattr(self, key), least=1) for key in ("arity1", "arity2"))
        for shape, arity in zip(self.in_shapes, arities, strict=True):
            if len(shape) != 2 or shape[1] % arity:
                raise ShapeError(
                    f"{name}: expected two matrices whose columns are {' and '.join(map(str, arities))} blocks of "
                    f"equal widths, found {self.in_shape1} and {self.in_shape2}; give the weights of two sum layers "
                    "and their arities"
                )
        (rows1, columns1), (rows2, columns2) = self.in_shapes
        return (rows1 * rows2, columns1 * columns2)

    def paired(self, xp: Namespace, first: Array, second: Array) -> tuple[Array, Array]:
        """The inputs as `(F, O1, 1, H1, 1, I1, 1)` and `(F, 1, O2, 1, H2, 1, I2)`."""
        (rows1, columns1), (rows2, columns2) = self.in_shapes
        left = (rows1, 1, self.arity1, 1, columns1 // self.arity1, 1)
        right = (1, rows2, 1, self.arity2, 1, columns2 // self.arity2)
        return xp.reshape(first, (first.shape[0], *left)), xp.reshape(second, (second.shape[0], *right))

    def joined(self, xp: Namespace, pairs: Array) -> Array:
        """`(F, O1, O2, H1, H2, I1, I2)` as `(F, O1*O2, H1*H2*I1*I2)`."""
        return xp.reshape(pairs, (pairs.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class BlockKroneckerParameter(BlockKroneckerOp):
    """The Kronecker products of all pairs of blocks of two matrices, side by side: their Tracy-Singh product.

    Column `(h1*H2 + h2) * I1*I2 + i1*I2 + i2` of row `o1*O2 + o2` is entry `(o1, h1*I1 + i1)` of the first input times
    entry `(o2, h2*I2 + i2)` of the second.
    """

    range: ClassVar[Callable[..., Range | None]] = range_as("multiply")
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda _: 1)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The products of all pairs."""
        return self.joined(xp, xp.multiply(*self.paired(xp, arrays[0], arrays[1])))


@final
@dataclass(frozen=True, slots=True, eq=False)
class BlockKroneckerSumParameter(BlockKroneckerOp):
    """Sums in place of the products of a `BlockKroneckerParameter`: its logarithm, from the logarithms of both."""

    range: ClassVar[Callable[..., Range | None]] = range_as("add")

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sums of all pairs."""
        return self.joined(xp, xp.add(*self.paired(xp, arrays[0], arrays[1])))


@dataclass(frozen=True, slots=True, eq=False)
class OuterOp(BinaryOp):
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

    def joined(self, xp: Namespace, pairs: Array) -> Array:
        """`(F, ..., m, n, ...)` as `(F, ..., m*n, ...)`."""
        return xp.reshape(pairs, (pairs.shape[0], *self.shape))


@final
@dataclass(frozen=True, slots=True, eq=False)
class OuterProductParameter(OuterOp):
    """The product of every pair of entries along `axis`."""

    range: ClassVar[Callable[..., Range | None]] = range_as("multiply")
    underflow: ClassVar[Callable[..., float]] = underflow_of_products(lambda _: 1)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The products."""
        return self.joined(xp, xp.multiply(*self.paired(xp, arrays[0], arrays[1])))


@final
@dataclass(frozen=True, slots=True, eq=False)
class OuterSumParameter(OuterOp):
    """The sum of every pair of entries along `axis`."""

    range: ClassVar[Callable[..., Range | None]] = range_as("add")

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The sums."""
        return self.joined(xp, xp.add(*self.paired(xp, arrays[0], arrays[1])))
