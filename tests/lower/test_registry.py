"""Registries of rules: scoped to a context, in front of Plica's rows, and messages for rows that are wrong."""

import copy
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from plica import PipelineContext
from plica.errors import DTypeError, ShapeError, UnsupportedError
from plica.files.model import load_model, save_model
from plica.lower.registry import CompilationRules
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import InitializerRow, NormalInitializer, UniformInitializer
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    CPTLayer,
    HadamardLayer,
    InputRow,
    KroneckerLayer,
    ProductRow,
    SumLayer,
    SumRow,
)
from plica.symbolic.operators import CircuitBlock, OperatorRow
from plica.symbolic.parameters import (
    ConstantParameter,
    ExpParameter,
    LeafRow,
    OperationRow,
    SoftmaxParameter,
    TensorParameter,
)
from tests.harness.circuits import mixture
from tests.harness.own_layers import NEIGHBOURS

X = torch.tensor([[0, 1], [2, 1]])


def product_of_two() -> Circuit:
    layers = [CategoricalLayer([v], 3, num_categories=3) for v in range(2)]
    product, total = HadamardLayer(3, 2), SumLayer(3, 1)
    return Circuit([*layers, product, total], {product: layers, total: [product]}, [total])


def _largest(xp: Any, semiring: Any, layer: Any, params: Any, inputs: Any) -> Any:  # noqa: ARG001
    """Not a sum at all: the largest unit of the first input."""
    return semiring.from_log(xp, xp.max(semiring.to_log(xp, inputs[0]), axis=-1, keepdims=True))


@pytest.mark.parametrize("optimize", [True, False])
def test_a_row_of_plicas_own_is_overridden_in_one_context(optimize: bool) -> None:
    """The optimizer, which would fuse the sum and the product, leaves the layer to the row, and says so."""
    circuit, before = product_of_two(), dict(LAYER_ROWS)
    context, other = PipelineContext(optimize=optimize), PipelineContext(optimize=optimize)
    row = SumRow(SumLayer, _largest)
    with pytest.raises(UnsupportedError, match="SumLayer has a row already; pass override=True to replace it in this"):
        context.add_layer_compilation_rule(row)
    context.add_layer_compilation_rule(row, override=True)
    compiled, plain = context.compile(circuit), other.compile(circuit)
    parts = context.compile(circuit.subgraph(circuit.layers[2]))
    torch.testing.assert_close(compiled(X), parts(X).amax(-1, keepdim=True))
    assert not torch.allclose(compiled(X), plain(X))
    assert before == LAYER_ROWS
    if optimize:
        assert "left out: cp-t is for SumLayer, and the context has its own row for that" in compiled.explain()
        assert [group.layer_class for group in plain.layers] == [CategoricalLayer, CPTLayer]


def test_a_row_for_what_a_rule_makes_is_taken() -> None:
    context = PipelineContext()
    own = LAYER_ROWS[CPTLayer]

    def twice(*given: Any) -> Any:
        xp, semiring = given[:2]
        two = semiring.from_linear(xp, xp.full((1, 1, 1), 2.0, dtype=xp.float32))
        return semiring.product(xp, own.body(*given), two)

    context.add_layer_compilation_rule(replace(own, body=twice), override=True)
    circuit = product_of_two()
    plain = PipelineContext().compile(circuit)
    compiled = context.compile(circuit)
    plain.load_state_dict(compiled.state_dict())
    torch.testing.assert_close(compiled(X), plain(X) + math.log(2))


def _halved(xp: Any, semiring: Any, layer: Any, params: Any, x: Any) -> Any:
    half = semiring.from_linear(xp, xp.full((1, 1, 1), 0.5, dtype=xp.float32))
    return semiring.product(xp, LAYER_ROWS[CategoricalLayer].body(xp, semiring, layer, params, x), half)


def _cooled(xp: Any, operation: Any, x: Any) -> Any:  # noqa: ARG001
    return xp.softmax(2 * x, axis=-1)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("optimize", [True, False])
