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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.arguments import is_count, shown
from plica.arguments import seed as checked_seed
from plica.errors import InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    HadamardLayer,
    Layer,
    MultivariateGaussianLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, LogSoftmaxParameter, Parameter, SoftmaxParameter
from plica.templates.averages import average_of
from plica.templates.clusters import cluster_labels
from plica.templates.fitted import ColumnStart, tensor
from plica.templates.inputs import InputSettings, check_rows, each_setting
from plica.templates.mutual_information import table

Array: TypeAlias = NDArray[Any]

_OWN_CLUSTER = 0.9  # of a row belongs to its cluster at the start, the rest evenly to all
_ROWS_PER_COMPONENT = 6  # of a class
_PSEUDOCOUNT = 1.0  # imaginary rows of each component at the start


def normal_mixtures(
    data: Any,
    vectors: Sequence[int],
    *,
    members: Sequence[int] = (2,),
    input_layers: InputSettings | None = None,
    steps: Sequence[float] | None = None,
    logs: Sequence[bool] | None = None,
    target: int | None = None,
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
        steps: The distance of the values of each column of `vectors`, as of `MultivariateGaussianLayer`; of a column on
            a logarithmic scale too, where it is divided by the geometric mean.
        logs: Whether each column of `vectors` is on a logarithmic scale; None if none is. The mixture of the fewest
            components, the first of several such, has the plain scale of all columns: so numbers of 0 and below keep a
            probability. One mixture alone has the plain scale.
        target: A column of states, the classes: each component belongs to one of them for good, and `members` are
            numbers of components of each class, less for a class of fewer than six rows for each.
        seed: The seed of the clusters.

    Returns:
        A sum with equal weights, which are not learned, over a mixture for each member. Learned by
        `FullEM(apart=True)`, each mixture learns all rows.

    Raises:
        ShapeError: No member or no vector, a mixture without components, or another number of settings, steps or logs
            than of columns.
        InputError: A column of `vectors` is none of the data's or occurs twice, a layer does not take a value, or the
            target is none of the other columns or has no states.
        MissingExtraError: scikit-learn is not installed.

    Source: Ghahramani and Jordan, "Supervised learning from incomplete data via an EM approach", 1994, for rows with
        holes; Everitt, "A finite mixture model for the clustering of mixed-mode data", 1988, for mixed columns;
        Ormoneit and Tresp, "Averaging, maximum penalized likelihood and Bayesian estimation for improving Gaussian
        mixture probability density estimates", 1998, for averages; Hastie and Tibshirani, "Discriminant analysis by
        Gaussian mixtures", 1996, for classes.
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
    if logs is not None and len(logs) != len(vectors):
        raise ShapeError(f"normal_mixtures: found {len(logs)} logs, expected one for each of {len(vectors)} vectors")
    of_column = dict(zip(vectors, [0.0] * len(vectors) if steps is None else steps, strict=True))
    is_log = dict(zip(vectors, [False] * len(vectors) if logs is None else logs, strict=True))
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
    scales = [_Normals(rows, numbers, of_column, dict.fromkeys(numbers, False))]
    if any(is_log.values()) and len(members) > 1:
        scales.append(_Normals(rows, numbers, of_column, is_log))
    plain = min(range(len(members)), key=members.__getitem__)
    classes, num_classes = np.zeros(len(rows), np.int64), 1
    if target is not None:
        starts = [start for start in starts if start.column != target]
        classes, num_classes = _classes(rows, states, target), int(states[target] or 0)
    first = checked_seed("normal_mixtures", seed)
    terms = []
    for number, units in enumerate(map(int, members)):
        least_rows = 1 if target is None else _ROWS_PER_COMPONENT
        normals = scales[0] if number == plain else scales[-1]
        clusters = _Clusters.of(normals.rows, states, classes, units, least_rows, first + number)
        known = [] if target is None else [_class_layer(target, num_classes, clusters, classes)]
        terms.append(_add_mixture(layers, normals, starts, clusters, known))
    return average_of(layers, terms)


def _classes(rows: Array, states: Sequence[int | None], target: int) -> Array:
    """The class of each row, -1 where it is missing.

    Raises:
        InputError: The target is no column of states, or none of its cells is known.
    """
    if not 0 <= target < len(states) or states[target] is None:
        of_states = [column for column, number in enumerate(states) if number is not None]
        raise InputError(
            f"normal_mixtures: target={target} must be a column of states and none of the vectors; such columns are "
            f"{shown(of_states)}"
        )
    known = np.isfinite(rows[:, target])
    if not known.any():
        raise InputError(f"normal_mixtures: the target, column {target}, has no known cell, expected one or more")
    return np.where(known, rows[:, target], -1.0).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Clusters:
    """The cluster of each row, within its class.

    Args:
        labels: `(N,)`; -1 for a row of no known class.
        classes: `(K,)`, the class of each cluster.
    """

    labels: Array
    classes: Array

    @staticmethod
    def of(
        rows: Array, states: Sequence[int | None], classes: Array, units: int, least_rows: int, seed: int
    ) -> _Clusters:
        """At most `units` clusters of each class that has rows, of `least_rows` rows each on average."""
        labels, of_cluster = np.full(len(rows), -1), np.zeros(0, np.int64)
        for number in np.unique(classes[classes >= 0]):
            members = np.flatnonzero(classes == number)
            count = min(units, max(1, len(members) // least_rows))
            labels[members] = len(of_cluster)
            if count > 1:
                labels[members] += cluster_labels(rows[members], states, count, seed)
            of_cluster = np.concatenate([of_cluster, np.full(count, number)])
        return _Clusters(labels, of_cluster)

    @property
    def shares(self) -> Array:
        """The share of each row in the clusters of its class, `(N, K)`; 0 for a row of no known class."""
        known = self.labels >= 0
        same = self.classes[self.labels][:, None] == self.classes
        evenly = same / same.sum(axis=1, keepdims=True)
        own = np.eye(len(self.classes))[self.labels]
        shares: Array = (_OWN_CLUSTER * own + (1.0 - _OWN_CLUSTER) * evenly) * known[:, None]
        return shares


def _class_layer(target: int, num_classes: int, clusters: _Clusters, classes: Array) -> CategoricalLayer:
    """The class of each component, but for an imaginary row of any class; it is not learned."""
    number = int((classes >= 0).sum())
    shares = (number * np.eye(num_classes)[clusters.classes] + 1.0 / num_classes) / (number + 1.0)
    logits = Parameter.from_unary(
        LogSoftmaxParameter(shares.shape), ConstantParameter(*shares.shape, value=np.log(shares))
    )
    return CategoricalLayer([target], len(shares), num_categories=num_classes, logits=logits)


def _add_mixture(
    layers: dict[Layer, list[Layer]],
    normals: _Normals,
    starts: Sequence[ColumnStart],
    clusters: _Clusters,
    known: Sequence[Layer],
) -> Layer:
    """Add the layers of a mixture, with the layers of columns that it need not learn; returns its sum."""
    shares, units = clusters.shares, len(clusters.classes)
    rows = np.flatnonzero(clusters.labels >= 0)
    inputs: list[Layer] = [normals.layer(shares), *known]
    inputs += [start.layer(rows, clusters.labels[rows], units) for start in starts]
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
        table: `(N, D)`; NaN is missing.
        scope: V columns in ascending order.
        steps: The distance of the values of each.
        logs: Whether each is on a logarithmic scale.

    Attributes:
        rows: `(N, D)` with logarithms of the columns that are; numbers without one are missing.
    """

    def __init__(
        self, table: Array, scope: Sequence[int], steps: Mapping[int, float], logs: Mapping[int, bool]
    ) -> None:
        self.rows = table.copy()
        for column in scope:
            if logs[column]:
                cells = table[:, column]
                has_log = (cells > 0) & np.isfinite(cells)
                self.rows[:, column] = np.where(has_log, np.log(np.where(has_log, cells, 1.0)), np.nan)
        rows = self.rows[:, scope]
        known = np.isfinite(rows)
        number = np.maximum(known.sum(axis=0), 1)
        self._mean = np.where(known, rows, 0.0).sum(axis=0) / number
        varies = np.where(known, rows, np.inf).min(axis=0) < np.where(known, rows, -np.inf).max(axis=0)
        self._centred = np.where(known & varies, rows - self._mean, 0.0)  # what is missing lies at the mean
        variance = (self._centred**2).sum(axis=0) / number
        self._missing = (~known) * np.where(known.any(axis=0), variance, 1.0)
        self._scope, self._logs = scope, [logs[column] for column in scope]
        self._steps = [  # the derivative of log x is 1 / x
            steps[column] / np.exp(mean) if logs[column] else steps[column]
            for column, mean in zip(scope, self._mean, strict=True)
        ]

    def layer(self, shares: Array) -> MultivariateGaussianLayer:
        """The layer whose units are most likely for rows of which each has `shares (N, K)` of their own."""
        products = np.einsum("nk,ni,nj->kij", shares, self._centred, self._centred, optimize=True)
        products += np.einsum("nk,ni->ki", shares, self._missing)[:, None] * np.eye(len(self._scope))
        statistics = {"count": shares.sum(axis=0), "sum": shares.T @ self._centred, "products": products}
        layer = MultivariateGaussianLayer(self._scope, shares.shape[1], steps=self._steps, logs=self._logs)
        form: Any = LAYER_ROWS[MultivariateGaussianLayer].closed_form  # type: ignore[union-attr]  # an input layer
        best = form.maximum(np, layer, {name: array[None] for name, array in statistics.items()}, _PSEUDOCOUNT)
        params = {"mean": best["mean"][0] + self._mean, "scale_tril": best["scale_tril"][0]}
        return layer.with_params({name: Parameter.from_input(tensor(value)) for name, value in params.items()})
