"""What an open file of rows is, whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Options:
    """How to read the files of a source.

    Args:
        delimiter: Of texts; None for the one that the first lines suggest.
        named: Whether the first line of a text holds names; None if it does where none of its cells is a number.
        key: Which array of an archive; None for the only one, else `images`, else `train`.
    """

    delimiter: str | None = None
    named: bool | None = None
    key: str | None = None


class TableFile(ABC):
    """An open file of rows.

    Attributes:
        schema: A `pyarrow.Schema`: the columns in the file's order.
        read_types: The types of the columns as they are read, where text may be codes of a dictionary.
        sizes: The number of rows of each group, None where it is not known.
        has_names: Whether the file names its columns.
        row_shape: The shape of a row where the file is an array of numbers, in which a date is a number of days from
            1970; else None.
        delimiter: The delimiter where the file is a text; else None.
    """

    schema: Any
    read_types: tuple[Any, ...]
    sizes: tuple[int | None, ...]
    has_names: bool = True
    row_shape: tuple[int, ...] | None = None
    delimiter: str | None = None

    @abstractmethod
    def read(self, group: int, columns: Sequence[int], size: int) -> Iterator[Any]:
        """Some columns of a group by their positions, in RecordBatches of about `size` rows."""

    def place(self, row: int, group: int) -> str:
        """The end of the name of a row in messages."""
        return f"row {row} (row group {group})" if len(self.sizes) > 1 else f"row {row}"

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


def sliced(batch: Any, size: int) -> Iterator[Any]:
    """A RecordBatch in pieces of at most `size` rows, which share its memory."""
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)