def test_rows_for_inputs_and_operations_hold_in_copies_and_for_what_was_saved(
    tmp_path: Path, fold: bool, optimize: bool
) -> None:
    """An input layer whose units are halved, and softmaxes of twice the scores: plain circuits tell what they mean."""

    def context() -> PipelineContext:
        found = PipelineContext(fold=fold, optimize=optimize)
        own = replace(LAYER_ROWS[CategoricalLayer], body=_halved)
        found.add_layer_compilation_rule(own, override=True)
        found.add_parameter_compilation_rule(OperationRow(SoftmaxParameter, _cooled), override=True)
        return found

    circuit = product_of_two()
    compiled = context().compile(circuit)
    state = compiled.state_dict()
    plain = PipelineContext().compile(circuit)
    plain.load_state_dict({**state, "3.weight": 2 * state["3.weight"]})
    expected = plain(X) - math.log(4)
    save_model(tmp_path / "a.plica", circuit, {key: one.numpy() for key, one in state.items()}, {})
    saved = load_model(tmp_path / "a.plica")
    loaded = context().compile(saved.circuit)
    loaded.load_state_dict({key: torch.from_numpy(one) for key, one in saved.tensors.items()})
    for one in (compiled, loaded, copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        torch.testing.assert_close(one(X), expected)
        torch.testing.assert_close(one(X.float()), expected)


WRONG_VALUES: dict[str, tuple[Any, str]] = {
    "the units of the input": (lambda *given: given[4][0], r"a value of f32\[1,b,3\]"),
    "an array": (lambda *given: given[4][0][0], "Tracer"),
    "a number": (lambda *_: 3, "int 3"),
    "nothing": (lambda *_: None, "NoneType None"),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
@pytest.mark.parametrize("alone", [True, False])
def test_a_row_that_returns_no_value_with_the_units_of_its_layer_is_refused(case: str, alone: bool) -> None:
    body, found = WRONG_VALUES[case]
    context, circuit = PipelineContext(), product_of_two()
    context.add_layer_compilation_rule(SumRow(SumLayer, body), override=True)
    message = rf"SumLayer\(.*: the SumRow of SumLayer gave {found}.*; expected .* of shape \(1, B, 1\)"
    with pytest.raises(ShapeError, match=message):
        _ = context.compile_layer(circuit.layers[3]) if alone else context.compile(circuit)


def test_a_row_of_ones_own_is_replaced_by_another() -> None:
    rules = CompilationRules()
    rules.layers.add(NEIGHBOURS)
    other = replace(NEIGHBOURS, body=_largest)
    with pytest.raises(UnsupportedError, match="NeighbourSum has a row already"):
        rules.layers.add(other)
    rules.layers.add(other, override=True)
    assert rules.layers.find(NEIGHBOURS.layer) is other
    assert CompilationRules().layers.find(NEIGHBOURS.layer) is None


def test_initializers_draw_by_the_row_of_their_context() -> None:
    circuit = mixture(1)
    context = PipelineContext()
    context.add_initializer_compilation_rule(
        InitializerRow(NormalInitializer, lambda _, generator, shape: generator.random(shape) + 7.0),
        override=True,
    )
    compiled, other = context.compile(circuit), PipelineContext().compile(circuit)
    assert all((value >= 7).all() for value in compiled.state_dict().values())
    assert all((value < 7).all() for value in other.state_dict().values())
    before = compiled.state_dict()["0.logits"].clone()
    compiled.reset_parameters(1)
    assert (compiled.state_dict()["0.logits"] >= 7).all()
    assert not torch.equal(compiled.state_dict()["0.logits"], before)


def test_operators_have_rows_by_the_classes_of_layers() -> None:
    context, other = PipelineContext(), PipelineContext()
    row = OperatorRow("multiply", (SumLayer, SumLayer), lambda first, _: CircuitBlock.from_layer(first.copyref()))
    context.add_operator_rule(row)
    assert context.get_operator_rule("multiply", SumLayer, SumLayer) is row
    with pytest.raises(UnsupportedError, match=r"multiply\(SumLayer, SumLayer\) has a row already"):
        context.add_operator_rule(row)
    for ctx, layers in ((other, (SumLayer, SumLayer)), (context, (SumLayer, HadamardLayer))):
        with pytest.raises(KeyError):
            ctx.get_operator_rule("multiply", *layers)


def _nothing(*_: Any) -> Any:
    return None


CATEGORICAL: Any = LAYER_ROWS[CategoricalLayer]
WRONG: dict[str, tuple[str, Any, str]] = {
    "no row": ("layers", _nothing, "takes an InputRow or SumRow or ProductRow or FusedRow, found function"),
    "a class instead of a row": ("layers", SumLayer, "add_layer_compilation_rule takes .* found SumLayer"),
    "a sum row for a product": (
        "layers",
        SumRow(HadamardLayer, _nothing),
        "its layer must be a class under InnerLayer",
    ),
    "an input row for a sum": (
        "layers",
        InputRow(SumLayer, _nothing, _nothing, _nothing),  # type: ignore[arg-type]
        "its layer must be a class under InputLayer, found SumLayer",
    ),
    "no function": ("layers", ProductRow(KroneckerLayer, 3, _nothing), "its body must be a function, found 3"),  # type: ignore[arg-type]
    **{
        f"no function for {name}": (
            "layers",
            replace(CATEGORICAL, **{name: 3}),
            f"its {name} must be a function.*, found 3",
        )
        for name in ("sample", "mode", "mean", "variance", "interval", "partial", "conditional", "states")
    },
    "a layer as an operation": (
        "parameters",
        OperationRow(SumLayer, _nothing),  # type: ignore[arg-type]
        "its operation must be a class under ParameterOp, found SumLayer",
    ),
    "an operation as a leaf": (
        "parameters",
        LeafRow(ExpParameter, _nothing),  # type: ignore[arg-type]
        "its leaf must be a class under ParameterInput",
    ),
    "a leaf instead of its class": (
        "parameters",
        LeafRow(ConstantParameter(1), _nothing),  # type: ignore[arg-type]
        "found ConstantParameter ConstantParameter",
    ),
    "no initializer": (
        "initializers",
        InitializerRow(TensorParameter, _nothing),  # type: ignore[arg-type]
        "its initializer must be a class under Initializer",
    ),
    "an operator on parameters": (
        "operators",
        OperatorRow("multiply", (SumLayer, ExpParameter), _nothing),  # type: ignore[arg-type]
        "its layers must be a class under Layer, found ExpParameter",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_refused_where_they_are_added(case: str) -> None:
    registry, row, message = WRONG[case]
    with pytest.raises(DTypeError, match=message):
        getattr(CompilationRules(), registry).add(row, override=True)


def test_classes_of_plicas_own_need_override() -> None:
    rules = CompilationRules()
    given: list[tuple[Any, Any]] = [
        (rules.parameters, OperationRow(ExpParameter, _nothing)),
        (rules.parameters, LeafRow(ConstantParameter, _nothing)),
        (rules.initializers, InitializerRow(UniformInitializer, _nothing)),
    ]
    for registry, row in given:
        with pytest.raises(UnsupportedError, match="has a row already; pass override=True"):
            registry.add(row)
        registry.add(row, override=True)
