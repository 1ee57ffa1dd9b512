"""Operators on compiled circuits: methods of contexts and of circuits, and functions, all from one table."""

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica import pipeline
from plica.errors import DTypeError, UnsupportedError
from plica.lower.operators import OPERATORS
from plica.pipeline import PipelineContext
from plica.symbolic import functional
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, CircuitBlock, ConstantValueLayer, OperatorRow
from plica.symbolic.scope import Scope
from tests.harness.derived_circuits import integrated, observed, sums_over, tree
from tests.harness.oracle import Oracle, numbers

X = np.array([[0, 1, 2, 0, 1], [2, 2, 0, 1, 0], [1, 0, 1, 2, 2]])

SETTINGS: dict[str, Any] = {
    "evidence": ({0: 1, 3: 2},),
    "condition": ({},),
    "integrate": ([1, 4],),
    "marginal": ([2],),
    "power": (1,),
    "rename": ({0: 7},),
    "mixture": ([0.25, 0.75],),
}
"""Arguments besides circuits, by operator."""


def _arguments(name: str, circuits: list[Any]) -> tuple[Any, ...]:
    first = [circuits] if OPERATORS[name].of_sequence else circuits if name == "multiply" else circuits[:1]
    return (*first, *SETTINGS.get(name, ()))


def _method_arguments(name: str, others: list[Any]) -> tuple[Any, ...]:
    first = [others] if OPERATORS[name].of_sequence else others if name == "multiply" else []
    return (*first, *SETTINGS.get(name, ()))


NAMES = [name for name in OPERATORS if name != "differentiate"]  # which categorical layers have no rule for


