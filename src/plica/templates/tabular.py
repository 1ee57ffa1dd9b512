"""Builds circuits over the columns of tables, which may hold values of several kinds.

>>> coin, real = {"name": "categorical", "args": {"num_categories": 2}}, {"name": "gaussian"}
>>> circuit = tabular_data(num_features=3, input_layers=[coin, real, coin], num_input_units=4, sum_product_layer="cp",
...                        num_sum_units=4)
>>> [circuit.domains[column] for column in range(3)]
[Domain('2 states'), Domain('real numbers'), Domain('2 states')]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.arguments import is_count, known, shown
from plica.errors import InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import Domain
from plica.symbolic.layers import InputLayer
from plica.symbolic.scope import Scope
from plica.templates.inputs import InputSettings, check_rows, column_factories
from plica.templates.mutual_information import Codes, information_above_chance
from plica.templates.parameterization import Parameterization, sum_weight_factories
from plica.templates.region_graph import ChowLiuTree, FullyFactorized, LinearTree, RandomBinaryTree, RegionGraph
from plica.templates.region_graph.chow_liu import maximum_spanning_tree, tree_region_graph

TABULAR_REGION_GRAPHS: dict[str, Callable[[Table], RegionGraph]] = {
    "random-binary-tree": lambda table: RandomBinaryTree(len(table.domains)),
    "linear-tree": lambda table: LinearTree(len(table.domains)),
    "fully-factorized": lambda table: FullyFactorized(len(table.domains)),
    "chow-liu-tree": lambda table: _chow_liu_tree(table),
}


@dataclass(frozen=True, slots=True)
class Table:
    """The table that a region graph is made for.

    Args:
        domains: The domain of each column.
        rows: The data `(N, D)`; None if there is none.
    """

    domains: Sequence[Domain]
    rows: NDArray[Any] | None


def _chow_liu_tree(table: Table) -> RegionGraph:
    """The maximum spanning tree of the columns' mutual information.

    If all columns are categorical it is that of their states, if all are real that of Gaussians. Else real columns are
    counted in bins.
    """
    if table.rows is None:
        raise InputError("tabular_data: a chow-liu-tree is made from data; pass data, or choose another region graph")
    states = [domain.num_states for domain in table.domains]
    if all(count is not None for count in states):
        return ChowLiuTree(
            table.rows, "categorical", num_categories=max(count for count in states if count is not None)
        )
    if not any(domain.whole for domain in table.domains):
        return ChowLiuTree(table.rows, "gaussian")
    codes = Codes.of_columns("tabular_data", table.rows, states)
    return tree_region_graph(maximum_spanning_tree("tabular_data", information_above_chance(codes, pseudocount=1.0)))


def tabular_data(
    region_graph: str = "random-binary-tree",
    *,
    num_features: int | None = None,
    data: Any = None,
    input_layers: InputSettings,
    num_input_units: int,
    sum_product_layer: str,
    num_sum_units: int,
    num_classes: int = 1,
    sum_weight_param: Parameterization | None = None,
    use_mixing_weights: bool = True,
) -> Circuit:
    """A circuit over the columns of a table; variable `v` is column `v`.

    Args:
        region_graph: random-binary-tree, linear-tree, fully-factorized, or chow-liu-tree. The last needs data. It takes
            the columns' mutual information if all are counted, and their correlations if all are real. Else it counts
            real columns in bins, as `hclt` does.
        num_features: The number of columns; leave it out if `data` is given.
        data: Rows `(N, D)`, NaN where a value is missing. An input layer takes from its column the settings that it
            lacks: the number of values (from 0 to the largest), and the start of its densities.
        input_layers: `{"name": ..., "args": {...}}`, or a list of one for each column. The name is one of
            `plica.symbolic.layers.DISTRIBUTIONS`; the args are keywords of the layer, such as `num_categories`, or a
            `Parameterization` for each of its parameters, such as `logits`. A function from a scope and a number of
            units to an input layer stands for itself.
        num_input_units: The units of each input layer.
        sum_product_layer: cp, cp-t or tucker.
        num_sum_units: The units of each sum layer but the last.
        num_classes: The units of the output.
        sum_weight_param: How to make the weights of sums; softmax of normal draws by default.
        use_mixing_weights: Sum the partitions of a region unit by unit instead of all with all.

    Raises:
        InputError: A name or a setting is not known, `num_features` and `data` are both missing, or a layer does not
            take a value of its column.
        ShapeError: The data is no table, or there are not as many input layers as columns.
    """
    if not known(region_graph, TABULAR_REGION_GRAPHS):
        raise InputError(
            f"unknown region graph {shown(region_graph)}; expected one of {', '.join(TABULAR_REGION_GRAPHS)}"
        )
    rows = None if data is None else _rows(data)
    columns = _num_columns(num_features, rows)
    factories = column_factories("tabular_data", input_layers, columns, rows)

    def of_column(scope: Scope, units: int) -> InputLayer:
        (column,) = scope
        return factories[column](scope, units)

    weights, mixing = sum_weight_factories(sum_weight_param, use_mixing_weights=use_mixing_weights)
    domains = [factory(Scope([column]), 1).domain for column, factory in enumerate(factories)]
    if rows is not None:
        check_rows("tabular_data", rows, domains)
    return TABULAR_REGION_GRAPHS[region_graph](Table(domains, rows)).build_circuit(
        input_factory=of_column,
        sum_product=sum_product_layer,
        sum_weight_factory=weights,
        nary_sum_weight_factory=mixing,
        num_input_units=num_input_units,
        num_sum_units=num_sum_units,
        num_classes=num_classes,
    )


def _rows(data: Any) -> NDArray[Any]:
    """The data as numbers `(N, D)`."""
    rows = np.asarray(data)
    if np.iscomplexobj(rows):
        raise InputError("tabular_data: expected data of real numbers, found complex ones; give their parts as columns")
    if rows.ndim != 2 or 0 in rows.shape:
        raise ShapeError(f"tabular_data: expected data of shape (rows, columns), found {rows.shape}; give a table")
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"tabular_data: expected data of numbers, found {error}; encode other values first") from error


def _num_columns(num_features: int | None, rows: NDArray[Any] | None) -> int:
    """The number of columns, from the data or from `num_features`; refuses both if they differ."""
    if rows is None:
        if num_features is None:
            raise InputError("tabular_data: pass num_features, the number of columns, or data")
        if not is_count(num_features):
            raise ShapeError(f"tabular_data: expected at least one variable, found num_features={shown(num_features)}")
        return operator.index(num_features)
    if num_features is not None and not (is_count(num_features) and operator.index(num_features) == rows.shape[1]):
        raise ShapeError(
            f"tabular_data: expected {shown(num_features)} columns (num_features), found {rows.shape[1]} in the data; "
            "pass one of them"
        )
    return int(rows.shape[1])
