"""Questions to a model about each row, and how the answers to one batch become rows of a table.

Commands ask here a batch at a time, whether they read a table themselves or an engine deals it out (`plica.batch`).
Questions are plain values, which pickle; importing this module does not load torch.

>>> Score(), Predict("age", (0.5,))
(Score(comparable=False, of=(), keep=()), Predict(column='age', quantiles=(0.5,), keep=()))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from plica.errors import InputError
from plica.files.columns import Form
from plica.files.rows.batch import Array, Batch, RowFile
from plica.files.tables import TEXTS
from plica.tables.answers import (
    FILLERS,
    ComparableScore,
    as_array,
    batch_seed,
    completions_of,
    predict,
    prediction_names,
    prediction_types,
    variable_of,
)
from plica.tables.layout import Layout
from plica.tables.model import Model
from plica.tables.reading import naming_impossible

LOG_LIKELIHOOD, COMPARABLE_SCORE = "log_likelihood", "comparable_score"
ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """The table that answers are written to.

    Attributes:
        names: The names of its columns.
        row_shape: The shape of a row in an array; None for `(D,)`.
        types: The type of each column.
        named: Whether a text begins with a line of names.
        delimiter: The delimiter of a text.
        rows: The rows `(B, D)` of a batch, as `plica.data.write` takes them: of the number of the batch in the table,
            the batch, and its numbers.
    """

    names: tuple[str, ...]
    row_shape: tuple[int, ...] | None
    types: tuple[Any, ...]
    named: bool
    delimiter: str
    rows: Callable[[int, Batch, Any], Any]

    def writing(self, path: Path) -> AbstractContextManager[Callable[[Any], None]]:
        """A function that adds rows to a file; the file appears once the block ends without an error."""
        from plica.data.write import writing_rows

        return writing_rows(path, self.names, self.row_shape, self.types, named=self.named, delimiter=self.delimiter)


class Answers(ABC):
    """The answers of one model to one question.

    Attributes:
        model: The model.
        unread: A column of the model that is not read, and that a table need not have.
    """

    model: Model
    unread: str | None

    @abstractmethod
    def written(self, rows: RowFile, out: Path) -> Written:
        """The table of the answers to all rows of a file.

        Args:
            rows: The open file, whose ending decides whether cells are copied as they are.
            out: The file that is written; its ending decides the form of cells.

        Raises:
            InputError: The file lacks a column, or an array cannot hold the answers.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Beside(Answers):
    """Answers that are columns of their own, beside columns of the table.

    Attributes:
        model: The model.
        computed: The type of the cells of each computed column, by its name.
        columns: The cells of these columns for a batch and its numbers.
        unread: A column of the model that is not read, and that a table need not have.
        keep: The names of the columns that are copied; empty for those that the model does not read, without those of
            computed names.
    """

    model: Model
    computed: Mapping[str, Any]
    columns: Callable[[Batch, Any], Sequence[Any]]
    unread: str | None = None
    keep: tuple[str, ...] = ()

    def kept(self, rows: RowFile) -> list[int]:
        """The columns of a table that are copied.

        Raises:
            InputError: The table lacks one, or one has the name of a computed column.
        """
        if self.keep:
            twice = [name for name in self.keep if name.strip() in self.computed]
            if twice:
                raise InputError(
                    f"--keep {twice[0]}: the result has a column of that name; rename the one of the table"
                )
            return positions_of(self.model, rows, self.keep)
        if self.model.encoding is None:
            return []
        names, read = self.model.names_of(rows), set(self.model.positions(rows, self.unread))
        return [
            position
            for position in range(rows.width)
            if position not in read and names[position].strip() not in self.computed
        ]

    def written(self, rows: RowFile, out: Path) -> Written:
        """See `Answers.written`."""
        is_array = out.suffix.lower() in ARRAYS
        if is_array and not set(self.computed.values()) <= {int, float}:
            raise InputError(f"{out}: arrays hold numbers alone; write predicted dates and times as .csv or .parquet")
        check_can_keep(self.keep, out)
        kept = [] if is_array else self.kept(rows)
        names, types = self.model.names_of(rows), rows.stored or rows.types
        all_names = (*(names[position] for position in kept), *self.computed)

        def cells(_number: int, batch: Batch, x: Any) -> Any:
            columns = self.columns(batch, x)
            if is_array:
                return np.stack([np.asarray(column) for column in columns], axis=1)
            return _beside(batch, kept, columns, self.computed, all_names)

        is_number = not kept and len(self.computed) == 1  # an array of one number for each row
        stored = (*(types[position] for position in kept), *self.computed.values())
        return Written(all_names, () if is_number else None, stored, True, rows.delimiter, cells)


