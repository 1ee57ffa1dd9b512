"""Writes computed columns beside those columns of a table that the model does not read, such as identifiers of rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.files.rows.write import writing_rows

if TYPE_CHECKING:
    from plica.files.rows import Batch, RowFile
    from plica.tables.model import Model


@contextmanager
def beside(
    model: "Model", rows: "RowFile", out: Path, computed: Mapping[str, Any], *, unread: str | None = None
) -> Iterator[Callable[["Batch", Sequence[Any]], None]]:
    """A function that writes a batch: the columns that the model does not read, then the computed ones.

    Args:
        model: The model.
        rows: The open file that is read.
        out: The file that is written, which appears once the block ends without an error.
        computed: The type of the cells of each computed column, by its name.
        unread: A column of the model that is not read, and that the file need not have.

    Yields:
        The function. It takes the batch and, for each computed column, its B cells.
    """
    extra = _extra_columns(model, rows, out, computed, unread)
    names, types = model.names_of(rows), rows.stored or rows.types
    all_names = (*(names[position] for position in extra), *computed)
    stored = (*(types[position] for position in extra), *computed.values())
    is_number = not extra and len(computed) == 1  # an array of one number for each row
    with writing_rows(out, all_names, () if is_number else None, stored, delimiter=rows.delimiter) as write:

        def add(batch: "Batch", cells: Sequence[Any]) -> None:
            if all(isinstance(column, np.ndarray) for column in cells) and not extra:
                write(np.stack(cells, axis=1))
                return
            joined = np.empty((len(batch), len(all_names)), dtype=object)
            joined[:, : len(extra)] = batch.cells[:, extra].astype(object)
            for number, column in enumerate(cells, start=len(extra)):
                joined[:, number] = column
            write(joined)

        yield add


def _extra_columns(
    model: "Model", rows: "RowFile", out: Path, computed: Mapping[str, Any], unread: str | None
) -> list[int]:
    """The columns of a table that the model does not read, without those of computed names; none for arrays."""
    if model.encoding is None or out.suffix.lower() in (".npy", ".npz"):
        return []
    names, read = model.names_of(rows), set(model.positions(rows, unread))
    return [
        position for position in range(rows.width) if position not in read and names[position].strip() not in computed
    ]
