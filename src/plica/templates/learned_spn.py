"""Sum-product networks learned from data: columns that are independent are multiplied, clusters of rows are summed.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> rows = np.stack([rng.integers(2, size=400), rng.normal(size=400)], axis=1)  # two independent columns
>>> learn_spn(rows, input_layers=[{"name": "bernoulli"}, {"name": "gaussian"}])
Circuit(3 layers, 2 variables, 1 output(s) of 1 unit(s))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from plica.arguments import integer, number
from plica.arguments import seed as checked_seed
from plica.errors import InputError
from plica.extras import require
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import DISTRIBUTIONS, HadamardLayer, InputLayer, Layer, SumLayer
from plica.symbolic.parameters import Parameter, SoftmaxParameter, TensorParameter
from plica.symbolic.scope import Scope
from plica.templates.fitted import fitted_layer
from plica.templates.inputs import InputSetting, InputSettings, check_rows, column_factories
from plica.templates.mutual_information import Codes, is_dependent, table

Array: TypeAlias = NDArray[Any]

_MIDDLE = (1 / 6, 5 / 6)  # where the imaginary rows of densities lie: the ends of the middle two thirds of a column
_MOST_INDICATORS = 64  # of a column of states in the distance between rows; with more, a column counts as a number


def learn_spn(
    data: Any,
    *,
    input_layers: InputSettings,
    min_rows: int = 50,
    num_clusters: int = 2,
    significance: float = 0.001,
    pseudocount: float = 1.0,
    num_bins: int | None = None,
    seed: int = 0,
) -> Circuit:
    """The circuit that splits columns by tests of independence, and rows by clustering, until few rows are left.

    A set of rows is split into the sets of columns that depend on each other, by the G-test of each pair. If there is
    one such set, k-means splits the rows. Each layer has one unit: weights start from the numbers of rows, input layers
    from their rows. `plica.learn.grow` gives each layer more units.

    Args:
        data: `(N, D)` rows; NaN is missing. A test takes the rows that know both columns; clusters have means in place
            of missing values.
        input_layers: The input layer of each column, or one for all, as of `tabular_data`.
        min_rows: With fewer rows, columns are taken as independent.
        num_clusters: The number of clusters of a split of rows.
        significance: How often independent columns are taken as dependent, by each test.
        pseudocount: A number of imaginary rows. They spread evenly over the values of a column of states; densities
            have so many at each end of the middle two thirds of their column.
        num_bins: The most bins of real numbers in tests, as of `hclt`.
        seed: The seed of the clusters.

    Raises:
        InputError: A name is not known, a layer does not take a value of its column, or a number is out of range.
        ShapeError: The data is no table, or there are not as many input layers as columns.
        MissingExtraError: scikit-learn is not installed.

    Source: Gens and Domingos, "Learning the structure of sum-product networks", ICML 2013.
    """
    name = "learn_spn"
    rows = table(name, data)
    if not 0 < number(name, "significance", significance) < 1:
        raise InputError(f"{name}: significance must lie between 0 and 1, found {significance}; 0.001 is usual")
    if not 0 <= number(name, "pseudocount", pseudocount) < math.inf:
        raise InputError(f"{name}: pseudocount must be at least 0 and finite, found {pseudocount}; 1 is usual")
    columns = rows.shape[1]
    layers = [factory(Scope([v]), 1) for v, factory in enumerate(column_factories(name, input_layers, columns, rows))]
    check_rows(name, rows, [layer.domain for layer in layers])
    settings = [input_layers] * columns if callable(input_layers) or isinstance(input_layers, Mapping) else input_layers
    learner = _Learner(
        rows,
        [_settled(setting, layer) for setting, layer in zip(settings, layers, strict=True)],
        [layer.domain.num_states for layer in layers],
        integer(name, "min_rows", min_rows, least=1),
        integer(name, "num_clusters", num_clusters, least=2),
        significance,
        pseudocount,
        num_bins,
        checked_seed(name, seed),
    )
    return learner.circuit()


def _settled(setting: InputSetting, layer: InputLayer) -> InputSetting:
    """The setting of a column with what follows from all of its rows, such as the number of categories."""
    if callable(setting):
        return setting
    distribution = DISTRIBUTIONS[setting["name"]]
    follows = {} if distribution.settings is None else {key: layer.config[key] for key in distribution.settings(1)}
    return {**setting, "args": {**follows, **(setting.get("args") or {})}}


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some rows and columns of the data, and whether rows were split last."""

    rows: Array
    columns: Array
    is_cluster: bool = False


