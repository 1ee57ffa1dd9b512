"""`Lanes`: the loops of a reduction along any axes, the innermost of which always runs along memory.

If the last axis is reduced, each entry of the result is accumulated in a cell, a variable of the generated code.
Otherwise a row of the result is accumulated at a time, in memory. `Lanes` writes either form, so that each reduction is
written once. A sum of `x` along some axes:

    lanes = Lanes(block, x, axes)
    slot = lanes.slot(dtype, target)
    with lanes.outside():
        lanes.fill(slot, 0.0)
        with lanes.entries() as (entry, _):
            lanes.put(slot, writer.add(lanes.get(slot), entry))
        if not lanes.has_rows:  # a row is in `target` already
            lanes.store(target, lanes.get(slot))
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from plica.backend.native.loops.arrays import Array
from plica.backend.native.loops.block import Block
from plica.backend.native.loops.nest import Cell, Index, Put
from plica.backend.native.loops.rows.reductions import joined_index
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Slot:
    """The accumulator of a reduction: one number in a cell, or a row of numbers in memory; the other is None.

    Args:
        cell: The variable with the number.
        row: The memory of the row.
        has_all_rows: Whether that memory has all rows of the result, or one row that each of them uses in turn.
    """

    cell: Cell | None
    row: Array | None
    has_all_rows: bool

    @property
    def dtype(self) -> DType:
        """The dtype of its numbers."""
        accumulator = self.cell or self.row
        assert accumulator is not None, "a slot has a cell or a row"
        return accumulator.dtype


class Lanes:
    """The loops of a reduction.

    Args:
        block: Where the loops are written.
        x: The array that is reduced.
        axes: The axes that are reduced.

    Attributes:
        dims: The sizes of the result.
        has_rows: Whether rows of the result are accumulated, since the last axis is not reduced.
    """

    def __init__(self, block: Block, x: Array, axes: Sequence[int]) -> None:
        self.block, self.x, self._writer = block, x, block.writer
        self._axes = list(axes)
        self._other_axes = [axis for axis in range(len(x.dims)) if axis not in axes]
        self.dims = [x.dims[axis] for axis in self._other_axes]
        self.has_rows = bool(self._axes) and self._other_axes[-1:] == [len(x.dims) - 1]
        self._outside = self._other_axes[:-1] if self.has_rows else self._other_axes
        self._outer: list[Index] = []
        self._column: list[Index] = []

    def slot(self, dtype: DType, target: Array | None = None) -> Slot:
        """A new accumulator; a row lies in `target`, an array of the result's shape, or in temporary memory."""
        if not self.has_rows:
            return Slot(self._writer.cell(dtype), None, False)
        row = target or self.block.temporary(dtype, self.dims[-1:])
        return Slot(None, row, target is not None)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Loops over the result, one iteration for each entry or row that is accumulated."""
        with self._writer.nest([self.x.dims[axis] for axis in self._outside]) as outer:
            self._outer = outer
            yield

    @contextmanager
    def columns(self) -> Iterator[None]:
        """A loop over the numbers of a row; no loop for a cell."""
        if not self.has_rows:
            yield
            return
        with self._writer.nest(self.dims[-1:]) as self._column:
            yield
        self._column = []

    @contextmanager
    def indices(self, *, is_interleaved: bool = False) -> Iterator[list[Index]]:
        """Loops, within `outside`, over the entries that are reduced; yields the index along each axis of `x`."""
        sizes = [self.x.dims[axis] for axis in self._axes]
        with self._writer.nest(sizes, is_interleaved=is_interleaved and not self.has_rows) as inner, self.columns():
            yield joined_index(self._other_axes, [*self._outer, *self._column], self._axes, inner)

    @contextmanager
    def entries(self, *, is_interleaved: bool = False) -> Iterator[tuple[Scalar, list[Index]]]:
        """The loops of `indices`; yields each entry and its index.

        Args:
            is_interleaved: Whether a loop that reduces into a cell interleaves several accumulators, since each step of
                a single one would wait for the step before.
        """
        flat = self.x.flat
        if self._other_axes or flat is None:
            with self.indices(is_interleaved=is_interleaved) as index:
                yield self.x.read(index), index
            return
        with self._writer.loop(self._writer.product(self.x.dims), is_interleaved=is_interleaved) as offset:
            yield flat(offset), [offset]

    def _offset(self, target: Array, *, has_all_rows: bool) -> Index:
        """The offset of the current number of a slot's row, or of the result."""
        writer, index = self._writer, [*self._outer, *self._column]
        return writer.add(target.start, writer.flat(index, self.dims) if has_all_rows else self._column[0])

    def get(self, slot: Slot) -> Scalar:
        """The current number of a slot: that of its cell, or of the current column of its row."""
        if slot.cell is not None:
            return self._writer.get(slot.cell)
        assert slot.row is not None and slot.row.buffer is not None, "rows lie in memory"  # noqa: PT018
        return self._writer.load(slot.row.buffer, self._offset(slot.row, has_all_rows=slot.has_all_rows))

    def put(self, slot: Slot, value: Scalar) -> None:
        """Write the current number of a slot."""
        if slot.cell is not None:
            self._writer.put(Put(slot.cell, value))
            return
        assert slot.row is not None and slot.row.buffer is not None, "rows lie in memory"  # noqa: PT018
        self._writer.store(slot.row.buffer, self._offset(slot.row, has_all_rows=slot.has_all_rows), value)

    def fill(self, slot: Slot, value: complex) -> None:
        """Set all numbers of a slot to `value`."""
        with self.columns():
            self.put(slot, self._writer.number(value, slot.dtype))

    def store(self, target: Array, value: Scalar) -> None:
        """Write the current number of `target`, an array of the result's shape."""
        assert target.buffer is not None, "results lie in memory"
        self._writer.store(target.buffer, self._offset(target, has_all_rows=True), value)
