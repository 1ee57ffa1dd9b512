"""Sum-product networks learned from data: columns that are independent are multiplied, clusters of rows are summed.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> rows = np.stack([rng.integers(2, size=400), rng.normal(size=400)], axis=1)  # two independent columns
>>> learn_spn(rows, input_layers=[{"name": "bernoulli"}, {"name": "gaussian"}])
Circuit(3 layers, 2 variables, 1 output(s) of 1 unit(s))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from plica.arguments import integer, number
from plica.arguments import seed as checked_seed
from plica.errors import InputError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import Parameter, SoftmaxParameter
from plica.templates.clusters import cluster_labels
from plica.templates.fitted import ColumnStart, column_starts, tensor
from plica.templates.inputs import InputSettings
from plica.templates.mutual_information import Codes, is_dependent, table

Array: TypeAlias = NDArray[Any]


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
        pseudocount: A number of imaginary rows of each input layer. Those of a layer of states are distributed as the
            column is; densities have so many at each end of the middle two thirds of the column.
        num_bins: The most bins of real numbers in tests, as of `hclt`.
        seed: The seed of the clusters.

    Raises:
        InputError: A name is not known, a layer does not take a value of its column, or a number is out of range.
        ShapeError: The data is no table, or there are not as many input layers as columns.

    Source: Gens and Domingos, "Learning the structure of sum-product networks", ICML 2013.
    """
    name = "learn_spn"
    rows = table(name, data)
    if not 0 < number(name, "significance", significance) < 1:
        raise InputError(f"{name}: significance must lie between 0 and 1, found {significance}; 0.001 is usual")
    if not 0 <= number(name, "pseudocount", pseudocount) < math.inf:
        raise InputError(f"{name}: pseudocount must be at least 0 and finite, found {pseudocount}; 1 is usual")
    starts = column_starts(name, input_layers, rows, pseudocount)
    learner = _Learner(
        rows,
        starts,
        [start.whole.domain.num_states for start in starts],
        integer(name, "min_rows", min_rows, least=1),
        integer(name, "num_clusters", num_clusters, least=2),
        significance,
        num_bins,
        checked_seed(name, seed),
    )
    return learner.circuit()


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
    starts: Sequence[ColumnStart]
    num_states: Sequence[int | None]
    min_rows: int
    num_clusters: int
    significance: float
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
        states = [self.num_states[column] for column in part.columns]
        rows = self.rows[np.ix_(part.rows, part.columns)]
        labels = cluster_labels(rows, states, self.num_clusters, self.seed)
        return [members for label in range(self.num_clusters) if len(members := np.flatnonzero(labels == label))]

    def _layer(self, part: _Part, below: Sequence[_Part], inputs: list[Layer]) -> Layer:
        """Add the layer of a part, which reads those of the parts it splits into."""
        if not below:
            (column,) = part.columns.tolist()
            layer: Layer = self.starts[column].layer(part.rows, np.zeros(len(part.rows), dtype=np.int64), 1)
        elif below[0].is_cluster:
            counts = np.array([[len(cluster.rows) for cluster in below]], dtype=np.float64)
            weight = Parameter.from_unary(SoftmaxParameter(counts.shape), tensor(np.log(counts / counts.sum())))
            layer = SumLayer(1, 1, len(below), weight)
        else:
            layer = HadamardLayer(1, len(below))
        self.layers[layer] = inputs
        return layer
