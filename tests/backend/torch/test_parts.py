"""Layers, parameters and initializers that are compiled alone, and share their tensors with circuits."""

import copy
import math
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from plica import PipelineContext
from plica.backend.torch.parts import TorchLayer
from plica.errors import DTypeError, InputError, ShapeError, UnsupportedError
from plica.lower.optimize import DEFAULT_RULES
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import (
    ConstantTensorInitializer,
    DirichletInitializer,
    Initializer,
    InitializerRow,
    NormalInitializer,
)
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, KroneckerLayer, SumLayer, TuckerLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    Parameter,
    TensorParameter,
    softmax_normal,
)
from tests.harness.eval_circuits import ParameterOperations
from tests.harness.own_layers import NEIGHBOURS, NeighbourSum
from tests.harness.own_leaves import LowRank
from tests.harness.own_rules import SQUARED, operations


def leaf(*shape: int, **settings: Any) -> TensorParameter:
    return TensorParameter(*shape, initializer=NormalInitializer(), **settings)


INNER = {
    "sum": lambda: SumLayer(3, 2, 2),
    "hadamard": lambda: HadamardLayer(3, 2),
    "kronecker": lambda: KroneckerLayer(3, 2),
    "tucker": lambda: TuckerLayer(3, 2, 2),
    "own": lambda: NeighbourSum(3, 2, Parameter.from_input(leaf(3, 4))),
}


@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product", "max-product"])
@pytest.mark.parametrize("name", INNER)
def test_a_layer_alone_computes_what_it_does_in_a_circuit(name: str, semiring: str) -> None:
    layer = INNER[name]()
    context = PipelineContext(semiring=semiring, dtype="float64", optimize=False)
    context.add_layer_compilation_rule(NEIGHBOURS)
    alone = context.compile_layer(layer)
    assert context.compile_layer(layer) is alone
    inputs = [CategoricalLayer([v], 3, num_categories=2) for v in range(2)]
    compiled = context.compile(Circuit([*inputs, layer], {layer: inputs}, [layer]))
    x = torch.tensor([[0, 1], [1, 1], [0, 0]])
    units = [context.compile_layer(one)(x) for one in inputs]
    assert [one.shape for one in units] == [(1, 3, 3), (1, 3, 3)]
    torch.testing.assert_close(alone(*units)[0], compiled(x)[:, 0], rtol=1e-12, atol=1e-12)
    parameters = list(alone.parameters())
    assert {id(one) for one in parameters} <= {id(one) for one in compiled.parameters()}
    if parameters:
        alone(*units).sum().backward()
        assert all(bool((one.grad != 0).any()) for one in parameters)
        assert list(alone.state_dict()) == list(layer.params)


def test_input_layers_alone_read_data_as_circuits_do() -> None:
    layer = CategoricalLayer([2], 4, num_categories=3)
    context = PipelineContext()
    alone = context.compile_layer(layer)
    result = alone(torch.tensor([[9.0, 9.0, 1.0], [0.0, 0.0, float("nan")]]))
    assert result.shape == (1, 2, 4)
    torch.testing.assert_close(result[0, 1], torch.zeros(4))
    with pytest.raises(InputError, match="variable 2: the value 3"):
        alone(torch.tensor([[0, 0, 3]]))


def test_a_part_goes_from_dtype_to_dtype_and_is_copied() -> None:
    layer = SumLayer(3, 2)
    alone = PipelineContext().compile_layer(layer)
    x = torch.rand(1, 4, 3).log()
    expected = alone(x)
    double = alone.double()
    assert double is alone
    torch.testing.assert_close(alone(x.double()), expected.double(), rtol=1e-6, atol=1e-6)
    for other in (copy.deepcopy(alone), pickle.loads(pickle.dumps(alone))):
        assert torch.equal(other(x.double()), alone(x.double()))
        assert {id(one) for one in other.parameters()}.isdisjoint({id(one) for one in alone.parameters()})
    state = alone.state_dict()
    alone.load_state_dict({"weight": state["weight"].float()}, assign=True)
    torch.testing.assert_close(alone(x), expected)
    assert isinstance(alone, TorchLayer)
    assert "log_matmul_exp" in alone.code


