r"""Files of rows, read and written a batch at a time: `.npy`, `.npz` and `.csv`; `plica.data` reads others.

A cell is a number, a text or a truth value; a missing cell is None, or NaN among numbers. `plica.files.columns`
interprets cells.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "pets.csv"
>>> _ = path.write_text("name,legs\ncat,4\nbird,2\nfish,\n")
>>> with open_rows(path, named=True) as rows:
...     [batch.cells.tolist() for batch in rows.batches(2)]
[[['cat', '4'], ['bird', '2']], [['fish', None]]]
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from plica.files.rows import arrays, text
from plica.files.rows.batch import Batch, RowFile
from plica.files.tables import choose_reader

__all__ = ["READERS", "Batch", "RowFile", "open_rows"]

# (path, key, named, delimiter) -> the open file
READERS: Mapping[str, Callable[[Path, str | None, bool, str | None], RowFile]] = {
    ".npy": arrays.open_npy,
    ".npz": arrays.open_npz,
    ".csv": text.open_csv,
}


def open_rows(path: Path, *, key: str | None = None, named: bool = False, delimiter: str | None = None) -> RowFile:
    """A file of rows, to be used as a context.

    Args:
        path: The file; its ending decides how it is read.
        key: Which array of a `.npz`; by default the only one, else `images`, else `train`.
        named: Whether the first line of a text holds names; else it does if none of its cells is a number.
        delimiter: The delimiter of a text; by default a comma, or the delimiter that its first lines suggest.

    Raises:
        FileFormatError: The file is missing, empty, damaged, or of another kind.
    """
    return choose_reader(path, READERS, key=key, delimiter=delimiter)(path, key, named, delimiter)
