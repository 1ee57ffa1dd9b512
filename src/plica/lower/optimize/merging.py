"""Sums of sums as one sum: the weights of the new layer, and where it saves work and loses nothing."""

from collections.abc import Sequence
from typing import Any

from plica.graph.optimize import Replacement
from plica.graph.view import GraphOptMatch
from plica.lower.optimize.columns import joined, of_inputs, only_number
from plica.lower.optimize.costs import ROWS, layers_cost
from plica.lower.optimize.ranges import known_range
from plica.symbolic.layers import Layer, ProductLayer, SumLayer
from plica.symbolic.parameters import MatMulParameter, MixingWeightParameter, OuterProductParameter, Parameter

Match = GraphOptMatch[Any]
New = Replacement[Any]

_LARGEST_WEIGHT = 1e6  # squares and cubes of it, summed over thousands of units, stay in the range of float32


def merged_inner(match: Match) -> New:
    """[.., V_h W, ..] (.., x, ..): the sum `inner` among the inputs of `outer`, and other inputs as they are."""
    outer, inner, at = match["outer"], match["inner"], len(match["before"])
    before, part, after = range(at), range(at, at + 1), range(at + 1, outer.arity)
    product = (_scaled if outer.mixing else _matrix_product)(of_inputs(outer, part), inner.evaluated_params["weight"])
    other_weights = [[of_inputs(outer, positions)] if positions else [] for positions in (before, after)]
    weight = joined([*other_weights[0], product, *other_weights[1]])
    if inner.mixing:
        weight = Parameter.from_unary(MixingWeightParameter(weight.shape), weight)
    layer = SumLayer(inner.num_input_units, outer.num_output_units, outer.arity - 1 + inner.arity, weight)
    return Replacement.chain((*match["before"], *match["inputs"], *match["after"]), layer)


def merged_all(match: Match) -> New:
    """[V_1 W_1, V_2 W_2, ..] (x, y, ..): all inputs of `outer` are sums; V_12 [W_1; W_2] x where two read the same."""
    outer, *inner = match.fused
    if outer.mixing:  # rows of each weight times a number
        weights = [_scaled(of_inputs(outer, [position]), layer.weight) for position, layer in enumerate(inner)]
        return _one_sum(match, [x for position in range(len(inner)) for x in match[f"inputs_{position}"]], weights)
    positions_by_inputs: dict[tuple[Layer, ...], list[int]] = {}
    for position in range(len(inner)):
        positions_by_inputs.setdefault(match[f"inputs_{position}"], []).append(position)
    weights = [
        _matrix_product(of_inputs(outer, positions), joined([inner[position].weight for position in positions], axis=0))
        for positions in positions_by_inputs.values()
    ]
    return _one_sum(match, [x for read in positions_by_inputs for x in read], weights)


def _one_sum(match: Match, inputs: Sequence[Layer], weights: Sequence[Parameter]) -> New:
    """A sum of `inputs` in place of a sum of sums."""
    outer, inner, *_ = match.fused
    return Replacement.chain(
        inputs, SumLayer(inner.num_input_units, outer.num_output_units, len(inputs), joined(weights))
    )


def _matrix_product(first: Parameter, second: Parameter) -> Parameter:
    return Parameter.from_binary(MatMulParameter(first.shape, second.shape), first, second)


def _scaled(factor: Parameter, weight: Parameter) -> Parameter:
    """A number for each row, `(K, 1)`, times a weight `(K, H)`."""
    if only_number(factor) == 1:
        return weight
    return Parameter.from_binary(OuterProductParameter(factor.shape, weight.shape, axis=1), factor, weight)


def inner_may_not_merge(match: Match) -> str | None:
    """Both sums must be dense, or both mix, or one that mixes stand alone over a dense one; and widths must agree."""
    outer, inner = match["outer"], match["inner"]
    if outer.mixing != inner.mixing and (inner.mixing or outer.arity > 1):
        return "one of the sums mixes: the dense weight of a mixing sum is never made"
    if outer.arity > 1 and inner.num_input_units != outer.num_input_units:
        return (
            f"inputs of one sum have one width: the inner sum has inputs of {inner.num_input_units} units, the outer "
            f"one others of {outer.num_input_units}"
        )
    return _leaves_the_range(match) or _costs_more(match, merged_inner(match))


def all_may_not_merge(match: Match) -> str | None:
    """As `inner_may_not_merge`; the inputs of the inner sums must be of one width.

    A mixing sum is not merged with sums of products: each of these becomes one layer with its product instead.
    """
    outer, *inner = match.fused
    if outer.mixing and any(
        isinstance(x, ProductLayer) for position in range(len(inner)) for x in match[f"inputs_{position}"]
    ):
        return "a sum of a product becomes one layer with it"
    widths = dict.fromkeys(layer.num_input_units for layer in inner)
    if len(widths) > 1:
        return f"inputs of one sum have one width: the inner sums have inputs of {' and '.join(map(str, widths))} units"
    return _leaves_the_range(match) or _costs_more(match, merged_all(match))


def _leaves_the_range(match: Match) -> str | None:
    """Weights in log space are linear numbers, whose product must not overflow where logarithms would not.

    Underflow is no reason to decline: then the logarithms of the product are computed from those of both weights,
    unless one has signs or phases.
    """
    if match.context.semiring.negative and not match.context.semiring.logarithmic:
        return None
    for layer in match.fused:
        weight = layer.evaluated_params["weight"]
        least, most = known_range(weight.output, weight.node_inputs)
        if least < 0 and match.context.semiring.negative:
            return "the product with a weight that may be negative or complex might underflow where log space does not"
        if most > _LARGEST_WEIGHT:
            return f"the product with a weight of up to {most:g} might overflow where log space does not"
    return None


def _costs_more(match: Match, merged: New) -> str | None:
    """Two sums of O K + K H I multiply-adds a row against one of O H I, and O K H I once for the product of weights."""
    before, after = layers_cost(match.fused), layers_cost(layer for layer, _ in merged.nodes)
    if after.multiply_adds < before.multiply_adds:
        return None
    count = {2: "two", 3: "three", 4: "four"}.get(len(match.fused), str(len(match.fused)))
    return (
        f"one sum layer costs no less than {count} at {ROWS} rows: {after.multiply_adds:,} multiply-adds, the product "
        f"of the weights among them, against {before.multiply_adds:,}"
    )
