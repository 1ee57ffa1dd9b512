"""`plica.tables.fit` and `plica.tables.load`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plica.arguments import found, listed
from plica.arguments import seed as checked_seed
from plica.errors import DTypeError, InputError
from plica.extras import require
from plica.files.columns import is_missing
from plica.files.datasets import Dataset
from plica.files.infer import MOST_CATEGORIES, MOST_CODES, ColumnRecord, check_records
from plica.files.kinds import category_of
from plica.tables.answers import variable_of
from plica.tables.data_sets import of_rows
from plica.tables.frame_of import as_rows
from plica.tables.frames import Frame
from plica.tables.model import Model, open_model
from plica.tables.recipe import Recipe
from plica.tables.table_model import TableModel
from plica.tables.words import in_python_words

if TYPE_CHECKING:
    from plica.learn.fit import Epoch


def fit(
    data: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    missing: Sequence[str | float] | str | float = (),
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
    target: str | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    **chosen: Any,
) -> TableModel:
    """Fit a model to a table with text, numbers, dates and holes, as `plica train --columns` does.

    A random 14 percent of the rows choose the best epoch; the others are learned from.

    Args:
        data: A pandas, polars or pyarrow table, a dict of columns, or an array `(N, D)`. Or `plica.data.Rows`, which
            are read in batches, and not held if they are many.
        columns: The kinds of some columns by name, as in a file of `--columns`: `{"age": "real", "pet": {"kind":
            "categorical", "categories": ["cat", "dog"]}, "id": "ignored"}`. Other kinds are inferred from the cells, or
            are `categorical` where the type of the column lists its categories.
        missing: Text or numbers that mean that a cell is missing, such as "NA" or "-999", beside empty text.
        seed: The seed of the split, the first weights and the shuffling.
        device: The device of torch, such as "cpu" or "cuda".
        dtype: The dtype of weights, "float32" or "float64".
        target: The name of a column to predict: the model is fitted to the column given the others, above all. None to
            fit all columns alike.
        on_epoch: Called after each epoch with its figures.
        chosen: What the rule of `plica.tables.rules` must not choose, by the names of `Recipe`: `structure`,
            `layer`, `units`, `trees`, `epochs`, `batch`, `learning_rate`, `pseudocount`.

    Raises:
        DTypeError: `data` is no table, or an argument is of another type.
        InputError: A cell does not fit its column, or there are too few rows.
    """
    require("torch")
    words, seed = _words(missing), checked_seed("fit", seed)
    rows, template = as_rows(data)
    if columns is not None and not isinstance(columns, Mapping):
        raise DTypeError(f'columns: expected kinds by name, such as {{"age": "real"}}, {found(columns)}')
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype={dtype!r}: expected 'float32' or 'float64'")
    with in_python_words():
        records = ({} if template is None else _of_types(template, words)) | check_records(
            {str(name).strip(): kind for name, kind in (columns or {}).items()}
        )
        table = of_rows(
            [rows], name="table", source=rows.source, records=records, words=words, seed=seed, with_test=False
        )
        assert table.encoding is not None, "a table has an encoding"
        names = [column.name for column in table.encoding.modelled]
        variable = None if target is None else variable_of(names, target, "target ")
        return _fitted(
            table, template, seed=seed, device=device, dtype=dtype, target=variable, on_epoch=on_epoch, chosen=chosen
        )


def _words(missing: Any) -> tuple[str, ...]:
    """The texts that mean that a cell is missing, of one text or number or several."""
    return (str(missing),) if isinstance(missing, str | int | float) else tuple(map(str, listed(missing)))


def _fitted(
    data: Dataset,
    frame: Frame | None,
    *,
    seed: int,
    device: str,
    dtype: str,
    target: int | None,
    on_epoch: Any,
    chosen: Mapping[str, Any],
) -> TableModel:
    from plica.tables.fitting import file_options, train, untrained
    from plica.tables.trials import decide

    recipe = decide(data, seed=seed, dtype=dtype, device=device, target=target, **chosen)
    compiled = untrained(recipe, data, seed=seed, dtype=dtype, device=device, target=target)
    result = train(compiled, data, recipe, seed=seed, target=target, on_epoch=on_epoch)
    if result.interrupted:
        raise KeyboardInterrupt
    options = file_options(data, dtype, recipe, target)
    compiled.saved_with = {name: value for name, value in options.items() if name not in ("semiring", "dtype")}
    return TableModel(Model(compiled.eval(), data.encoding, None), frame and frame.template(), recipe, result)


def _of_types(frame: Frame, words: Sequence[str]) -> dict[str, ColumnRecord]:
    """The records of columns of a type of categories, unless these are too many for a kind."""
    records: dict[str, ColumnRecord] = {}
    most, cells = max(MOST_CODES, min(MOST_CATEGORIES, frame.num_rows // 2)), frame.cells()
    for position, name in enumerate(frame.names or ()):
        categories = frame.categories(position)
        if categories is None or is_missing(cells[:, position], words).all():
            continue
        if not categories or not all(isinstance(category, str | int | bool) for category in categories):
            if len({str(cell) for cell in cells[:, position]}) <= most:
                records[name] = {"kind": "categorical"}
        elif len(categories) <= most and len({str(category).strip() for category in categories} - {"", *words}) == len(
            categories
        ):
            records[name] = {"kind": "categorical", "categories": [category_of(category) for category in categories]}
    return records


def load(path: str | os.PathLike[str], *, device: str = "cpu") -> TableModel:
    """The model of a file that `TableModel.save` or `plica train` wrote.

    Drawn rows are of the first library that is installed: pandas, polars, pyarrow, else lists.

    Raises:
        FileFormatError: The file is missing, damaged, or of another kind.

    >>> import plica
    >>> model = plica.tables.fit({"pet": ["cat", "dog"] * 20, "weight": [4.0, 20.0] * 20}, epochs=1)
    >>> model.save("pets.plica")
    >>> plica.tables.load("pets.plica").columns
    {'pet': 'categorical', 'weight': 'count'}
    """
    require("torch")
    if not isinstance(path, str | os.PathLike):
        raise DTypeError(f"plica.tables.load takes a path, {found(path)}")
    with in_python_words():
        model = open_model(Path(path), device)
    stored = model.circuit.saved_with.get("recipe")
    return TableModel(model, recipe=None if stored is None else Recipe.of_json(stored))
