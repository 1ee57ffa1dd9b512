"""Sums taken apart: Kronecker weights as contractions of their factors, and Kronecker products among other inputs."""

from collections.abc import Sequence
from typing import Any

from plica.graph.optimize import Replacement
from plica.graph.view import GraphOptMatch
from plica.lower.optimize.columns import added, columns, of_inputs
from plica.lower.optimize.costs import ROWS, layers_cost
from plica.lower.optimize.ranges import never_negative
from plica.symbolic.layers import Layer, SumLayer, TensorDotLayer, TuckerLayer
from plica.symbolic.parameters import BlockKroneckerParameter, Parameter

Match = GraphOptMatch[Any]
New = Replacement[Any]
Nodes = list[tuple[Layer, tuple[Layer, ...]]]


def factors(match: Match) -> New:
    """The replacement of a layer with a Kronecker weight: the order of contractions that is the least work."""
    return min(_contractions(match), key=_work)


def _contractions(match: Match) -> list[New]:
    """Every way to contract the factors of the weight one after another; none where the blocks straddle inputs."""
    layer, kronecker = match["layer"], match.sub_matches["layer"]["weight"][0]
    slow, fast = layer.weight.subgraph(kronecker["first"]), layer.weight.subgraph(kronecker["second"])
    if isinstance(layer, TensorDotLayer):
        return _of_one(layer.num_left, layer.num_right, slow, fast, match["inputs"])
    inputs, width, block = match["inputs"], layer.num_input_units, fast.shape[1]
    weight = kronecker["kronecker"]
    if isinstance(weight, BlockKroneckerParameter):
        return _of_pairs_of_blocks(_blocks(slow, weight.blocks1), _blocks(fast, weight.blocks2), inputs)
    if len(inputs) == 1:
        return _of_one(1, 1, slow, fast, inputs)
    if width % block == 0:
        return _of_whole_blocks(slow, fast, inputs)
    return [_of_parts(slow, fast, inputs, width)] if block % width == 0 else []


def _of_one(left: int, right: int, slow: Parameter, fast: Parameter, inputs: Sequence[Layer]) -> list[New]:
    """(A kron I) ((I kron B) x), and the other way round; units to the left and to the right stay."""
    (sums1, units1), (sums2, units2) = slow.shape, fast.shape
    fast_first = (
        TensorDotLayer(left * units1, units2, right, sums2, fast),
        TensorDotLayer(left, units1, sums2 * right, sums1, slow),
    )
    slow_first = (
        TensorDotLayer(left, units1, units2 * right, sums1, slow),
        TensorDotLayer(left * sums1, units2, right, sums2, fast),
    )
    return [Replacement.chain(inputs, *fast_first), Replacement.chain(inputs, *slow_first)]


def _of_whole_blocks(slow: Parameter, fast: Parameter, inputs: Sequence[Layer]) -> list[New]:
    """[A_1 kron B, A_2 kron B, ..] (x, y, ..): A_h after B of each input, or B of the sum of A_h x_h."""
    (sums1, units1), (sums2, units2) = slow.shape, fast.shape
    width = units1 // len(inputs)
    parts = [columns(slow, range(at * width, (at + 1) * width)) for at in range(len(inputs))]
    fast_each = [TensorDotLayer(width, units2, 1, sums2, fast) for _ in inputs]
    of_fast = [TensorDotLayer(1, width, sums2, sums1, part) for part in parts]
    slow_each = [TensorDotLayer(1, width, units2, sums1, part) for part in parts]
    fast_first: Nodes = [(contraction, (x,)) for contraction, x in zip(fast_each, inputs, strict=True)]
    fast_first += [(contraction, (below,)) for contraction, below in zip(of_fast, fast_each, strict=True)]
    slow_first: Nodes = [(contraction, (x,)) for contraction, x in zip(slow_each, inputs, strict=True)]
    last = TensorDotLayer(sums1, units2, 1, sums2, fast)
    return [_added(fast_first, of_fast), _added(slow_first, slow_each, last)]


def _blocks(weight: Parameter, count: int) -> list[Parameter]:
    """A weight as blocks of equal numbers of columns."""
    width = weight.shape[1] // count
    return [columns(weight, range(at * width, (at + 1) * width)) for at in range(count)]


def _of_pairs_of_blocks(slow: Sequence[Parameter], fast: Sequence[Parameter], inputs: Sequence[Layer]) -> list[New]:
    """[A_h kron B_g, ..] (x_hg, ..): the sum over h of A_h (the sum over g of B_g x_hg), and the other way round."""
    (sums1, units1), (sums2, units2) = slow[0].shape, fast[0].shape
    grid = [list(inputs[at * len(fast) : (at + 1) * len(fast)]) for at in range(len(slow))]

    def of_fast(left: int, weight: Parameter) -> TensorDotLayer:
        return TensorDotLayer(left, units2, 1, sums2, weight)

    def of_slow(right: int, weight: Parameter) -> TensorDotLayer:
        return TensorDotLayer(1, units1, right, sums1, weight)

    fast_first = _summed_twice(
        grid, [of_fast(units1, weight) for weight in fast], [of_slow(sums2, weight) for weight in slow]
    )
    slow_first = _summed_twice(
        list(map(list, zip(*grid, strict=True))),
        [of_slow(units2, weight) for weight in slow],
        [of_fast(sums1, weight) for weight in fast],
    )
    return [fast_first, slow_first]