def test_negative_weights_are_refused_where_logarithms_are_carried() -> None:
    learnt = SumLayer(2, 1, weight=TensorParameter(1, 2, initializer=ConstantTensorInitializer(-1.0)))
    fixed = SumLayer(2, 1, weight=ConstantParameter(1, 2, value=-1.0))
    x = torch.zeros(1, 1, 2)
    alone = PipelineContext().compile_layer(SumLayer(2, 1, weight=leaf(1, 2)))
    with torch.no_grad():
        next(alone.parameters()).fill_(-1.0)
    for refused in (
        lambda: alone(x),
        lambda: PipelineContext().compile_layer(learnt)(x),
        lambda: PipelineContext().compile_layer(fixed),
    ):
        with pytest.raises(UnsupportedError, match="negative"):
            refused()
    assert PipelineContext(semiring="sum-product").compile_layer(fixed)(x + 1).item() == -2


def test_a_parameter_alone() -> None:
    """Its value with a fold axis, several outputs as a tuple, gradients, and the tensors of circuits that have it."""
    mean, log = leaf(2), leaf(2, name="log")
    exp, square = ExpParameter((2,)), HadamardParameter((2,), (2,))
    both = Parameter([mean, log, exp, square], {exp: [log], square: [mean, exp]}, [square, mean])
    context = PipelineContext(dtype="float64")
    alone = context.compile_parameter(both)
    assert context.compile_parameter(both) is alone
    assert context.compile_parameter(mean) is context.compile_parameter(mean)
    product, first = alone()
    state = alone.state_dict()
    assert list(state) == ["value.0", "log"]
    assert product.shape == first.shape == (1, 2)
    torch.testing.assert_close(product[0], state["value.0"] * state["log"].exp())
    torch.testing.assert_close(first[0], state["value.0"])
    (product.sum() + first.sum()).backward()
    assert all(one.grad is not None for one in alone.parameters())
    # the same tensor's numbers, in memory of the caller's
    tensor = context._compiler.tensor_of(mean)[0]
    value = context.compile_parameter(mean)()
    assert value.data_ptr() != tensor.data_ptr()
    torch.testing.assert_close(value[0], tensor[0])

    weight = softmax_normal((1, 3))
    inputs, total = CategoricalLayer([0], 3, num_categories=2), SumLayer(3, 1, weight=weight)
    compiled = context.compile(Circuit([inputs, total], {total: [inputs]}, [total]))
    compiled.load_state_dict({**compiled.state_dict(), "1.weight": torch.tensor([[0.0, 1.0, 2.0]])})
    expected = torch.tensor([[[0.0, 1.0, 2.0]]], dtype=torch.float64).softmax(-1)
    torch.testing.assert_close(context.compile_parameter(weight)(), expected)


@pytest.mark.parametrize("kind", [DataType.REAL, DataType.COMPLEX, DataType.INTEGER])
def test_parameters_alone_of_every_kind(kind: DataType) -> None:
    value = np.array([1, 2, 3])
    tensor = TensorParameter(3, initializer=ConstantTensorInitializer(value), learnable=False, dtype=kind)
    found = PipelineContext().compile_parameter(tensor)()
    assert found.dtype == {"REAL": torch.float32, "COMPLEX": torch.complex64, "INTEGER": torch.int64}[kind.name]
    assert found[0].tolist() == [1, 2, 3]
    constant = PipelineContext().compile_parameter(ConstantParameter(2, value=[0.5, 2.0]))()
    assert constant.tolist() == [[0.5, 2.0]]


def test_a_leaf_of_ones_own_alone() -> None:
    alone = PipelineContext(dtype="float64").compile_parameter(LowRank(3, 4, rank=1))
    first, second = alone.state_dict().values()
    torch.testing.assert_close(alone()[0], first @ second)


@dataclass(frozen=True, eq=False)
class Ramp(Initializer):
    """0, 1, 2, ... : an initializer of one's own."""

    @property
    def config(self) -> dict[str, Any]:
        return {}

    def allows_shape(self, shape: tuple[int, ...]) -> bool:
        return len(shape) > 0

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:  # noqa: ARG002
        return np.arange(np.prod(shape)).reshape(shape)


def test_an_initializer_alone_fills_in_place() -> None:
    context = PipelineContext()
    fill = context.compile_initializer(DirichletInitializer(2.0))
    tensor = torch.empty(4, 3)
    assert fill(tensor, seed=1) is tensor
    torch.testing.assert_close(tensor.sum(-1), torch.ones(4))
    assert torch.equal(fill(torch.empty(4, 3), 1), tensor)
    torch.manual_seed(5)
    one = fill(torch.empty(4, 3))
    torch.manual_seed(5)
    assert torch.equal(fill(torch.empty(4, 3)), one)
    assert context.compile_initializer(Ramp())(torch.nn.Parameter(torch.empty(2, 2))).tolist() == [[0, 1], [2, 3]]
    context.add_initializer_compilation_rule(InitializerRow(Ramp, lambda _, __, shape: np.ones(shape)))
    assert context.compile_initializer(Ramp())(torch.empty(2)).tolist() == [1, 1]
    with pytest.raises(ShapeError, match=r"DirichletInitializer with .* cannot fill shape \(\)"):
        fill(torch.empty(()))


