"""Rows of `.parquet` files, read by pyarrow (the extra `parquet`); nulls are missing cells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plica.errors import FileFormatError
from plica.extras import require
from plica.files.rows.arrow_cells import cell_type, python_cells
from plica.files.rows.batch import Batch, RowFile
from plica.files.tables import one_line


def require_pyarrow() -> Any:
    """The module pyarrow, with its part for the format.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    require("pyarrow.parquet")
    return require("pyarrow")


class ParquetRows(RowFile):
    """Rows of a `.parquet` file; cells other than numbers, text, truth values, dates and times pass unchanged.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        arrow = require_pyarrow()
        self.source = str(path)
        try:
            self._file = arrow.parquet.ParquetFile(path)
        except (arrow.ArrowException, OSError) as error:
            raise FileFormatError(f"{path}: not a readable .parquet file ({one_line(error)})") from error
        schema = self._file.schema_arrow
        self.header = tuple(schema.names)
        self.names = tuple(name.strip() for name in self.header)
        self.width, self.row_shape = len(self.names), (len(self.names),)
        self.num_rows = self._file.metadata.num_rows
        self.stored = tuple(schema.types)
        self.types = tuple(cell_type(stored) for stored in schema.types)
        if len(set(self.names)) < len(self.names):
            self._file.close()
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise FileFormatError(f"{path}: two columns are called {twice!r}; rename one: names tell columns apart")

    def batches(self, size: int) -> Iterator[Batch]:
        """See `RowFile.batches`."""
        arrow, first = require_pyarrow(), 0
        try:
            for part in self._file.iter_batches(batch_size=size):
                cells = np.empty((part.num_rows, self.width), dtype=object)
                for position, column in enumerate(part.columns):
                    cells[:, position] = python_cells(column)
                yield Batch(cells, [f"{self.source}, row {first + row}" for row in range(len(cells))])
                first += len(cells)
        except (arrow.ArrowException, OSError, ValueError, ImportError) as error:
            raise FileFormatError(f"{self.source}: cannot be read ({one_line(error)}); cut short?") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_parquet(path: Path, _key: str | None, _named: bool, _delimiter: str | None) -> ParquetRows:
    """The rows of a `.parquet` file."""
    return ParquetRows(path)
