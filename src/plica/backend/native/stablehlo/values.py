"""Tensors with operators and functions, with which rows are written. They broadcast by the array API's rule.

>>> code = Code()
>>> x = Value(code, Tensor("%x", (2, 3), DType.FLOAT32))
>>> (x + 1.0).sum((1,)).shape
(2,)
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Union

from plica.backend.native.stablehlo.code import Code, Shape, Tensor
from plica.backend.native.stablehlo.types import integers
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, floor_divide, opaque, product, total
from plica.ops.rules import broadcast, real_dtype

Operand = Union["Value", complex]
_COMPARISONS = {
    "equal": "EQ",
    "not_equal": "NE",
    "less": "LT",
    "less_equal": "LE",
    "greater": "GT",
    "greater_equal": "GE",
}


class Value(NamedTuple):
    """A tensor and its code. Numbers that are combined with it become constants of its dtype."""

    code: Code
    tensor: Tensor

    @property
    def shape(self) -> Shape:
        """The shape, in terms of the sizes of arguments."""
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.tensor.dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def like(self, value: complex, dtype: DType | None = None) -> "Value":
        """A number in this dtype, or in another one."""
        return Value(self.code, self.code.constant(value, dtype or self.dtype))

    def size(self, dim: Dim) -> "Value":
        """A size as a scalar of int64."""
        return Value(self.code, self.code.size(dim))

    # each entry

    def map(self, name: str, *others: Operand, dtype: DType | None = None) -> "Value":
        """An operation on each entry, of operands of one dtype."""
        values = [self, *(value if isinstance(value, Value) else self.like(value) for value in others)]
        shape = broadcast(*(value.shape for value in values))
        operands = [value.spread(shape).tensor for value in values]
        return Value(self.code, self.code.apply(name, operands, shape, dtype or self.dtype))

    def compare(self, kind: str, other: Operand) -> "Value":
        """Whether entries are `equal`, `not_equal`, `less`, `less_equal`, `greater` or `greater_equal`."""
        right = other if isinstance(other, Value) else self.like(other)
        shape = broadcast(self.shape, right.shape)
        operands = [value.spread(shape).tensor for value in (self, right)]
        attributes = {"comparison_direction": f"#stablehlo<comparison_direction {_COMPARISONS[kind]}>"}
        return Value(self.code, self.code.apply("compare", operands, shape, DType.BOOL, attributes))

    def where(self, first: Operand, second: Operand) -> "Value":
        """`first` where this is true, else `second`; at least one of them is a `Value`."""
        like = first if isinstance(first, Value) else second
        assert isinstance(like, Value), "at least one side is a Value"
        sides = [value if isinstance(value, Value) else like.like(value) for value in (first, second)]
        shape = broadcast(self.shape, *(side.shape for side in sides))
        operands = [value.spread(shape).tensor for value in (self, *sides)]
        return Value(self.code, self.code.apply("select", operands, shape, like.dtype))

    def __add__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self.map("add", other)

    def __sub__(self, other: Operand) -> "Value":
        return self.map("subtract", other)

    def __rsub__(self, other: complex) -> "Value":
        return self.like(other) - self

    def __mul__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self.map("multiply", other)

    def __truediv__(self, other: Operand) -> "Value":
        return self.map("divide", other)

    def __neg__(self) -> "Value":
        return self.map("negate")

    def __and__(self, other: Operand) -> "Value":
        return self.map("and", other)

    def __or__(self, other: Operand) -> "Value":
        return self.map("or", other)

    def __xor__(self, other: Operand) -> "Value":
        return self.map("xor", other)

    def __invert__(self) -> "Value":
        return self.map("not")

    def __lt__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self.compare("less", other)

    def __le__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self.compare("less_equal", other)

    def __gt__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self.compare("greater", other)

    def __ge__(self, other: Operand) -> "Value":  # type: ignore[override]
        return self.compare("greater_equal", other)

    def equals(self, other: Operand) -> "Value":
        """Whether entries are equal."""
        return self.compare("equal", other)

    def differs(self, other: Operand) -> "Value":
        """Whether entries are not equal."""
        return self.compare("not_equal", other)

    def is_nan(self) -> "Value":
        """Whether entries are NaN."""
        return self.differs(self)

    def exp(self) -> "Value":
        """The exponential."""
        return self.map("exponential")

    def log(self) -> "Value":
        """The natural logarithm."""
        return self.map("log")

    def sqrt(self) -> "Value":
        """The root."""
        return self.map("sqrt")

    def is_finite(self) -> "Value":
        """Whether floats are finite."""
        return self.map("is_finite", dtype=DType.BOOL)

    def absolute(self) -> "Value":
        """The absolute value of each entry."""
        return self.map("abs", dtype=real_dtype(self.dtype))

    def maximum(self, other: Operand) -> "Value":
        """The larger one; NaN if one is NaN."""
        return self.map("maximum", other)

    def minimum(self, other: Operand) -> "Value":
        """The smaller one; NaN if one is NaN."""
        return self.map("minimum", other)

    def astype(self, dtype: DType) -> "Value":
        """The numbers in another dtype."""
        if dtype == self.dtype:
            return self
        return Value(self.code, self.code.apply("convert", [self.tensor], self.shape, dtype))

    def bits_as(self, dtype: DType) -> "Value":
        """The bits as another dtype of as many bits."""
        return Value(self.code, self.code.apply("bitcast_convert", [self.tensor], self.shape, dtype))

    # shapes

    def spread(self, shape: Shape, axes: Sequence[int] | None = None) -> "Value":
        """The tensor broadcast to a shape; its axes are the last ones of the result, or `axes`."""
        axes_of_result = range(len(shape) - self.rank, len(shape)) if axes is None else axes
        return Value(self.code, self.code.broadcast(self.tensor, shape, list(axes_of_result)))

    def reshape(self, shape: Shape) -> "Value":
        """The entries in another shape."""
        return Value(self.code, self.code.reshape(self.tensor, shape))

    def expand(self, *axes: int) -> "Value":
        """The tensor with further axes of size 1, which are `axes` of the result."""
        shape = list(self.shape)
        for axis in sorted(axis % (self.rank + len(axes)) for axis in axes):
            shape.insert(axis, 1)
        return self.reshape(tuple(shape))

    def drop(self, *axes: int) -> "Value":
        """The tensor without some axes, which have size 1."""
        dropped = [axis % self.rank for axis in axes]
        return self.reshape(tuple(dim for axis, dim in enumerate(self.shape) if axis not in dropped))

    def transpose(self, axes: Sequence[int]) -> "Value":
        """The axes in another order."""
        if list(axes) == list(range(self.rank)):
            return self
        shape = tuple(self.shape[axis] for axis in axes)
        attributes = {"permutation": integers(list(axes))}
        return Value(self.code, self.code.apply("transpose", [self.tensor], shape, self.dtype, attributes))

    def iota(self, axis: int, shape: Shape | None = None, dtype: DType = DType.INT64) -> "Value":
        """The indices along an axis of this shape, or of another one."""
        return Value(self.code, self.code.iota(self.shape if shape is None else shape, axis, dtype))

    def part(self, axis: int, start: Dim, stop: Dim, step: Dim = 1) -> "Value":
        """A slice along one axis, which is within it."""
        position = axis % self.rank
        length = _length(start, stop, step)
        shape = (*self.shape[:position], length, *self.shape[position + 1 :])
        bounds: list[list[Dim]] = [[0] * self.rank, list(self.shape), [1] * self.rank]
        for bound, value in zip(bounds, (start, stop, step), strict=True):
            bound[position] = value
        if all(isinstance(dim, int) for dim in (*self.shape, start, stop, step)):
            names = ("start_indices", "limit_indices", "strides")
            attributes = {name: integers(numbers) for name, numbers in zip(names, bounds, strict=True)}  # type: ignore[arg-type]
            return Value(self.code, self.code.apply("slice", [self.tensor], shape, self.dtype, attributes))
        bounds_as_arrays = [self.code.shape(tuple(numbers)) for numbers in bounds]
        return Value(
            self.code, self.code.apply("real_dynamic_slice", [self.tensor, *bounds_as_arrays], shape, self.dtype)
        )

    # reductions

    def reduce(self, name: str, start: complex, axes: Sequence[int], *, keep: bool = False) -> "Value":
        """Entries along axes combined by an operation, with the initial value `start`."""
        reduced_axes = [axis % self.rank for axis in axes]
        scalar = ((), self.dtype)
        region = self.code.region([scalar] * 2, lambda a, b: [self.code.apply(name, [a, b], *scalar)])
        shape = tuple(dim for axis, dim in enumerate(self.shape) if axis not in reduced_axes)
        attributes = {"dimensions": integers(sorted(reduced_axes))}
        operands = [self.tensor, self.like(start).tensor]
        reduced = Value(self.code, self.code.apply("reduce", operands, shape, self.dtype, attributes, [region]))
        if not keep:
            return reduced
        return reduced.reshape(tuple(1 if axis in reduced_axes else dim for axis, dim in enumerate(self.shape)))

    def sum(self, axes: Sequence[int], *, keep: bool = False) -> "Value":
        """Sums."""
        return self.reduce("add", 0, axes, keep=keep)

    def max(self, axes: Sequence[int], *, keep: bool = False) -> "Value":
        """Largest entries; the lowest number of the dtype if there are none."""
        return self.reduce("maximum", self.least, axes, keep=keep)

    def min(self, axes: Sequence[int], *, keep: bool = False) -> "Value":
        """Least entries; the largest number of the dtype if there are none."""
        return self.reduce("minimum", self.largest, axes, keep=keep)

    def any(self, axes: Sequence[int], *, keep: bool = False) -> "Value":
        """Whether some are true."""
        return self.reduce("or", False, axes, keep=keep)

    @property
    def least(self) -> complex:
        """The lowest number of the dtype."""
        return -math.inf if self.dtype.kind == "float" else self.dtype.limits[0]

    @property
    def largest(self) -> complex:
        """The largest number of the dtype."""
        return math.inf if self.dtype.kind == "float" else self.dtype.limits[1]

    # entries at indices

    def read(self, index: "Value", axes: Sequence[int], offsets: Sequence[int]) -> "Value":
        """Entries, or slices along other axes, at vectors of indices.

        Args:
            index: Vectors along the last axis; an index beyond an end of its axis reads the entry at that end.
            axes: The axis that each entry of a vector is an index of.
            offsets: The axes of the result that are other axes of this tensor; its remaining axes are those of `index`.
        """
        dims_of_entry = [dim for axis, dim in enumerate(self.shape) if axis not in axes]
        dims_of_index = iter(index.shape[:-1])
        remaining_dims = iter(dims_of_entry)
        shape = tuple(
            next(remaining_dims if axis in offsets else dims_of_index)
            for axis in range(len(dims_of_entry) + index.rank - 1)
        )
        # from an axis without entries none is read
        sizes = tuple(opaque("min", dim, 1) if axis in axes else dim for axis, dim in enumerate(self.shape))
        numbers = (
            f"#stablehlo.gather<offset_dims = {list(offsets)}, collapsed_slice_dims = {sorted(axes)}, "
            f"start_index_map = {list(axes)}, index_vector_dim = {index.rank - 1}>"
        )
        attributes = {"dimension_numbers": numbers}
        operands = [self.tensor, index.astype(DType.INT64).tensor]
        if all(isinstance(dim, int) for dim in self.shape):
            attributes["slice_sizes"] = integers(sizes)  # type: ignore[arg-type]
            return Value(self.code, self.code.apply("gather", operands, shape, self.dtype, attributes))
        operands.append(self.code.shape(sizes))
        return Value(self.code, self.code.apply("dynamic_gather", operands, shape, self.dtype, attributes))

    def take(self, index: "Value", axis: int) -> "Value":
        """Entries at indices of an axis, which the axes of `index` replace in the result."""
        position = axis % self.rank
        offsets = [axis if axis < position else axis + index.rank - 1 for axis in range(self.rank) if axis != position]
        return self.read(index.expand(-1), [position], offsets)


def _length(start: Dim, stop: Dim, step: Dim) -> Dim:
    return stop - start if step == 1 else floor_divide(stop - start + step - 1, step)


def joined(values: Sequence[Value], axis: int) -> Value:
    """Arrays concatenated along an axis."""
    first = values[0]
    if len(values) == 1:
        return first
    position = axis % first.rank
    shape = (*first.shape[:position], total(value.shape[position] for value in values), *first.shape[position + 1 :])
    attributes = {"dimension": f"{position} : i64"}
    tensor = first.code.apply("concatenate", [value.tensor for value in values], shape, first.dtype, attributes)
    return Value(first.code, tensor)


def stacked(values: Sequence[Value], axis: int) -> Value:
    """Arrays of one shape along a new axis."""
    return joined([value.expand(axis) for value in values], axis)


def count(x: Value, axes: Sequence[int]) -> Value:
    """How many entries there are along axes, as a scalar of int64."""
    return x.size(product(x.shape[axis] for axis in axes))


def loop(
    start: Sequence[Value], going: Callable[..., Value], step: Callable[..., Sequence[Value]]
) -> tuple[Value, ...]:
    """The last state of `state = start; while going(*state): state = step(*state)`."""
    code = start[0].code
    types = [(value.shape, value.dtype) for value in start]

    def values(tensors: Sequence[Tensor]) -> list[Value]:
        return [Value(code, tensor) for tensor in tensors]

    regions = [
        code.region(types, lambda *state: [going(*values(state)).tensor]),
        code.region(types, lambda *state: [value.tensor for value in step(*values(state))]),
    ]
    return tuple(values(code.apply_all("while", [value.tensor for value in start], types, None, regions)))


def branches(condition: Value, sides: Sequence[Callable[[], Sequence[Value]]]) -> tuple[Value, ...]:
    """The values of the first side if a scalar condition holds, else those of the second; both have the same types."""
    code = condition.code
    types: list[tuple[Shape, DType]] = []

    def body(side: Callable[[], Sequence[Value]]) -> list[str]:
        def results() -> Sequence[Tensor]:
            values = side()
            types[:] = [(value.shape, value.dtype) for value in values]
            return [value.tensor for value in values]

        return code.region([], results)

    regions = [body(side) for side in sides]
    return tuple(Value(code, tensor) for tensor in code.apply_all("if", [condition.tensor], types, None, regions))