def test_the_table_has_every_operator() -> None:
    assert list(OPERATORS) == sorted(functional.__all__, key=list(OPERATORS).index)
    assert set(OPERATORS) <= set(pipeline.__all__)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_methods_and_functions_give_what_the_context_compiles(name: str) -> None:
    described = [tree(), tree()]
    if name == "multiply":
        described = [observed(described[0], {3: 0, 4: 2}), observed(described[1], {0: 1, 1: 2, 2: 0})]
    if name in ("condition", "normalize"):  # which need the integrals of input layers as parameters
        described = [integrated(circuit, range(5)) for circuit in described]
    context = PipelineContext(dtype="float64")
    compiled = [context.compile(circuit) for circuit in described]
    expected = context.compile(getattr(functional, name)(*_arguments(name, list(described))))
    results = [
        getattr(context, name)(*_arguments(name, list(compiled))),
        getattr(context, name)(*_arguments(name, list(described))),
        getattr(compiled[0], name)(*_method_arguments(name, compiled[1:])),
        getattr(pipeline, name)(*_arguments(name, list(compiled)), ctx=context),
        getattr(pipeline, name)(*_arguments(name, list(compiled))),
    ]
    with context:
        results.append(getattr(pipeline, name)(*_arguments(name, list(compiled))))
    tensors = {id(one) for circuit in compiled for one in circuit.parameters()}
    width = max(expected.data_scope, default=-1) + 1
    x = [torch.from_numpy(np.pad(X, [(0, 0), (0, width - 5)]))] if width else []
    for result in results:
        assert context.has_symbolic(result)
        operation = result.symbolic.operation
        assert operation is not None
        assert operation.operator == name
        assert operation.operands == tuple(described[: len(operation.operands)])
        assert {id(one) for one in result.parameters()} <= tensors
        torch.testing.assert_close(result(*x), expected(*x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("optimize", [True, False])
def test_integrals_and_products_are_those_of_enumeration(optimize: bool) -> None:
    c = plica.compile(tree(), dtype="float64", optimize=optimize)
    values = numbers(c)
    x = torch.from_numpy(X)
    linear = Oracle(c.symbolic, values).linear
    np.testing.assert_allclose(
        c.integrate([1]).forward(x).detach().exp(), sums_over(c.symbolic, values, [1], X).astype(float), rtol=1e-10
    )
    z = c.integrate()
    assert z().shape == (1, 1)
    total = sums_over(c.symbolic, values, range(5), X[:1])[0].astype(float)
    np.testing.assert_allclose(z().detach().exp(), total, rtol=1e-10)
    product = c.multiply(z)
    np.testing.assert_allclose(product(x).detach().exp(), linear(X).astype(float) * total, rtol=1e-10)
    assert c.rename({0: 9, 4: 0}).data_scope == Scope([0, 1, 2, 3, 9])


def test_an_operand_compiled_without_a_context_is_enough() -> None:
    c = plica.compile(tree(), semiring="sum-product", dtype="float64", fold=False)
    z = pipeline.integrate(c)
    assert (z.semiring.name, z.dtype, z.folded.folds) == ("sum-product", torch.float64, False)
    assert {id(one) for one in z.parameters()} == {id(one) for one in c.parameters()}
    assert pipeline.integrate(circuit=c, scope=[0]).scope == Scope(range(1, 5))
    assert pipeline.concatenate([tree(), c]).symbolic.operation.operands[1] is c.symbolic
    assert z.multiply(c).multiply(z, z).scope == Scope(range(5))


def test_described_circuits_alone_are_compiled_in_a_new_context() -> None:
    described = tree()
    z = pipeline.integrate(described)
    assert z.symbolic.operation.operands == (described,)
    with PipelineContext(semiring="sum-product") as context:
        assert context.has_symbolic(pipeline.integrate(described))
        assert context.is_compiled(described)


def test_circuits_of_two_contexts_are_refused() -> None:
    first, second = plica.compile(tree()), plica.compile(tree())
    for call in (lambda: first.multiply(second), lambda: pipeline.concatenate([first, second])):
        with pytest.raises(UnsupportedError, match=r"was compiled in another context.*ctx.compile\(circuit.symbolic\)"):
            call()
    with PipelineContext(), pytest.raises(UnsupportedError, match=r"integrate: Circuit\(.* was compiled in another"):
        pipeline.integrate(first)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_refused(copied: Any) -> None:
    other = copied(plica.compile(tree()))
    with pytest.raises(UnsupportedError, match=r"integrate: the circuit is a copy.*load_state_dict"):
        other.integrate()


def test_circuits_with_given_parameters_are_refused() -> None:
    """Their integral would have other numbers."""
    c = plica.compile(tree())
    key, value = next(iter(c.state_dict().items()))
    with pytest.raises(UnsupportedError, match="integrate: the circuit is a copy, so that no context has its"):
        c.with_parameters({key: value + 1.0}).integrate()


def test_the_rules_of_the_context_apply() -> None:
    seen: list[Any] = []

    def rule(layer: CategoricalLayer, *, scope: Scope) -> CircuitBlock:
        seen.append(scope)
        return CircuitBlock.from_layer(ConstantValueLayer(layer.num_output_units, value=3.0))

    context = PipelineContext(semiring="sum-product", dtype="float64")
    context.add_operator_rule(OperatorRow("integrate", (CategoricalLayer,), rule), override=True)
    layer = CategoricalLayer([0], 1, num_categories=2)
    c = context.compile(Circuit([layer], {}, [layer]))
    assert c.integrate()().tolist() == [[3.0]]
    assert context.integrate(c)().tolist() == [[3.0]]
    assert pipeline.integrate(c)().tolist() == [[3.0]]
    assert seen == [Scope([0])] * 3
    assert plica.compile(c.symbolic).integrate()().exp().tolist() == [[1.0]]


def test_signatures_are_those_of_the_functions() -> None:
    context, c = PipelineContext(), plica.compile(tree())
    assert str(inspect.signature(pipeline.integrate)) == (
        "(circuit: 'Circuit', scope: 'Iterable[int] | None' = None, *, ctx=None)"
    )
    assert list(inspect.signature(context.integrate).parameters) == ["circuit", "scope"]
    assert list(inspect.signature(c.integrate).parameters) == ["scope"]
    assert list(inspect.signature(c.multiply).parameters) == ["others"]
    assert list(inspect.signature(c.mixture).parameters) == ["circuits", "weights"]
    assert pipeline.integrate.__name__ == "integrate"
    with pytest.raises(AttributeError, match=r"'plica\.pipeline' has no attribute 'divide'"):
        pipeline.divide  # noqa: B018


def test_the_circuits_of_a_sequence_may_be_named_or_generated() -> None:
    context = PipelineContext()
    first, second = (context.compile(tree()) for _ in range(2))
    for found in (
        first.concatenate(circuits=[second]),
        first.concatenate(one for one in (second,)),
        context.concatenate(one for one in (first, second)),
        pipeline.concatenate(one for one in (first, second)),
        pipeline.mixture(circuits=iter([first, second]), weights=[0.5, 0.5]),
    ):
        assert found.symbolic.operation.operands == (first.symbolic, second.symbolic)
        assert context.has_symbolic(found)
    with pytest.raises(DTypeError, match="concatenate: circuits must be a sequence"):
        first.concatenate(second)
