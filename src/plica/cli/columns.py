"""The columns of a data set before training: where their values lie, and whether the weights' dtype can hold them."""

import numpy as np

from plica.files.datasets import Dataset
from plica.files.tables import Array
from plica.symbolic.layers import Column


def describe_columns(data: Dataset, dtype: str) -> list[Column]:
    """Mean and spread of each column of the training rows.

    Args:
        data: The data set.
        dtype: The dtype of weights, in which densities read the data.

    Raises:
        InputError: `dtype` cannot hold the values of a column, or not what they differ by.
    """
    names = [f"{place} (counted from 0)" for place in range(data.num_variables)]
    if data.encoding is not None:
        names = [repr(one.name) for one in data.encoding.modelled]
    return [
        _describe(f"{data.name}: the values of column {name}", _present(data.train[:, place]), dtype)
        for place, name in enumerate(names)
    ]


def _present(values: Array) -> Array:
    """The values that are not missing; 0 where all are."""
    found = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return found if len(found) else np.zeros(1)


def _describe(where: str, values: Array, dtype: str) -> Column:
    column = Column.of(values)
    column.check(where, dtype, "rescale them" if dtype == "float64" else "rescale them or train with --dtype float64")
    return column
