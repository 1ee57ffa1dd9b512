"""A circuit where each rule of the optimizer fires, and near misses where it must not: one table for all rules.

A row of another rule needs rows here; `tests/lower/optimize/test_rule_cases.py` says so where there is none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import HadamardLayer, KroneckerLayer, SumLayer, TensorDotLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    KroneckerParameter,
    LogParameter,
    LogSoftmaxParameter,
    MixingWeightParameter,
    OuterProductParameter,
    OuterSumParameter,
    Parameter,
    ReduceProductParameter,
    ReduceSumParameter,
    ScaledSigmoidParameter,
    SigmoidParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SumParameter,
    TensorParameter,
    normal,
    softmax_normal,
)
from tests.harness.circuits import chain, coin, constant, product_then_sum
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.layer_cases.sum import mixing

S = (2, 3)
BOTH = ("lse-sum", "sum-product")
LINEAR = ("sum-product",)


@dataclass(frozen=True)
class RuleCase:
    """A circuit where one rule fires, or where it nearly does.

    Args:
        rule: The name of the rule.
        name: What this case is about.
        build: Makes the circuit.
        near: Whether the rule must not fire.
        why: A part of the reason that the report gives for a near miss; empty where the pattern itself does not fit.
        semirings: Those in which the circuit can be evaluated, and the rule is tried.
    """

    rule: str
    name: str
    build: Callable[[], Circuit]
    near: bool = False
    why: str = ""
    semirings: tuple[str, ...] = BOTH

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"


def of(parameter: Any, *ops: Any) -> Parameter:
    """Operations one after another."""
    return Parameter.from_sequence(parameter, *ops)


def pair(op: Any, first: Any, second: Any) -> Parameter:
    """An operation of two."""
    return Parameter.from_binary(op, first, second)


def kronecker(*factors: Parameter) -> Parameter:
    """The Kronecker product of several weights."""
    product = factors[0]
    for factor in factors[1:]:
        product = pair(KroneckerParameter(product.shape, factor.shape), product, factor)
    return product


def fixed(value: Any, shape: tuple[int, ...] = S) -> ConstantParameter:
    """One number everywhere, or an array."""
    return ConstantParameter(*shape, value=value)


def array(seed: int) -> ConstantParameter:
    """Constant normal draws."""
    return ConstantParameter(*S, value=np.random.default_rng(seed).normal(size=S))


def weighted(weight: Any) -> Circuit:
    """A sum layer with a weight, over one input layer."""
    weight = Parameter.from_input(weight)
    sums, units = weight.shape
    return chain(coin([0], units, 3), SumLayer(units, sums, weight=weight))


def inputs(count: int, units: int) -> list[Any]:
    """Input layers over variables of their own."""
    return [coin([variable], units, 3) for variable in range(count)]


def two_readers(product: Any) -> Circuit:
    """Two sums read one product."""
    leaves = inputs(2, product.num_input_units)
    first, second = (SumLayer(product.num_output_units, 2) for _ in range(2))
    total = SumLayer(2, 1, 2)
    edges: dict[Any, Any] = {product: leaves, first: [product], second: [product], total: [first, second]}
    return Circuit([*leaves, *edges], edges, [total])


def product_is_output(product: Any) -> Circuit:
    """A product under a sum is an output as well."""
    leaves, units = inputs(2, product.num_input_units), product.num_output_units
    total = SumLayer(units, units)
    edges: dict[Any, Any] = {product: leaves, total: [product]}
    return Circuit([*leaves, *edges], edges, [total, product])


def mixed_products(product: Callable[[], Any]) -> Circuit:
    """A mixing sum over two products."""
    leaves, first, second = inputs(2, 3), product(), product()
    units = first.num_output_units
    total = SumLayer(units, units, 2, weight_factory=mixing)
    edges: dict[Any, Any] = {first: leaves, second: leaves, total: [first, second]}
    return Circuit([*leaves, *edges], edges, [total])


def one_mixed_product(product: Any) -> Circuit:
    """A mixing sum over one product."""
    leaves, units = inputs(2, product.num_input_units), product.num_output_units
    total = SumLayer(units, units, 1, weight_factory=mixing)
    return Circuit([*leaves, product, total], {product: leaves, total: [product]}, [total])


def sums_over_two() -> Circuit:
    """A sum of one sum of two inputs."""
    leaves = [coin([0], 3, 3) for _ in range(2)]
    inner, outer = SumLayer(3, 4, 2), SumLayer(4, 1)
    return Circuit([*leaves, inner, outer], {inner: leaves, outer: [inner]}, [outer])


def over(outer: Any, *inner: Any) -> Circuit:
    """A layer over others, each of which, unless it is an input layer, reads input layers of its own."""
    edges: dict[Any, Any] = {}
    for layer in inner:
        if isinstance(layer, SumLayer):
            edges[layer] = [coin([0], layer.num_input_units, 3) for _ in range(layer.arity)]
        elif layer.arity:
            edges[layer] = inputs(layer.arity, layer.num_input_units)
    leaves = [leaf for read in edges.values() for leaf in read]
    edges[outer] = inner
    return Circuit([*leaves, *(one for one in inner if not one.arity), *edges], edges, [outer])


def sum_over(*inner: Any, units: int = 2, weight: Any = None) -> Circuit:
    """A sum over others."""
    return over(SumLayer(inner[0].num_output_units, units, len(inner), weight), *inner)


def mixes(arity: int, weight: float | None = None) -> SumLayer:
    """A mixing sum of 3 units, with one weight throughout where it is given."""
    if weight is None:
        return SumLayer(3, 3, arity, weight_factory=mixing)
    return SumLayer(3, 3, arity, of(fixed(weight, (3, arity)), MixingWeightParameter((3, arity))))


def nested_products(output: bool = False) -> Circuit:
    """Products of products, the inner one an output as well where asked for."""
    leaves = inputs(5, 2)
    first, second, third = HadamardLayer(2, 2), HadamardLayer(2, 2), HadamardLayer(2, 3)
    edges: dict[Any, list[Any]] = {
        first: leaves[:2],
        second: [leaves[2], first],
        third: [leaves[3], second, leaves[4]],
    }
    return Circuit([*leaves, *edges], edges, [third, first, second] if output else [third])


def identity_of_two() -> Circuit:
    """The identity over the units of two inputs."""
    leaves = [coin([0], 2) for _ in range(2)]
    total = SumLayer(2, 4, 2, weight=constant(np.eye(4)))
    return Circuit([*leaves, total], {total: leaves}, [total])


def mixing_constant(value: float) -> Parameter:
    """One number for each unit of one input."""
    return Parameter.from_unary(MixingWeightParameter((3, 1)), ConstantParameter(3, 1, value=value))


def dot(*factors: Parameter, left: int = 2, right: int = 3) -> Circuit:
    """A tensor-dot layer with a Kronecker weight."""
    weight = kronecker(*factors)
    sums, units = weight.shape
    layer = TensorDotLayer(left, units, right, sums, weight)
    return chain(coin([0], layer.num_input_units, 3), layer)


def shared_blocks(arity: int, first: tuple[int, int], second: tuple[int, int]) -> Circuit:
    """A sum of several inputs with a Kronecker weight."""
    weight = kronecker(softmax_normal(first), softmax_normal(second))
    sums, total = weight.shape
    return over(SumLayer(total // arity, sums, arity, weight), *(coin([0], total // arity, 3) for _ in range(arity)))


def shared_softmax() -> Circuit:
    """log(softmax(x)) + softmax(x): the softmax has another reader."""
    softmax = of(normal(S), SoftmaxParameter(S))
    return weighted(pair(SumParameter(S, S), of(softmax, LogParameter(S)), softmax))


def summed_outer(along: int, op: Any = OuterProductParameter, reduced: Any = ReduceSumParameter) -> Circuit:
    """A weight that is a reduction, along one of its axes, of every pair along axis 1."""
    pairs = op((2, 3, 4), (2, 5, 4), axis=1)
    return weighted(of(pair(pairs, exp_normal((2, 3, 4)), exp_normal((2, 5, 4))), reduced(pairs.shape, axis=along)))


def outer_of_two_readers() -> Circuit:
    """The sum and the product of one outer product."""
    pairs = OuterProductParameter((2, 3, 4), (2, 5, 4), axis=1)
    product = pair(pairs, exp_normal((2, 3, 4)), exp_normal((2, 5, 4)))
    both = [of(product, op(pairs.shape, axis=2)) for op in (ReduceSumParameter, ReduceProductParameter)]
    return weighted(pair(SumParameter((2, 15), (2, 15)), *both))


FUSING = (
    RuleCase("tucker", "2 inputs", lambda: product_then_sum(KroneckerLayer(3, 2), inputs(2, 3))),
    RuleCase("tucker", "3 inputs", lambda: product_then_sum(KroneckerLayer(3, 3), inputs(3, 3))),
    RuleCase("tucker", "4 inputs", lambda: product_then_sum(KroneckerLayer(2, 4), inputs(4, 2))),
    RuleCase("tucker", "two readers", lambda: two_readers(KroneckerLayer(3, 2)), True, "has another consumer"),
    RuleCase("tucker", "an output", lambda: product_is_output(KroneckerLayer(2, 2)), True, "is an output"),
    RuleCase("tucker", "mixing", lambda: one_mixed_product(KroneckerLayer(2, 2)), True, "mixing of sum does not fit"),
    RuleCase("tucker", "one input", lambda: chain(coin([0], 3), KroneckerLayer(3, 1), SumLayer(3, 2)), True),
    RuleCase("cp-t", "2 inputs", lambda: product_then_sum(HadamardLayer(3, 2), inputs(2, 3))),
    RuleCase("cp-t", "3 inputs", lambda: product_then_sum(HadamardLayer(3, 3), inputs(3, 3))),
    RuleCase("cp-t", "two readers", lambda: two_readers(HadamardLayer(3, 2)), True, "has another consumer"),
    RuleCase("cp-t", "an output", lambda: product_is_output(HadamardLayer(3, 2)), True, "is an output"),
    RuleCase("cp-t", "mixing", lambda: one_mixed_product(HadamardLayer(3, 2)), True, "mixing of sum does not fit"),
    RuleCase("cp-t", "two products", lambda: mixed_products(lambda: HadamardLayer(3, 2)), True),
    RuleCase("sum-sum", "it saves work", lambda: chain(coin([0], 6, 3), SumLayer(6, 6), SumLayer(6, 2))),
    RuleCase("sum-sum", "the inner sum has two inputs", sums_over_two),
    RuleCase(
        "sum-sum",
        "a bottleneck",  # 16 multiply-adds for a row, merged 64
        lambda: chain(coin([0], 8, 3), SumLayer(8, 1), SumLayer(1, 8)),
        True,
        "one sum layer costs no less than two",
    ),
    RuleCase(
        "sum-sum",
        "a dense sum over one that mixes",
        lambda: over(SumLayer(3, 2), mixes(1)),
        True,
        "one of the sums mixes",
    ),
    RuleCase("sum-sum", "beside another input", lambda: sum_over(coin([0], 6), SumLayer(6, 6))),
    RuleCase(
        "sum-sum", "of two inputs, beside others", lambda: sum_over(coin([0], 6), SumLayer(6, 6, 2), coin([0], 6))
    ),
    RuleCase(
        "sum-sum",
        "of another width, beside another input",
        lambda: sum_over(coin([0], 6), SumLayer(4, 6)),
        True,
        "inputs of one sum have one width",
    ),
    RuleCase(
        "sum-sum",
        "of large weights",
        lambda: sum_over(SumLayer(6, 6), weight=fixed(1e7, (2, 6))),
        True,
        "might overflow where log space does not",
        ("lse-sum",),
    ),
    *(
        RuleCase(f"sum-of-{arity}-sums", name, partial(build, arity), bool(why), why)
        for arity in (2, 3, 4)
        for name, build, why in (
            ("of one width", lambda arity: sum_over(*(SumLayer(6, 6) for _ in range(arity))), ""),
            ("of several inputs", lambda arity: sum_over(*(SumLayer(4, 6, 2) for _ in range(arity))), ""),
            (
                "of two widths",
                lambda arity: sum_over(*(SumLayer(4 + (place == 1), 6) for place in range(arity))),
                "inputs of one sum have one width",
            ),
            (
                "bottlenecks",
                lambda arity: sum_over(*(SumLayer(8, 1) for _ in range(arity)), units=8),
                "one sum layer costs no less than",
            ),
        )
    ),
    RuleCase("sum-sum", "mixing, alone", lambda: over(mixes(1), mixes(2))),
    RuleCase("sum-sum", "mixing, beside others", lambda: over(mixes(3), coin([0], 3, 3), mixes(2), mixes(3))),
    RuleCase("sum-sum", "mixing, ones", lambda: over(mixes(2, 1.0), mixes(2, 1.0), mixes(2))),
    RuleCase("sum-sum", "mixing, over a dense sum", lambda: over(mixes(1), SumLayer(3, 3))),
    RuleCase(
        "sum-sum",
        "mixing, of several, over dense sums",
        lambda: over(mixes(2), SumLayer(3, 3), SumLayer(3, 3)),
        True,
        "one of the sums mixes",
    ),
    RuleCase(
        "sum-sum",
        "mixing, of large weights",
        lambda: over(mixes(2), mixes(2, 1e7), mixes(2)),
        True,
        "might overflow where log space does not",
        ("lse-sum",),
    ),
    RuleCase("tucker", "two products", lambda: sum_over(KroneckerLayer(3, 2), KroneckerLayer(3, 2))),
    RuleCase("tucker", "three products", lambda: sum_over(*(KroneckerLayer(3, 2) for _ in range(3)))),
    RuleCase("tucker", "another input", lambda: sum_over(coin([0], 9), KroneckerLayer(3, 2))),
    RuleCase(
        "tucker",
        "more sums than products",
        lambda: sum_over(KroneckerLayer(2, 2), KroneckerLayer(2, 2), units=64),
        True,
        "sums of their own cost no less than one",
    ),
    RuleCase("tucker", "mixing several", lambda: mixed_products(lambda: KroneckerLayer(3, 2)), True, "mixing of sum"),
    RuleCase("hadamard-hadamard", "three nested", nested_products),
    RuleCase("hadamard-hadamard", "inner ones are outputs", lambda: nested_products(True), True, "is an output"),
    RuleCase("one-factor", "hadamard", lambda: chain(coin([0], 3), HadamardLayer(3, 1), SumLayer(3, 2))),
    RuleCase("one-factor", "kronecker", lambda: chain(coin([0], 3), KroneckerLayer(3, 1), SumLayer(3, 2))),
    RuleCase("one-factor", "two factors", lambda: product_then_sum(HadamardLayer(3, 2), inputs(2, 3)), True),
    RuleCase("identity-sum", "eye", lambda: weighted(constant(np.eye(3)))),
    RuleCase("identity-sum", "one", lambda: weighted(fixed(1.0, (1, 1)))),
    RuleCase("identity-sum", "mixing", lambda: weighted(mixing_constant(1.0))),
    RuleCase("identity-sum", "ones", lambda: weighted(fixed(1.0, (3, 3))), True),
    RuleCase("identity-sum", "wide", lambda: weighted(constant(np.eye(2, 3))), True),
    RuleCase("identity-sum", "turned", lambda: weighted(constant(np.eye(3)[::-1])), True),
    RuleCase("identity-sum", "mixing, of a half", lambda: weighted(mixing_constant(0.5)), True),
    RuleCase("identity-sum", "learnable", lambda: weighted(exp_normal((3, 3))), True),
    RuleCase("identity-sum", "along one axis of units", lambda: dot(Parameter.from_input(constant(np.eye(3))))),
    RuleCase("identity-sum", "two inputs", identity_of_two, True),
)

NEGATIVE = "a factor of the weight may be negative"
SHATTERING = (
    RuleCase("kronecker-sum", "wide", lambda: weighted(kronecker(softmax_normal((2, 3)), softmax_normal((4, 2))))),
    RuleCase("kronecker-sum", "square", lambda: weighted(kronecker(softmax_normal((5, 2)), softmax_normal((2, 5))))),
    RuleCase("kronecker-sum", "signed", lambda: weighted(kronecker(normal(S), normal((4, 2)))), semirings=LINEAR),
    RuleCase("kronecker-sum", "two inputs, whole blocks", lambda: shared_blocks(2, (4, 2), (3, 5))),
    RuleCase("kronecker-sum", "two inputs, whole blocks that narrow", lambda: shared_blocks(2, (2, 6), (2, 5))),
    RuleCase("kronecker-sum", "three inputs, a block each", lambda: shared_blocks(3, (4, 3), (4, 5))),
    RuleCase("kronecker-sum", "two inputs, one block of both", lambda: shared_blocks(2, (4, 1), (4, 6))),
    RuleCase("kronecker-sum", "four inputs, two blocks", lambda: shared_blocks(4, (4, 2), (4, 6))),
    RuleCase(
        "kronecker-sum",
        "two inputs, one of a block and a half",
        lambda: shared_blocks(2, (4, 3), (4, 2)),
        True,
        "no factor is that of an input",
    ),
    RuleCase(
        "kronecker-sum",
        "signed, in logarithms",
        lambda: weighted(kronecker(normal(S), normal((4, 2)))),
        True,
        NEGATIVE,
        ("lse-sum",),
    ),
    RuleCase(
        "kronecker-sum",
        "a factor of one number",
        lambda: weighted(kronecker(softmax_normal((1, 1)), softmax_normal(S))),
        True,
        "two contractions cost no less",
    ),
    RuleCase(
        "kronecker-sum",
        "within a softmax",
        lambda: weighted(of(kronecker(normal(S), normal((4, 2))), SoftmaxParameter((8, 6)))),
        True,
    ),
    RuleCase("kronecker-tensor-dot", "two factors", lambda: dot(softmax_normal(S), softmax_normal((3, 2)))),
    RuleCase("kronecker-tensor-dot", "signed", lambda: dot(normal(S), normal((3, 2))), semirings=LINEAR),
    RuleCase(
        "kronecker-tensor-dot",
        "signed, in logarithms",
        lambda: dot(normal(S), normal((3, 2))),
        True,
        NEGATIVE,
        ("lse-sum",),
    ),
    RuleCase(
        "kronecker-tensor-dot",
        "a factor of one number",
        lambda: dot(softmax_normal((1, 1)), softmax_normal(S)),
        True,
        "two contractions cost no less",
    ),
    RuleCase("kronecker-tensor-dot", "no product", lambda: dot(softmax_normal(S)), True),
)


def log_of(*ops: Any) -> Circuit:
    """The exponential of the logarithm of something: a weight that is not negative."""
    return weighted(of(normal(S), *ops))


def constants(op: Any, first: Any, second: Any, x: Any = None) -> Circuit:
    """(x op first) op second."""
    inner = pair(op(S, S), exp_normal(S) if x is None else x, fixed(first))
    return weighted(pair(op(S, S), inner, fixed(second)))


def left_and_right(op: Any) -> Parameter:
    """2 op ((3 op x) op 4)."""
    return pair(op(S, S), fixed(2), pair(op(S, S), pair(op(S, S), fixed(3), exp_normal(S)), fixed(4)))


def mixed_constants() -> Circuit:
    """((x + 2) * 3 + 4) * 5."""
    total: Any = exp_normal(S)
    for op, number in ((SumParameter, 2), (HadamardParameter, 3), (SumParameter, 4), (HadamardParameter, 5)):
        total = pair(op(S, S), total, fixed(number))
    return weighted(total)


def constants_of_two_readers() -> Circuit:
    """(x + 2) * ((x + 2) + 3)."""
    inner = pair(SumParameter(S, S), exp_normal(S), fixed(2))
    return weighted(pair(HadamardParameter(S, S), inner, pair(SumParameter(S, S), inner, fixed(3))))


def complex_weight() -> Circuit:
    """log(exp(x)) for a complex x."""
    x = TensorParameter(*S, initializer=NormalInitializer(), dtype=DataType.COMPLEX)
    return weighted(of(x, ExpParameter(S), LogParameter(S)))


PARAMETERS = (
    RuleCase("log-softmax", "alone", lambda: log_of(SoftmaxParameter(S, axis=0), LogParameter(S)), semirings=LINEAR),
    RuleCase("log-softmax", "shared", shared_softmax, semirings=LINEAR),
    RuleCase("log-softmax", "of a sigmoid", lambda: log_of(SigmoidParameter(S), LogParameter(S)), True),
    RuleCase("log-softmax", "turned", lambda: log_of(ExpParameter(S), LogParameter(S), SoftmaxParameter(S)), True),
    RuleCase("log-exp", "alone", lambda: log_of(ExpParameter(S), LogParameter(S)), semirings=LINEAR),
    RuleCase(
        "exp-log-softmax",
        "alone",
        lambda: log_of(LogSoftmaxParameter(S, axis=0), ExpParameter(S)),
    ),
    RuleCase("exp-log-softmax", "of a softmax", lambda: log_of(SoftmaxParameter(S), ExpParameter(S)), True),
    RuleCase("log-exp", "of complex numbers", complex_weight, True, "x is not real", LINEAR),
    RuleCase("log-exp", "of a softplus", lambda: log_of(SoftplusParameter(S), LogParameter(S)), True),
    RuleCase("exp-log", "of a sigmoid", lambda: log_of(SigmoidParameter(S), LogParameter(S), ExpParameter(S))),
    RuleCase(
        "exp-log",
        "of a product",
        lambda: weighted(
            of(
                pair(HadamardParameter(S, S), exp_normal(S), of(normal(S), SoftplusParameter(S))),
                LogParameter(S),
                ExpParameter(S),
            )
        ),
    ),
    RuleCase("exp-log", "of anything", lambda: log_of(LogParameter(S), ExpParameter(S)), True, "x may be negative"),
    RuleCase(
        "exp-log",
        "of a difference",
        lambda: weighted(
            of(
                pair(SumParameter(S, S), of(normal(S), SoftmaxParameter(S)), fixed(-1)),
                LogParameter(S),
                ExpParameter(S),
            )
        ),
        True,
        "x may be negative",
    ),
    RuleCase("exp-log", "of a softmax alone", lambda: log_of(SoftmaxParameter(S), ExpParameter(S)), True),
    RuleCase("einsum", "along the pairs", lambda: summed_outer(1)),
    RuleCase("einsum", "along another axis", lambda: summed_outer(2)),
    RuleCase("einsum", "two readers", outer_of_two_readers, True),
    RuleCase("einsum", "a product along the axis", lambda: summed_outer(2, reduced=ReduceProductParameter), True),
    RuleCase("einsum", "an outer sum", lambda: summed_outer(2, op=OuterSumParameter), True),
    RuleCase(
        "clamp-clamp",
        "overlapping",
        lambda: log_of(ClampParameter(S, vmin=-1.0, vmax=0.8), ClampParameter(S, vmin=0.1, vmax=2.0)),
    ),
    RuleCase("clamp-clamp", "apart", lambda: log_of(ClampParameter(S, vmax=-0.5), ClampParameter(S, vmin=0.5))),
    RuleCase("clamp-clamp", "one side", lambda: log_of(ClampParameter(S, vmin=-0.5), ClampParameter(S, vmin=0.1))),
    RuleCase(
        "clamp-clamp",
        "something between",
        lambda: log_of(ClampParameter(S, vmax=0.5), ExpParameter(S), ClampParameter(S, vmin=0.1)),
        True,
    ),
    RuleCase("clamp", "of a softmax", lambda: log_of(SoftmaxParameter(S), ClampParameter(S, vmin=0.0, vmax=1.0))),
    RuleCase(
        "clamp", "of a scaled sigmoid", lambda: log_of(ScaledSigmoidParameter(S, 0.5, 2.0), ClampParameter(S, vmin=0.1))
    ),
    RuleCase(
        "clamp",
        "within the range",
        lambda: log_of(SoftmaxParameter(S), ClampParameter(S, vmin=0.01)),
        True,
        "the clamp may change a number",
    ),
    RuleCase(
        "constant-product",
        "arrays",
        lambda: weighted(pair(HadamardParameter(S, S), array(0), array(1))),
        semirings=LINEAR,
    ),
    RuleCase("constant-product", "numbers", lambda: weighted(pair(HadamardParameter(S, S), fixed(2), fixed(3)))),
    RuleCase(
        "constant-product", "one is learnt", lambda: weighted(pair(HadamardParameter(S, S), fixed(2), normal(S))), True
    ),
    RuleCase("constant-product", "kronecker", lambda: weighted(kronecker(of(array(0)), of(array(1)))), True),
    RuleCase("constant-sum", "an array and a number", lambda: weighted(pair(SumParameter(S, S), array(0), fixed(9)))),
    RuleCase("constant-sum", "one is learnt", lambda: weighted(pair(SumParameter(S, S), fixed(2), normal(S))), True),
    RuleCase("times-one", "right", lambda: weighted(pair(HadamardParameter(S, S), exp_normal(S), fixed(1)))),
    RuleCase("times-one", "left", lambda: weighted(pair(HadamardParameter(S, S), fixed(1.0), exp_normal(S)))),
    RuleCase("times-one", "two", lambda: weighted(pair(HadamardParameter(S, S), normal(S), fixed(2))), True),
    RuleCase(
        "times-one",
        "here and there",
        lambda: weighted(pair(HadamardParameter(S, S), normal(S), constant(np.eye(2, 3)))),
        True,
    ),
    RuleCase("times-one", "complex", lambda: weighted(pair(HadamardParameter(S, S), normal(S), fixed(1 + 0j))), True),
    RuleCase("plus-zero", "left", lambda: weighted(pair(SumParameter(S, S), constant(np.zeros(S)), exp_normal(S)))),
    RuleCase("plus-zero", "-0.0", lambda: weighted(pair(SumParameter(S, S), normal(S), fixed(-0.0))), semirings=LINEAR),
    RuleCase(
        "plus-zero",
        "x may be -0.0",
        lambda: weighted(pair(SumParameter(S, S), normal(S), fixed(0.0))),
        True,
        "x may be -0.0",
        LINEAR,
    ),
    RuleCase("plus-zero", "one", lambda: weighted(pair(SumParameter(S, S), normal(S), fixed(1))), True),
    RuleCase("plus-plus", "two numbers", lambda: constants(SumParameter, 2, 0.5)),
    RuleCase("plus-plus", "three, left and right", lambda: weighted(left_and_right(SumParameter))),
    RuleCase("plus-plus", "of both signs", lambda: constants(SumParameter, 2, -0.5), semirings=LINEAR),
    RuleCase("plus-plus", "an array", lambda: constants(SumParameter, 2, 1 + np.eye(2, 3))),
    RuleCase("plus-plus", "they cancel", lambda: constants(SumParameter, 1e4, -1e4), True, "the constants cancel"),
    RuleCase("plus-plus", "infinite", lambda: constants(SumParameter, 1, np.inf), True, "infinite or NaN"),
    RuleCase("plus-plus", "too large", lambda: constants(SumParameter, 4e4, 3e4), True, "may overflow"),
    RuleCase("plus-plus", "a product between", mixed_constants, True),
    RuleCase("plus-plus", "two readers", constants_of_two_readers, True, "another consumer"),
    RuleCase("times-times", "two numbers", lambda: constants(HadamardParameter, 2, 0.5)),
    RuleCase("times-times", "a zero", lambda: constants(HadamardParameter, 0.0, 3)),
    RuleCase("times-times", "an array", lambda: constants(HadamardParameter, 2, 1 + np.eye(2, 3))),
    RuleCase("times-times", "too small", lambda: constants(HadamardParameter, 1e-3, 2e-3), True, "may underflow"),
    RuleCase("times-times", "too large", lambda: constants(HadamardParameter, 1e3, 2e3), True, "may overflow"),
    RuleCase("times-times", "a sum between", mixed_constants, True),
)

RULE_CASES = (*FUSING, *SHATTERING, *PARAMETERS)
