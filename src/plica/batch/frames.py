"""Batches of engines as rows of a model, and answers as batches of the same kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import PlicaError
from plica.files.rows import RowFile
from plica.tables.frame_of import as_frame
from plica.tables.frames import FrameRows
from plica.tables.model import Model
from plica.tables.plain_frames import ArrayFrame


def is_record_batch(batch: Any) -> bool:
    """Whether a batch is a RecordBatch of pyarrow, which need not be installed."""
    return type(batch).__name__ == "RecordBatch" and type(batch).__module__.startswith("pyarrow")


def as_table(batch: Any) -> Any:
    """A RecordBatch as a table, which libraries of frames know; all else as it is."""
    if not is_record_batch(batch):
        return batch
    import pyarrow

    return pyarrow.Table.from_batches([batch])


def as_given(batch: Any, table: Any) -> Any:
    """A table as a RecordBatch if the batch is one."""
    if not is_record_batch(batch):
        return table
    import pyarrow

    columns = [pyarrow.concat_arrays(column.chunks) if column.num_chunks else column for column in table.columns]
    columns = [column if isinstance(column, pyarrow.Array) else pyarrow.array([], column.type) for column in columns]
    return pyarrow.RecordBatch.from_arrays(columns, schema=table.schema)


def rows_of(batch: Any, model: Model) -> RowFile:
    """The rows of a batch: as columns of Arrow where they are such, else as cells of Python.

    A dict of one array `(N, D)` is rows of numbers, as Ray has them.

    Raises:
        DTypeError: It is no table.
    """
    if isinstance(batch, Mapping) and model.encoding is None:
        arrays = list(batch.values())
        if len(arrays) == 1 and np.ndim(arrays[0]) == 2:
            return FrameRows(ArrayFrame(np.asarray(arrays[0])))
    if model.encoding is not None and not isinstance(batch, np.ndarray):
        rows = _as_columns(batch)
        if rows is not None:
            return rows
    return FrameRows(as_frame(as_table(batch)))


def _as_columns(batch: Any) -> RowFile | None:
    """The rows as columns of Arrow; None for columns that Arrow has no type for, and for what is no table."""
    import pyarrow

    from plica.data import Rows
    from plica.tables.streams import StreamFile

    try:
        if isinstance(batch, Mapping):
            batch = pyarrow.table({str(name): pyarrow.array(column) for name, column in batch.items()})
        rows = Rows(as_table(batch))
    except (pyarrow.ArrowException, PlicaError, TypeError, ValueError):
        return None
    return StreamFile(rows) if rows.num_rows is not None else None


def beside(batch: Any, kept: Sequence[str], computed: Mapping[str, Any]) -> Any:
    """Columns of a batch as they are, and computed ones beside them, as a table of the same kind.

    Args:
        batch: The batch.
        kept: The names of its columns that stay.
        computed: The cells of further columns by name; arrays are numbers.
    """
    if isinstance(batch, Mapping):
        names = {str(name).strip(): column for name, column in batch.items()}
        return {name: names[name.strip()] for name in kept} | {
            name: column if isinstance(column, np.ndarray) else np.asarray(column) for name, column in computed.items()
        }
    if isinstance(batch, np.ndarray):
        return np.stack([np.asarray(column) for column in computed.values()], axis=1)
    import narwhals.stable.v2 as nw

    frame = nw.from_native(as_table(batch), eager_only=True)
    backend = frame.implementation
    series = [
        nw.new_series(
            name,
            column.tolist() if isinstance(column, np.ndarray) else list(column),
            nw.Float64 if isinstance(column, np.ndarray) else None,
            backend=backend,
        )
        for name, column in computed.items()
    ]
    keys = [key for key in frame.columns if str(key).strip() in {name.strip() for name in kept}]
    result = frame.select(keys).with_columns(*series) if keys else series[0].to_frame().with_columns(*series[1:])
    native = result.to_native()
    if not keys and nw.dependencies.is_pandas_like_dataframe(native):
        native.index = frame.to_native().index
    return as_given(batch, native)
