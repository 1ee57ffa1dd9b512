"""Describes the columns of a data set before training, and checks that the weights' dtype can hold their values."""

import json

import numpy as np

from plica.files.datasets import Dataset
from plica.files.encoding import Encoding
from plica.files.kinds import KINDS
from plica.files.tables import Array
from plica.symbolic.layers import Column

_SHOWN = 12  # columns of a kind that are named
_KINDS = ", ".join([*KINDS, "ignored"])


def describe_columns(data: Dataset, dtype: str) -> list[Column]:
    """Mean and spread of each column of the training rows.

    Args:
        data: The data set.
        dtype: The dtype of weights, in which densities read the data.

    Raises:
        InputError: `dtype` cannot hold the values of a column, or cannot tell them apart.
    """
    names = [f"{position} (counted from 0)" for position in range(data.num_variables)]
    if data.encoding is not None:
        names = [repr(column.name) for column in data.encoding.modelled]
    return [
        _describe(f"{data.name}: the values of column {name}", _present(data.train[:, variable]), dtype)
        for variable, name in enumerate(names)
    ]


def show_kinds(encoding: Encoding) -> str:
    """One line for each kind of columns, one for each reason to ignore columns, and one on how to change them."""
    groups: dict[str, list[str]] = {}
    for column in encoding.columns:
        why, _, detail = column.why.partition(": ")
        description = f"ignored, {why}" if why else column.kind
        shown = column.format or detail
        groups.setdefault(description, []).append(f"{column.name} ({shown})" if shown else column.name)
    lines = []
    for description, names in groups.items():
        more = f", ... ({len(names):,} columns)" if len(names) > _SHOWN else ""
        lines.append(f"  {description}: {', '.join(names[:_SHOWN])}{more}")
    example = json.dumps({encoding.columns[0].name: "categorical"}, ensure_ascii=False)
    return "\n".join(["columns:", *lines, f"  to change one: --columns FILE, a file with {example}; kinds: {_KINDS}"])


def _present(values: Array) -> Array:
    """The values that are not missing, or a single 0 if all are."""
    present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return present if len(present) else np.zeros(1)


def _describe(where: str, values: Array, dtype: str) -> Column:
    column = Column.of(values)
    column.check(where, dtype, "rescale them" if dtype == "float64" else "rescale them or train with --dtype float64")
    return column
