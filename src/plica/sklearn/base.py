"""What the estimators have in common: their parameters, how data is checked, and which model is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from plica.files.rows.batch import Array
from plica.tables import TableModel, fit
from plica.tables.frame_of import as_frame
from plica.tables.frames import listed

TARGET = "target"


class CircuitEstimator(BaseEstimator):
    """A model of a table behind the interface of scikit-learn.

    Columns of arrays are real. Frames with text, dates or categories have the kinds that `plica.tables` infers.

    Args:
        units: Units of each layer; None leaves the choice to `plica.tables`, here and below.
        epochs: The most passes over the rows.
        structure: The name of the structure.
        learning_rate: The step size at the start.
        columns: The kinds of some columns by name, for frames and arrays (`"x0"`, `"x1"`, ...).
        random_state: The seed of the fit and of draws.
    """

    def __init__(
        self,
        *,
        units: int | None = None,
        epochs: int | None = None,
        structure: str | None = None,
        learning_rate: float | None = None,
        columns: Mapping[str, Any] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.units = units
        self.epochs = epochs
        self.structure = structure
        self.learning_rate = learning_rate
        self.columns = columns
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31))

    def _checked(self, X: Any, *, reset: bool = False) -> dict[str, Any] | Any:
        """The rows as a table: a frame with other cells than numbers as it is, all else as real columns x0, x1, ..."""
        if not reset:
            check_is_fitted(self)
        else:
            self._takes_frames = _is_mixed(X)
        if self._takes_frames:
            validate_data(self, X, skip_check_array=True, reset=reset)
            if hasattr(X, "columns"):
                return X
            return dict(zip(self.model_.columns, np.asarray(X, dtype=object).T, strict=False))  # the target comes last
        values = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )
        return columns_of(values)

    @property
    def _target_name(self) -> str:
        """The name of the column of targets beside the features of a frame."""
        name, features = TARGET, {str(name).strip() for name in getattr(self, "feature_names_in_", ())}
        while name in features:
            name += "_"
        return name

    def _target(self, X: Any, y: Any, *, numeric: bool = False) -> Array:
        """The target of each row.

        Raises:
            ValueError: There is none, or not one for each row.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if numeric:
            y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        values: Array = column_or_1d(y, warn=True)
        lacking = sum(cell is None for cell in listed(values))
        if lacking:
            raise ValueError(f"Input y contains NaN or None in {lacking} of {len(values)} rows; leave these rows out")
        check_consistent_length(X, values)
        return values

    def _fit_table(self, table: Any, target: Mapping[str, Any] | None = None) -> TableModel:
        """Fit the model of a table, and of a target column beside it."""
        said = {str(name): kind for name, kind in (self.columns or {}).items()}
        if isinstance(table, dict):
            kinds = dict.fromkeys(table, "real")
            constant = [name for name, column in table.items() if len(np.unique(column[~np.isnan(column)])) < 2]
            if target is not None and len(constant) < len(table):
                kinds |= dict.fromkeys(constant, "ignored")  # they say nothing of the target
            said = kinds | said
        if target is not None:
            said[self._target_name] = target["kind"]
            table = with_column(table, self._target_name, target["cells"])
        return fit(
            table,
            columns=said,
            units=self.units,
            epochs=self.epochs,
            structure=self.structure,
            learning_rate=self.learning_rate,
            seed=self._seed(),
            dtype="float64",  # answers do not depend on which rows come together
            target=None if target is None else self._target_name,
        )


def _is_mixed(data: Any) -> bool:
    """Whether data is a frame of which a column holds something else than numbers, or categories."""
    if isinstance(data, np.ndarray | list | tuple) or not hasattr(data, "columns"):
        return False
    frame = as_frame(data)
    return any(
        cell_type not in (int, float, bool) or frame.categories(position) is not None
        for position, cell_type in enumerate(frame.types)
    )


def columns_of(values: Array) -> dict[str, Array]:
    """An array `(N, D)` as columns by name."""
    return {f"x{position}": np.asarray(column, dtype=np.float64) for position, column in enumerate(values.T)}


def with_column(table: Any, name: str, cells: Any) -> Any:
    """A table with a further column; the types of the others stay."""
    if isinstance(table, dict):
        return table | {name: cells}
    import narwhals.stable.v2 as nw

    frame = nw.from_native(table, eager_only=True)
    return frame.with_columns(nw.new_series(name, list(cells), backend=frame.implementation)).to_native()


def array_of(table: Any) -> Any:
    """Columns by name as an array `(N, D)`; a frame of a library as it is."""
    return np.stack([np.asarray(column) for column in table.values()], axis=1) if isinstance(table, dict) else table


def numbers_of(table: Any) -> Array:
    """A frame of numbers as an array `(N, D)`."""
    numbers: Array = array_of(table) if isinstance(table, dict) else as_frame(table).cells().astype(np.float64)
    return numbers