@final
@dataclass(slots=True, eq=False)
class _Learner:
    """Splits parts of the data; a stack of parts stands in for recursion."""

    rows: Array
    settings: Sequence[InputSetting]
    num_states: Sequence[int | None]
    min_rows: int
    num_clusters: int
    significance: float
    pseudocount: float
    num_bins: int | None
    seed: int
    layers: dict[Layer, list[Layer]] = field(default_factory=dict)

    def circuit(self) -> Circuit:
        """The circuit of all rows and columns."""
        parts = [_Part(np.arange(len(self.rows)), np.arange(self.rows.shape[1]))]
        below: list[range] = []  # for each part, the numbers of those that it splits into
        for part in parts:  # grows while it is read
            split = self._split(part)
            below.append(range(len(parts), len(parts) + len(split)))
            parts += split
        images: dict[int, Layer] = {}
        for place in reversed(range(len(parts))):
            inputs = [images[child] for child in below[place]]
            images[place] = self._layer(parts[place], [parts[child] for child in below[place]], inputs)
        return Circuit(self.layers, self.layers, [images[0]])

    def _split(self, part: _Part) -> list[_Part]:
        """The parts that a part splits into: columns, or clusters of rows; none for a single column."""
        if len(part.columns) == 1:
            return []
        alone = [_Part(part.rows, part.columns[[v]]) for v in range(len(part.columns))]
        if len(part.rows) < self.min_rows:
            return alone
        components = self._components(part)
        if len(components) > 1:
            return [_Part(part.rows, part.columns[component]) for component in components]
        clusters = self._clusters(part)
        return [_Part(part.rows[cluster], part.columns, True) for cluster in clusters] if len(clusters) > 1 else alone

    def _components(self, part: _Part) -> list[Array]:
        """The sets of columns that depend on each other, by way of others or not."""
        from scipy.sparse.csgraph import connected_components

        states = [self.num_states[column] for column in part.columns]
        codes = Codes.of_columns("learn_spn", self.rows[np.ix_(part.rows, part.columns)], states, self.num_bins)
        count, labels = connected_components(is_dependent(codes, self.significance), directed=False)
        return [np.flatnonzero(labels == label) for label in range(count)]

    def _clusters(self, part: _Part) -> list[Array]:
        """The rows of each cluster, by their places in the part."""
        cluster = require("sklearn.cluster")
        features = self._features(part)
        distinct = len(np.unique(features, axis=0))
        if distinct < 2:
            return [np.arange(len(part.rows))]
        kmeans = cluster.KMeans(min(self.num_clusters, distinct), n_init=3, random_state=self.seed)
        labels = kmeans.fit_predict(features)
        return [members for label in range(self.num_clusters) if len(members := np.flatnonzero(labels == label))]

    def _features(self, part: _Part) -> Array:
        """Rows as vectors of equally wide columns: indicators of states, and numbers in units of their spread."""
        features = []
        for column in part.columns:
            values, states = self.rows[part.rows, column], self.num_states[column]
            known = ~np.isnan(values)
            if states is not None and states <= _MOST_INDICATORS:
                block = (values[:, None] == np.arange(states)).astype(np.float64)
            else:
                lowest, highest = (float(f(values, where=known, initial=0.0)) for f in (np.min, np.max))
                scale = max(-lowest, highest, 1.0)
                block = np.where(known, values / scale, 0.0)[:, None]
            mean = block[known].mean(axis=0) if known.any() else np.zeros(block.shape[1])
            block = np.where(known[:, None], block - mean, 0.0)
            spread = math.sqrt(float((block**2).sum()) / max(int(known.sum()), 1))
            features.append(block / spread if spread > 1e-12 else np.zeros_like(block))
        return np.concatenate(features, axis=1)

    def _layer(self, part: _Part, below: Sequence[_Part], inputs: list[Layer]) -> Layer:
        """Add the layer of a part, which reads those of the parts it splits into."""
        if not below:
            (column,) = part.columns.tolist()
            layer: Layer = self._input(column, self.rows[part.rows, column])
        elif below[0].is_cluster:
            counts = np.array([[len(cluster.rows) for cluster in below]], dtype=np.float64)
            logits = TensorParameter(
                *counts.shape, initializer=ConstantTensorInitializer(np.log(counts / counts.sum()))
            )
            weight = Parameter.from_unary(SoftmaxParameter(counts.shape), logits)
            layer = SumLayer(1, 1, len(below), weight)
        else:
            layer = HadamardLayer(1, len(below))
        self.layers[layer] = inputs
        return layer

    def _input(self, column: int, values: Array) -> InputLayer:
        """The input layer of a column, fitted to some of its rows."""
        whole = self.rows[:, column]
        whole = whole[~np.isnan(whole)]
        around = np.quantile(whole, _MIDDLE, method="nearest") if whole.size else whole
        imaginary = np.repeat(around, math.ceil(self.pseudocount))
        (factory,) = column_factories(
            "learn_spn", [self.settings[column]], 1, np.concatenate([values, imaginary])[:, None]
        )
        return fitted_layer(factory(Scope([column]), 1), values, self.pseudocount)
