"""Leaf kinds of one's own, and operations by a context's rows: from compiling to state dicts, gradients and files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plica import PipelineContext
from plica.errors import DTypeError, FileFormatError, GraphError, ShapeError, UnsupportedError
from plica.files.model import load_model, save_model
from plica.lower.resolve import Resolver
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import (
    ComposedParameter,
    ConstantParameter,
    ExpParameter,
    LeafRow,
    LogSoftmaxParameter,
    MixingWeightParameter,
    OperationRow,
    Parameter,
    ParameterInput,
    ReferenceParameter,
    SoftmaxParameter,
    SumParameter,
    TensorParameter,
    UnaryOp,
)
from tests.harness.own_leaves import WIDE, WIDE_SQUARED, LowRank, Wide

X = torch.tensor([[0, 2], [1, 0], [2, 2]])


def logits(leaf: ParameterInput) -> Parameter:
    return Parameter.from_unary(LogSoftmaxParameter(leaf.shape), leaf)


def two_inputs(make) -> Circuit:
    """A product of two categorical layers whose logits end in a leaf that `make` makes, and a sum."""
    layers = [CategoricalLayer([v], 4, num_categories=3, logits=logits(make())) for v in range(2)]
    product, total = HadamardLayer(4, 2), SumLayer(4, 1)
    return Circuit([*layers, product, total], {product: layers, total: [product]}, [total])


def plain(circuit: Circuit, factors: dict[int, np.ndarray]) -> Circuit:
    """The circuit with the logits of its inputs as constants."""
    layers = [
        CategoricalLayer([v], 4, num_categories=3, logits=logits(ConstantParameter(4, 3, value=factors[v])))
        for v in range(2)
    ]
    product, total = (layer.copyref() for layer in circuit.layers[2:])
    return Circuit([*layers, product, total], {product: layers, total: [product]}, [total])


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("fold", [True, False])
def test_a_composed_leaf_is_compiled_folded_and_learnt(fold: bool, optimize: bool) -> None:
    circuit = two_inputs(lambda: LowRank(4, 3, rank=2))
    context = PipelineContext(fold=fold, optimize=optimize, dtype="float64")
    compiled = context.compile(circuit)
    assert compiled.symbolic is circuit
    assert context.get_symbolic_circuit(compiled) is circuit
    state = compiled.state_dict()
    assert list(state) == ["0.logits.0", "0.logits.1", "1.logits.0", "1.logits.1", "3.weight"]
    assert (compiled.layers[0].num_folds == 2) is fold
    factors = {v: (state[f"{v}.logits.0"] @ state[f"{v}.logits.1"]).numpy() for v in range(2)}
    expected = context.compile(plain(circuit, factors))
    torch.testing.assert_close(compiled(X), expected(X), rtol=1e-12, atol=1e-12)
    compiled(X).sum().backward()
    gradients = [one.grad for one in compiled.parameters()]
    assert all(one is not None and bool((one != 0).any()) for one in gradients)
    again = PipelineContext(fold=not fold, dtype="float64").compile(circuit)
    again.load_state_dict(state)
    torch.testing.assert_close(again(X), compiled(X), rtol=1e-12, atol=1e-12)


def test_a_leaf_is_what_the_rule_of_its_context_says() -> None:
    circuit = two_inputs(lambda: Wide(4, 3, spread=3.0))
    first, second, without = PipelineContext(), PipelineContext(), PipelineContext()
    first.add_parameter_compilation_rule(WIDE)
    second.add_parameter_compilation_rule(WIDE_SQUARED)
    one, other = first.compile(circuit), second.compile(circuit)
    other.load_state_dict(one.state_dict())
    assert not torch.allclose(one(X), other(X))
    with pytest.raises(UnsupportedError, match=r"class Wide; derive the class from ComposedParameter.*LeafRow\(Wide"):
        without.compile(circuit)


def test_who_shares_a_leaf_shares_its_tensors() -> None:
    """References, other layers and other circuits of a context, and the map of tensors."""
    leaf = Wide(4, 3)
    context = PipelineContext()
    context.add_parameter_compilation_rule(WIDE)
    shared = iter([leaf, ReferenceParameter(leaf)])
    compiled = context.compile(two_inputs(lambda: next(shared)))
    assert list(compiled.state_dict()) == ["0.logits", "3.weight"]
    alone = CategoricalLayer([0], 4, num_categories=3, logits=logits(leaf))
    other = context.compile(Circuit([alone, (again := alone.copyref())], {}, [alone, again]))
    with torch.no_grad():
        compiled.leaves.get_parameter("logits_0").add_(torch.arange(3.0))
    assert torch.equal(other.state_dict()["0.logits"], compiled.state_dict()["0.logits"])
    result = other(torch.tensor([[1]]))
    torch.testing.assert_close(result[:, 0], result[:, 1])
    tensor, fold = context._compiler.tensor_of(leaf)
    assert torch.equal(tensor[fold], compiled.state_dict()["0.logits"])


def test_a_rule_for_a_leaf_of_plicas_own() -> None:
    """Every tensor of the context is the exponential of another; the global table stays as it is."""

    def positive(leaf: TensorParameter) -> Parameter:
        inner = TensorParameter(*leaf.shape, initializer=NormalInitializer(0.0, 5.0))
        return Parameter.from_unary(ExpParameter(leaf.shape), inner)

    weight = TensorParameter(1, 4, initializer=NormalInitializer(-9.0))  # negative without the rule
    inputs = CategoricalLayer([0], 4, num_categories=3)
    total = SumLayer(4, 1, weight=weight)
    circuit = Circuit([inputs, total], {total: [inputs]}, [total])
    context = PipelineContext()
    with pytest.raises(UnsupportedError, match="TensorParameter has a row already; pass override=True"):
        context.add_parameter_compilation_rule(LeafRow(TensorParameter, positive))
    context.add_parameter_compilation_rule(LeafRow(TensorParameter, positive), override=True)
    assert context.compile(circuit)(X[:, :1]).isfinite().all()
    with pytest.raises(UnsupportedError, match="negative"):
        PipelineContext().compile(circuit)(X[:, :1])


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])
def test_a_row_evaluates_an_operation_of_plicas_own(semiring: str, optimize: bool) -> None:
    """No rule and no table that knows a softmax, such as its logarithm, is taken instead of the row."""
    circuit = two_inputs(lambda: TensorParameter(4, 3, initializer=NormalInitializer()))
    context = PipelineContext(semiring=semiring, optimize=optimize)

    def uniform(_: Any, op: SoftmaxParameter, x: Any) -> Any:
        return 0 * x + 1 / op.shape[-1]

    context.add_parameter_compilation_rule(OperationRow(SoftmaxParameter, uniform), override=True)
    compiled = context.compile(circuit)
    plain = PipelineContext(semiring=semiring).compile(circuit)
    plain.load_state_dict({**compiled.state_dict(), "3.weight": torch.zeros(1, 4)})  # whose softmax is uniform
    torch.testing.assert_close(compiled(X), plain(X))


def test_a_mixing_weight_with_a_row_is_a_dense_weight() -> None:
    inputs = [CategoricalLayer([0], 3, num_categories=2) for _ in range(2)]
    small = TensorParameter(3, 2, initializer=NormalInitializer())
    exp = Parameter.from_sequence(small, ExpParameter((3, 2)), MixingWeightParameter((3, 2)))
    total = SumLayer(3, 3, 2, weight=exp)
    circuit = Circuit([*inputs, total], {total: inputs}, [total])
    context = PipelineContext()
    row = OperationRow(MixingWeightParameter, lambda xp, op, x: 2 * op.evaluate(xp, x))
    context.add_parameter_compilation_rule(row, override=True)
    compiled, plain = context.compile(circuit), PipelineContext().compile(circuit)
    plain.load_state_dict(compiled.state_dict())
    data = torch.tensor([[0], [1]])
    torch.testing.assert_close(compiled(data), plain(data) + np.log(2))


@dataclass(frozen=True, slots=True, eq=False)
class Shifted(UnaryOp):
    """One more: an operation of one's own."""

    def infer_shape(self) -> tuple[int, ...]:
        return self.in_shape

    def evaluate(self, xp: Any, *arrays: Any) -> Any:  # noqa: ARG002
        return arrays[0] + 1


