"""Categorical input layers of ordered states: probabilities start from data, and near states move together.

A pixel of 256 values has too few rows for each value and unit to be learned alone. Here the logits of a unit are
`m + W K`. m are the logarithms of the variable's smoothed shares of values. W `(units, states)` is learned, from small
normal draws. K is a constant kernel, a sum of bumps of several widths and one weight. So a step by one value moves its
neighbours too. The first and the last value move alone: they collect what is darker or brighter than an image can show.

Source: the kernel is one for densities of ordered categories, as of Aitchison and Aitken, "Multivariate binary
discrimination by the kernel method", 1976; here it acts on logits in place of probabilities.

>>> import numpy as np
>>> from plica.symbolic.scope import Scope
>>> rows = np.array([[0, 3], [1, 4], [2, 4]])
>>> smooth_categorical(rows, 5)(Scope([1]), 8)
CategoricalLayer(scope={1}, 8)
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.errors import InputError, ShapeError
from plica.symbolic.domains import finite
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import CategoricalLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    LogSoftmaxParameter,
    MatMulParameter,
    Parameter,
    ReferenceParameter,
    SumParameter,
    TensorParameter,
)
from plica.symbolic.scope import Scope
from plica.templates.inputs import check_rows
from plica.templates.parameterization import InputFactory

Array: TypeAlias = NDArray[Any]

_MOST_STATES = 4096  # of a variable, whose kernel is a table of each pair
_ALONE = 0.1  # the part of a step that stays with its value
_RATIO = 3  # of the width of a bump to that of the one before, whose first is 1
_WIDEST = 0.2  # of a bump, as a part of the number of states
_SPREAD = 0.3  # of the first numbers of W
_PSEUDOCOUNT = 50.0  # imaginary rows of each variable, distributed as all variables are


def smooth_categorical(rows: Array, num_states: int) -> InputFactory:
    """The function from a scope of one variable and a number of units to its layer.

    Args:
        rows: `(N, D)` states of variables of one kind, such as pixels; NaN is missing. Their shares are where units
            start.
        num_states: The number of states of each variable.

    Raises:
        InputError: There are no states or more than 4,096, or a value is none of them.
        ShapeError: Rows have another shape.
    """
    if not 0 < num_states <= _MOST_STATES:
        raise InputError(
            f"smooth_categorical: found {num_states} states, expected 1 to {_MOST_STATES}, since each pair has a "
            "number; take a categorical input, or a density"
        )
    rows = np.asarray(rows)
    if rows.ndim != 2:
        raise ShapeError(f"smooth_categorical: expected rows of shape (N, D), found {rows.shape}")
    check_rows("smooth_categorical", rows, [finite(num_states)] * rows.shape[1])
    everywhere = _counts(rows, num_states) + 1.0
    everywhere /= everywhere.sum()
    inside = everywhere[1:-1] / max(float(everywhere[1:-1].sum()), np.finfo(np.float64).tiny)
    shared = ConstantParameter(num_states, num_states, value=kernel(num_states))
    is_shared: list[bool] = []

    def factory(scope: Scope, units: int) -> CategoricalLayer:
        (variable,) = scope
        shares = _counts(rows[:, variable], num_states) + _PSEUDOCOUNT * everywhere
        shares[1:-1] = inside * shares[1:-1].sum()  # how often it is inside is its own, where inside that of all
        start = ConstantParameter(1, num_states, value=np.log(shares / shares.sum())[None])
        moved = TensorParameter(units, num_states, initializer=NormalInitializer(0.0, _SPREAD))
        matrix = ReferenceParameter(shared) if is_shared else shared
        is_shared.append(True)
        shape = (units, num_states)
        logits = Parameter.from_binary(
            SumParameter(shape, shape),
            Parameter.from_binary(MatMulParameter(shape, matrix.shape), moved, matrix),
            Parameter.from_binary(
                MatMulParameter((units, 1), start.shape), ConstantParameter(units, 1, value=1.0), start
            ),
        )
        normalized = Parameter.from_unary(LogSoftmaxParameter(shape), logits)
        return CategoricalLayer(scope, units, num_categories=num_states, logits=normalized)

    return factory


def kernel(num_states: int) -> Array:
    """How far a step by one state moves each other: `(num_states, num_states)`.

    >>> kernel(5).round(2)
    array([[1.  , 0.  , 0.  , 0.  , 0.  ],
           [0.  , 0.5 , 0.24, 0.05, 0.  ],
           [0.  , 0.24, 0.5 , 0.24, 0.  ],
           [0.  , 0.05, 0.24, 0.5 , 0.  ],
           [0.  , 0.  , 0.  , 0.  , 1.  ]])
    """
    states = np.arange(num_states)
    distance = states[:, None] - states
    matrix = _ALONE * np.eye(num_states)
    width = 1
    while width <= _WIDEST * num_states:
        bump = np.exp(-0.5 * (distance / width) ** 2)
        matrix += bump / bump.sum(axis=1).max()  # however wide, it moves as much: a step of Adam stays a step
        width *= _RATIO
    for end in {0, num_states - 1}:
        matrix[end, :] = matrix[:, end] = 0.0
        matrix[end, end] = 1.0
    return matrix


def _counts(values: Array, num_states: int) -> Array:
    """How many of some values are each state."""
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return np.bincount(known.astype(np.int64).ravel(), minlength=num_states).astype(np.float64)
