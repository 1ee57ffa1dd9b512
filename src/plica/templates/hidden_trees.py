"""Hidden Chow-Liu trees: a hidden state for each variable, which depends on that of its predecessor in a tree.

>>> import numpy as np
>>> flips = np.random.default_rng(0).integers(2, size=(100, 5))
>>> circuit = hclt(flips, num_latents=4)
>>> circuit.num_variables, circuit.is_structured_decomposable, len(circuit.sum_layers)
(5, True, 5)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.arguments import elements, flag, is_count, keywords, known, shown
from plica.arguments import seed as checked_seed
from plica.errors import InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import DISTRIBUTIONS, HadamardLayer, InputLayer, Layer, SumLayer
from plica.symbolic.parameters import Parameter, ParameterFactory, Shape, SoftmaxParameter
from plica.symbolic.scope import Scope
from plica.templates.clusters import cluster_labels
from plica.templates.fitted import column_starts, tensor
from plica.templates.inputs import InputSetting, InputSettings, check_rows, column_factories
from plica.templates.mutual_information import Codes, table
from plica.templates.neighbour_trees import information_tree
from plica.templates.parameterization import Parameterization, parameterization_to_factory
from plica.templates.region_graph.chow_liu import children_of, order_from_root

Array: TypeAlias = NDArray[Any]
Described: TypeAlias = Mapping[str, Parameterization]
"""How to make the parameters of an input layer, by name."""

_KEYWORDS = ("input_params", "input_layer_kwargs")


def hclt(
    data: Any,
    num_latents: int,
    *,
    input_layers: InputSettings | None = None,
    input_layer: str | Sequence[str] = "categorical",
    input_params: Described | Sequence[Described] | None = None,
    input_layer_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    weight_param: Parameterization | None = None,
    num_classes: int = 1,
    root: int | None = None,
    pseudocount: float = 1.0,
    num_bins: int | None = None,
    chunk_size: int | None = None,
    num_trees: int = 1,
    share_inputs: bool = False,
    start: str = "draws",
    seed: int = 0,
) -> Circuit:
    """A hidden Chow-Liu tree over the variables of data, or a mixture of several.

    Each variable x_v has a hidden state z_v of `num_latents` values. The z form the tree with the largest mutual
    information between the x. So p(x) is the sum over all z of the product of p(x_v | z_v) and p(z_v | z_predecessor).

    Mutual information is that of the rows that know both columns, less what independent columns would show by chance.
    Columns of states are counted value by value, others in bins of about as many rows each. Of more than 2,048 columns
    only pairs that look alike are measured, by 2,048 rows at most (`plica.templates.neighbour_trees`).

    Args:
        data: `(N, D)` rows, from which the tree and the numbers of values are taken; NaN is missing.
        num_latents: The number of hidden states of each variable.
        input_layers: The input layer of each column, or one for all, as of `tabular_data`: `{"name": ..., "args":
            {...}}`, or a function from a scope and a number of units to an input layer. The next three arguments are
            another way to say it.
        input_layer: One of `plica.symbolic.layers.DISTRIBUTIONS`, or a list that names one for each column.
        input_params: How to make parameters of the input layers, by name, such as `{"logits": Parameterization()}`; or
            a list with such a mapping for each column. Left out, they start where the data lies if the layer can.
        input_layer_kwargs: Settings of the input layers, such as `{"num_categories": 256}`, or a list of them. The data
            gives a missing number of values: by the largest value of a column, or of all columns if one name is given.
        weight_param: How to make the transitions, a row for each state of the predecessor; by default the softmax of
            normal draws.
        num_classes: The number of units of the output.
        root: The variable at the root; by default the centre of each tree.
        pseudocount: A number of imaginary rows, spread evenly over the joint values of a pair, when its mutual
            information is measured.
        num_bins: The most bins for real numbers when mutual information is measured; by default `sqrt(n / 5)` for n
            known rows of a column, 2 to 16.
        chunk_size: How many pairs of variables are counted at once.
        num_trees: The number of trees. The first is that of the data, each other one that of rows drawn from the data
            with replacement, but for a start from "clusters". A sum joins them at the root.
        share_inputs: Whether the trees share the input layer of each variable.
        start: How the circuit starts. "draws"; "data": state k of each variable is what the k-th k-means cluster of
            rows has there, and transitions mostly keep the state; "clusters": so too, but each tree is made of another
            cluster of rows, whose own clusters are its states, and for its structure of a tenth of the other rows.
        seed: The seed of the trees' rows, and of a start from data.

    Raises:
        InputError: A name is not known, or a distribution does not take a value of its column.
        ShapeError: The length of a list is not the number of columns, or there is no latent state or no tree.

    Source: Liu and Van den Broeck, "Tractable Regularization of Probabilistic Circuits", NeurIPS 2021;
        Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968;
        Meila and Jordan, "Learning with mixtures of trees", 2000; Breiman, "Bagging predictors", 1996.
    """
    rows = table("hclt", data)
    if not all(map(is_count, (num_latents, num_classes))):
        raise ShapeError(
            f"hclt: expected at least one latent state and one class, found num_latents={shown(num_latents)} and "
            f"num_classes={shown(num_classes)}"
        )
    num_latents, num_classes = int(num_latents), int(num_classes)
    if not is_count(num_trees):
        raise ShapeError(f"hclt: num_trees must be at least 1, found {shown(num_trees)}")
    if input_layers is None:
        described, settings = ({} if mapping is None else mapping for mapping in (input_params, input_layer_kwargs))
        input_layers = _settings(rows, input_layer, described, settings)
    elif input_layer != "categorical" or input_params is not None or input_layer_kwargs is not None:
        raise InputError(
            "hclt: input_layers and input_layer, input_params or input_layer_kwargs say the same in two ways; pass "
            "input_layers alone"
        )
    if not known(start, _STARTS):
        raise InputError(f"hclt: unknown start {shown(start)}; expected one of {', '.join(_STARTS)}")
    seed, shared = checked_seed("hclt", seed), flag("hclt", "share_inputs", share_inputs)
    make_inputs, states = _STARTS[start].inputs(rows, input_layers, num_latents)
    codes = Codes.of_columns("hclt", rows, states, num_bins)
    trees: list[Array] = []
    inputs_of_trees: list[list[InputLayer]] = []
    for number, of_tree in enumerate(_STARTS[start].rows_of_trees(rows, states, int(num_trees), seed)):
        tree = information_tree(
            "hclt",
            codes.of_rows(of_tree.structure),
            root,
            pseudocount=pseudocount,
            chunk_size=chunk_size,
            seed=seed + number,
        )
        trees.append(tree)
        inputs_of_trees.append(inputs_of_trees[0] if shared and number else make_inputs(seed + number, of_tree.start))
    weights = _weights(start, weight_param, num_latents, seed)
    return hidden_trees(trees, inputs_of_trees, num_classes=num_classes, weight_factory=weights)


def hidden_trees(
    trees: Sequence[Array],
    inputs: Sequence[Sequence[InputLayer]],
    *,
    num_classes: int = 1,
    weight_factory: ParameterFactory | None = None,
) -> Circuit:
    """The mixture of circuits of hidden states that form trees.

    Args:
        trees: For each tree `(D,)` the predecessor of each variable, and -1 for the root.
        inputs: For each tree the input layer of each variable; it has a unit for each hidden state. Trees may share
            layers.
        num_classes: The number of units of the output.
        weight_factory: Makes the transitions, and the weights of the mixture, which are those of the states at the
            roots; softmax of normal draws by default.
    """
    layers: dict[Layer, list[Layer]] = {}
    roots = [_add_tree(layers, *of_tree, weight_factory) for of_tree in zip(trees, inputs, strict=True)]
    output = SumLayer(roots[0].num_output_units, num_classes, len(roots), weight_factory=weight_factory)
    layers[output] = roots
    return Circuit(layers, layers, [output])


def _add_tree(
    layers: dict[Layer, list[Layer]], tree: Array, inputs: Sequence[InputLayer], weight_factory: ParameterFactory | None
) -> Layer:
    """Add the layers of a tree to those of a circuit; returns the one whose units are the states of its root."""
    children, order = children_of(tree), order_from_root(tree)
    messages: dict[int, Layer] = {}
    state: Layer = inputs[order[0]]
    for variable in reversed(order):
        state = inputs[variable]
        layers[state] = []
        if children[variable]:
            product = HadamardLayer(state.num_output_units, 1 + len(children[variable]))
            layers[product] = [state, *(messages[child] for child in children[variable])]
            state = product
        before = int(tree[variable])
        if before >= 0:
            message = SumLayer(state.num_output_units, inputs[before].num_output_units, weight_factory=weight_factory)
            layers[message], messages[variable] = [state], message
    return state


@dataclass(frozen=True, slots=True)
class _TreeRows:
    """The numbers of the rows of a tree: of those that its structure follows from, and of those that it starts from."""

    structure: Array
    start: Array


def _drawn_rows(rows: Array, states: Sequence[int | None], count: int, seed: int) -> list[_TreeRows]:  # noqa: ARG001
    """Rows drawn with replacement; the first tree has all."""
    rng, every = np.random.default_rng(seed), np.arange(len(rows))
    drawn = [every if number == 0 else rng.integers(len(rows), size=len(rows)) for number in range(count)]
    return [_TreeRows(chosen, every) for chosen in drawn]


def _clusters_of_rows(rows: Array, states: Sequence[int | None], count: int, seed: int) -> list[_TreeRows]:
    """The rows of each cluster; for the structure also every tenth of the others, so that no pair is unknown."""
    labels = cluster_labels(rows, states, count, seed)
    by_tree = []
    for label in range(count):
        members, others = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        by_tree.append(_TreeRows(np.concatenate([members, others[::_OTHERS]]), members))
    return by_tree


_OTHERS = 10
_Inputs: TypeAlias = Callable[[int, Array], list[InputLayer]]  # from a seed and the numbers of rows to start from


def _drawn(rows: Array, input_layers: InputSettings, units: int) -> tuple[_Inputs, list[int | None]]:
    """Makes input layers that start from draws; and the number of states of each column."""
    factories = column_factories("hclt", input_layers, rows.shape[1], rows)
    domains = [factory(Scope([v]), 1).domain for v, factory in enumerate(factories)]
    check_rows("hclt", rows, domains)
    return lambda _seed, _rows: [factory(Scope([v]), units) for v, factory in enumerate(factories)], [
        domain.num_states for domain in domains
    ]


def _clustered(rows: Array, input_layers: InputSettings, units: int) -> tuple[_Inputs, list[int | None]]:
    """Makes input layers whose units start from clusters of rows; and the number of states of each column."""
    starts = column_starts("hclt", input_layers, rows, _CLUSTER_PSEUDOCOUNT)
    states = [start.whole.domain.num_states for start in starts]

    def make(seed: int, of_tree: Array) -> list[InputLayer]:
        chosen = of_tree if len(of_tree) >= _LEAST_OF_STATE * units else np.arange(len(rows))
        if len(chosen) > _MOST_CLUSTERED:
            chosen = np.sort(np.random.default_rng(seed).choice(chosen, _MOST_CLUSTERED, replace=False))
        labels = cluster_labels(rows[chosen], states, units, seed)
        return [start.layer(chosen, labels, units) for start in starts]

    return make, states


_CLUSTER_PSEUDOCOUNT = 5.0  # imaginary rows of each cluster
_MOST_CLUSTERED = 10_000  # rows
_LEAST_OF_STATE = 5  # rows of a cluster for each state; a tree of fewer starts from all rows
_STAYING = 0.75  # the probability that a state keeps its number


@dataclass(frozen=True, slots=True)
class _Start:
    """How input layers start, and which rows each of several trees is made of."""

    inputs: Callable[[Array, InputSettings, int], tuple[_Inputs, list[int | None]]]
    rows_of_trees: Callable[[Array, Sequence[int | None], int, int], list[_TreeRows]] = _drawn_rows


_STARTS: Mapping[str, _Start] = {
    "draws": _Start(_drawn),
    "data": _Start(_clustered),
    "clusters": _Start(_clustered, _clusters_of_rows),
}


def _weights(start: str, described: Parameterization | None, states: int, seed: int) -> ParameterFactory:
    """Makes the transitions. From data, a state mostly keeps its number, as all variables of a row have one cluster."""
    if start == "draws":
        return parameterization_to_factory(Parameterization("normal", "softmax") if described is None else described)
    if described is not None:
        raise InputError("hclt: transitions that start from data have no weight_param; leave it out")
    rng = np.random.default_rng(seed)

    def factory(shape: Shape) -> Parameter:
        weight = np.full(shape, 1.0 / shape[1])
        if shape == (states, states):
            weight = _STAYING * np.eye(states) + (1.0 - _STAYING) * weight
        return Parameter.from_unary(SoftmaxParameter(shape), tensor(np.log(weight) + 0.1 * rng.normal(size=shape)))

    return factory


def _settings(rows: Array, names: Any, params: Any, given: Any) -> list[InputSetting]:
    """The setting of each column."""
    count = rows.shape[1]
    per_column = zip(
        _for_each("input_layer", names, count),
        _for_each("input_params", params, count),
        _for_each("input_layer_kwargs", given, count),
        strict=True,
    )
    shared = _num_values(names, rows, 0) if isinstance(names, str) else None
    settings: list[InputSetting] = []
    for v, (name, *both) in enumerate(per_column):
        described, own = (keywords("hclt", key, value) for key, value in zip(_KEYWORDS, both, strict=True))
        counted = _num_values(name, rows[:, [v]], v) if shared is None else shared
        follows = {} if counted is None else DISTRIBUTIONS[name].settings_for(counted)
        settings.append({"name": name, "args": {**follows, **own, **described}})
    return settings


def _num_values(name: str, columns: Array, first: int) -> int | None:
    """The number of values of a distribution that counts values, by the columns from number `first` on; else None.

    Raises:
        InputError: A column holds other values than integers from 0 on.
    """
    if not known(name, DISTRIBUTIONS) or DISTRIBUTIONS[name].settings is None:
        return None
    values = np.where(np.isnan(columns), 0.0, columns)
    wrong = ((values < 0) | (values != np.floor(values)) | (values == np.inf)).any(axis=0)
    if wrong.any():
        raise InputError(
            f"hclt: input layer {name!r} counts values, but column {first + int(wrong.argmax())} (counted from 0) "
            "holds others than integers from 0 on; encode them, or choose another input layer for the column"
        )
    return int(values.max()) + 1


def _for_each(name: str, values: Any, count: int) -> list[Any]:
    """The value of a setting for each column, from a list or from one value for all."""
    if isinstance(values, str | Mapping):
        return [values] * count
    several = elements("hclt", name, values)
    if len(several) != count:
        raise ShapeError(
            f"hclt: {name} has {len(several)} entries, but the data has {count} columns; give one for each column, or "
            "one for all"
        )
    return list(several)
