"""Where rules on Kronecker weights fire, and near misses."""

from typing import Any

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import KroneckerLayer, OuterProductLayer, SumLayer, TransposeLayer
from plica.symbolic.parameters import (
    SoftmaxParameter,
    block_kronecker,
    normal,
    softmax_normal,
)
from tests.harness.circuits import coin
from tests.harness.rule_cases.case import LINEAR, RuleCase, S, entries, fixed, kronecker, of, weighted
from tests.harness.rule_cases.circuits import dot, laid_out, shared_blocks


def of_blocks(first: tuple[int, int], second: tuple[int, int], blocks1: int, blocks2: int) -> Circuit:
    """A sum over the products of the inputs of two sums, whose weights have blocks of these shapes."""
    factors = [
        softmax_normal((sums, units * blocks)) for (sums, units), blocks in ((first, blocks1), (second, blocks2))
    ]
    weight = block_kronecker(factors[0], factors[1], blocks1, blocks2)
    width, arity = first[1] * second[1], blocks1 * blocks2
    total = SumLayer(width, first[0] * second[0], arity, weight=weight)
    leaves = [coin([0], width, 3) for _ in range(arity)]
    return Circuit([*leaves, total], {total: leaves}, [total])


def transposes(sizes: tuple[int, ...], *orders: tuple[int, ...]) -> list[Any]:
    """Transpose layers one after another."""
    layers = []
    for axes in orders:
        layers.append(TransposeLayer(sizes, axes))
        sizes = tuple(sizes[axis] for axis in axes)
    return layers


NEGATIVE = "a factor of the weight may be negative"
SHATTERING = (
    RuleCase("sparse-sum", "one unit for each sum", lambda: weighted(entries(20, 1))),
    RuleCase("sparse-sum", "none or one unit for each sum", lambda: weighted(entries(20, 1, empty=3))),
    RuleCase("sparse-sum", "two units", lambda: weighted(entries(200, 2)), semirings=("max-sum", "lse-sum")),
    RuleCase("sparse-sum", "up to half of the units", lambda: weighted(entries(8, 3)), semirings=("max-product",)),
    RuleCase("sparse-sum", "too few units", lambda: weighted(entries(8, 3)), True, "gathers cost no less"),
    RuleCase("sparse-sum", "half of the units", lambda: weighted(entries(8, 4)), True, semirings=("max-product",)),
    RuleCase("sparse-sum", "learned", lambda: weighted(softmax_normal((20, 20))), True),
    RuleCase("sparse-sum", "one number", lambda: weighted(fixed(0.0, (20, 20))), True),
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
    RuleCase("kronecker-sum", "four inputs, two blocks of each", lambda: of_blocks((4, 2), (3, 3), 2, 2)),
    RuleCase("kronecker-sum", "three inputs, blocks of the second", lambda: of_blocks((4, 4), (5, 3), 1, 3)),
    RuleCase("kronecker-sum", "six inputs, blocks of one column", lambda: of_blocks((5, 1), (4, 4), 3, 2)),
    RuleCase(
        "kronecker-sum",
        "four inputs, one sum",
        lambda: of_blocks((1, 2), (1, 2), 2, 2),
        True,
        "contractions cost no less",
    ),
    RuleCase("transpose-transpose", "three axes", lambda: laid_out(*transposes((2, 3, 4), (2, 0, 1), (1, 0, 2)))),
    RuleCase("transpose-transpose", "there and back", lambda: laid_out(*transposes((2, 3), (1, 0), (1, 0)))),
    RuleCase(
        "transpose-transpose",
        "other axes",
        lambda: laid_out(TransposeLayer((4, 3), (1, 0)), TransposeLayer((2, 6), (1, 0))),
        True,
        "the axes between have sizes (3, 4) for the one and (2, 6) for the other",
    ),
    RuleCase(
        "transpose-kronecker",
        "three factors",
        lambda: laid_out(KroneckerLayer(3, 3), TransposeLayer((3, 3, 3), (2, 0, 1))),
    ),
    RuleCase(
        "transpose-kronecker",
        "unequal factors",
        lambda: laid_out(OuterProductLayer([2, 4]), TransposeLayer((2, 4), (1, 0))),
    ),
    RuleCase(
        "transpose-kronecker",
        "within the factors",
        lambda: laid_out(KroneckerLayer(4), TransposeLayer((2, 2, 2, 2), (0, 2, 1, 3))),
        True,
        "factors have (4, 4) units, and the axes sizes (2, 2, 2, 2)",
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
