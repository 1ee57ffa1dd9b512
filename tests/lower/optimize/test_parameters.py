"""Rules on parameters: what they make, and which nodes are shared; that they fire is tested by their cases."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from plica.graph.optimize import optimize_graph
from plica.lower.optimize import optimize_circuit
from plica.lower.optimize.parameters import PARAMETER_RULES, parameter_view, share_nodes
from plica.lower.optimize.ranges import known_range, known_row_sum
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import SumLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ConcatParameter,
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    LogParameter,
    LogSoftmaxParameter,
    MatMulParameter,
    OuterProductParameter,
    Parameter,
    ReduceSumParameter,
    ReferenceParameter,
    SigmoidParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SquareParameter,
    SumParameter,
    TensorParameter,
    UnaryOp,
    normal,
)
from tests.harness.circuits import chain, coin
from tests.harness.rewrites import assert_same, fired

S = (2, 3)


def of(parameter, *ops) -> Parameter:
    return Parameter.from_sequence(parameter, *ops)


def pair(op, first, second) -> Parameter:
    return Parameter.from_binary(op, first, second)


def fixed(value: float, shape=S) -> ConstantParameter:
    return ConstantParameter(*shape, value=value)


def array(seed: int, shape=S) -> ConstantParameter:
    return ConstantParameter(*shape, value=np.random.default_rng(seed).normal(size=shape))


def names(parameter: Parameter) -> list[str]:
    return [type(node).__name__.removesuffix("Parameter") for node in parameter.nodes]


def rewritten(parameter: Parameter) -> tuple[Parameter, list[str]]:
    """The parameter when no rule fires any more, and the rules that did."""
    done: list[str] = []
    while (result := optimize_graph(parameter_view(parameter), PARAMETER_RULES)) is not None:
        done += [applied.rule.name for applied in result.applied]
        parameter = Parameter(result.nodes, result.inputs, result.outputs)
    return parameter, done


class Space:
    """torch under the names that the rules of operations ask for."""

    exp, sigmoid, square = torch.exp, torch.sigmoid, torch.square
    safe_log, add, multiply, matmul, einsum = torch.log, torch.add, torch.mul, torch.matmul, torch.einsum
    reshape = staticmethod(torch.reshape)
    softplus = staticmethod(torch.nn.functional.softplus)

    @staticmethod
    def clip(x, low, high):
        return torch.clamp(x, low, high)

    @staticmethod
    def expand_dims(x, *, axis):
        return torch.unsqueeze(x, axis)

    @staticmethod
    def sum(x, *, axis):
        return torch.sum(x, axis)

    @staticmethod
    def softmax(x, *, axis):
        return torch.softmax(x, axis)

    @staticmethod
    def log_softmax(x, *, axis):
        return torch.log_softmax(x, axis)


def evaluate(parameter: Parameter, leaves: dict) -> torch.Tensor:
    """The value `(1, *shape)`, node by node; leaves are drawn once and remembered."""
    values: dict[Any, torch.Tensor] = {}
    node: Any
    for node in parameter.nodes:
        if isinstance(node, ConstantParameter):
            values[node] = torch.as_tensor(np.broadcast_to(node.value, node.shape).copy(), dtype=torch.float64)[None]
        elif not parameter.node_inputs(node):
            leaf = node.deref() if isinstance(node, ReferenceParameter) else node
            generator = torch.Generator().manual_seed(len(leaves))
            fresh = torch.randn(1, *leaf.shape, dtype=torch.float64, generator=generator).requires_grad_()
            values[node] = leaves.setdefault(leaf, fresh)
        else:
            values[node] = node.evaluate(Space, *[values[one] for one in parameter.node_inputs(node)])
    return values[parameter.output]


def assert_same_parameter(before: Parameter, after: Parameter) -> None:
    leaves: dict = {}
    expected, found = evaluate(before, leaves), evaluate(after, leaves)
    assert before.shape == after.shape
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    tensors = list(leaves.values())
    if tensors:
        weights = torch.rand(expected.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
        one, other = (
            torch.autograd.grad((value * weights).sum(), tensors, allow_unused=True) for value in (expected, found)
        )
        for first, second in zip(one, other, strict=True):
            torch.testing.assert_close(second, first, rtol=1e-9, atol=1e-9)


EINSUMS = [
    (first, second, outer, reduced)
    for first, second, outer in (
        ((2, 3), (2, 4), -1),
        ((2, 3), (5, 3), 0),
        ((2, 3, 4), (2, 5, 4), 1),
        ((2, 3, 4), (2, 3, 2), 2),
        ((3,), (4,), 0),
    )
    for reduced in range(-1, len(first))
]


@pytest.mark.parametrize(("first", "second", "outer", "reduced"), EINSUMS)
def test_the_sum_of_an_outer_product_is_an_einstein_sum(first, second, outer, reduced) -> None:
    product = OuterProductParameter(first, second, axis=outer)
    before = of(pair(product, normal(first), normal(second)), ReduceSumParameter(product.shape, axis=reduced))
    after, done = rewritten(before)
    assert done == ["einsum"]
    along = reduced % len(first) == outer % len(first)
    assert names(after)[2:] == (["Einsum"] if along else ["Einsum", "Flatten"])
    assert_same_parameter(before, after)


def test_the_logarithm_of_a_softmax_stays_finite() -> None:
    before = of(
        ConstantParameter(1, 2, value=np.array([[0.0, 5000.0]])), SoftmaxParameter((1, 2)), LogParameter((1, 2))
    )
    after, _ = rewritten(before)
    assert evaluate(before, {}).tolist() == [[[-np.inf, 0.0]]]
    assert evaluate(after, {}).tolist() == [[[-5000.0, 0.0]]]


def test_two_numbers_stay_one_number() -> None:
    after, _ = rewritten(pair(HadamardParameter(S, S), fixed(2), fixed(3)))
    assert after.output.value == 6.0


def test_alike_nodes_are_shared() -> None:
    leaf = normal(S)
    one, other = (of(leaf, ExpParameter(S), LogSoftmaxParameter(S, axis=0)) for _ in range(2))
    before = pair(SumParameter(S, S), one, other)
    after = share_nodes(before)
    assert names(after) == ["Tensor", "Exp", "LogSoftmax", "Sum"]
    assert_same_parameter(before, after)


def test_nodes_that_differ_are_not_shared() -> None:
    leaf = normal(S)
    for one, other in (
        (LogSoftmaxParameter(S, axis=0), LogSoftmaxParameter(S, axis=1)),
        (ExpParameter(S), SquareParameter(S)),
        (ClampParameter(S, vmin=1), ClampParameter(S, vmin=1.0)),
        (IndexParameter(S, indices=[0, 1, 2]), IndexParameter(S, indices=[0, 2, 1])),
    ):
        before = pair(SumParameter(S, S), of(leaf, one), of(leaf, other))
        assert share_nodes(before) is before
    before = pair(SumParameter(S, S), of(normal(S), ExpParameter(S)), of(normal(S), ExpParameter(S)))
    assert share_nodes(before) is before


def test_references_to_one_leaf_and_equal_constants_are_shared() -> None:
    leaf = normal(S)
    before = pair(SumParameter(S, S), of(leaf, ExpParameter(S)), of(leaf.ref(), ExpParameter(S)))
    assert names(share_nodes(before)) == ["Tensor", "Exp", "Sum"]
    constants = pair(HadamardParameter(S, S), of(array(0), ExpParameter(S)), of(array(0), ExpParameter(S)))
    assert names(share_nodes(constants)) == ["Constant", "Exp", "Hadamard"]


@dataclass(frozen=True, slots=True, eq=False)
class Doubled(UnaryOp):
    """An operation of one's own, which states no columns."""

    def infer_shape(self) -> tuple[int, ...]:
        return self.in_shape

    def evaluate(self, xp: Any, *arrays: Any) -> Any:  # noqa: ARG002
        return arrays[0] + arrays[0]


