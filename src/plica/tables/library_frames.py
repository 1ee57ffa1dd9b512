"""Frames of pandas, polars, pyarrow and their like, by narwhals: types, categories and index stay what they are."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError
from plica.extras import require
from plica.files.kinds import Cell, category_of
from plica.files.rows.batch import Array, CellType
from plica.tables.frames import SOURCE, Changes, Frame, column_type, converter, listed, stacked


def library_frame(data: Any, refusal: str) -> Frame:
    """A frame of a library.

    Args:
        data: The frame.
        refusal: The message where it is none.

    Raises:
        DTypeError: It is no frame, or one whose rows are not at hand.
        InputError: Two columns have one name.
    """
    import narwhals.stable.v2 as nw  # names that stay what they are

    if nw.dependencies.is_pandas_like_dataframe(data) and any(isinstance(name, tuple) for name in data.columns):
        raise InputError(f"{SOURCE}: its columns have names of several levels; give each a single name")
    if nw.dependencies.is_pandas_like_series(data):
        if not all(isinstance(name, str) for name in data.index):
            raise DTypeError(f"{refusal}; for a table of one column pass series.to_frame()")
        data = data.to_frame().T.infer_objects()  # a row
    try:
        return LibraryFrame(nw.from_native(data, eager_only=True))
    except nw.exceptions.DuplicateError as error:
        raise InputError(
            f"{SOURCE}: two columns have one name; rename one: names tell columns apart ({error})"
        ) from error
    except TypeError as error:
        if nw.dependencies.is_polars_lazyframe(data):
            refusal = f"{refusal}; a lazy frame has no rows yet: call its collect()"
        raise DTypeError(refusal) from error


class LibraryFrame(Frame):
    """A frame that narwhals reads.

    Args:
        frame: The frame of narwhals.
        typed: Whether its columns have types, which drawn rows then have too.
    """

    def __init__(self, frame: Any, *, typed: bool = True) -> None:
        self._frame, self._typed = frame, typed
        self._keys = list(frame.columns)
        self.names = tuple(str(key).strip() for key in self._keys)
        self.num_rows = len(frame)
        if not self._keys:
            raise InputError(f"{SOURCE}: it has no columns; give it at least one")
        columns = list(frame.iter_columns())
        self._cells = [self._listed(column) for column in columns]
        self.types = tuple(
            self._type(column.dtype, cells) if typed else None
            for column, cells in zip(columns, self._cells, strict=True)
        )
        self._categories = [self._categories_of(column) for column in columns]
        self._converters = [
            converter(cells)
            if categories is None
            else partial(_as_category, {str(category_of(category)): category for category in categories})
            for cells, categories in zip(self._cells, self._categories, strict=True)
        ]

    @property
    def _nw(self) -> Any:
        """The module narwhals, which copies of a frame do not copy."""
        import narwhals.stable.v2 as nw

        return nw

    def _listed(self, series: Any) -> list[Any]:
        nulls = series.is_null().to_list()
        values = [None if null else cell for cell, null in zip(series.to_list(), nulls, strict=True)]
        return listed(values)

    def _type(self, dtype: Any, cells: Sequence[Any]) -> CellType | None:
        nw = self._nw
        if dtype.is_integer():
            return int
        if dtype.is_numeric():
            return float
        named: dict[Any, CellType] = {
            nw.Boolean: bool,
            nw.Date: datetime.date,
            nw.Datetime: datetime.datetime,
            nw.Time: datetime.time,
            nw.String: str,
        }
        return next((cell_type for name, cell_type in named.items() if dtype == name), None) or column_type(cells)

    def categories(self, position: int) -> tuple[Any, ...] | None:
        """See `Frame.categories`."""
        return self._categories[position]

    def _categories_of(self, series: Any) -> tuple[Any, ...] | None:
        if series.dtype not in (self._nw.Categorical, self._nw.Enum):
            return None
        if self._nw.dependencies.is_polars_series(series.to_native()) and series.dtype != self._nw.Enum:
            return ()  # polars' Categorical shares its categories with other columns
        return tuple(series.cat.get_categories().to_list())

    def cells(self) -> Array:
        """See `Frame.cells`."""
        return stacked(self._cells, self.num_rows)

    def changed(self, rows: Array, changes: Changes) -> Any:
        """See `Frame.changed`."""
        is_all = np.array_equal(rows, np.arange(self.num_rows))
        frame = self._frame if is_all else self._frame[rows.tolist()]
        columns, old = [], list(frame.iter_columns())
        for position, (mask, cells) in sorted(changes.items()):
            if mask.any():
                values = [self._converters[position](cell) for cell in cells]
                columns.append(self._replaced(old[position], mask, values))
        return frame.with_columns(*columns).to_native() if columns else frame.clone().to_native()

    def _replaced(self, series: Any, mask: Array, values: Sequence[Any]) -> Any:
        """A column with some cells replaced, in its own type if that holds them."""
        nw = self._nw
        if nw.dependencies.is_pandas_like_series(series.to_native()):
            return nw.from_native(_replaced_in_pandas(series.to_native(), mask, values), series_only=True)
        cells, iterator = series.to_list(), iter(values)
        cells = [next(iterator) if is_new else cell for cell, is_new in zip(cells, mask.tolist(), strict=True)]
        return self._series(series.name, cells, series)

    def _series(self, name: str, cells: Sequence[Any], like: Any) -> Any:
        """A column of the type of another if that holds the cells, else of their own type."""
        nw, native = self._nw, like.to_native()
        makers: list[Callable[[], Any]]
        if nw.dependencies.is_pyarrow_chunked_array(native):
            arrow = require("pyarrow")

            def make(arrow_type: Any = None) -> Any:
                array = arrow.array(cells, type=arrow_type)
                return nw.from_native(arrow.chunked_array([array]), series_only=True).alias(name)

            makers = [lambda: make(native.type), make]
        else:
            makers = [
                lambda: nw.new_series(name, cells, like.dtype, backend=like.implementation),
                lambda: nw.new_series(name, cells, backend=like.implementation),
            ]
        for make_series in makers[int(like.dtype.is_integer() and _has_fractions(cells)) :]:
            try:
                return make_series()
            except Exception:  # each library has errors of its own for a value of another type
                continue
        raise InputError(f"{SOURCE}, column {name!r}: it would have cells of several kinds; convert it to text")

    def made(self, columns: Mapping[str, Sequence[Cell] | Array], *, like: bool = False) -> Any:
        """See `Frame.made`."""
        nw, implementation = self._nw, self._frame.implementation
        series, own = [], list(self._frame.iter_columns())
        for name, cells in columns.items():
            if like and self._typed:
                assert self.names is not None, "a frame has names"
                position = self.names.index(name.strip())
                series.append(self._like(own[position], [self._converters[position](cell) for cell in cells]))
            else:
                values = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
                is_real = isinstance(cells, np.ndarray) or (values and isinstance(values[0], float))
                dtype = nw.Float64 if is_real else None
                series.append(nw.new_series(name, values, dtype, backend=implementation))
        result = series[0].to_frame().with_columns(*series[1:]).to_native()
        if not like and nw.dependencies.is_pandas_like_dataframe(result):
            result.index = self._frame.to_native().index
        return result

    def template(self) -> Frame:
        """See `Frame.template`."""
        empty = copy.copy(self)
        empty._frame, empty._cells, empty.num_rows = self._frame[:0], [[] for _ in self._keys], 0
        return empty

    def _like(self, column: Any, values: Sequence[Any]) -> Any:
        """Values as a column of the type of one of this frame."""
        nw, native = self._nw, column.to_native()
        if nw.dependencies.is_pandas_like_series(native):
            return nw.from_native(
                _replaced_in_pandas(_blank_in_pandas(native, len(values)), np.ones(len(values), dtype=bool), values),
                series_only=True,
            )
        return self._series(column.name, values, column)


def _as_category(categories: Mapping[str, Any], cell: Cell) -> Any:
    """A cell of a model as the category of its column, such as 0.5 for "0.5"."""
    return categories.get(str(cell), cell)


def _has_fractions(values: Sequence[Any]) -> bool:
    """Whether integers cannot hold the values."""
    return any(isinstance(value, float) and not value.is_integer() for value in values)


def _replaced_in_pandas(series: Any, mask: Array, values: Sequence[Any]) -> Any:
    """A series of pandas with some cells replaced: of its type, else of objects; categories that lack are added."""
    series = series.copy()
    if not len(values):
        return series
    if hasattr(series.dtype, "categories"):
        lacking = [value for value in dict.fromkeys(values) if value not in series.cat.categories]
        series = series.cat.add_categories(lacking) if lacking else series
    try:
        if getattr(series.dtype, "kind", "O") in "iu" and _has_fractions(values):
            series = series.astype(float)
        is_narrow = isinstance(series.dtype, np.dtype) and series.dtype.kind in "iu"  # takes arrays, and no lists
        series.iloc[np.flatnonzero(mask)] = np.asarray(values) if is_narrow else list(values)
    except (TypeError, ValueError):
        series = series.astype(object)
        series.iloc[np.flatnonzero(mask)] = list(values)
    return series


def _blank_in_pandas(series: Any, num_rows: int) -> Any:
    """A series of the name and type of another; its cells are missing, or 0 in types that have no missing cell."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biu":
        return type(series)(np.zeros(num_rows, dtype=series.dtype), name=series.name)
    return series.iloc[:0].reset_index(drop=True).reindex(range(num_rows))


def empty_frame(library: Any, names: Sequence[str]) -> Frame:
    """A table of a library without rows, of no types."""
    import narwhals.stable.v2 as nw

    return LibraryFrame(nw.from_dict({name: [] for name in names}, backend=library), typed=False)
