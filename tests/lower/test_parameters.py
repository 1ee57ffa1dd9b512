"""Values of parameters: what folds inside a graph and across graphs, what is shared, and that the values are right."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import ShapeError
from plica.frontend.programs import interpret
from plica.graph.fold import FoldIndexInfo
from plica.ir.builder import Builder
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Program
from plica.ir.types import array_type
from plica.lower.leaves import Constant, Leaf, owners_of
from plica.lower.parameters import ParameterValues, wide_dtype
from plica.ops import OPS
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import GaussianLayer, HadamardLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    Parameter,
    ReduceSumParameter,
    ReferenceParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SumParameter,
    TensorParameter,
    UnaryOp,
)
from plica.tracing.scope import Trace
from plica.tracing.tracer import Tracer
from tests.harness.oracle import Oracle

SHAPE = (2, 3)


def leaf(*shape: int, **settings: Any) -> TensorParameter:
    return TensorParameter(*(shape or SHAPE), initializer=NormalInitializer(), **settings)


def constant(value: Any) -> ConstantParameter:
    return ConstantParameter(*SHAPE, value=value)


def softmax(parameter: Any) -> Parameter:
    return Parameter.from_unary(SoftmaxParameter(SHAPE), parameter)


def added(first: Any, second: Any) -> Parameter:
    return Parameter.from_binary(SumParameter(SHAPE, SHAPE), first, second)


@dataclass
class Lowering:
    """A Program that returns the values of lists of parameters, with what it captures."""

    owners: dict[TensorParameter, Leaf] = field(default_factory=dict)
    captured: list[Leaf | Constant] = field(default_factory=list)
    folds: FoldIndexInfo[Any] | None = None

    def lower(self, *lists: Sequence[Any]) -> Program:
        builder = Builder(OPS)
        scope = Trace(builder)

        def capture(one: Leaf | Constant, dtype: DType) -> Tracer:
            self.captured.append(one)
            shape = one.shape if isinstance(one, Leaf) else one.value.shape
            return Tracer(builder.const(None, array_type(shape, dtype)), scope)

        values = ParameterValues(
            DType.FLOAT64,
            lambda one: capture(one, wide_dtype(one.kind, DType.FLOAT64)),
            self.owners,
            lambda array, _: capture(Constant(array), as_dtype(array.dtype)),
        )
        with scope.active():
            results = [values.evaluate([Parameter.from_input(one) for one in parameters]) for parameters in lists]
        self.folds = values.info
        return builder.build([result.operand for result in results])

    @property
    def leaves(self) -> list[Leaf]:
        return [one for one in self.captured if isinstance(one, Leaf)]

    def values(self, program: Program, numbers: dict[TensorParameter, Any]) -> list[Any]:
        arrays = [
            np.stack([numbers[member] for member in one.members]) if isinstance(one, Leaf) else one.value
            for one in self.captured
        ]
        return list(interpret(program, consts=arrays))


def tensors(lists: Iterable[Sequence[Any]]) -> dict[TensorParameter, Any]:
    """Numbers for every tensor behind some parameters."""
    rng = np.random.default_rng(0)
    nodes = [node for parameters in lists for one in parameters for node in Parameter.from_input(one).nodes]
    targets = dict.fromkeys(getattr(node, "parameter", node) for node in nodes)
    found = [one for one in targets if isinstance(one, TensorParameter)]
    return {
        one: rng.integers(0, 9, one.shape) if one.dtype == DataType.INTEGER else rng.normal(size=one.shape)
        for one in found
    }


class Values(Oracle):
    """The oracle of parameters alone."""

    def __init__(self, numbers: dict[TensorParameter, Any]) -> None:
        self._leaves = numbers
        self._parameters = {}


def check(*lists: Sequence[Any], lowering: Lowering | None = None) -> tuple[Program, Lowering]:
    """The Program of some lists of parameters, after its values were compared."""
    lowering = lowering or Lowering()
    program = lowering.lower(*lists)
    numbers = tensors(lists)
    for leaf_ in lowering.leaves:
        for member in leaf_.members:
            numbers.setdefault(member, np.zeros(member.shape))
    oracle = Values(numbers)
    for found, parameters in zip(lowering.values(program, numbers), lists, strict=True):
        expected = [oracle.parameter(Parameter.from_input(one)) for one in parameters]
        np.testing.assert_allclose(found, np.stack(expected).astype(float), rtol=1e-12)
    return program, lowering


def made(program: Program) -> dict[str, int]:
    return dict(Counter(equation.op.name for equation in program.equations))


def test_folds_across_graphs_and_inside_one() -> None:
    inside = Parameter.from_binary(HadamardParameter(SHAPE, SHAPE), softmax(leaf()), softmax(leaf()))
    program, lowering = check([softmax(leaf()), softmax(leaf())], [inside])
    assert [one.shape for one in lowering.leaves] == [(2, *SHAPE), (2, *SHAPE)]
    assert made(program) == {"softmax": 2, "slice": 2, "multiply": 1}  # one softmax of two folds for each evaluation
    program, lowering = check([inside, Parameter.from_binary(HadamardParameter(SHAPE, SHAPE), softmax(leaf()), leaf())])
    assert made(program)["softmax"] == 1
    assert [one.shape for one in lowering.leaves] == [(4, *SHAPE)]


# name: (leaves, the numbers of folds of the captured tensors)
LEAVES = {
    "alike": ([leaf(), leaf(), leaf()], [3]),
    "names and initial values do not matter": ([leaf(name="a"), leaf(name="b")], [2]),
    "learnability": ([leaf(), leaf(learnable=False), leaf()], [2, 1]),
    "dtype": ([leaf(), leaf(dtype=DataType.INTEGER, learnable=False), leaf(learnable=False)], [1, 1, 1]),
    "shape": ([leaf(), leaf(3, 2), leaf()], [2, 1]),
}


@pytest.mark.parametrize("name", LEAVES)
def test_which_leaves_fold(name: str) -> None:
    leaves, folds = LEAVES[name]
    lowering = Lowering()
    if name == "dtype":  # one result has one dtype
        lowering.lower(*[[one] for one in leaves])
    elif name == "shape":
        lowering.lower(leaves[::2], leaves[1:2])
    else:
        check(leaves, lowering=lowering)
    assert [len(one.members) for one in lowering.leaves] == folds
    assert all(len({(m.shape, m.learnable, m.dtype) for m in one.members}) == 1 for one in lowering.leaves)


# name: (folds of one base of 20 that are read, the operations that read them)
POINTERS = {
    "whole": (list(range(20)), {}),
    "one fold": ([7], {"slice": 1}),
    "neighbours": ([3, 4, 5], {"slice": 1}),
    "every third": ([0, 3, 6], {"slice": 1}),
    "one fold often": ([2, 2, 2], {"slice": 1, "broadcast_to": 1}),
    "not contiguous": ([5, 1, 9], {"slice": 2, "concat": 1}),
    "scattered": ([19 - one for one in range(20)], {"take": 1}),
}


@pytest.mark.parametrize("name", POINTERS)
def test_pointers_read_folds_of_their_base(name: str) -> None:
    folds, operations = POINTERS[name]
    base = [leaf() for _ in range(20)]
    program, lowering = check(base, [ReferenceParameter(base[fold]) for fold in folds])
    assert made(program) == operations
    assert len(lowering.leaves) == 1
    # the same where the base is a tensor of another circuit
    other = Lowering(owners=owners_of(lowering.leaves))
    program, other = check([ReferenceParameter(base[fold]) for fold in folds], lowering=other)
    assert other.leaves == lowering.leaves
    assert made(program) == operations


def test_a_shared_leaf_or_graph_is_evaluated_once() -> None:
    shared = leaf()
    first = softmax(shared)
    program, lowering = check([first, first], [first], [softmax(ReferenceParameter(shared))])
    assert made(program) == {"softmax": 2, "broadcast_to": 1}  # the second softmax is another node
    assert [one.shape for one in lowering.leaves] == [(1, *SHAPE)]


def test_a_leaf_joins_what_others_own() -> None:
    """Of two tensors that fold, one is a fold of another circuit's tensor."""
    old, new = [leaf(), leaf()], leaf()
    owner = Leaf(tuple(old))
    program, lowering = check([softmax(old[1]), softmax(new)], lowering=Lowering(owners=owners_of([owner])))
    assert lowering.leaves[0] is owner
    assert lowering.leaves[1].members == (new,)
    assert made(program)["softmax"] == 1


