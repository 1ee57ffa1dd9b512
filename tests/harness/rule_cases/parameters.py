"""Where rules on parameters fire, and near misses."""

from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.parameters import (
    ClampParameter,
    ExpParameter,
    HadamardParameter,
    LogParameter,
    LogSoftmaxParameter,
    OuterProductParameter,
    OuterSumParameter,
    Parameter,
    ReduceLSEParameter,
    ReduceProductParameter,
    ReduceSumParameter,
    ScaledSigmoidParameter,
    SigmoidParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SumParameter,
    TensorParameter,
    normal,
)
from tests.harness.circuits import constant
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.rule_cases.case import LINEAR, RuleCase, S, array, fixed, kronecker, of, pair, weighted


def shared_softmax() -> Circuit:
    """log(softmax(x)) + softmax(x): the softmax has another reader."""
    softmax = of(normal(S), SoftmaxParameter(S))
    return weighted(pair(SumParameter(S, S), of(softmax, LogParameter(S)), softmax))


def summed_outer(along: int, op: Any = OuterProductParameter, reduced: Any = ReduceSumParameter) -> Circuit:
    """A weight that is a reduction, along one of its axes, of every pair along axis 1."""
    pairs = op((2, 3, 4), (2, 5, 4), axis=1)
    return weighted(of(pair(pairs, exp_normal((2, 3, 4)), exp_normal((2, 5, 4))), reduced(pairs.shape, axis=along)))


def log_summed_outer(along: int, reduced: Any = ReduceLSEParameter) -> Circuit:
    """A weight whose logarithm is a reduction, along one of its axes, of the sum of every pair along axis 1."""
    pairs = OuterSumParameter((2, 3, 4), (2, 5, 4), axis=1)
    logs = of(pair(pairs, normal((2, 3, 4)), normal((2, 5, 4))), reduced(pairs.shape, axis=along))
    return weighted(of(logs, ExpParameter(logs.shape)))


def outer_of_two_readers() -> Circuit:
    """The sum and the product of one outer product."""
    pairs = OuterProductParameter((2, 3, 4), (2, 5, 4), axis=1)
    product = pair(pairs, exp_normal((2, 3, 4)), exp_normal((2, 5, 4)))
    both = [of(product, op(pairs.shape, axis=2)) for op in (ReduceSumParameter, ReduceProductParameter)]
    return weighted(pair(SumParameter((2, 15), (2, 15)), *both))


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
    RuleCase("log-einsum", "along the pairs", lambda: log_summed_outer(1)),
    RuleCase("log-einsum", "along another axis", lambda: log_summed_outer(2)),
    RuleCase("log-einsum", "a sum along the axis", lambda: log_summed_outer(2, ReduceSumParameter), True),
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
