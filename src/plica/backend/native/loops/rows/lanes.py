"""`Lanes`: the loops of a reduction along any axes, the innermost of which always runs along memory.

If the last axis is reduced, each entry of the result is computed by itself, in a cell. Otherwise a whole row of the
result is computed at a time: a row of memory replaces the cell, and rows of entries are combined with it. `Lanes`
writes either form, so that each reduction is written once.
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
    """The accumulator while entries are reduced: a number, or a row of them.

    Args:
        cell: The number.
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
        block: The block of the equation.
        x: The array that is reduced.
        axes: The axes that are reduced.

    Attributes:
        dims: The sizes of the result.
        has_rows: Whether rows of the result are computed at a time.
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
        """A slot, whose rows lie in `target`, an array like the result, or in memory of their own."""
        if not self.has_rows:
            return Slot(self._writer.cell(dtype), None, False)
        row = target or self.block.temporary(dtype, self.dims[-1:])
        return Slot(None, row, target is not None)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Loops over the numbers or rows of the result."""
        with self._writer.nest([self.x.dims[axis] for axis in self._outside]) as outer:
            self._outer = outer
            yield

    @contextmanager
    def columns(self) -> Iterator[None]:
        """A loop over the numbers of a slot."""
        if not self.has_rows:
            yield
            return
        with self._writer.nest(self.dims[-1:]) as self._column:
            yield
        self._column = []

    @contextmanager
    def indices(self, *, in_strands: bool = False) -> Iterator[list[Index]]:
        """Loops over the indices of all entries that are reduced into the slots."""
        sizes = [self.x.dims[axis] for axis in self._axes]
        with self._writer.nest(sizes, in_strands=in_strands and not self.has_rows) as inner, self.columns():
            yield joined_index(self._other_axes, [*self._outer, *self._column], self._axes, inner)

    @contextmanager
    def entries(self, *, in_strands: bool = False) -> Iterator[tuple[Scalar, list[Index]]]:
        """The loops of `indices`, with the entries.

        Args:
            in_strands: Whether a loop that reduces into a cell interleaves several reductions: a single one would wait
                for the result of each step.
        """
        flat = self.x.flat
        if self._other_axes or flat is None:
            with self.indices(in_strands=in_strands) as index:
                yield self.x.read(index), index
            return
        with self._writer.loop(self._writer.product(self.x.dims), in_strands=in_strands) as offset:
            yield flat(offset), [offset]

    def _offset(self, target: Array, *, has_all_rows: bool) -> Index:
        """The offset of the current number of a result."""
        writer, index = self._writer, [*self._outer, *self._column]
        return writer.add(target.start, writer.flat(index, self.dims) if has_all_rows else self._column[0])

    def get(self, slot: Slot) -> Scalar:
        """The number of a slot."""
        if slot.cell is not None:
            return self._writer.get(slot.cell)
        assert slot.row is not None and slot.row.buffer is not None, "rows lie in memory"  # noqa: PT018
        return self._writer.load(slot.row.buffer, self._offset(slot.row, has_all_rows=slot.has_all_rows))

    def put(self, slot: Slot, value: Scalar) -> None:
        """Change the number of a slot."""
        if slot.cell is not None:
            self._writer.put(Put(slot.cell, value))
            return
        assert slot.row is not None and slot.row.buffer is not None, "rows lie in memory"  # noqa: PT018
        self._writer.store(slot.row.buffer, self._offset(slot.row, has_all_rows=slot.has_all_rows), value)

    def fill(self, slot: Slot, value: complex) -> None:
        """Set all numbers of a slot to one value."""
        with self.columns():
            self.put(slot, self._writer.number(value, slot.dtype))

    def store(self, target: Array, value: Scalar) -> None:
        """Write the current number of the result."""
        assert target.buffer is not None, "results lie in memory"
        self._writer.store(target.buffer, self._offset(target, has_all_rows=True), value)