ANY = (-np.inf, np.inf)
RANGES = [
    (of(normal(S)), (-np.inf, np.inf)),
    (of(normal(S), SquareParameter(S)), (0, np.inf)),
    (of(TensorParameter(*S, initializer=NormalInitializer(), dtype=DataType.COMPLEX), SquareParameter(S)), ANY),
    (of(normal(S), Doubled(S), ExpParameter(S)), ANY),  # of an operation that nothing is known of
    (of(normal(S), SoftmaxParameter(S)), (0, 1)),
    (of(normal(S), SoftmaxParameter(S), ExpParameter(S)), (0, np.inf)),
    (of(normal(S), ClampParameter(S, vmin=-2, vmax=3)), (-2, 3)),
    (of(normal(S), SigmoidParameter(S), ClampParameter(S, vmin=2)), (2, 2)),
    (of(ConstantParameter(2, value=np.array([-1.0, 4.0]))), (-1, 4)),
    (of(ReferenceParameter(fixed(2))), (2, 2)),
    (pair(SumParameter(S, S), of(normal(S), SigmoidParameter(S)), fixed(2)), (2, 3)),
    (pair(KroneckerParameter(S, S), of(normal(S), SigmoidParameter(S)), fixed(2)), (0, np.inf)),
    (pair(KroneckerParameter(S, S), normal(S), fixed(2)), (-np.inf, np.inf)),
    (pair(MatMulParameter(S, (3, 2)), of(normal(S), ExpParameter(S)), of(fixed(-1, (3, 2)))), (-np.inf, np.inf)),
    (of(normal(S), SoftplusParameter(S), ReduceSumParameter(S)), (0, np.inf)),
    (of(normal(S), SigmoidParameter(S), IndexParameter(S, indices=[1])), (0, 1)),
    (pair(ConcatParameter(S, S), of(normal(S), SigmoidParameter(S)), fixed(2)), (0, 2)),
]


@pytest.mark.parametrize(("parameter", "expected"), RANGES, ids=lambda value: str(value))
def test_ranges_are_what_operations_allow(parameter, expected) -> None:
    assert known_range(parameter.output, parameter.node_inputs) == expected


def test_parameters_of_layers_are_rewritten_in_the_circuit() -> None:
    weight = of(normal((2, 3)), ExpParameter((2, 3)), LogParameter((2, 3)), ExpParameter((2, 3)))
    circuit = chain(coin([0], 3), SumLayer(3, 2, weight=weight))
    optimized = optimize_circuit(circuit)
    assert fired(optimized) == {"log-exp": 1}
    assert names(optimized.circuit.layers[-1].params["weight"]) == ["Tensor", "Exp"]
    assert optimized.circuit.layers[-1].params["weight"].nodes[0] is weight.nodes[0]
    assert_same(circuit, optimized)


def test_sums_of_rows_are_known_of_a_softmax_over_them() -> None:
    rows, columns = (Parameter.from_unary(SoftmaxParameter((2, 5), axis=axis), normal((2, 5))) for axis in (-1, 0))
    assert 1 < known_row_sum(rows) < 1.01
    assert known_row_sum(Parameter.from_unary(SoftmaxParameter((2, 5), axis=1), normal((2, 5)))) == known_row_sum(rows)
    assert known_row_sum(columns) == known_row_sum(normal((2, 5))) == np.inf
    wide = (1, 2**16)
    assert known_row_sum(Parameter.from_unary(SoftmaxParameter(wide), normal(wide))) == np.inf, "rounding adds up"