def test_an_operation_of_ones_own_needs_no_row_and_may_have_one() -> None:
    leaf = TensorParameter(2, initializer=NormalInitializer())
    shifted = Parameter.from_unary(Shifted((2,)), leaf)
    context = PipelineContext()
    values = context.compile_parameter(leaf)()
    torch.testing.assert_close(context.compile_parameter(shifted)(), values + 1)
    context.add_parameter_compilation_rule(OperationRow(Shifted, lambda xp, op, x: x - 1))  # noqa: ARG005
    again = Parameter.from_unary(Shifted((2,)), leaf)
    torch.testing.assert_close(context.compile_parameter(again)(), values - 1)


def test_nodes_that_parameters_share_stay_shared() -> None:
    leaf = LowRank(2, 2, rank=1)
    both = [Parameter.from_unary(ExpParameter((2, 2)), leaf) for _ in range(2)]
    resolver = Resolver({})
    first, second = map(resolver.parameter, both)
    assert first.leaves == second.leaves
    assert resolver.parameter(both[0]).leaves == first.leaves


def test_files_keep_leaf_kinds(tmp_path: Path) -> None:
    """What a class says itself needs the class alone; what a context says needs its row."""
    for make, classes in ((lambda: LowRank(4, 3, rank=2), [LowRank]), (lambda: Wide(4, 3, spread=0.5), [WIDE])):
        circuit = two_inputs(make)
        context = PipelineContext()
        context.add_parameter_compilation_rule(WIDE)
        compiled = context.compile(circuit)
        tensors = {key: value.numpy() for key, value in compiled.state_dict().items()}
        save_model(tmp_path / "own.plica", circuit, tensors, {"semiring": "lse-sum"}, classes=classes)
        loaded = load_model(tmp_path / "own.plica", classes=classes)
        assert [type(leaf) for leaf in loaded.circuit.layers[0].params["logits"].leaves] == [type(make())]
        again = context.compile(loaded.circuit)
        again.load_state_dict({key: torch.from_numpy(value) for key, value in loaded.tensors.items()})
        assert torch.equal(again(X), compiled(X))
    with pytest.raises(FileFormatError, match="not a known ParameterNode"):
        load_model(tmp_path / "own.plica")
    with pytest.raises(FileFormatError, match="the context has no rule for a leaf of class Wide"):
        load_model(tmp_path / "own.plica", classes=[Wide])