def test_constants_fold() -> None:
    zeros = np.zeros(SHAPE)
    program, lowering = check([constant(zeros), constant(zeros + 1)], [added(leaf(), constant(2.0)) for _ in range(2)])
    assert [one.value.shape for one in lowering.captured if isinstance(one, Constant)] == [(2, *SHAPE)]
    assert made(program)["full"] == 1  # one number, for both
    program, _ = check([constant(2.0), constant(3.0)])
    assert made(program) == {"full": 2, "concat": 1}


def test_real_and_complex_constants_do_not_fold() -> None:
    lowering = Lowering()
    lowering.lower([constant(np.ones(SHAPE))], [constant(np.full(SHAPE, 1j))])
    both = [constant(np.ones(SHAPE)), constant(np.full(SHAPE, 1j))]
    lowering.lower([added(*both)])
    assert [one.value.dtype for one in lowering.captured] == [float, complex] * 2


@st.composite
def graphs(draw: st.DrawFn) -> list[list[Parameter]]:
    """Lists of parameters over a few leaves, which they share as they are and through references."""
    leaves: list[Any] = [leaf(), leaf(), leaf(learnable=False), constant(0.5), constant(np.arange(6.0).reshape(SHAPE))]
    pool: list[Any] = [*leaves, *[ReferenceParameter(one) for one in leaves[:2]]]
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(
            st.sampled_from([SoftmaxParameter, ExpParameter, SoftplusParameter, SumParameter, HadamardParameter])
        )
        if kind in (SumParameter, HadamardParameter):
            operands = [draw(st.sampled_from(pool)) for _ in range(2)]
            pool.append(Parameter.from_binary(kind(SHAPE, SHAPE), *operands))
        else:
            operand = draw(st.sampled_from(pool))
            unary = Parameter.from_unary(SoftplusParameter(SHAPE) if kind is ExpParameter else kind(SHAPE), operand)
            pool.append(unary)
    return [draw(st.lists(st.sampled_from(pool), min_size=1, max_size=6)) for _ in range(draw(st.integers(1, 3)))]


