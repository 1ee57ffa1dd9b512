"""Nodes of parameter graphs: each has a shape, a config and, if it is an operation, the rule that computes it.

Nodes are compared by identity and do not know their inputs: the edges are in `Parameter`, in `graph.py`.

    >>> from plica.symbolic.parameters import SoftmaxParameter
    >>> op = SoftmaxParameter((2, 3), axis=0)
    >>> op.shape, op.in_shapes, op.config
    ((2, 3), ((2, 3),), {'axis': 0})
"""

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from plica.arguments import integer
from plica.errors import DTypeError, InputError, ShapeError
from plica.graph.kinds import Form, NodeKind, constructor_arguments
from plica.ir.ranges import Range
from plica.ops import OPS

Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = Any  # an array of whichever namespace a rule is given
Namespace: TypeAlias = Any  # Array-API names, and the few more that docs/architecture.md lists

MAX_AXES = 30  # of a declared shape: numpy and torch have 64, a fold axis is added, and Kronecker products double them
MAX_ENTRIES = 2**62  # of an array, so that its bytes can be counted

SHAPE_FIELDS = ("in_shape", "in_shape1", "in_shape2", "in_shape3", "in_shape4", "shape")


class ParameterNode(NodeKind):
    """A node of a parameter graph.

    >>> from plica.symbolic.parameters import SoftmaxParameter
    >>> SoftmaxParameter((2, 3)).fold_settings() == SoftmaxParameter((2, 3), axis=0).fold_settings()
    False
    """

    __slots__ = ()

    @classmethod
    def form(cls) -> Form:
        """The settings by the constructor's names; nodes carry no graphs."""
        names = constructor_arguments(cls)
        return Form(None if names is None else frozenset(names) - set(SHAPE_FIELDS), frozenset(), *cls.input_range)

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The settings other than shapes, by the names of the constructor."""

    @abstractmethod
    def fold_settings(self) -> Hashable:
        """A key: nodes of one type with equal keys may be computed as one, as a fold."""


class ParameterInput(ParameterNode):
    """A leaf: a node without inputs."""

    __slots__ = ()
    input_range: ClassVar[tuple[int, int | None]] = (0, 0)

    if TYPE_CHECKING:  # declared for readers alone: at run time a dataclass would take a property for a field's default

        @property
        def shape(self) -> Shape:
            """The shape of the leaf."""

    def fold_settings(self) -> Hashable:
        """Config and shape."""
        return setting_key(self.config), self.shape


def range_as(operation: str) -> Callable[..., Range]:
    """For the column `range`: the range that a row of `plica.ops` gives, where all entries are its results."""
    return lambda _, *inputs: OPS[operation].range_of(inputs, {})


def underflow_of_products(terms: Callable[[Any], int]) -> Callable[..., float]:
    """The column `underflow` of sums of products: `terms(op)` products, of the first input's and the last's entries."""

    def underflow(op: "ParameterOp", errors: Sequence[float], largest: Callable[[int], float]) -> float:
        return terms(op) * (_times(errors[0], largest(-1)) + _times(errors[-1], largest(0)) + 1.0)

    return underflow


def logarithm(xp: Namespace, y: Array) -> Array:
    """log(y), with that of the smallest normal number where y is smaller: what `exp` has as its inverse."""
    return xp.log(xp.clip(y, float(xp.finfo(y.dtype).smallest_normal), None))


def _times(error: float, factor: float) -> float:
    return error * factor if error and factor else 0.0  # 0 times infinity is 0 here


def _range_of_operation(op: "ParameterOp", *inputs: Range) -> Range | None:
    if op.operation is None:
        return None
    row = OPS[op.operation]
    return row.range if isinstance(row.range, tuple) else row.range_of(inputs, op.config)


@dataclass(frozen=True, slots=True, eq=False)
class ParameterOp(ParameterNode):
    """An operation on arrays of known shapes.

    `type(op)(*op.in_shapes, **op.config)` is a new operation that computes the same.

    Columns, each with a default for custom operations:
        operation: The row of `plica.ops` that the operation applies to its inputs, with its settings as parameters.
            Rules that name this row apply to the operation. None if there is no such row.
        range: `op.range(*ranges)`: the range of the entries (`plica.ir.ranges`), for real inputs that lie in `ranges`.
            None where nothing is known, not even that the entries are real. By default the range that its row gives.
        underflow: `op.underflow(errors, largest)`: a bound of the error that underflow causes in an entry, in multiples
            of the smallest normal number; infinite where there is none. `errors[i]` is this bound of input `i`, and
            `largest(i)` bounds the absolute values of its entries. By default the largest error of an input: right for
            operations that compute an entry from one entry of each input, without multiplying these.
        inverse: `op.inverse(xp, y)`: an input `(F, *in_shape)` whose result is `y`, or is nearest to it where no input
            gives it; None where there is none. `xp` has the functions of the Python Array API standard.

    >>> from plica.symbolic.parameters import MatMulParameter
    >>> product = MatMulParameter((2, 3), (3, 4))
    >>> product.shape, product.evaluate(np, np.ones((1, 2, 3)), np.ones((1, 3, 4))).shape
    ((2, 4), (1, 2, 4))
    """

    input_range: ClassVar[tuple[int, int | None]] = (1, None)
    operation: ClassVar[str | None] = None
    range: ClassVar[Callable[..., Range | None]] = _range_of_operation
    underflow: ClassVar[Callable[..., float]] = lambda _, errors, __: max(1.0, *errors)
    inverse: ClassVar[Callable[..., Array] | None] = None
    shape: Shape = field(init=False)

    @property
    @abstractmethod
    def in_shapes(self) -> tuple[Shape, ...]:
        """The shape of each input."""

    @property
    def config(self) -> dict[str, Any]:
        """The settings other than shapes, by the names of the constructor."""
        return {name: getattr(self, name) for name in _setting_names(type(self))}

    def fold_settings(self) -> Hashable:
        """Config and input shapes; the first operation of a fold evaluates all of them."""
        return setting_key(self.config), self.in_shapes

    @abstractmethod
    def infer_shape(self) -> Shape:
        """The shape of the result; raises where the input shapes or the settings do not fit."""

    @abstractmethod
    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The result, from inputs that each have one fold axis ahead of the declared shape.

        Shapes: arrays[i]: (F, *in_shapes[i]); result: (F, *shape).
        """


