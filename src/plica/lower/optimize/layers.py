"""Rules on layers, each under its equation: those that fuse several into one, and those that shatter one into several.

Letters as everywhere: a sum layer is `y = W x`, `a * b` a Hadamard product, `a (x) b` a Kronecker product. A mixing sum
layer is no dense sum layer: it stays as it is.

>>> [rule.name for rule in FUSE_RULES]
['identity-sum', 'one-factor', 'hadamard-hadamard', 'sum-sum', 'tucker', 'cp-t']
"""

from typing import Any

import numpy as np

from plica.graph.match import GraphOptMatch
from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.lower.optimize.costs import ROWS, layer_cost
from plica.lower.optimize.ranges import known_range, never_negative
from plica.symbolic.layers import (
    CPTLayer,
    HadamardLayer,
    KroneckerLayer,
    SumLayer,
    TensorDotLayer,
    TuckerLayer,
)
from plica.symbolic.parameters import (
    ConstantParameter,
    KroneckerParameter,
    MatMulParameter,
    MixingWeightParameter,
    Parameter,
    ReferenceParameter,
)
from plica.symbolic.semirings import Law

Match = GraphOptMatch[Any]
New = Replacement[Any]

_MATRIX_PRODUCT = frozenset(
    {
        Law.ASSOCIATIVE_SUM,
        Law.COMMUTATIVE_SUM,
        Law.ASSOCIATIVE_PRODUCT,
        Law.DISTRIBUTIVE,
        Law.WEIGHTS_MULTIPLY,
    }
)
"""What makes a matrix product associative."""

_LARGEST_WEIGHT = 1e6  # squares and cubes of it, summed over thousands of units, stay in the range of float32


def _constant(node: Any) -> Any:
    """The array of a constant leaf; None for any other node."""
    target = node.deref() if isinstance(node, ReferenceParameter) else node
    return np.broadcast_to(target.value, target.shape) if isinstance(target, ConstantParameter) else None


def _is_identity(weight: Parameter) -> bool:
    """Whether a weight is the constant identity, or mixes one input with constant ones."""
    output = weight.output
    if isinstance(output, MixingWeightParameter):
        value = _constant(*weight.node_inputs(output))
        return value is not None and value.shape[1] == 1 and bool((value == 1).all())
    value = _constant(output)
    if value is None or value.shape[0] != value.shape[1]:
        return False
    if 0 in value.strides and len(value) > 1:
        return False  # one number for all entries
    # as many entries that are not zero as rows, and ones on the diagonal: no identity of its size has to be made
    return np.count_nonzero(value) == len(value) and bool((np.diagonal(value) == 1).all())


def _several(arity: int) -> bool:
    return arity > 1


def _tucker(match: Match) -> New:
    total, product = match["sum"], match["product"]
    layer = TuckerLayer(product.num_input_units, total.num_output_units, product.arity, total.weight)
    return Replacement.chain(match["factors"], layer)


def _cpt(match: Match) -> New:
    total, product = match["sum"], match["product"]
    layer = CPTLayer(product.num_input_units, total.num_output_units, product.arity, total.weight)
    return Replacement.chain(match["factors"], layer)


def _hadamards(match: Match) -> New:
    inputs = (*match["before"], *match["factors"], *match["after"])
    return Replacement.chain(inputs, HadamardLayer(match["outer"].num_input_units, len(inputs)))


def _merged(match: Match) -> SumLayer:
    outer, inner = match["outer"], match["inner"]
    product = MatMulParameter(outer.weight.shape, inner.weight.shape)
    weight = Parameter.from_binary(product, outer.weight, inner.weight)
    return SumLayer(inner.num_input_units, outer.num_output_units, inner.arity, weight)


def _carries_negatives(match: Match) -> bool:
    return bool(match.graph.facts["semiring"].negative)


def _may_not_merge(match: Match) -> str | None:
    """Weights in log space are linear numbers, whose product must not overflow where logarithms would not.

    That it may underflow is no reason: its logarithms are computed from those of both weights where it does.
    """
    if not _carries_negatives(match):
        for name in ("outer", "inner"):
            weight = match[name].weight
            _, most = known_range(weight.output, weight.node_inputs)
            if most > _LARGEST_WEIGHT:
                return f"the product with a weight of up to {most:g} might overflow where log space does not"
    return _merging_costs_more(match)


def _merging_costs_more(match: Match) -> str | None:
    """Two sums of O K + K H I multiply-adds a row against one of O H I, and O K H I once for the product of weights."""
    before = layer_cost(match["outer"]) + layer_cost(match["inner"])
    after = layer_cost(_merged(match))
    if after.multiply_adds < before.multiply_adds:
        return None
    return (
        f"one sum layer costs no less than two at {ROWS} rows: {after.multiply_adds:,} multiply-adds, the product of "
        f"the weights among them, against {before.multiply_adds:,}"
    )


def _kronecker_layers(
    left: int, right: int, weight: Parameter, first: Any, second: Any
) -> tuple[TensorDotLayer, TensorDotLayer]:
    """The two contractions of `(left, I1*I2, right)` with a weight `A kron B`, the one that leaves least work first."""
    slow, fast = weight.subgraph(first), weight.subgraph(second)
    (sums1, units1), (sums2, units2) = slow.shape, fast.shape
    fast_first = (
        TensorDotLayer(left * units1, units2, right, sums2, fast),
        TensorDotLayer(left, units1, sums2 * right, sums1, slow),
    )
    slow_first = (
        TensorDotLayer(left, units1, units2 * right, sums1, slow),
        TensorDotLayer(left * sums1, units2, right, sums2, fast),
    )
    return min(fast_first, slow_first, key=lambda pair: sum(layer_cost(layer).multiply_adds for layer in pair))


