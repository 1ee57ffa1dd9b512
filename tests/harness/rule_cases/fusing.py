"""Where rules on sums and products fire, and near misses."""

from functools import partial

import numpy as np

from plica.symbolic.layers import HadamardLayer, KroneckerLayer, SumLayer
from plica.symbolic.parameters import (
    Parameter,
)
from tests.harness.circuits import chain, coin, constant, product_then_sum
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.rule_cases.case import RuleCase, fixed, weighted
from tests.harness.rule_cases.circuits import (
    dot,
    identity_of_two,
    inputs,
    mixed_products,
    mixed_sums_of_products,
    mixes,
    mixing_constant,
    nested_products,
    one_mixed_product,
    over,
    product_is_output,
    sum_over,
    sums_over_two,
    two_readers,
)

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
        RuleCase("sum-of-sums", f"{name}, {arity}", partial(build, arity), bool(why), why)
        for arity in (2, 3, 8, 12)
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
    RuleCase("sum-of-sums", "mixing, over dense sums", lambda: over(mixes(2), SumLayer(3, 3), SumLayer(3, 3, 2))),
    RuleCase(
        "sum-of-sums",
        "mixing, over sums of products",
        mixed_sums_of_products,
        True,
        "a sum of a product becomes one layer with it",
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
