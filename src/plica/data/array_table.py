"""Arrays of numbers as columns: `.npy`, which is mapped, and arrays of a `.npz`, which are read piece by piece."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from plica.data.table_file import Options, TableFile
from plica.errors import FileFormatError
from plica.files.tables import Member, map_npy

_GROUP_CELLS = 1 << 20
_MOST_COLUMNS = 1 << 22  # an array without rows may claim any number


class ArrayTable(TableFile):
    """An array of numbers, `(N, ...)`, flattened to columns 0, 1, ...

    Args:
        system: The file system, which is the machine's own.
        path: The file, a `.npy` or a `.npz`.
        name: Its name in messages.
        options: Which array of a `.npz`.

    Raises:
        FileFormatError: The file is elsewhere or damaged, or has no rows of numbers.
    """

    def __init__(self, system: Any, path: str, name: str, options: Options) -> None:
        if not isinstance(system, pa.fs.LocalFileSystem):
            raise FileFormatError(f"{name}: arrays are read from this machine alone; copy it here, or write .parquet")
        self._archive: Member | None = None
        if Path(path).suffix.lower() == ".npz":
            self._archive = Member(Path(path), options.key)
            name = f"{name}[{self._archive.key}]"
        values = self._values = self._archive or map_npy(Path(path))
        if values.dtype.kind not in "biuf":
            raise FileFormatError(
                f"{name}: expected booleans, integers or floats, found {values.dtype}; tables with text are read "
                "from .csv and .parquet"
            )
        if len(values.shape) < 2:
            raise FileFormatError(f"{name}: expected rows (N, D) or images, found shape {values.shape}; reshape it")
        self.row_shape = values.shape[1:]
        self._width, self._rows = math.prod(self.row_shape), values.shape[0]
        if self._width > _MOST_COLUMNS:
            raise FileFormatError(
                f"{name}: rows of {self._width:,} numbers, and {_MOST_COLUMNS:,} are the most; cut them into pieces"
            )
        self._dtype = values.dtype.newbyteorder("=") if values.dtype.itemsize <= 8 else np.dtype(np.float64)
        self._step = max(1, _GROUP_CELLS // max(1, self._width))
        stored = pa.from_numpy_dtype(self._dtype)
        self.schema = pa.schema([(str(position), stored) for position in range(self._width)])
        self.read_types = (stored,) * self._width
        self.sizes = tuple(min(self._step, self._rows - start) for start in range(0, self._rows, self._step))
        self.has_names = False

    def read(self, group: int, columns: Sequence[int], size: int) -> Iterator[Any]:
        """See `TableFile.read`."""
        first, last = group * self._step, group * self._step + (self.sizes[group] or 0)
        schema = pa.schema([self.schema.field(position) for position in columns])
        for start in range(first, last, size):
            stop = min(start + size, last)
            part = np.asarray(self._values[start:stop]).reshape(stop - start, self._width)
            chosen = np.ascontiguousarray(part[:, list(columns)].T, dtype=self._dtype)  # (D, B)
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in chosen], schema=schema)

    def place(self, row: int, group: int) -> str:  # noqa: ARG002 - its parts are ours
        """See `TableFile.place`."""
        return f"row {row}"

    def close(self) -> None:
        """See `TableFile.close`."""
        if self._archive is not None:
            self._archive.close()
