"""Tables of lists and of numpy: a dict of columns, or an array.

>>> table = ColumnsFrame({"pet": ["cat", None], "legs": np.array([4.0, np.nan])})
>>> table.names, table.types, table.cells().tolist()
(('pet', 'legs'), (<class 'str'>, <class 'float'>), [['cat', 4.0], [None, None]])
>>> table.changed(np.arange(2), {1: (np.array([False, True]), [2])})
{'pet': ['cat', None], 'legs': array([4., 2.])}
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plica.arguments import found
from plica.errors import DTypeError, InputError, ShapeError
from plica.files.kinds import Cell
from plica.files.rows.batch import Array, CellType
from plica.tables.frames import SOURCE, Changes, Frame, column_type, converter, listed, stacked


def with_changes(column: Any, rows: Array, mask: Array, cells: Sequence[Cell]) -> Any:
    """Rows of a list or an array with some cells replaced; an array that cannot hold them becomes one of objects."""
    convert = converter(listed(column))
    if not isinstance(column, np.ndarray):
        result = [column[row] for row in rows.tolist()]
        for position, cell in zip(np.flatnonzero(mask).tolist(), cells, strict=True):
            result[position] = convert(cell)
        return result
    array = column[rows]
    if mask.any():
        values = [convert(cell) for cell in cells]
        if not fits(array.dtype, values):
            array = array.astype(object)
        array[mask] = values
    return array


def fits(dtype: np.dtype[Any], values: Sequence[Any]) -> bool:
    """Whether an array of a dtype holds values without change."""
    if dtype.kind == "O":
        return True
    if dtype.kind == "U":
        return all(isinstance(value, str) and len(value) <= dtype.itemsize // 4 for value in values)
    accepted = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float), "M": (datetime.date,)}.get(dtype.kind, ())
    return all(isinstance(value, accepted) and isinstance(value, bool) == (dtype.kind == "b") for value in values)


class ColumnsFrame(Frame):
    """A dict of columns, each a list or an array.

    Args:
        data: The columns by name.
    """

    def __init__(self, data: Mapping[Any, Any]) -> None:
        self._keys = list(data)
        self._columns = [column if isinstance(column, np.ndarray) else self._list(column) for column in data.values()]
        for key, column in zip(self._keys, self._columns, strict=True):
            if isinstance(column, np.ndarray) and column.ndim != 1:
                raise ShapeError(f"{SOURCE}: column {key!r} has the shape {column.shape}, expected (N,)")
            if len(column) != len(self._columns[0]):
                raise ShapeError(
                    f"{SOURCE}: column {key!r} has {len(column)} cells, expected {len(self._columns[0])} as in "
                    f"{self._keys[0]!r}"
                )
        if not self._keys:
            raise InputError(f"{SOURCE}: it has no columns; give it at least one")
        self.names = tuple(str(key).strip() for key in self._keys)
        self.num_rows = len(self._columns[0])
        self._cells = [listed(column) for column in self._columns]
        self.types = tuple(column_type(cells) for cells in self._cells)
        self._converters = [converter(cells) for cells in self._cells]

    def _list(self, column: Any) -> Sequence[Any]:
        if isinstance(column, str | bytes) or not hasattr(column, "__iter__"):
            raise DTypeError(f"{SOURCE}: expected lists or arrays as columns, {found(column)}")
        return list(column)

    def cells(self) -> Array:
        """See `Frame.cells`."""
        return stacked(self._cells, self.num_rows)

    def changed(self, rows: Array, changes: Changes) -> Any:
        """See `Frame.changed`."""
        unchanged = (np.zeros(len(rows), dtype=bool), ())
        return {
            key: with_changes(column, rows, *changes.get(position, unchanged))
            for position, (key, column) in enumerate(zip(self._keys, self._columns, strict=True))
        }

    def made(self, columns: Mapping[str, Sequence[Cell] | Array], *, like: bool = False) -> Any:
        """See `Frame.made`."""
        if not like:
            return {
                name: column if isinstance(column, np.ndarray) else np.asarray(column)
                for name, column in columns.items()
            }
        result = {}
        for name, cells in columns.items():
            assert self.names is not None, "a dict has names"
            position = self.names.index(name.strip())
            key, column = self._keys[position], self._columns[position]
            values: Any = [self._converters[position](cell) for cell in cells]
            if isinstance(column, np.ndarray):
                is_text = column.dtype.kind == "U" and all(isinstance(value, str) for value in values)
                dtype = None if is_text and values else column.dtype if fits(column.dtype, values) else object
                values = np.asarray(values, dtype=dtype)
            result[key] = values
        return result

    def template(self) -> Frame:
        """See `Frame.template`."""
        empty = copy.copy(self)
        empty._columns = [copy.copy(column[:0]) for column in self._columns]  # no views, which hold the table
        empty._cells, empty.num_rows = [[] for _ in self._columns], 0
        return empty


class ArrayFrame(Frame):
    """An array `(N, D)` of numbers, truth values, texts or objects.

    Args:
        values: The array.
    """

    def __init__(self, values: Array) -> None:
        if values.ndim != 2:
            raise ShapeError(f"{SOURCE}: expected an array (N, D), found the shape {values.shape}; reshape it")
        if values.dtype.kind not in "biufUO":
            raise DTypeError(f"{SOURCE}: expected numbers, texts or objects, found an array of {values.dtype}")
        self.names, self.num_rows, self._values = None, len(values), values
        self.is_numbers = values.dtype.kind in "biuf"
        width = values.shape[1]
        if not width:
            raise InputError(f"{SOURCE}: it has no columns; give it at least one")
        if self.is_numbers:
            types: dict[str, CellType] = {"b": bool, "i": int, "u": int, "f": float}
            self.types = (types[values.dtype.kind],) * width
        else:
            self.types = tuple(column_type(listed(values[:, position])) for position in range(width))

    def cells(self) -> Array:
        """See `Frame.cells`."""
        if self.is_numbers:
            return self._values.copy()
        columns = [listed(self._values[:, position]) for position in range(self._values.shape[1])]
        return stacked(columns, self.num_rows)

    def changed(self, rows: Array, changes: Changes) -> Any:
        """See `Frame.changed`."""
        columns = [self._values[rows, position] for position in range(self._values.shape[1])]
        for position, (mask, cells) in changes.items():
            columns[position] = with_changes(self._values[:, position], rows, mask, cells)
        if any(column.dtype != self._values.dtype for column in columns):
            columns = [column.astype(object) for column in columns]
        return np.stack(columns, axis=1)

    def made(self, columns: Mapping[str, Sequence[Cell] | Array], *, like: bool = False) -> Any:
        """See `Frame.made`."""
        arrays = [np.asarray(column) for column in columns.values()]
        if like and not self.is_numbers:
            return stacked([list(column) for column in columns.values()], len(arrays[0]) if arrays else 0)
        result = np.stack(arrays, axis=1)
        own = self._values.dtype
        is_like = like and (own.kind == "b" or np.can_cast(result.dtype, own, "same_kind"))
        return result.astype(own) if is_like else result

    def template(self) -> Frame:
        """See `Frame.template`."""
        return ArrayFrame(self._values[:0].copy())
