"""Cells of columns of Arrow as Python has them, and their types."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from plica.files.rows.batch import CellType


def python_cells(column: Any) -> list[Any]:
    """The cells of a column; time stamps that Python's are not fine enough for are of numpy."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pa.types.is_timestamp(column.type) or column.type.unit != "ns":
        return list(column.to_pylist())
    cells = column.cast(pa.timestamp("us", column.type.tz), safe=False).to_pylist()
    nanoseconds = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(nanoseconds % 1000).tolist():
        cells[row] = np.datetime64(int(nanoseconds[row]), "ns")
    return list(cells)


def cell_type(stored: Any) -> CellType | None:
    """The Python type of a column's cells, by the column's type in Arrow; None for cells of other types."""
    types = pa.types
    kind = stored.value_type if types.is_dictionary(stored) else stored
    tests: dict[CellType, Any] = {
        int: types.is_integer,
        float: lambda arrow_type: types.is_floating(arrow_type) or types.is_decimal(arrow_type),
        bool: types.is_boolean,
        datetime.date: types.is_date,
        datetime.datetime: types.is_timestamp,
        datetime.time: types.is_time,
        str: lambda arrow_type: (
            types.is_string(arrow_type)
            or types.is_large_string(arrow_type)
            or types.is_string_view(arrow_type)
            or types.is_null(arrow_type)
        ),
    }
    return next((cell for cell, test in tests.items() if test(kind)), None)
