"""Writes the rows of a file again with missing cells filled in, in the names, types and forms of the file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plica.cli.asking import reading
from plica.files.columns import Form
from plica.files.rows.write import writing_rows
from plica.tables.layout import Layout
from plica.tables.model import Model

if TYPE_CHECKING:
    import torch

    from plica.files.rows import Batch

ARRAYS = (".npy", ".npz")


@contextmanager
def rewriting(
    model: Model, data: Path, out: Path, **options: Any
) -> Iterator[tuple[Layout, Iterator[tuple["Batch", "torch.Tensor"]], Callable[[Any], None]]]:
    """Reads a file of rows in batches, and writes rows with its layout to another file.

    Args:
        model: The model that reads the rows.
        data: The file that is read.
        out: The file that is written; it appears once the block ends without an error.
        options: The other arguments of `plica.cli.asking.reading`.

    Yields:
        The layout; the batches, each with its numbers as a tensor `(B, D)`; and a function that writes rows of cells.
    """
    with reading(model, data, **options) as (rows, batches):
        endings = [path.suffix.lower() for path in (data, out)]
        form: Form = "number" if endings[1] in ARRAYS else "text" if endings[1] == ".csv" else "typed"
        is_same_kind = endings[0] == endings[1] or set(endings) <= set(ARRAYS)
        layout = Layout.of(model, rows, form, verbatim=is_same_kind)
        names, named = model.names_of(rows), model.encoding is not None or rows.names is not None
        with writing_rows(out, names, rows.row_shape, layout.types, named=named, delimiter=rows.delimiter) as write:
            yield layout, batches, write
