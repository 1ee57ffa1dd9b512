"""Rows of a table as tensors, a batch at a time; what a model says of cells that it does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.errors import InputError
from plica.files.kinds import TableColumn
from plica.files.rows import Batch
from plica.files.rows.batch import Array
from plica.tables.model import Model

if TYPE_CHECKING:
    import torch

    from plica.files.rows import RowFile

_SHOWN = 3  # categories that a warning names


class Unknown:
    """Counts categories that a model has never seen.

    Args:
        source: The name of the file or frame.
        counts: How often which category of which column was counted elsewhere.
    """

    def __init__(self, source: str, counts: Mapping[tuple[str, str], int] | None = None) -> None:
        self._source = source
        self._seen: Counter[tuple[str, str]] = Counter(counts)

    def counts(self) -> list[tuple[str, str, int]]:
        """Columns, categories, and how often these were counted."""
        return [(column, cell, count) for (column, cell), count in self._seen.items()]

    def __call__(self, column: TableColumn, cell: Any) -> None:
        """Count a cell."""
        self._seen[column.name, str(cell)] += 1

    def message(self, advice: str) -> str | None:
        """One line that says how many there were and how to refuse them; None if there were none."""
        if not self._seen:
            return None
        shown = ", ".join(f"{cell!r:.40} in column {name!r:.40}" for (name, cell), _ in self._seen.most_common(_SHOWN))
        total, more = sum(self._seen.values()), ", ..." if len(self._seen) > _SHOWN else ""
        return (
            f"{self._source}: {total:,} cell{'s have' if total > 1 else ' has'} a category that the "
            f"model has never seen ({shown}{more}), read as missing; to refuse such cells, pass {advice}"
        )


def read_batches(
    model: Model, rows: RowFile, size: int, *, unknown: Unknown | None, unread: str | None = None
) -> Iterator[tuple[Batch, Any]]:
    """The batches of a table, each with its rows `(B, D)` as the model takes them (`Model.rows`).

    Args:
        model: The model.
        rows: The file or frame.
        size: Rows of a batch.
        unknown: Counts categories that the model has never seen, which are read as missing; None refuses them.
        unread: A column that need not be in the table, and all of whose cells count as missing.

    Raises:
        InputError: The table has other columns; a cell does not fit its column.
    """
    read = model.reader(rows, unknown=unknown, unread=unread)
    for part in rows.batches(size):
        yield part, model.rows(read(part))


@contextmanager
def naming_impossible(model: Model, batch: Batch, x: torch.Tensor) -> Iterator[None]:
    """Where a query refuses a row that the model cannot have, the error names its place in the table and the cell.

    Args:
        model: The model.
        batch: The rows as they lie in the table.
        x: `(B, D)` their numbers.

    Raises:
        InputError: A row has a probability of 0.
    """
    try:
        yield
    except InputError as error:
        import torch

        from plica.queries import log_likelihood

        x = x.to(torch.float64)
        bad = torch.isinf(log_likelihood(model.circuit, x)).nonzero()
        if not len(bad):
            raise
        row = int(bad[0])
        values = x[row].cpu().numpy()
        scores = log_likelihood(model.circuit, model.rows(each_alone(values))).detach().cpu().numpy()
        raise InputError(impossible(model, batch.labels[row], values, scores)) from error


def each_alone(values: Array) -> Array:
    """Rows `(D, D)` that each have one value of a row `(D,)`."""
    alone = np.full((len(values), len(values)), np.nan)
    np.fill_diagonal(alone, values)
    return alone


def impossible(model: Model, label: str, values: Array, scores: Array | None) -> str:
    """The message for a row of probability 0.

    Args:
        model: The model.
        label: The place of the row in the table.
        values: `(D,)` its numbers, NaN where a cell is missing.
        scores: `(D,)` the log-likelihoods of its values, each by itself; None where they are not known.
    """
    problem = f"{label}: the model gives the row a probability of 0, so that nothing can be filled in; "
    if scores is not None:
        column = int(scores.argmin())
        problem += f"column {model.names[column]!r}: {values[column]:g} is least likely there; "
    return f"{problem}correct the cell, or leave it empty where the value is not known"