@cache
def _setting_names(kind: type[ParameterOp]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.name not in SHAPE_FIELDS)


@dataclass(frozen=True, slots=True, eq=False)
class UnaryOp(ParameterOp):
    """An operation of one input.

    >>> class Halved(UnaryOp):
    ...     def infer_shape(self):
    ...         return self.in_shape
    ...
    ...     def evaluate(self, xp, x):
    ...         return x / 2
    >>> Halved((3,)).evaluate(np, np.array([[2.0, 4.0, 6.0]]))
    array([[1., 2., 3.]])
    """

    input_range: ClassVar[tuple[int, int | None]] = (1, 1)
    in_shape: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_shape", as_shape(self.in_shape, self))
        object.__setattr__(self, "shape", self.infer_shape())

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """The shape of the input."""
        return (self.in_shape,)


@dataclass(frozen=True, slots=True, eq=False)
class BinaryOp(ParameterOp):
    """An operation of two inputs.

    >>> class Distance(BinaryOp):
    ...     def infer_shape(self):
    ...         return self.in_shape1
    ...
    ...     def evaluate(self, xp, x, y):
    ...         return xp.abs(x - y)
    >>> Distance((2,), (2,)).evaluate(np, np.array([[1.0, 2.0]]), np.array([[3.0, 2.0]]))
    array([[2., 0.]])
    """

    input_range: ClassVar[tuple[int, int | None]] = (2, 2)
    in_shape1: Shape
    in_shape2: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_shape1", as_shape(self.in_shape1, self))
        object.__setattr__(self, "in_shape2", as_shape(self.in_shape2, self))
        object.__setattr__(self, "shape", self.infer_shape())

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """The shape of each input."""
        return (self.in_shape1, self.in_shape2)


_PLAIN = (int, str, bool, type(None))


def setting_key(value: Any) -> Hashable:
    """A key that is equal for settings that mean the same.

    Numbers, texts and arrays are compared by type and contents, and so are tuples, lists and mappings of them. Other
    settings are compared by `==`, or by identity where they cannot be hashed.
    """
    if type(value) in _PLAIN:
        return (type(value), value)
    if isinstance(value, np.ndarray):
        is_raw = value.dtype.kind != "O"
        return (value.shape, value.dtype.str, value.tobytes() if is_raw else tuple(map(setting_key, value.flat)))
    if isinstance(value, tuple | list):
        return (type(value), tuple(map(setting_key, value)))
    if isinstance(value, Mapping):
        return (type(value), tuple((setting_key(key), setting_key(item)) for key, item in value.items()))
    if isinstance(value, float | complex | np.generic):
        return (type(value), repr(value))  # tells -0.0 from 0.0, and takes one NaN for another
    try:
        hash(value)
    except TypeError:
        return _ByIdentity(value)
    return (type(value), value)


class _ByIdentity:
    """A value compared by identity; it is kept alive, so that no other value gets its identity."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def as_shape(sizes: Iterable[int], owner: object) -> Shape:
    """`sizes` as a tuple of positive integers; `owner`, or its class, is named where they are not."""
    name = owner if isinstance(owner, str) else type(owner).__name__
    try:
        shape = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise DTypeError(f"{name}: a shape must be a sequence of integers, found {sizes!r}") from None
    if any(size < 1 for size in shape):
        raise ShapeError(f"{name}: every size of a shape must be at least 1, found {shape}")
    if len(shape) > MAX_AXES:
        raise ShapeError(f"{name}: a shape has at most {MAX_AXES} axes, found {len(shape)}; flatten some of them")
    if math.prod(shape) > MAX_ENTRIES:
        raise ShapeError(f"{name}: an array of shape {shape} has more entries than can be counted in 64 bits")
    return shape


def check_axis(op: ParameterOp, shape: Shape, axis: int) -> None:
    """Raise unless `shape` has `axis`."""
    axis = integer(type(op).__name__, "axis", axis)
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(
            f"{type(op).__name__}: axis {axis} is outside the input of shape {shape}; "
            f"use an axis in [{-len(shape)}, {len(shape) - 1}]"
        )


def check_bound(op: ParameterOp, name: str, value: float) -> None:
    """Raise unless a bound of an operation is a number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise DTypeError(f"{type(op).__name__}: {name} must be a number, found {value!r}")
    if value != value:  # NaN alone differs from itself
        raise InputError(f"{type(op).__name__}: {name} is NaN; pass a number, or leave it out")


def fold_axis(axis: int) -> int:
    """A declared axis, counted in an array with a fold axis ahead: non-negative axes move by one."""
    return axis + 1 if axis >= 0 else axis