def _circular(leaf: Wide) -> Parameter:
    return Parameter.from_unary(ExpParameter(leaf.shape), leaf)


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda _: 3.0, DTypeError, "the replacement of Wide must be a parameter: expected a Parameter.*found float"),
        (lambda _: TensorParameter(3, 4, initializer=NormalInitializer()), ShapeError, r"Wide: .*\(4, 3\).*\(3, 4\)"),
        (_circular, GraphError, "Wide is replaced by a parameter that has it as a leaf"),
    ],
)
def test_wrong_rules_for_leaves(rule, error: type[Exception], message: str) -> None:
    context = PipelineContext()
    context.add_parameter_compilation_rule(LeafRow(Wide, rule))
    with pytest.raises(error, match=message):
        context.compile(two_inputs(lambda: Wide(4, 3)))


def test_a_row_that_returns_another_shape() -> None:
    context = PipelineContext()
    row = OperationRow(ExpParameter, lambda xp, op, x: xp.sum(x, axis=-1))  # noqa: ARG005
    context.add_parameter_compilation_rule(row, override=True)
    parameter = Parameter.from_unary(ExpParameter((2, 3)), TensorParameter(2, 3, initializer=NormalInitializer()))
    with pytest.raises(ShapeError, match=r"OperationRow for ExpParameter: expected a result of shape \(1, 2, 3\)"):
        context.compile_parameter(parameter)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("fold", [True, False])
def test_one_operation_of_several_parameters_reads_the_inputs_of_each(fold: bool, optimize: bool) -> None:
    softmax, numbers = SoftmaxParameter((1, 2)), ([[0.0, 1.0]], [[5.0, 0.0]], [[5.0, 0.0]])
    leaves = [ConstantParameter(1, 2, value=one) for one in numbers]
    weights = [Parameter.from_unary(softmax, leaf) for leaf in (leaves[0], leaves[1], leaves[1])]
    probs = [Parameter.from_input(ConstantParameter(2, 2, value=[[0.2, 0.8], [0.6, 0.4]])) for _ in range(3)]
    inputs = [CategoricalLayer([v], 2, num_categories=2, probs=one) for v, one in enumerate(probs)]
    sums = [SumLayer(2, 1, weight=weight) for weight in weights]
    circuit = Circuit([*inputs, *sums], {total: [one] for total, one in zip(sums, inputs, strict=True)}, sums)
    compiled = PipelineContext(semiring="sum-product", fold=fold, optimize=optimize).compile(circuit)
    shares = [np.exp(row) / np.exp(row).sum() for ((*row,),) in numbers]
    expected = [share @ [0.2, 0.6] for share in shares]
    assert np.allclose(compiled(torch.zeros(1, 3, dtype=torch.int64)).flatten().numpy(), expected)


def test_leaves_that_are_made_by_one_operation_stay_apart() -> None:
    exp = ExpParameter((2,))

    @dataclass(frozen=True, eq=False)
    class Positive(ComposedParameter):
        value: float
        shape: tuple[int, ...] = (2,)

        @property
        def config(self) -> dict[str, Any]:
            return {"value": self.value}

        def compose(self) -> Parameter:
            return Parameter.from_unary(exp, ConstantParameter(2, value=self.value))

    both = Parameter.from_binary(SumParameter((2,), (2,)), Positive(0.0), Positive(1.0))
    assert np.allclose(PipelineContext().compile_parameter(both)().numpy(), 1.0 + np.e)
    again = Parameter.from_unary(exp, Positive(0.0))  # of the leaf, and once more
    assert np.allclose(PipelineContext().compile_parameter(again)().numpy(), np.e)