def _pieces(match: Match) -> tuple[TensorDotLayer, TensorDotLayer]:
    layer, factors = match["layer"], match.sub_matches["layer"]["weight"]
    is_dot = isinstance(layer, TensorDotLayer)
    left, right = (layer.num_left, layer.num_right) if is_dot else (1, 1)
    return _kronecker_layers(left, right, layer.weight, factors["first"], factors["second"])


def _shattering_is_wrong_or_costs_more(match: Match) -> str | None:
    layer, factors = match["layer"], match.sub_matches["layer"]["weight"]
    if not _carries_negatives(match):
        for name in ("first", "second"):
            if not never_negative(factors[name], layer.weight.node_inputs):
                return "a factor of the weight may be negative, where logarithms are carried"
    after = sum(layer_cost(piece).multiply_adds for piece in _pieces(match))
    before = layer_cost(layer).multiply_adds
    if after < before:
        return None
    return f"two contractions cost no less than one at {ROWS} rows: {after:,} multiply-adds against {before:,}"


_KRONECKER = Pattern(Entry("kronecker", KroneckerParameter, ("first", "second")), is_output=True)

FUSE_RULES: tuple[Rule, ...] = (
    # I x -> x
    Rule(
        "identity-sum",
        "I x -> x",
        Pattern(Entry("sum", SumLayer, ("x",), config={"weight": _is_identity})),
        lambda match: Replacement.by(match["x"]),
        source="neutral element of the matrix product",
        laws=frozenset({Law.ZERO, Law.ONE, Law.ZERO_ANNIHILATES, Law.WEIGHTS_UNITS}),
    ),
    # product(x) -> x
    Rule(
        "one-factor",
        "product(x) -> x",
        Pattern(Entry("product", (HadamardLayer, KroneckerLayer), ("x",))),
        lambda match: Replacement.by(match["x"]),
        source="a product of one factor",
        laws=ORDINARY,
    ),
    # a * (b * c) * d -> a * b * c * d
    Rule(
        "hadamard-hadamard",
        "a * (b * c) * d -> a * b * c * d",
        Pattern(
            Entry("outer", HadamardLayer, ("*before", "inner", "*after")), Entry("inner", HadamardLayer, ("*factors",))
        ),
        _hadamards,
        source="associativity",
        laws=frozenset({Law.ASSOCIATIVE_PRODUCT}),
    ),
    # V (W x) -> (V W) x   where that is less work
    Rule(
        "sum-sum",
        "V (W x) -> (V W) x",
        Pattern(
            Entry("outer", SumLayer, ("inner",), config={"mixing": False}),
            Entry("inner", SumLayer, ("*inputs",), config={"mixing": False}),
        ),
        lambda match: Replacement.chain(match["inputs"], _merged(match)),
        _may_not_merge,
        source="associativity of the matrix product",
        laws=_MATRIX_PRODUCT | {Law.WEIGHTS_ADD},
    ),
    # W (a (x) b (x) ...) -> Tucker(W; a, b, ...)
    Rule(
        "tucker",
        "W (a (x) b (x) ...) -> Tucker(W; a, b, ...)",
        Pattern(
            Entry("sum", SumLayer, ("product",), config={"mixing": False}),
            Entry("product", KroneckerLayer, ("*factors",), config={"arity": _several}),
        ),
        _tucker,
        source="Tucker, 1966: the core contracted with one factor after another",
        laws=_MATRIX_PRODUCT | {Law.COMMUTATIVE_PRODUCT},
    ),
    # W (a * b * ...) -> CPT(W; a, b, ...)
    Rule(
        "cp-t",
        "W (a * b * ...) -> CPT(W; a, b, ...)",
        Pattern(
            Entry("sum", SumLayer, ("product",), config={"mixing": False}),
            Entry("product", HadamardLayer, ("*factors",), config={"arity": _several}),
        ),
        _cpt,
        source="Loconte et al., 2025: the transposed canonical polyadic layer",
        laws=frozenset({Law.ASSOCIATIVE_PRODUCT, Law.COMMUTATIVE_PRODUCT}),
    ),
)

SHATTER_RULES: tuple[Rule, ...] = (
    # (A kron B) x -> (A kron I) ((I kron B) x)
    Rule(
        "kronecker-sum",
        "(A kron B) x -> (A kron I) (I kron B) x",
        Pattern(Entry("layer", SumLayer, ("x",), config={"mixing": False}, sub_patterns={"weight": _KRONECKER})),
        lambda match: Replacement.chain([match["x"]], *_pieces(match)),
        _shattering_is_wrong_or_costs_more,
        source="mixed-product property: Van Loan, 'The ubiquitous Kronecker product', 2000",
        laws=_MATRIX_PRODUCT,
    ),
    # (I kron (A kron B) kron I) x -> (I kron A kron I) (I kron B kron I) x
    Rule(
        "kronecker-tensor-dot",
        "(I kron A kron B kron I) x -> (I kron A kron I) (I kron B kron I) x",
        Pattern(Entry("layer", TensorDotLayer, ("x",), sub_patterns={"weight": _KRONECKER})),
        lambda match: Replacement.chain([match["x"]], *_pieces(match)),
        _shattering_is_wrong_or_costs_more,
        source="mixed-product property: Van Loan, 'The ubiquitous Kronecker product', 2000",
        laws=_MATRIX_PRODUCT,
    ),
)