def _beside(
    batch: Any, kept: Sequence[int], columns: Sequence[Any], types: Mapping[str, Any], names: Sequence[str]
) -> Any:
    """Columns of a batch and computed ones, whose types are by name, as a `pyarrow.RecordBatch`."""
    import pyarrow as pa

    from plica.data.write import arrow_type, column_of

    computed = [
        column_of(column, arrow_type(kind), name) for column, (name, kind) in zip(columns, types.items(), strict=True)
    ]
    return pa.RecordBatch.from_arrays([*(batch.data.column(position) for position in kept), *computed], list(names))


def positions_of(model: Model, rows: RowFile, keep: Sequence[str]) -> list[int]:
    """The positions of columns that are copied, in the order of their names.

    Raises:
        InputError: The table has no such column, or a name comes twice.
    """
    names = [name.strip() for name in (rows.names or model.names_of(rows))]
    positions = []
    for name in keep:
        if name.strip() not in names:
            raise InputError(f"{rows.source}: --keep {name}: there is no such column; it has {', '.join(names)}")
        if names.index(name.strip()) in positions:
            raise InputError(f"--keep {name}: is given twice; name each column once")
        positions.append(names.index(name.strip()))
    return positions


def check_can_keep(keep: Sequence[str], out: Path) -> None:
    """Raise where columns of any type are to be copied to an array.

    Raises:
        InputError: The file is an array.
    """
    if keep and out.suffix.lower() in ARRAYS:
        raise InputError(f"{out}: arrays have no names and no text, so --keep needs .csv or .parquet")


@dataclass(frozen=True, slots=True, eq=False)
class Filled(Answers):
    """Answers that are the rows of a table with missing cells filled in.

    Attributes:
        model: The model.
        fill: Of the number of a batch, the batch and its numbers `(B, D)`: the rows that are filled in, which may be
            repeated, their numbers and the filled ones, `(B', D)`.
        keep: Whether categories that the model has never seen are copied instead of filled in.
        is_drawn: Whether arrays get the numbers of the model, and no copies of the cells of an array.
        unread: None, since all columns are read.
        keep_columns: The names of columns that are copied as they are; others that the model does not read are left
            out. Empty for all that the model does not read.
    """

    model: Model
    fill: Callable[[int, Batch, Any], tuple[Batch, Any, Any]]
    keep: bool = True
    is_drawn: bool = False
    unread: str | None = None
    keep_columns: tuple[str, ...] = ()

    def written(self, rows: RowFile, out: Path) -> Written:
        """See `Answers.written`."""
        model, ending = self.model, out.suffix.lower()
        check_can_keep(self.keep_columns, out)
        if ending in ARRAYS and self.is_drawn:

            def numbers(number: int, batch: Batch, x: Any) -> Any:
                return model.numbers(as_array(self.fill(number, batch, x)[2]))

            shape = model.image_shape or (model.width,)
            return Written(model.names, shape, model.types, model.encoding is not None, ",", numbers)
        form = _form(ending)
        layout = Layout.of(model, rows, form, verbatim=form == _form(rows.ending))
        is_array = rows.ending in ARRAYS
        if not is_array and ending != ".parquet":
            layout = layout.in_type(str if ending == ".csv" else float)
        kept = positions_of(model, rows, self.keep_columns)
        chosen = sorted({*layout.positions, *kept}) if kept else range(rows.width)

        def cells(number: int, batch: Batch, x: Any) -> Any:
            if is_array:
                return self.completed(layout, number, batch, x)[1]
            part, known, filled = self.fill(number, batch, x)
            data: Any = part  # batches of files have columns
            completed = layout.columns(data.data, as_array(known), as_array(filled), keep=self.keep, kept=kept)
            return completed.select(list(chosen)) if kept else completed

        named, names, types = model.encoding is not None or rows.names is not None, model.names_of(rows), layout.types
        stored = rows.stored or rows.types
        return Written(
            tuple(names[position] for position in chosen),
            rows.row_shape,
            tuple(stored[position] if position in kept else types[position] for position in chosen),
            named,
            rows.delimiter,
            cells,
        )

    def completed(self, layout: Layout, number: int, batch: Batch, x: Any) -> tuple[Array, Any]:
        """The cells of a batch in a layout, before and after they are filled in."""
        part, known, filled = self.fill(number, batch, x)
        return part.cells, layout.completed(part, as_array(known), as_array(filled), keep=self.keep)


