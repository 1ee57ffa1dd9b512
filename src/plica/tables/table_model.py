"""A model of a table for Python: frames in, frames of the same kind out.

The answers, the kinds of columns and the files are those of the command line (`plica score`, `plica complete`, ...).
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import is_not
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plica.arguments import found
from plica.arguments import seed as checked_seed
from plica.errors import DTypeError, InputError
from plica.files.kinds import TableColumn
from plica.files.rows import Batch
from plica.files.rows.batch import Array
from plica.forks import cached_property
from plica.notebooks import folded_html, table_html
from plica.tables import answers
from plica.tables.answers import ComparableScore, as_array, batch_seed
from plica.tables.frame_of import as_frame, as_rows, drawn_frame
from plica.tables.frames import SOURCE, Frame, FrameRows
from plica.tables.layout import Layout
from plica.tables.model import Model
from plica.tables.reading import Unknown, naming_impossible, read_batches
from plica.tables.words import in_python_words

if TYPE_CHECKING:
    import torch

    from plica.backend.torch.circuits import TorchCircuit
    from plica.learn.fit import FitResult
    from plica.tables.recipe import Recipe

_BATCH = 256  # rows computed at once, as on the command line
_SHOWN = 8  # categories that a notebook shows
_differs = np.frompyfunc(is_not, 2, 1)


class TableModel:
    """A fitted model of a table: `plica.tables.fit` and `plica.tables.load` make it.

    Rows are a pandas, polars or pyarrow table, a dict of columns, or an array `(N, D)`; one row may be a dict of its
    cells, or `frame.iloc[0]`. Columns are found by their names, in any order; those of arrays by position. Further
    columns stay as they are.

    Args:
        model: The circuit and its encoding.
        template: A table whose kind and types drawn rows have; None for the first library that is installed.
        recipe: What was fitted; None for a model of a file that does not say it.
        result: The history of the fit; None for a model of a file.
    """

    def __init__(
        self,
        model: Model,
        template: Frame | None = None,
        recipe: Recipe | None = None,
        result: FitResult | None = None,
    ) -> None:
        self._model, self._template = model, template
        self.recipe, self.result = recipe, result

    def __repr__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(self.columns.values()).items())
        return f"TableModel({len(self.columns)} columns: {kinds})"

    def _repr_html_(self) -> str:
        """A table of the columns for notebooks: their kinds, and the categories, the format or why one is ignored."""
        encoding = self._model.encoding
        known = {} if encoding is None else {column.name: _described(column) for column in encoding.columns}
        rows = ((name, kind, known.get(name, "")) for name, kind in self.columns.items())
        return folded_html(repr(self), table_html(("column", "kind", ""), rows))

    @property
    def circuit(self) -> TorchCircuit:
        """The compiled circuit, for `plica.queries`; variable v is the v-th of the columns that are not ignored."""
        circuit: TorchCircuit = self._model.circuit
        return circuit

    @cached_property
    def _comparable(self) -> ComparableScore:
        return ComparableScore.of(self._model)

    @property
    def columns(self) -> Mapping[str, str]:
        """The kind of each column, by name, in the order of the table that the model learned from."""
        if self._model.encoding is None:
            return dict.fromkeys(self._model.names, "number")
        return {column.name: column.kind for column in self._model.encoding.columns}

    def score(
        self,
        rows: Any,
        *,
        comparable: bool = False,
        unknown: Literal["missing", "error"] = "missing",
        batch: int = _BATCH,
    ) -> Array:
        """The log-likelihood of each row, `(N,)`: its missing cells are summed out.

        Args:
            rows: A table.
            comparable: Whether to give a score by which rows with different missing cells compare: a row with fewer
                cells has a higher log-likelihood. It is about 0 for usual rows and -3 for unusual ones: see
                `ComparableScore`. NaN for a row without known cells.
            unknown: How to read a category that the model has never seen: as missing, with a warning, or as an error.
            batch: Rows computed at once.

        Raises:
            InputError: The table lacks a column, or a cell is no value of its column.
        """
        import torch

        from plica.queries import log_likelihood

        scores = []
        with torch.no_grad(), self._reading(FrameRows(as_frame(rows)), batch, unknown) as batches:
            for _, x in batches:
                value = self._comparable(x) if comparable else log_likelihood(self.circuit, x)
                scores.append(as_array(value).astype(np.float64))
        return np.concatenate([np.zeros(0), *scores])

    def explain_row(self, rows: Any, *, unknown: Literal["missing", "error"] = "missing", batch: int = _BATCH) -> Any:
        """The surprise of each known cell: minus the logarithm of its probability, given the other cells of its row.

        For a category that is a probability, for a number a density: compare a cell with others of its column.

        Returns:
            A table of the kind of `rows`, with a column for each column that the model has; NaN for missing cells.

        Raises:
            InputError: As for `score`.
        """
        frame = as_frame(rows)
        with self._reading(FrameRows(frame), batch, unknown) as batches:
            parts = [as_array(-answers.cell_log_likelihoods(self._model, x)) for _, x in batches]
        surprises = np.concatenate([np.zeros((0, self._model.width)), *parts])
        return frame.made(dict(zip(self._model.names, surprises.T, strict=True)))

    def complete(
        self,
        rows: Any,
        method: Literal["mean", "mpe", "sample"] = "mean",
        *,
        seed: int = 0,
        unknown: Literal["missing", "error"] = "missing",
        batch: int = _BATCH,
    ) -> Any:
        """The table with its missing cells filled in, given the other cells of their rows.

        Args:
            rows: A table.
            method: `mean`: of reals the conditional mean, of counts, whole numbers, dates and times the nearest to it,
                of categories the most probable, each cell by itself. `mpe`: the most probable explanation. `sample`: a
                draw from the exact conditional distribution.
            seed: The seed of draws.
            unknown: As for `score`; a category that the model has never seen stays in the table.
            batch: Rows computed at once.

        Returns:
            A table of the kind of `rows`, with its types, categories and index.

        Raises:
            InputError: As for `score`, or a row has probability 0.
        """
        if method not in answers.FILLERS:
            raise InputError(f"method={method!r}: expected one of {', '.join(answers.FILLERS)}")
        frame, filler, seed = as_frame(rows), answers.FILLERS[method], checked_seed("complete", seed)
        table = FrameRows(frame)
        with self._reading(table, batch, unknown) as batches:
            layout = Layout.of(self._model, table, "number" if frame.is_numbers else "typed", verbatim=True)
            parts = []
            for number, (part, x) in enumerate(batches):
                with naming_impossible(self._model, part, x):
                    filled = as_array(filler(self._model, x, batch_seed((seed, number))))
                parts.append((part.cells, layout.completed(part, as_array(x), filled)))
        return changed(frame, layout, np.arange(frame.num_rows), parts)

    def sample(
        self,
        n: int = 1,
        given: Any = None,
        *,
        seed: int = 0,
        unknown: Literal["missing", "error"] = "missing",
        batch: int = _BATCH,
    ) -> Any:
        """Rows drawn from the model, exact and independent; with `given`, n completions of each of its rows.

        Args:
            n: The number of rows, or of completions of each row.
            given: A table with missing cells.
            seed: The seed.
            unknown: As for `score`; a draw takes the place of a category that the model has never seen.
            batch: Rows computed at once.

        Returns:
            A table of the kind of `given`; without it, of the kind of the table that the model learned from.

        Raises:
            InputError: As for `complete`.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise InputError(f"n={n!r}: expected a number of rows, 0 or more")
        seed = checked_seed("sample", seed)
        if given is None:
            return self._drawn(int(n), seed, batch)
        frame = as_frame(given)
        table = FrameRows(frame)
        with self._reading(table, batch, unknown) as batches:
            layout = Layout.of(self._model, table, "number" if frame.is_numbers else "typed", verbatim=True)
            parts = []
            for number, (part, x) in enumerate(batches):
                repeated, known, drawn = answers.completions_of(
                    self._model, part, x, int(n), batch_seed((seed, number))
                )
                cells = layout.completed(repeated, as_array(known), as_array(drawn), keep=False)
                parts.append((repeated.cells, cells))
        return changed(frame, layout, np.repeat(np.arange(frame.num_rows), n), parts)

    def _drawn(self, number: int, seed: int, batch: int) -> Any:
        model = self._model
        template = self._template or drawn_frame(model.names)
        parts = [as_array(rows) for rows in answers.draw(model, number, seed, batch)]
        if template.is_numbers:
            numbers = [model.numbers(part) for part in parts]
            joined = np.concatenate([np.zeros((0, model.width), dtype=np.uint8), *numbers])
            return template.made(dict(zip(model.names, joined.T, strict=True)), like=True)
        stored = dict(zip(template.names or model.names, template.types, strict=False))
        forms: list[Any] = ["text" if stored.get(name.strip()) is str else "typed" for name in model.names]
        cells = [row for part in parts for row in model.cells(model.rounded(part), forms)]
        columns = [[row[position] for row in cells] for position in range(model.width)]
        return template.made(dict(zip(model.names, columns, strict=True)), like=True)

    def predict(
        self,
        column: Any,
        rows: Any,
        quantiles: Sequence[float] | Array = (),
        *,
        unknown: Literal["missing", "error"] = "missing",
        batch: int = _BATCH,
    ) -> Any:
        """The exact distribution of one column in each row, given the known cells of the row's other columns.

        Args:
            column: The name of the column, or its number where the model learned from an array.
            rows: A table; it need not have the column, and cells that are there are not looked at.
            quantiles: Levels between 0 and 1, such as `(0.05, 0.5, 0.95)`, for numbers, dates and times.
            unknown: As for `score`.
            batch: Rows computed at once.

        Returns:
            A table of the kind of `rows`. For categories and truth values the probability of each, in columns of their
            names. Else a column `mean` and one for each level, such as `0.05`, of the smallest value up to which the
            cell lies with that probability.

        Raises:
            InputError: The model has no such column, or as for `complete`.
        """
        variable = answers.variable_of(self._model.names, str(column))
        frame = as_frame(rows)
        unread = self._model.names[variable]
        with self._reading(FrameRows(frame), batch, unknown, unread=unread) as batches:
            names, parts = answers.prediction_names(self._model, variable, quantiles), []
            for part, x in batches:
                with naming_impossible(self._model, part, x):
                    parts.append(answers.predict(self._model, x, variable, quantiles))
        types = answers.prediction_types(self._model, variable, quantiles)
        cells: dict[str, Any] = {}
        for number, (name, cell_type) in enumerate(zip(names, types, strict=True)):
            column = [cell for part in parts for cell in part[number]]
            cells[name] = np.array(column, dtype=np.float64) if cell_type is float else column
        return frame.made(cells)

    def update(self, rows: Any, *, epochs: int | None = None, seed: int = 0) -> None:
        """Go on learning from further rows, in place, from the weights that are there.

        Args:
            rows: A table, or `plica.data.Rows`; a random 14 percent of its rows choose the best epoch, if those of the
                recipe did.
            epochs: The most passes; by default those of the recipe.
            seed: The seed of the split and the shuffling.

        Raises:
            InputError: As for `score`, or there are too few rows.
        """
        from plica.tables.data_sets import read_split
        from plica.tables.fitting import train
        from plica.tables.recipe import Recipe

        seed = checked_seed("update", seed)
        (table, _), encoding = as_rows(rows), self._model.encoding
        if encoding is None:
            raise InputError("the model has no kinds of columns; train a model of images with plica.learn.fit")
        with in_python_words():
            data = read_split(table, encoding, seed=seed)
        recipe = self.recipe or Recipe()
        recipe = recipe if epochs is None else replace(recipe, epochs=epochs)
        target = self.circuit.saved_with.get("target")
        self.circuit.train()
        try:
            self.result = train(self.circuit, data, recipe, seed=seed, target=target)
        finally:
            self.circuit.eval()
        self.__dict__.pop("_comparable", None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, whole or not at all; `plica.tables.load` and every command (`plica score`, ...) read it.

        Raises:
            FileFormatError: Nothing can be written there.
        """
        from plica.frontend.saving import save

        save(self.circuit, path)

    @contextmanager
    def _reading(
        self, rows: FrameRows, size: int, unknown: str, *, unread: str | None = None
    ) -> Iterator[Iterator[tuple[Batch, torch.Tensor]]]:
        """The batches of a table; after the block a warning counts categories that were read as missing.

        Errors within the block name arguments in place of options.
        """
        if unknown not in ("missing", "error"):
            raise InputError(f"unknown={unknown!r}: expected 'missing' or 'error'")
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise DTypeError(f"batch: expected a number of rows, 1 or more, {found(size)}")
        counted = Unknown(SOURCE)
        with in_python_words():
            yield read_batches(
                self._model, rows, int(size), unknown=counted if unknown == "missing" else None, unread=unread
            )
        message = counted.message('unknown="error"')
        if message is not None:
            warnings.warn(message, stacklevel=4)  # at the call of the user, above contextlib and a method


def changed(frame: Frame, layout: Layout, rows: Array, parts: Sequence[tuple[Array, Array]]) -> Any:
    """The rows of a frame with the cells of `parts`, pairs of the cells before and after, that are others now."""
    changes = {}
    for position in (position for position in layout.positions if parts):
        before, after = (np.concatenate([pair[side][:, position] for pair in parts]) for side in (0, 1))
        if before.dtype != object:
            mask = ~((before == after) | (np.isnan(before) & np.isnan(after)))
        else:
            mask = _differs(before, after).astype(bool)
        changes[position] = (mask, after[mask].tolist())
    return frame.changed(rows, changes)


def _described(column: TableColumn) -> str:
    """What a reader wants to know of a column beside its kind."""
    if column.kind == "ignored":
        return column.why
    more = len(column.categories) - _SHOWN
    shown = ", ".join(map(str, column.categories[:_SHOWN]))
    return f"{shown} and {more:,} more" if more > 0 else shown or column.format