@given(graphs())
def test_random_graphs(lists: list[list[Parameter]]) -> None:
    _, first = check(*lists)
    check(*reversed(lists), lowering=Lowering(owners=owners_of(first.leaves)))


@dataclass(frozen=True, eq=False)
class Labelled(UnaryOp):
    """Twice its input; what it is called does not matter, and what it is sealed by keeps it apart."""

    label: str = ""
    seal: str = ""

    def infer_shape(self) -> tuple[int, ...]:
        return self.in_shape

    def evaluate(self, xp: Any, *arrays: Any) -> Any:
        return xp.add(arrays[0], arrays[0])

    def fold_settings(self) -> Any:
        return self.in_shape, self.seal


class Careless(Labelled):
    """An operation whose settings forget its shape."""

    def fold_settings(self) -> Any:
        return "alike"


def values_of(*operations: Any) -> tuple[Program, list[Any]]:
    """The Program of operations on leaves of their own, and its values with those of their inputs."""
    lowering = Lowering()
    lists = [[Parameter.from_unary(operation, leaf(*operation.in_shape)) for operation in operations]]
    program, numbers = lowering.lower(*lists), tensors(lists)
    (found,) = lowering.values(program, numbers)
    return program, [found, np.stack(list(numbers.values()))]


@pytest.mark.parametrize(
    ("settings", "operations"),
    [
        ([{"label": "a"}, {"label": "b"}], 1),
        ([{"seal": "a"}, {"seal": "b"}, {"seal": "a"}], 2),
        ([{"label": "a", "seal": "x"}, {"label": "b", "seal": "x"}], 1),
    ],
)
def test_fold_settings_of_an_operation_are_honoured(settings: list[dict[str, str]], operations: int) -> None:
    program, (found, inputs) = values_of(*[Labelled(SHAPE, **one) for one in settings])
    assert made(program)["add"] == operations
    np.testing.assert_allclose(found, 2 * inputs)


