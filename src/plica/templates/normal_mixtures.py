"""Mixtures of normal vectors, for tables: all numbers of a row are one vector, other columns are independent beside it.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> rows = np.concatenate([rng.normal(size=(60, 2)), rng.integers(3, size=(60, 1))], axis=1)
>>> categories = {"name": "categorical", "args": {"num_categories": 3}}
>>> circuit = normal_mixtures(rows, [0, 1], members=(2, 5), input_layers=categories)
>>> circuit.num_variables, [layer.num_output_units for layer in circuit.sum_layers]
(3, [1, 1, 1])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.arguments import is_count, shown
from plica.arguments import seed as checked_seed
from plica.errors import InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, HadamardLayer, Layer, MultivariateGaussianLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, Parameter, SoftmaxParameter
from plica.templates.clusters import cluster_labels
from plica.templates.fitted import ColumnStart, tensor
from plica.templates.inputs import InputSettings, check_rows, each_setting
from plica.templates.mutual_information import table

Array: TypeAlias = NDArray[Any]

_OWN_CLUSTER = 0.9  # of a row belongs to its cluster at the start, the rest evenly to all
_PSEUDOCOUNT = 1.0  # imaginary rows of each component at the start


def normal_mixtures(
    data: Any,
    vectors: Sequence[int],
    *,
    members: Sequence[int] = (2,),
    input_layers: InputSettings | None = None,
    steps: Sequence[float] | None = None,
    seed: int = 0,
) -> Circuit:
    """The average of several mixtures, each of which starts from k-means clusters of its own.

    A component is a normal density of all columns of `vectors`, times a distribution of each other column. So a row's
    numbers say of each other what their covariances say, and categories say by which component the row is.

    Args:
        data: `(N, D)` rows, from which the components start; NaN is missing.
        vectors: The columns that are numbers, at least one.
        members: The number of components of each mixture.
        input_layers: The input layers of the other columns, as of `tabular_data`; one for all, or one for each of them
            in order.
        steps: The distance of the values of each column of `vectors`, as of `MultivariateGaussianLayer`.
        seed: The seed of the clusters.

    Returns:
        A sum with equal weights, which are not learned, over a mixture for each member. Learned by
        `FullEM(apart=True)`, each mixture learns all rows.

    Raises:
        ShapeError: No member or no vector, a mixture without components, or another number of settings than of columns.
        InputError: A column of `vectors` is none of the data's or occurs twice, or a layer does not take a value.
        MissingExtraError: scikit-learn is not installed.

    Source: Ghahramani and Jordan, "Supervised learning from incomplete data via an EM approach", 1994, for rows with
        holes; Everitt, "A finite mixture model for the clustering of mixed-mode data", 1988, for mixed columns;
        Ormoneit and Tresp, "Averaging, maximum penalized likelihood and Bayesian estimation for improving Gaussian
        mixture probability density estimates", 1998, for averages.
    """
    rows = table("normal_mixtures", data)
    if not len(members) or not all(map(is_count, members)):
        raise ShapeError(f"normal_mixtures: members are numbers of components, at least 1 each, found {shown(members)}")
    numbers = sorted(set(map(int, vectors)))
    if not numbers or len(numbers) < len(vectors) or not 0 <= numbers[0] <= numbers[-1] < rows.shape[1]:
        raise InputError(
            f"normal_mixtures: vectors are columns of the data's {rows.shape[1]}, each once and at least one, found "
            f"{shown(vectors)}"
        )
    if steps is not None and len(steps) != len(vectors):
        raise ShapeError(f"normal_mixtures: found {len(steps)} steps, expected one for each of {len(vectors)} vectors")
    of_column = dict(zip(vectors, [0.0] * len(vectors) if steps is None else steps, strict=True))
    others = [column for column in range(rows.shape[1]) if column not in of_column]
    settings = each_setting("normal_mixtures", input_layers or [], len(others))
    starts = [
        ColumnStart("normal_mixtures", column, setting, rows[:, column], _PSEUDOCOUNT)
        for column, setting in zip(others, settings, strict=True)
    ]
    check_rows("normal_mixtures", rows[:, others], [start.whole.domain for start in starts])
    layers: dict[Layer, list[Layer]] = {}
    states: list[int | None] = [None] * rows.shape[1]
    for start in starts:
        states[start.column] = start.whole.domain.num_states
    normals = _Normals(rows[:, numbers], numbers, tuple(of_column[column] for column in numbers))
    first = checked_seed("normal_mixtures", seed)
    terms = []
    for number, units in enumerate(map(int, members)):
        labels = cluster_labels(rows, states, units, first + number) if units > 1 else np.zeros(len(rows), np.int64)
        terms.append(_add_mixture(layers, normals, starts, labels, units))
    weight = Parameter.from_input(ConstantParameter(1, len(terms), value=1.0 / len(terms)))
    average = SumLayer(1, 1, len(terms), weight=weight)
    layers[average] = terms
    return Circuit(layers, layers, [average])


def _add_mixture(
    layers: dict[Layer, list[Layer]], normals: _Normals, starts: Sequence[ColumnStart], labels: Array, units: int
) -> Layer:
    """Add the layers of a mixture; returns its sum."""
    shares = _OWN_CLUSTER * np.eye(units)[labels] + (1.0 - _OWN_CLUSTER) / units
    inputs: list[Layer] = [normals.layer(shares)]
    inputs += [start.layer(np.arange(len(labels)), labels, units) for start in starts]
    layers |= {layer: [] for layer in inputs}
    component = inputs[0]
    if len(inputs) > 1:
        component = HadamardLayer(units, len(inputs))
        layers[component] = inputs
    logits = tensor(np.log((shares.sum(axis=0) + _PSEUDOCOUNT / units)[None]))
    mixture = SumLayer(units, 1, weight=Parameter.from_unary(SoftmaxParameter(logits.shape), logits))
    layers[mixture] = [component]
    return mixture


class _Normals:
    """Makes layers of normal vectors from the components of rows.

    Args:
        rows: `(N, V)`; NaN is missing.
        scope: V variables in ascending order.
        steps: The distance of the values of each.
    """

    def __init__(self, rows: Array, scope: Sequence[int], steps: Sequence[float]) -> None:
        known = np.isfinite(rows)
        number = np.maximum(known.sum(axis=0), 1)
        self._mean = np.where(known, rows, 0.0).sum(axis=0) / number
        self._centred = np.where(known, rows - self._mean, 0.0)  # what is missing lies at the mean
        variance = (self._centred**2).sum(axis=0) / number
        self._missing = (~known) * np.where(known.any(axis=0), variance, 1.0)
        self._scope, self._steps = scope, steps

    def layer(self, shares: Array) -> MultivariateGaussianLayer:
        """The layer whose units are most likely for rows of which each has `shares (N, K)` of their own."""
        products = np.einsum("nk,ni,nj->kij", shares, self._centred, self._centred, optimize=True)
        products += np.einsum("nk,ni->ki", shares, self._missing)[:, None] * np.eye(len(self._scope))
        statistics = {"count": shares.sum(axis=0), "sum": shares.T @ self._centred, "products": products}
        layer = MultivariateGaussianLayer(self._scope, shares.shape[1], steps=self._steps)
        form: Any = LAYER_ROWS[MultivariateGaussianLayer].closed_form  # type: ignore[union-attr]  # an input layer
        best = form.maximum(np, layer, {name: array[None] for name, array in statistics.items()}, _PSEUDOCOUNT)
        params = {"mean": best["mean"][0] + self._mean, "scale_tril": best["scale_tril"][0]}
        return layer.with_params({name: Parameter.from_input(tensor(value)) for name, value in params.items()})