ODD_TENSORS: dict[str, Any] = {
    "without entries": lambda: torch.empty(3, 0),
    "of no axis": lambda: torch.empty(()),
    "transposed": lambda: torch.empty(4, 3).T,
    "every other entry": lambda: torch.empty(4, 6)[:, ::2],
    "of 16 bits": lambda: torch.empty(2, 3, dtype=torch.float16),
    "of 16 bits, the other kind": lambda: torch.empty(2, 3, dtype=torch.bfloat16),
    "complex": lambda: torch.empty(2, 3, dtype=torch.complex64),
    "that learns": lambda: torch.nn.Parameter(torch.empty(2, 3)),
}


@pytest.mark.parametrize("case", ODD_TENSORS)
def test_an_initializer_fills_odd_tensors(case: str) -> None:
    """With the draws that a plain tensor of the shape gets, in the order of its entries."""
    tensor = ODD_TENSORS[case]()
    filled = PipelineContext().compile_initializer(NormalInitializer(1.0, 2.0))(tensor, seed=3)
    assert filled is tensor
    shape, rng = tuple(tensor.shape), np.random.default_rng(3)
    if tensor.is_complex():
        parts = rng.normal(0.0, 2.0 / math.sqrt(2.0), (2, *shape))
        draws = torch.as_tensor(1.0 + parts[0] + 1j * parts[1])
    else:
        draws = torch.as_tensor(rng.normal(1.0, 2.0, shape))
    torch.testing.assert_close(tensor.detach(), draws.to(tensor.dtype))


def test_an_initializer_fills_what_holds_its_numbers() -> None:
    context = PipelineContext()
    whole = context.compile_initializer(ConstantTensorInitializer(3))
    assert whole(torch.empty(2, dtype=torch.int32)).tolist() == [3, 3]
    assert whole(torch.empty(2, dtype=torch.float16)).tolist() == [3.0, 3.0]
    assert context.compile_initializer(ConstantTensorInitializer(2.0))(torch.empty(1, dtype=torch.int64)).item() == 2
    assert whole(torch.empty(2, device="meta")).shape == (2,)


def test_narrower_inputs_are_taken_in_the_dtype_of_the_parameters() -> None:
    alone = PipelineContext(dtype="float64").compile_layer(SumLayer(3, 2))
    x = torch.rand(1, 4, 3).log()
    assert torch.equal(alone(x), alone(x.double()))
    product = PipelineContext().compile_layer(HadamardLayer(3, 2))
    assert product(x.double(), x.double()).dtype == torch.float64


def test_rules_on_programs_are_those_of_the_context() -> None:
    """In a layer that is compiled alone, and in a parameter, as in a circuit."""
    layer = NeighbourSum(3, 1, Parameter.from_input(leaf(3, 2)))
    square = HadamardParameter((3,), (3,))
    one = leaf(3)
    parameter = Parameter.from_binary(square, one, one)
    for optimize in (True, False):
        context = PipelineContext(rules=DEFAULT_RULES.adding(programs=[SQUARED]), optimize=optimize)
        context.add_layer_compilation_rule(NEIGHBOURS)
        for part in (context.compile_layer(layer), context.compile_parameter(parameter)):
            assert ("square" in operations(part)) == optimize
        value = next(context.compile_parameter(parameter).parameters())
        torch.testing.assert_close(context.compile_parameter(parameter)(), value * value)