def test_the_default_compares_config_and_shapes() -> None:
    assert SoftmaxParameter(SHAPE).fold_settings() == SoftmaxParameter(SHAPE).fold_settings()
    for other in (SoftmaxParameter(SHAPE, axis=0), SoftmaxParameter((3, 2))):
        assert SoftmaxParameter(SHAPE).fold_settings() != other.fold_settings()
    base = leaf()
    assert ReferenceParameter(base).fold_settings() == ReferenceParameter(base).fold_settings()
    assert ReferenceParameter(base).fold_settings() != ReferenceParameter(leaf()).fold_settings()


def test_settings_that_put_unlike_shapes_together_are_refused() -> None:
    lists = [
        Parameter.from_unary(ReduceSumParameter(shape), Parameter.from_unary(Careless(shape), leaf(*shape)))
        for shape in (SHAPE, (2, 4))
    ]
    with pytest.raises(
        ShapeError,
        match=r"Careless: its fold_settings\(\) fold operations of different shapes: .*\(2, 4\).* and .*\(2, 3\)",
    ):
        Lowering().lower(lists)


def test_every_node_is_found_in_both_directions() -> None:
    parameters = [softmax(leaf()), softmax(leaf()), added(leaf(), constant(1.0))]
    lowering = Lowering()
    lowering.lower(parameters)
    assert lowering.folds is not None
    info, nodes = lowering.folds, {node for one in parameters for node in one.nodes}
    assert set(info.fold_idx) == nodes
    for node in nodes:
        group, fold = info.find(node)
        assert info.module(group, fold) is node
        owner = next(one for one in parameters if node in one.nodes)
        reads = [info.module(*place) for place in info.in_fold_idx[group][fold]]
        assert reads == list(owner.node_inputs(node))
    assert info.find(parameters[0].output)[0] == info.find(parameters[1].output)[0]


def test_constants_of_many_numbers_are_one_array() -> None:
    """As where many columns have a mean and a spread each: not a group of folds, and an equation, for each number."""
    rng = np.random.default_rng(0)
    lengths = []
    for columns in (40, 80):
        means, spreads = rng.normal(size=columns), rng.uniform(0.5, 2.0, columns)
        layers = [
            GaussianLayer(
                [variable],
                2,
                mean=Parameter.from_input(ConstantParameter(2, value=float(means[variable]))),
                stddev=Parameter.from_input(ConstantParameter(2, value=float(spreads[variable]))),
            )
            for variable in range(columns)
        ]
        product = HadamardLayer(2, columns)
        circuit = Circuit([*layers, product], {product: layers}, [product])
        compiled = TorchCompiler(dtype=torch.float64).compile(circuit)
        x = rng.normal(size=(5, columns))
        found = compiled(torch.from_numpy(x))[:, 0].detach().numpy()
        scores = (x - means) / spreads
        logs = -0.5 * scores**2 - np.log(spreads) - 0.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(found, logs.sum(1)[:, None].repeat(2, 1), rtol=1e-12)
        lengths.append(len(compiled.program.equations))
    assert lengths[1] - lengths[0] == 80 - 40  # one multiplication for each input of the product
