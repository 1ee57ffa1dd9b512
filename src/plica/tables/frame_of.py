"""The table of a user, whatever it is: a frame of a library, a dict of columns, or an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from plica.arguments import found
from plica.errors import DTypeError
from plica.files.rows.batch import RowFile, RowSource
from plica.tables.frames import SOURCE, Frame, FrameRows
from plica.tables.plain_frames import ArrayFrame, ColumnsFrame

_ACCEPTED = "a pandas, polars or pyarrow table, a dict of columns, a row by names, or an array (N, D)"


def as_frame(data: Any) -> Frame:
    """A table of a user.

    One row is a table too: a dict of its cells, or a row of pandas such as `frame.iloc[0]`.

    >>> as_frame({"pet": "cat", "legs": 4}).num_rows
    1

    Raises:
        DTypeError: It is no table.
        ShapeError: Its columns differ in length, or an array has not two axes.
        InputError: Two columns have one name, or a column has none.
    """
    frame: Frame
    if isinstance(data, Frame):
        return data
    if isinstance(data, np.ma.MaskedArray):
        raise DTypeError(
            f"{SOURCE}: expected {_ACCEPTED}, found a masked array; pass data.astype(float).filled(np.nan)"
        )
    if isinstance(data, Mapping):
        is_row = all(isinstance(cell, str) or not hasattr(cell, "__iter__") for cell in data.values())
        frame = ColumnsFrame({name: [cell] for name, cell in data.items()} if is_row else data)
    elif isinstance(data, np.ndarray):
        frame = ArrayFrame(data)
    else:
        from plica.tables.library_frames import library_frame

        advice = f"; read a file by plica.data.Rows({data!r})" if isinstance(data, str) else ""
        frame = library_frame(data, f"expected {_ACCEPTED}, {found(data)}{advice}")
    frame.check()
    return frame


def as_rows(data: Any) -> tuple[RowFile, Frame | None]:
    """Rows to learn from, and the table that they are; None for `plica.data.Rows`, which are read in batches.

    Raises:
        PlicaError: As of `as_frame`.
    """
    if isinstance(data, RowSource):
        from plica.tables.streams import StreamFile

        return StreamFile(data), None  # type: ignore[arg-type]  # the only rows that are no file
    frame = as_frame(data)
    return FrameRows(frame), frame


def drawn_frame(names: Sequence[str]) -> Frame:
    """An empty table of the first library that is installed, else of lists: drawn rows are of its kind.

    Args:
        names: The names of its columns.
    """
    library = next((name for name in ("pandas", "polars", "pyarrow") if find_spec(name) is not None), None)
    if library is None:
        return ColumnsFrame({name: [] for name in names})
    from plica.tables.library_frames import empty_frame

    return empty_frame(library, names)
