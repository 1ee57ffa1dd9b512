"""Hidden Chow-Liu trees: a hidden state for each variable, which depends on that of its predecessor in a tree.

>>> import numpy as np
>>> flips = np.random.default_rng(0).integers(2, size=(100, 5))
>>> circuit = hclt(flips, num_latents=4)
>>> circuit.num_variables, circuit.is_structured_decomposable, len(circuit.sum_layers)
(5, True, 5)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.arguments import elements, is_count, known, shown
from plica.errors import InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import DISTRIBUTIONS, HadamardLayer, InputLayer, Layer, SumLayer
from plica.symbolic.parameters import ParameterFactory
from plica.symbolic.scope import Scope
from plica.templates.inputs import check_rows, input_factory
from plica.templates.mutual_information import Codes, discrete_mutual_information, table
from plica.templates.parameterization import Parameterization, parameterization_to_factory
from plica.templates.region_graph.chow_liu import children_of, maximum_spanning_tree, order_from_root

Array: TypeAlias = NDArray[Any]

_MOST_STATES = 4096  # of a variable that is counted value by value; with more, values share bins as real numbers do


def hclt(
    data: Any,
    num_latents: int,
    *,
    input_layer: str | Sequence[str] = "categorical",
    input_params: Mapping[str, Parameterization] | Sequence[Mapping[str, Parameterization]] | None = None,
    input_layer_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    weight_param: Parameterization | None = None,
    num_classes: int = 1,
    root: int | None = None,
    pseudocount: float = 1.0,
    num_bins: int = 16,
    chunk_size: int | None = None,
) -> Circuit:
    """A hidden Chow-Liu tree over the variables of data.

    Each variable x_v has a hidden state z_v of `num_latents` values. The z form the tree with the largest mutual
    information between the x. So p(x) is the sum over all z of the product of p(x_v | z_v) and p(z_v | z_predecessor).

    Args:
        data: `(N, D)` rows, from which the tree and the numbers of values are taken; NaN is missing.
        num_latents: The number of hidden states of each variable.
        input_layer: One of `plica.symbolic.layers.DISTRIBUTIONS`, or a list that names one for each column.
        input_params: How to make parameters of the input layers, by name, such as `{"logits": Parameterization()}`; or
            a list with such a mapping for each column. Left out, they start where the data lies if the layer can.
        input_layer_kwargs: Settings of the input layers, such as `{"num_categories": 256}`, or a list of them. The data
            gives a missing number of values: by the largest value of a column, or of all columns if one name is given.
        weight_param: How to make the transitions, a row for each state of the predecessor; by default the softmax of
            normal draws.
        num_classes: The number of units of the output.
        root: The variable at the root; by default the centre of the tree.
        pseudocount: A number of imaginary rows, spread evenly over the joint values of a pair, when its mutual
            information is measured.
        num_bins: The most bins for real numbers when mutual information is measured.
        chunk_size: How many pairs of variables are counted at once.

    Raises:
        InputError: A name is not known, or a distribution does not take a value of its column.
        ShapeError: The length of a list is not the number of columns, or there is no latent state.

    Source: Liu and Van den Broeck, "Tractable Regularization of Probabilistic Circuits", NeurIPS 2021;
        Chow and Liu, "Approximating discrete probability distributions with dependence trees", 1968.
    """
    rows = table("hclt", data)
    if not all(map(is_count, (num_latents, num_classes))):
        raise ShapeError(
            f"hclt: expected at least one latent state and one class, found num_latents={shown(num_latents)} and "
            f"num_classes={shown(num_classes)}"
        )
    described, settings = ({} if mapping is None else mapping for mapping in (input_params, input_layer_kwargs))
    inputs = _input_layers(rows, num_latents, input_layer, described, settings)
    check_rows("hclt", rows, [layer.domain for layer in inputs])
    codes = _codes(rows, inputs, num_bins)
    information = discrete_mutual_information(codes, pseudocount=pseudocount, chunk_size=chunk_size)
    tree = maximum_spanning_tree("hclt", information, root)
    weights = parameterization_to_factory(
        Parameterization("normal", "softmax") if weight_param is None else weight_param
    )
    return hidden_tree(tree, inputs, num_classes=num_classes, weight_factory=weights)


def hidden_tree(
    tree: Array, inputs: Sequence[InputLayer], *, num_classes: int = 1, weight_factory: ParameterFactory | None = None
) -> Circuit:
    """The circuit of hidden states that form a tree.

    Args:
        tree: `(D,)` the predecessor of each variable, and -1 for the root.
        inputs: The input layer of each variable; it has a unit for each hidden state.
        num_classes: The number of units of the output.
        weight_factory: Makes the transitions; softmax of normal draws by default.
    """
    children, order = children_of(tree), order_from_root(tree)
    layers: dict[Layer, list[Layer]] = {}
    messages: dict[int, Layer] = {}
    for variable in reversed(order):
        state: Layer = inputs[variable]
        layers[state] = []
        if children[variable]:
            product = HadamardLayer(state.num_output_units, 1 + len(children[variable]))
            layers[product] = [state, *(messages[child] for child in children[variable])]
            state = product
        before = int(tree[variable])
        units = num_classes if before < 0 else inputs[before].num_output_units
        messages[variable] = SumLayer(state.num_output_units, units, weight_factory=weight_factory)
        layers[messages[variable]] = [state]
    return Circuit(layers, layers, [messages[order[0]]])


def _input_layers(rows: Array, units: int, names: Any, params: Any, settings: Any) -> list[InputLayer]:
    """The input layer of each column."""
    count = rows.shape[1]
    per_column = zip(
        _for_each("input_layer", names, count),
        _for_each("input_params", params, count),
        _for_each("input_layer_kwargs", settings, count),
        strict=True,
    )
    shared = _num_values(names, rows, 0) if isinstance(names, str) else None
    layers = []
    for v, (name, described, keywords) in enumerate(per_column):
        counted = _num_values(name, rows[:, [v]], v) if shared is None else shared
        factory = input_factory(name, keywords, described, num_values=counted, values=rows[:, v])
        layers.append(factory(Scope([v]), units))
    return layers


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


def _codes(rows: Array, inputs: Sequence[InputLayer], num_bins: int) -> Codes:
    """The columns as integers that can be counted: states unchanged, other numbers in bins."""
    parts = [_column_codes(column[:, None], layer, num_bins) for column, layer in zip(rows.T, inputs, strict=True)]
    return Codes(np.concatenate([part.values for part in parts]), np.concatenate([part.num_states for part in parts]))


def _column_codes(column: Array, layer: InputLayer, num_bins: int) -> Codes:
    states = layer.domain.num_states
    if states is not None and states <= _MOST_STATES:
        return Codes.of_states("hclt", column, states)
    return Codes.of_bins("hclt", column, num_bins)
