"""Where rules on Kronecker weights fire, and near misses."""

from plica.symbolic.parameters import (
    SoftmaxParameter,
    normal,
    softmax_normal,
)
from tests.harness.rule_cases.case import LINEAR, RuleCase, S, entries, fixed, kronecker, of, weighted
from tests.harness.rule_cases.circuits import dot, shared_blocks

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