def _summed_twice(grid: list[list[Layer]], inner: Sequence[TensorDotLayer], outer: Sequence[TensorDotLayer]) -> New:
    """The sum over rows of a grid of inputs of an outer layer of the sum of inner layers of the row's inputs."""
    nodes: Nodes = []
    terms: list[Layer] = []
    for row, last in zip(grid, outer, strict=True):
        summands = [layer.copyref() for layer in inner] if len(grid) > 1 else list(inner)
        nodes += [(layer, (x,)) for layer, x in zip(summands, row, strict=True)]
        if len(summands) > 1:
            nodes.append((added(summands[0].num_output_units, len(summands)), tuple(summands)))
        nodes.append((last, (nodes[-1][0],)))
        terms.append(last)
    if len(terms) > 1:
        nodes.append((added(terms[0].num_output_units, len(terms)), tuple(terms)))
    return Replacement(tuple(nodes), nodes[-1][0])


def _of_parts(slow: Parameter, fast: Parameter, inputs: Sequence[Layer], width: int) -> New:
    """(A kron B) (x, y, ..) where a block is of several inputs: B of these, then the sum of A's columns times that."""
    (sums1, blocks), (sums2, block) = slow.shape, fast.shape
    inputs_per_block = block // width
    nodes: Nodes = []
    spread = []
    for at in range(blocks):
        below = SumLayer(width, sums2, inputs_per_block, fast)
        spread.append(TensorDotLayer(1, 1, sums2, sums1, columns(slow, [at])))
        nodes += [(below, tuple(inputs[at * inputs_per_block : (at + 1) * inputs_per_block])), (spread[-1], (below,))]
    return _added(nodes, spread)


def _added(nodes: Nodes, terms: Sequence[Layer], *after: Layer) -> New:
    """The sum of some of the nodes, and layers after it."""
    if len(terms) > 1:
        nodes = [*nodes, (added(terms[0].num_output_units, len(terms)), tuple(terms))]
    for layer in after:
        nodes = [*nodes, (layer, (nodes[-1][0],))]
    return Replacement(tuple(nodes), nodes[-1][0])


def _work(new: New) -> int:
    return layers_cost(layer for layer, _ in new.nodes).multiply_adds


def factors_are_wrong_or_cost_more(match: Match) -> str | None:
    """Signs of factors cannot be carried as logarithms; and contractions must be less work than the weight built."""
    layer, kronecker = match["layer"], match.sub_matches["layer"]["weight"][0]
    if not match.context.semiring.negative:
        for name in ("first", "second"):
            if not never_negative(kronecker[name], layer.weight.node_inputs):
                return "a factor of the weight may be negative, where logarithms are carried"
    contractions = _contractions(match)
    if not contractions:
        return (
            f"no factor is that of an input: blocks of {layer.weight.output.in_shape2[1]} columns and inputs of "
            f"{layer.num_input_units} units overlap"
        )
    before, after = layers_cost([layer]).multiply_adds, min(map(_work, contractions))
    if after < before:
        return None
    count = {2: "two"}.get(len(factors(match).nodes), str(len(factors(match).nodes)))
    return f"{count} contractions cost no less than one at {ROWS} rows: {after:,} multiply-adds against {before:,}"


def tucker(match: Match) -> New:
    """Tucker(W; a, b, ...), or W' (the other inputs) + Tucker(W_h; a, b, ...) where there are others."""
    total, product = match["sum"], match["product"]
    before, after = match.inputs["before"], match.inputs["after"]
    at, sums = len(before), total.num_output_units
    tucker_layer = TuckerLayer(product.num_input_units, sums, product.arity, of_inputs(total, [at]))
    positions = [position for position in range(total.arity) if position != at]
    if not positions:
        return Replacement.chain(match.inputs["factors"], tucker_layer)
    others = SumLayer(total.num_input_units, sums, len(positions), of_inputs(total, positions))
    return _added([(others, (*before, *after)), (tucker_layer, match.inputs["factors"])], [others, tucker_layer])


def tucker_costs_more(match: Match) -> str | None:
    """With other inputs, results are written and then added. So numbers written count, also those of the product."""
    total, product = match["sum"], match["product"]
    if total.arity == 1:
        return None
    after = layers_cost(layer for layer, _ in tucker(match).nodes).work
    before = layers_cost([total, product]).work
    if after < before:
        return None
    return (
        f"sums of their own cost no less than one at {ROWS} rows: {after:,} multiply-adds, numbers written counted as "
        f"such, against {before:,}"
    )
