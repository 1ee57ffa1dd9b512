"""Operations that move entries: choosing and joining along an axis, and spreading mixing weights over diagonals.

>>> IndexParameter((2, 3), indices=[2, 0, 2, 1]).shape, MixingWeightParameter((4, 3)).shape
((2, 4), (4, 12))
>>> ConcatParameter((2, 3), (2, 4)).shape
(2, 7)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from plica.arguments import elements, integer
from plica.errors import InputError, ShapeError
from plica.ir.ranges import Range
from plica.symbolic.parameters.nodes import Array, BinaryOp, Namespace, Shape, UnaryOp, check_axis, fold_axis, range_as


@final
@dataclass(frozen=True, slots=True, eq=False)
class IndexParameter(UnaryOp):
    """Entries `indices` along an axis, in that order; an entry may come more than once."""

    range: ClassVar[Callable[..., Range | None]] = range_as("take")

    indices: Sequence[int] = field(kw_only=True)
    axis: int = field(default=-1, kw_only=True)

    def infer_shape(self) -> Shape:
        """The shape of the input, with the number of indices at `axis`."""
        check_axis(self, self.in_shape, self.axis)
        object.__setattr__(self, "indices", _integers(self.indices))
        at = self.axis % len(self.in_shape)
        size = self.in_shape[at]
        out_of_range = [index for index in self.indices if not 0 <= index < size]
        if out_of_range or not self.indices:
            shown = f"{out_of_range[0]}" if out_of_range else "none"
            raise InputError(
                f"IndexParameter: expected indices in [0, {size - 1}] along axis {self.axis} of shape {self.in_shape}, "
                f"found {shown}"
            )
        return (*self.in_shape[:at], len(self.indices), *self.in_shape[at + 1 :])

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The chosen entries."""
        at = self.axis % len(self.in_shape) + 1
        before = (slice(None),) * at
        # runs of neighbours are slices: these are views, and need no array of indices
        parts = [arrays[0][(*before, slice(first, last + 1))] for first, last in _runs(self.indices)]
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=at)


def _integers(indices: Iterable[int]) -> tuple[int, ...]:
    name = "IndexParameter"
    return tuple(integer(name, "each index", index) for index in elements(name, "indices", indices))


def _runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last of each run of ascending neighbours."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConcatParameter(BinaryOp):
    """The entries of the first input, then those of the second, along an axis."""

    range: ClassVar[Callable[..., Range | None]] = range_as("concat")

    axis: int = field(default=-1, kw_only=True)

    def infer_shape(self) -> Shape:
        """The common shape, with the sum of the two sizes at `axis`."""
        first, second = self.in_shape1, self.in_shape2
        check_axis(self, first, self.axis)
        at = self.axis % len(first)
        if len(first) != len(second) or first[:at] + first[at + 1 :] != second[:at] + second[at + 1 :]:
            raise ShapeError(
                f"ConcatParameter: expected two inputs that differ at axis {self.axis} at most, found {first} and "
                f"{second}; choose another axis"
            )
        return (*first[:at], first[at] + second[at], *first[at + 1 :])

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """Both, one after the other."""
        return xp.concat(list(arrays), axis=fold_axis(self.axis))


@final
@dataclass(frozen=True, slots=True, eq=False)
class MixingWeightParameter(UnaryOp):
    """The weight `(K, H*K)` of a sum layer that mixes H inputs unit by unit, from `(K, H)`.

    Column `h*K + i` of row `k` is entry `(k, h)` where `i == k` and zero elsewhere: H diagonals side by side. A sum
    layer with such a weight works on the `(K, H)` entries and never builds the zeros.
    """

    range: ClassVar[Callable[..., Range | None]] = range_as("tril")

    def infer_shape(self) -> Shape:
        """`(K, H*K)`."""
        if len(self.in_shape) != 2:
            raise ShapeError(
                f"MixingWeightParameter: expected an input of shape (units, arity), found {self.in_shape}; "
                "give one weight for each unit and each input of the layer"
            )
        units, arity = self.in_shape
        return (units, arity * units)

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The dense weight, for uses outside a sum layer."""
        (weight,) = arrays
        units, arity = self.in_shape
        numbers = xp.arange(units)
        diagonal = xp.equal(xp.reshape(numbers, (1, units, 1, 1)), xp.reshape(numbers, (1, 1, 1, units)))
        spread = xp.where(diagonal, xp.expand_dims(weight, axis=-1), 0.0)  # (F, K, H, K)
        return xp.reshape(spread, (weight.shape[0], units, arity * units))
