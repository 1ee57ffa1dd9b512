import pickle
from typing import Any

import pytest

from plica.errors import DTypeError, GraphError, ShapeError
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    MixingWeightParameter,
    OuterSumParameter,
    Parameter,
    ReferenceParameter,
    SoftmaxParameter,
    SquareParameter,
    SumParameter,
    TensorParameter,
    mixing_weight_factory,
    softmax_normal,
)


def leaf(*shape: int, **settings) -> TensorParameter:
    return TensorParameter(*shape, initializer=NormalInitializer(), **settings)


def test_a_leaf_is_a_parameter() -> None:
    tensor = leaf(2, 3)
    parameter = Parameter.from_input(tensor)
    assert parameter.nodes == (tensor,)
    assert parameter.output is tensor
    assert parameter.shape == (2, 3)
    assert Parameter.from_input(parameter) is parameter


def test_nodes_come_in_topological_order() -> None:
    tensor, exp, softmax = leaf(2, 3), ExpParameter((2, 3)), SoftmaxParameter((2, 3))
    parameter = Parameter([softmax, exp, tensor], {softmax: [exp], exp: [tensor]}, [softmax])
    assert parameter.nodes == (tensor, exp, softmax)
    assert parameter.node_inputs(softmax) == (exp,)
    assert parameter.leaves == (tensor,)
    assert parameter.outputs == (softmax,)
    assert parameter.inputs == (tensor,)
    parts: list[Any] = [parameter.nodes, parameter.inputs, parameter.outputs]  # tuples that are iterators too
    assert list(map(next, parts)) == [tensor, tensor, softmax]


def test_topological_orders_are_iterators() -> None:
    leaves = [TensorParameter(2, initializer=NormalInitializer()) for _ in range(2)]
    exp, total = ExpParameter((2,)), SumParameter((2,), (2,))
    parameter = Parameter.from_binary(total, Parameter.from_unary(exp, leaves[0]), leaves[1])
    order, levels = parameter.topological_ordering(), parameter.layerwise_topological_ordering()
    assert [next(order) for _ in range(4)] == [leaves[0], exp, leaves[1], total]
    assert [next(levels) for _ in range(3)] == [(leaves[0], leaves[1]), (exp,), (total,)]
    with pytest.raises(StopIteration):
        next(order)


def test_sequence_and_binary_share_what_is_shared() -> None:
    base = Parameter.from_sequence(leaf(3), ExpParameter((3,)), SquareParameter((3,)))
    assert [type(node).__name__ for node in base.nodes] == ["TensorParameter", "ExpParameter", "SquareParameter"]
    doubled = Parameter.from_binary(SumParameter((3,), (3,)), base, base)
    assert len(doubled.nodes) == 4
    other = Parameter.from_nary(OuterSumParameter((3,), (2,)), doubled, leaf(2))
    assert other.shape == (6,)
    assert len(other.nodes) == 6


def test_sixty_doublings_stay_small() -> None:
    parameter = Parameter.from_input(leaf(1))
    for _ in range(60):
        parameter = Parameter.from_binary(HadamardParameter((1,), (1,)), parameter, parameter)
    assert len(parameter.nodes) == 61
    assert len(parameter.ref().nodes) == 61


def test_references_share_leaves_and_copy_operations() -> None:
    tensor, constant = leaf(3), ConstantParameter(3, value=1.0)
    parameter = Parameter.from_binary(SumParameter((3,), (3,)), tensor, constant)
    reference = parameter.ref()
    targets = [node.deref() if isinstance(node, ReferenceParameter) else node for node in reference.leaves]
    assert targets == [tensor, constant]
    assert reference.output is not parameter.output
    again: Any = reference.ref().leaves[0]
    assert again.deref() is tensor


def test_subgraph_ends_at_an_inner_node() -> None:
    parameter = mixing_weight_factory((2, 6), param_factory=softmax_normal)
    inner = parameter.subgraph(parameter.node_inputs(parameter.output)[0])
    assert inner.shape == (2, 3)
    assert inner.nodes == parameter.nodes[:-1]


def test_dtype_is_the_widest_of_the_leaves() -> None:
    real = Parameter.from_input(leaf(3))
    both = Parameter.from_binary(SumParameter((3,), (3,)), real, leaf(3, dtype=DataType.COMPLEX))
    assert (real.dtype, both.dtype, both.ref().dtype) == (DataType.REAL, DataType.COMPLEX, DataType.COMPLEX)
    assert Parameter.from_input(ConstantParameter(1, value=3)).dtype == DataType.REAL


def test_pickles() -> None:
    parameter = mixing_weight_factory((2, 6), param_factory=softmax_normal)
    loaded = pickle.loads(pickle.dumps(parameter))
    assert [type(node) for node in loaded.nodes] == [type(node) for node in parameter.nodes]
    assert loaded.shape == (2, 6)


def test_mixing_weights() -> None:
    parameter = mixing_weight_factory((4, 12), param_factory=lambda shape: leaf(*shape))
    assert isinstance(parameter.output, MixingWeightParameter)
    assert parameter.leaves[0].shape == (4, 3)
    with pytest.raises(ShapeError, match=r"expected a shape \(K, H\*K\), found \(4, 10\)"):
        mixing_weight_factory((4, 10), param_factory=softmax_normal)


EXP, SQUARE, TENSOR = ExpParameter((3,)), SquareParameter((3,)), leaf(3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Parameter([EXP, SQUARE], {EXP: [SQUARE], SQUARE: [EXP]}, [EXP]), GraphError, "cycle of 2"),
        (lambda: Parameter([EXP], {EXP: [TENSOR]}, [EXP]), GraphError, "name a TensorParameter that is not among"),
        (lambda: Parameter([TENSOR], {}, []), GraphError, "at least one output, found none"),
        (lambda: Parameter([TENSOR], {}, [EXP]), GraphError, "the output ExpParameter is not among the nodes"),
        (lambda: Parameter([EXP], {}, [EXP]), ShapeError, r"expected inputs of shape \(3,\), found no inputs"),
        (lambda: Parameter.from_unary(EXP, leaf(4)), ShapeError, r"ExpParameter: expected .*\(3,\), found .*\(4,\)"),
        (lambda: Parameter([TENSOR, EXP], {TENSOR: [EXP], EXP: []}, [TENSOR]), ShapeError, "expected no inputs|Exp"),
        (lambda: Parameter.from_sequence(TENSOR, EXP, EXP), GraphError, "one ExpParameter object is used in two"),
        (
            lambda: Parameter.from_nary(EXP, Parameter.from_unary(EXP, TENSOR)),
            GraphError,
            "one ExpParameter object is used in two places",
        ),
        (
            lambda: Parameter.from_binary(
                SumParameter((3,), (3,)), Parameter.from_unary(EXP, TENSOR), Parameter.from_unary(EXP, leaf(3))
            ),
            GraphError,
            "construct a new operation",
        ),
        (lambda: Parameter.from_input(3.0), DTypeError, "expected a Parameter or a leaf of one, found float"),  # type: ignore[arg-type]
    ],
)
def test_refuses(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
