"""Rows of arrays: `.npy`, which is mapped and not read at once, and `.npz`."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from plica.errors import FileFormatError
from plica.files.rows.batch import Array, Batch, CellType, RowFile
from plica.files.tables import map_npy, read_array

_TYPES: dict[str, CellType] = {"b": bool, "i": int, "u": int, "f": float}


class ArrayRows(RowFile):
    """Rows of an array of numbers, flattened.

    Args:
        values: (N, ...).
        source: The name of the file and array in messages.

    Attributes:
        dtype: The dtype of the cells: that of the values in this machine's order of bytes.
    """

    def __init__(self, values: Array, source: str) -> None:
        if values.dtype.kind not in "biuf":
            raise FileFormatError(
                f"{source}: expected booleans, integers or floats, found {values.dtype}; tables with text are read "
                "from .csv and .parquet"
            )
        if values.ndim < 2:
            raise FileFormatError(f"{source}: expected rows (N, D) or images, found shape {values.shape}; reshape it")
        self.values = values
        self.dtype = values.dtype.newbyteorder("=") if values.dtype.itemsize <= 8 else np.dtype(np.float64)
        self.source, self.names, self.num_rows = source, None, len(values)
        self.row_shape = values.shape[1:]
        self.width = math.prod(self.row_shape)
        self.types = (_TYPES[values.dtype.kind],) * self.width

    def batches(self, size: int) -> Iterator[Batch]:
        """See `RowFile.batches`."""
        for start in range(0, len(self.values), size):
            part = np.array(self.values[start : start + size], dtype=self.dtype)
            cells = part.reshape(len(part), self.width)
            yield Batch(cells, [f"{self.source}, row {start + row}" for row in range(len(cells))])


def open_npy(path: Path, _key: str | None, _named: bool, _delimiter: str | None) -> ArrayRows:
    """The rows of a `.npy` file."""
    return ArrayRows(map_npy(path), str(path))


def open_npz(path: Path, key: str | None, _named: bool, _delimiter: str | None) -> ArrayRows:
    """The rows of one array of a `.npz` file."""
    table = read_array(path, key)
    return ArrayRows(table.values, table.source)
