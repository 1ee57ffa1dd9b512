"""Rules on layers, each under its equation: those that fuse several into one, and those that shatter one into several.

Letters: a sum layer is `y = W x`, `a * b` a Hadamard product, `a (x) b` a Kronecker product. A mixing sum
layer is no dense sum layer: its dense weight is never made. Layers that do nothing are shattered into none, so that
they are gone before anything is fused with them.

>>> [rule.name for rule in SHATTER_RULES][-3:]
['kronecker-sum', 'kronecker-tensor-dot', 'sparse-sum']
>>> [rule.name for rule in FUSE_RULES][:4]
['hadamard-hadamard', 'sum-sum', 'sum-of-sums', 'tucker']
"""

from typing import Any

import numpy as np

from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.graph.view import GraphOptMatch
from plica.lower.optimize.columns import constant
from plica.lower.optimize.merging import (
    all_may_not_merge,
    inner_may_not_merge,
    merged_all,
    merged_inner,
)
from plica.lower.optimize.shattering import (
    factors,
    factors_are_wrong_or_cost_more,
    tucker,
    tucker_costs_more,
)
from plica.lower.optimize.sparse import is_sparse, sparse, sparse_costs_more
from plica.symbolic.layers import (
    CPTLayer,
    HadamardLayer,
    KroneckerLayer,
    OuterProductLayer,
    SumLayer,
    TensorDotLayer,
    TransposeLayer,
)
from plica.symbolic.parameters import (
    BlockKroneckerParameter,
    KroneckerParameter,
    MixingWeightParameter,
    Parameter,
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
"""The laws that make a matrix product associative."""

_ADDING = frozenset({Law.ONE, Law.WEIGHTS_UNITS})
"""The laws that make a mixing sum of weight one an addition."""


def _is_identity(weight: Parameter) -> bool:
    """Whether a weight is the constant identity, or mixes one input with constant ones."""
    output = weight.output
    if isinstance(output, MixingWeightParameter):
        value = constant(*weight.node_inputs(output))
        return value is not None and value.shape[1] == 1 and bool((value == 1).all())
    value = constant(output)
    if value is None or value.shape[0] != value.shape[1]:
        return False
    if 0 in value.strides and len(value) > 1:
        return False  # one number for all entries
    # as many entries that are not zero as rows, and ones on the diagonal: no identity of its size has to be made
    return np.count_nonzero(value) == len(value) and bool((np.diagonal(value) == 1).all())


def _several(arity: int) -> bool:
    return arity > 1


def _cpt(match: Match) -> New:
    total, product = match["sum"], match["product"]
    layer = CPTLayer(product.num_input_units, total.num_output_units, product.arity, total.weight)
    return Replacement.chain(match["factors"], layer)


def _hadamards(match: Match) -> New:
    inputs = (*match["before"], *match["factors"], *match["after"])
    return Replacement.chain(inputs, HadamardLayer(match["outer"].num_input_units, len(inputs)))


def _one_transpose(match: Match) -> New:
    inner, outer = match["inner"], match["outer"]
    axes = [inner.axes[axis] for axis in outer.axes]
    if axes == sorted(axes):
        return Replacement.by(match["x"])
    return Replacement.chain([match["x"]], TransposeLayer(inner.sizes, axes))


def _splits_other_axes(match: Match) -> str | None:
    between = tuple(match["inner"].sizes[axis] for axis in match["inner"].axes)
    if between == match["outer"].sizes:
        return None
    return f"the axes between have sizes {between} for the one and {match['outer'].sizes} for the other"


def _factors_in_order(match: Match) -> New:
    factors = [match.inputs["factors"][axis] for axis in match["transpose"].axes]
    widths = [match["product"].input_widths[axis] for axis in match["transpose"].axes]
    return Replacement.chain(factors, OuterProductLayer(widths))


def _splits_factors(match: Match) -> str | None:
    widths, sizes = match["product"].input_widths, match["transpose"].sizes
    return None if tuple(widths) == sizes else f"factors have {tuple(widths)} units, and the axes sizes {sizes}"


_KRONECKER = Pattern(
    Entry("kronecker", (KroneckerParameter, BlockKroneckerParameter), ("first", "second")), is_output=True
)


SHATTER_RULES: tuple[Rule, ...] = (
    # I x -> x
    Rule(
        "identity-sum",
        "I x -> x",
        Pattern(Entry("sum", (SumLayer, TensorDotLayer), ("x",), facts={"weight": _is_identity})),
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
    # P (Q x) -> (P Q) x
    Rule(
        "transpose-transpose",
        "P (Q x) -> (P Q) x",
        Pattern(Entry("outer", TransposeLayer, ("inner",)), Entry("inner", TransposeLayer, ("x",))),
        _one_transpose,
        _splits_other_axes,
        source="a permutation of permuted axes",
        laws=ORDINARY,
    ),
    # P (x (x) y (x) ..) -> y (x) x (x) ..
    Rule(
        "transpose-kronecker",
        "P (x (x) y (x) ..) -> y (x) x (x) ..",
        Pattern(
            Entry("transpose", TransposeLayer, ("product",)),
            Entry("product", (KroneckerLayer, OuterProductLayer), ("*factors",)),
        ),
        _factors_in_order,
        _splits_factors,
        source="the units of factors in another order",
        laws=frozenset({Law.COMMUTATIVE_PRODUCT}),
    ),
    # (A kron B) (x, y, ..) -> sum over h of (A_h kron I) (I kron B) x_h, or (I kron B) of the sum of (A_h kron I) x_h
    # [A_h kron B_g] (x_hg) -> sum over h of (A_h kron I) of the sum over g of (I kron B_g) x_hg, or g before h
    Rule(
        "kronecker-sum",
        "(A kron B) (x, y, ..) -> (A_1 kron I) (I kron B) x + (A_2 kron I) (I kron B) y + ..",
        Pattern(Entry("layer", SumLayer, ("*inputs",), facts={"mixing": False}, sub_patterns={"weight": _KRONECKER})),
        factors,
        factors_are_wrong_or_cost_more,
        source="mixed-product property: Van Loan, 'The ubiquitous Kronecker product', 2000",
        laws=_MATRIX_PRODUCT | _ADDING,
    ),
    # (I kron (A kron B) kron I) x -> (I kron A kron I) (I kron B kron I) x
    Rule(
        "kronecker-tensor-dot",
        "(I kron A kron B kron I) x -> (I kron A kron I) (I kron B kron I) x",
        Pattern(Entry("layer", TensorDotLayer, ("*inputs",), sub_patterns={"weight": _KRONECKER})),
        factors,
        factors_are_wrong_or_cost_more,
        source="mixed-product property: Van Loan, 'The ubiquitous Kronecker product', 2000",
        laws=_MATRIX_PRODUCT,
    ),
    # W x -> sum over t of w_t * x[i_t]   where W is constant, mostly zeros, and that is less work
    Rule(
        "sparse-sum",
        "W x -> w_1 * x[i_1] + w_2 * x[i_2] + ..",
        Pattern(Entry("layer", (SumLayer, TensorDotLayer), ("*inputs",), facts={"weight": is_sparse})),
        sparse,
        sparse_costs_more,
        source="a sum without the terms of weight zero",
        laws=frozenset({Law.ZERO, Law.ZERO_ANNIHILATES, Law.WEIGHTS_UNITS, Law.ASSOCIATIVE_SUM, Law.COMMUTATIVE_SUM}),
    ),
)

FUSE_RULES: tuple[Rule, ...] = (
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
    # V (.., W x, ..) -> [.., V_h W, ..] (.., x, ..)   where that is less work; of mixing sums unit by unit
    Rule(
        "sum-sum",
        "V (.., W x, ..) -> [.., V_h W, ..] (.., x, ..)",
        Pattern(
            Entry("outer", SumLayer, ("*before", "inner", "*after")),
            Entry("inner", SumLayer, ("*inputs",)),
        ),
        merged_inner,
        inner_may_not_merge,
        source="associativity of the matrix product",
        laws=_MATRIX_PRODUCT | {Law.WEIGHTS_ADD},
    ),
    # V (W x, U y, ..) -> [V_1 W, V_2 U, ..] (x, y, ..)   where that is less work
    Rule(
        "sum-of-sums",
        "V (W_1 x_1, W_2 x_2, ..) -> [V_1 W_1, V_2 W_2, ..] (x_1, x_2, ..)",
        Pattern(
            Entry("outer", SumLayer, ("inner+",)),
            Entry("inner", SumLayer, ("*inputs",), facts={"mixing": False}),
        ),
        merged_all,
        all_may_not_merge,
        source="associativity of the matrix product, block by block",
        laws=_MATRIX_PRODUCT | {Law.WEIGHTS_ADD},
    ),
    # W (a (x) b (x) ..., z, ..) -> Tucker(W_1; a, b, ...) + W' (z, ..)   with other inputs, where that is less work
    Rule(
        "tucker",
        "W (a (x) b (x) ...) -> Tucker(W; a, b, ...)",
        Pattern(
            Entry("sum", SumLayer, ("*before", "product", "*after"), facts={"mixing": False}),
            Entry("product", KroneckerLayer, ("*factors",), config={"arity": _several}),
        ),
        tucker,
        tucker_costs_more,
        source="Tucker, 1966: the core contracted with one factor after another",
        laws=_MATRIX_PRODUCT | _ADDING | {Law.COMMUTATIVE_PRODUCT},
    ),
    # W (a * b * ...) -> CPT(W; a, b, ...)
    Rule(
        "cp-t",
        "W (a * b * ...) -> CPT(W; a, b, ...)",
        Pattern(
            Entry("sum", SumLayer, ("product",), facts={"mixing": False}),
            Entry("product", HadamardLayer, ("*factors",), config={"arity": _several}),
        ),
        _cpt,
        source="Loconte et al., 2025: the transposed canonical polyadic layer",
        laws=frozenset({Law.ASSOCIATIVE_PRODUCT, Law.COMMUTATIVE_PRODUCT}),
    ),
)