def test_a_draw_of_another_shape_is_refused() -> None:
    context = PipelineContext()
    context.add_initializer_compilation_rule(InitializerRow(Ramp, lambda _, __, shape: np.ones((1, *shape))))
    with pytest.raises(ShapeError, match=r"Ramp: expected a draw of shape \(2,\), found \(1, 2\)"):
        context.compile_initializer(Ramp())(torch.empty(2))


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a circuit as a layer": (
        lambda ctx: ctx.compile_layer(Circuit([(one := CategoricalLayer([0], 1, num_categories=2))], {}, [one])),
        DTypeError,
        "compile_layer takes a layer, found Circuit.*compile a circuit with `compile`",
    ),
    "a layer without a row": (
        lambda ctx: ctx.compile_layer(NeighbourSum(2, 1, Parameter.from_input(leaf(2, 2)))),
        UnsupportedError,
        "NeighbourSum has no row",
    ),
    "a number as a parameter": (lambda ctx: ctx.compile_parameter(2.0), DTypeError, "expected a Parameter"),
    "a function as an initializer": (
        lambda ctx: ctx.compile_initializer(torch.nn.init.normal_),
        DTypeError,
        "compile_initializer takes an initializer, found .*with a method `draw`",
    ),
    "too few inputs": (
        lambda ctx: ctx.compile_layer(HadamardLayer(3, 2))(torch.zeros(1, 2, 3)),
        ShapeError,
        r"expected 2 input\(s\) of shape \(1, 2, 3\), found \[\(1, 2, 3\)\]",
    ),
    "inputs of several lengths": (
        lambda ctx: ctx.compile_layer(HadamardLayer(3, 2))(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3)),
        ShapeError,
        r"found \[\(1, 2, 3\), \(1, 4, 3\)\]",
    ),
    "inputs without a fold axis": (
        lambda ctx: ctx.compile_layer(SumLayer(3, 2))(torch.zeros(2, 3)),
        ShapeError,
        "with the fold axis of size 1 ahead",
    ),
    "integers": (
        lambda ctx: ctx.compile_layer(SumLayer(3, 2))(torch.zeros(1, 2, 3, dtype=torch.int64)),
        DTypeError,
        "inputs must be floats of one dtype, found torch.int64",
    ),
    "floats of more bits": (
        lambda ctx: ctx.compile_layer(SumLayer(3, 2))(torch.zeros(1, 2, 3, dtype=torch.float64)),
        DTypeError,
        r"the parameters are torch.float32, and the inputs torch.float64; convert the layer with .to\(torch.float64\)",
    ),
    "numpy arrays": (
        lambda ctx: ctx.compile_layer(HadamardLayer(3, 2))(np.zeros((1, 2, 3)), np.zeros((1, 2, 3))),
        DTypeError,
        "inputs must be torch tensors, found ndarray, ndarray; use torch.as_tensor",
    ),
    "nothing to fill": (
        lambda ctx: ctx.compile_initializer(NormalInitializer())(np.zeros(3)),
        DTypeError,
        "an initializer fills a torch tensor, found ndarray",
    ),
    "fractions into integers": (
        lambda ctx: ctx.compile_initializer(NormalInitializer())(torch.zeros(3, dtype=torch.int64)),
        DTypeError,
        "draws of NormalInitializer are float64, which a tensor of int64 does not hold",
    ),
    "fractions into truths": (
        lambda ctx: ctx.compile_initializer(ConstantTensorInitializer(0.5))(torch.zeros(3, dtype=torch.bool)),
        DTypeError,
        "draws of ConstantTensorInitializer are float64, which a tensor of bool does not hold",
    ),
    "complex numbers into floats": (
        lambda ctx: ctx.compile_initializer(ConstantTensorInitializer(1j))(torch.zeros(3)),
        DTypeError,
        "draws of ConstantTensorInitializer are complex128, which a tensor of float32 does not hold",
    ),
    "one place of memory for several entries": (
        lambda ctx: ctx.compile_initializer(NormalInitializer())(torch.zeros(1, 3).expand(4, 3)),
        InputError,
        "the tensor cannot be filled in place .*more than one element",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parts(case: str) -> None:
    call, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        call(PipelineContext())


def _called(part: Any) -> tuple[torch.Tensor, ...]:
    found = part(*[torch.rand(1, 4, 3).log()] * 2) if isinstance(part, TorchLayer) else part()
    return found if isinstance(found, tuple) else (found,)


PARTS = {
    "layer": lambda context: context.compile_layer(SumLayer(3, 2, 2, weight=softmax_normal((2, 6)))),
    "parameter": lambda context: context.compile_parameter(softmax_normal((2, 6))),
    "leaf": lambda context: context.compile_parameter(leaf(2, 6)),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_in_eval_mode_computes_its_parameters_once(name: str) -> None:
    part = PARTS[name](PipelineContext(semiring="lse-sum"))
    with torch.no_grad():
        for step in range(3):
            torch.manual_seed(step)
            expected = [one.clone() for one in _called(part.train())]
            part.eval()
            for _ in range(2):
                torch.manual_seed(step)
                found = _called(part)
                assert all(map(torch.equal, found, expected))
                found[0].zero_()  # it is the caller's
            with ParameterOperations(part) as mode:
                _called(part)
            assert mode.count == (name == "leaf")  # whose copy is the caller's
            for one in part.parameters():
                one.mul_(2.0)
    assert _called(part)[0].requires_grad