class Question(ABC):
    """What is asked about each row: a value, of which each process makes the answers of its model."""

    @property
    def settings(self) -> dict[str, Any]:
        """What tells it from others of its class, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @abstractmethod
    def answers(self, model: Model) -> Answers:
        """The answers of a model.

        Raises:
            InputError: The model cannot be asked that.
        """


@dataclass(frozen=True, slots=True)
class Score(Question):
    """The log-likelihood of each row, or of some of its columns.

    Args:
        comparable: Whether to give a score by which rows with different missing cells compare.
        of: The columns to score, the others being summed out; empty for all.
        keep: The columns of the table to copy beside the score; empty for those that the model does not read.
    """

    comparable: bool = False
    of: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def answers(self, model: Model) -> Beside:
        """See `Question.answers`."""
        if not model.width:
            raise InputError(
                "the model has no variables, so that there are no rows to score; its value is what plica.load(MODEL)() "
                "gives, and what `plica run` writes of the file that `plica export` makes of it"
            )
        read = {variable_of(model.names, name, "--of ", "; --of takes one, and may be repeated") for name in self.of}
        hidden = [variable for variable in range(model.width) if read and variable not in read]
        comparable = ComparableScore.of(model) if self.comparable else None

        def columns(_: Batch, x: Any) -> Sequence[Any]:
            import torch

            from plica.queries import log_likelihood

            if hidden:
                x = x.to(torch.float64) if not x.is_floating_point() else x.clone()
                x[:, hidden] = torch.nan
            with torch.no_grad():
                return [as_array(comparable(x) if comparable else log_likelihood(model.circuit, x))]

        name = COMPARABLE_SCORE if self.comparable else LOG_LIKELIHOOD
        return Beside(model, {name: float}, columns, keep=self.keep)


@dataclass(frozen=True, slots=True)
class Complete(Question):
    """The rows with their missing cells filled in.

    Args:
        method: A name in `FILLERS`.
        seed: The seed of draws.
        keep: Columns of the table that are copied as they are; others that the model does not read are left out. Empty
            for all that the model does not read.
    """

    method: str = "mean"
    seed: int = 0
    keep: tuple[str, ...] = ()

    def answers(self, model: Model) -> Filled:
        """See `Question.answers`."""
        filler = FILLERS[self.method]

        def fill(number: int, batch: Batch, x: Any) -> tuple[Batch, Any, Any]:
            with naming_impossible(model, batch, x):
                return batch, x, filler(model, x, batch_seed((self.seed, number)))

        return Filled(model, fill, keep_columns=self.keep)


@dataclass(frozen=True, slots=True)
class Sample(Question):
    """Completions of each row, drawn from its exact conditional distribution.

    Args:
        number: How many of each row.
        seed: The seed.
    """

    number: int = 1
    seed: int = 0

    def answers(self, model: Model) -> Filled:
        """See `Question.answers`."""

        def fill(number: int, batch: Batch, x: Any) -> tuple[Batch, Any, Any]:
            return completions_of(model, batch, x, self.number, batch_seed((self.seed, number)))

        return Filled(model, fill, keep=False, is_drawn=True)


@dataclass(frozen=True, slots=True)
class Predict(Question):
    """The distribution of one column given the others of the row.

    Args:
        column: The column.
        quantiles: Levels between 0 and 1, for columns of numbers, dates and times.
        keep: See `Score`.
    """

    column: str
    quantiles: tuple[float, ...] = ()
    keep: tuple[str, ...] = ()

    def answers(self, model: Model) -> Beside:
        """See `Question.answers`."""
        variable = variable_of(model.names, self.column, "--column ")
        types = prediction_types(model, variable, self.quantiles)

        def columns(batch: Batch, x: Any) -> Sequence[Any]:
            with naming_impossible(model, batch, x):
                return predict(model, x, variable, self.quantiles)

        names = prediction_names(model, variable, self.quantiles)
        return Beside(model, dict(zip(names, types, strict=True)), columns, model.names[variable], self.keep)


def _form(ending: str) -> Form:
    """The form of the cells of a file."""
    return "number" if ending in ARRAYS else "text" if ending in TEXTS else "typed"
