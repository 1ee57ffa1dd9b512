"""Circuits that were made from others: their data, their shapes, the tensors they share, and what eval mode keeps."""

import copy
import gc
import itertools
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica import queries
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import IntegrateQuery
from plica.errors import InputError
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.layers import ConstantValueLayer
from plica.symbolic.scope import Scope
from tests.harness.derived_circuits import copied, integrated, observed, product, sums_over, tree
from tests.harness.oracle import Oracle, finite_differences, gradients, numbers
from tests.harness.pairwise import flagged

SEMIRINGS = ["lse-sum", "sum-product", "complex-lse-sum"]
X = np.array([[0, 1, 2, 0, 1], [2, 2, 0, 1, 0], [1, 0, 1, 2, 2]])
OPTIONS: dict[str, list[Any]] = {"semiring": SEMIRINGS, "dtype": [torch.float32, torch.float64]}
RTOL = {torch.float32: 2e-5, torch.float64: 1e-11}


def linear(compiled: Any, *x: Any) -> Any:
    """The value of a compiled circuit as ordinary numbers."""
    result = compiled(*x).detach()
    return (result.exp() if compiled.semiring.logarithmic else result).numpy()


# Data


@flagged(**OPTIONS)
def test_an_integral_takes_the_data_of_its_operand_and_ignores_what_it_has_lost(semiring: str, dtype: Any) -> None:
    c = tree()
    context = PipelineContext(semiring=semiring, dtype=dtype)
    compiled = context.compile(integrated(c, [4]))
    expected = sums_over(c, numbers(context[c]), [4], X).astype(complex)
    for place in (0, 2, -1, 99):
        x = torch.from_numpy(np.where(np.arange(5) == 4, place, X))
        np.testing.assert_allclose(linear(compiled, x), expected, rtol=RTOL[dtype])
    for number in (torch.nan, torch.inf, -torch.inf, 1e30, 0.5):
        floats = torch.from_numpy(X).to(dtype)
        floats[:, 4] = number
        np.testing.assert_allclose(linear(compiled, floats), expected, rtol=RTOL[dtype])
        floats[0, 1] = torch.nan
        partly = linear(compiled, floats)
        np.testing.assert_allclose(partly[1:], expected[1:], rtol=RTOL[dtype])
        summed = sums_over(c, numbers(context[c]), [1, 4], X[:1]).astype(complex)
        np.testing.assert_allclose(partly[:1], summed, rtol=RTOL[dtype])
    assert (compiled.scope, compiled.data_scope) == (Scope(range(4)), Scope(range(5)))


@pytest.mark.parametrize("width", [3, 4, 6])
def test_data_of_another_width_is_refused(width: int) -> None:
    compiled = plica.compile(integrated(tree(), [4]))
    with pytest.raises(InputError, match=rf"expects data of shape \(B, 5\).*found \(2, {width}\)"):
        compiled(torch.zeros(2, width, dtype=torch.int64))


def test_a_wrong_state_of_a_variable_that_is_left_is_refused_as_before() -> None:
    compiled = plica.compile(integrated(tree(), [4]))
    with pytest.raises(InputError, match=r"row 0, variable 3: the value 9 is none of the 3 states"):
        compiled(torch.tensor([[0, 0, 0, 9, 9]]))
    with pytest.raises(InputError, match=r"row 1, variable 0"):
        compiled.check(torch.tensor([[0, 0, 0, 0, 9], [3, 0, 0, 0, 9]]))


def test_circuits_of_circuits_take_the_data_of_the_first() -> None:
    c = tree()
    z = integrated(observed(copied(c), {0: 1}), [4])
    context = PipelineContext(dtype="float64")
    found = linear(context.compile(z), torch.from_numpy(np.where(np.isin(np.arange(5), [0, 4]), 77, X)))
    rows = np.where(np.arange(5) == 0, 1, X)
    np.testing.assert_allclose(found, sums_over(c, numbers(context[c]), [4], rows).astype(float), rtol=1e-11)


def test_products_take_the_data_of_all_operands_but_none_of_those_that_take_none() -> None:
    first, second = observed(tree(), {3: 0, 4: 2}), observed(tree(), {0: 0, 1: 1, 2: 0})
    both = product(first, second)
    assert both.data_scope == Scope(range(5))
    context = PipelineContext(dtype="float64")
    found = linear(context.compile(both), torch.from_numpy(X))
    factors = []
    for part, fixed in ((first, {3: 0, 4: 2}), (second, {0: 0, 1: 1, 2: 0})):
        (c,) = part.operation.operands
        rows = X.copy()
        rows[:, list(fixed)] = list(fixed.values())
        factors.append(Oracle(c, numbers(context[c])).linear(rows).astype(float))
    np.testing.assert_allclose(found, factors[0] * factors[1], rtol=1e-11)
    z = integrated(tree(), range(5))
    assert (z.data_scope, product(observed(tree(), {3: 0, 4: 2}), z).data_scope) == (Scope([]), Scope(range(5)))


def test_queries_take_the_data_of_the_operand() -> None:
    c = tree()
    context = PipelineContext(dtype="float64")
    compiled = context.compile(integrated(c, [4])).eval()
    x = torch.from_numpy(X).double()
    x[:, 4] = torch.nan
    x[0, 1] = torch.nan
    values = numbers(context[c])
    total = float(sums_over(c, values, range(5), X[:1]).item())
    expected = [
        float(sums_over(c, values, [1, 4] if row == 0 else [4], X[row : row + 1]).item()) / total for row in range(3)
    ]
    np.testing.assert_allclose(queries.log_likelihood(compiled, x).detach().exp(), expected, rtol=1e-9)
    assert queries.sample(compiled, 7, seed=0).shape == (7, 5)
    assert queries.mpe(compiled, x)[0][1:, :4].tolist() == X[1:, :4].tolist()
    hidden = IntegrateQuery(compiled)(torch.from_numpy(X), integrate_vars=Scope([1]))
    np.testing.assert_allclose(hidden.detach().exp(), sums_over(c, values, [1, 4], X).astype(float), rtol=1e-9)


def test_a_traced_function_takes_the_data_of_the_operand() -> None:
    compiled = plica.compile(integrated(tree(), [4])).eval()
    traced = plica.jit(lambda x: pnp.exp(compiled(x)))
    with torch.no_grad():
        x = torch.from_numpy(np.where(np.arange(5) == 4, 77, X))
        torch.testing.assert_close(traced(x), compiled(x).exp())


def test_a_traced_function_calls_a_circuit_without_variables_anew() -> None:
    c = tree()
    context = PipelineContext(dtype="float64")
    z, compiled = context.compile(integrated(c, range(5))), context.compile(c)
    traced = plica.jit(lambda x: compiled(x) - z())
    x = torch.from_numpy(X)
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(traced(x), compiled(x) - z())
        compiled.zero_grad()
        traced(x).sum().backward()
        found = [one.grad.clone() for one in compiled.parameters()]
        compiled.zero_grad()
        (compiled(x) - z()).sum().backward()
        for gradient, one in zip(found, compiled.parameters(), strict=True):
            torch.testing.assert_close(gradient, one.grad)
        _step(compiled)
    with pytest.raises(InputError, match=r"no variables left, found .*; call it without an argument"):
        plica.jit(lambda x: z(x))(x)
    with pytest.raises(InputError, match=r"expects data of shape \(B, 5\), found nothing"):
        plica.jit(lambda x: compiled() + x)(x)


# Circuits without variables


@pytest.mark.one_in(3)
@flagged(**OPTIONS, outputs=[1, 3])
def test_a_circuit_without_variables_takes_no_argument_and_gives_outputs_and_units(
    semiring: str, dtype: Any, outputs: int
) -> None:
    c = tree(outputs)
    context = PipelineContext(semiring=semiring, dtype=dtype)
    z, e = context.compile(integrated(c, range(5))), context.compile(observed(c, dict(enumerate(X[0]))))
    values = numbers(context[c])
    for training in (True, False):
        z.train(training)
        e.train(training)
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                assert z().shape == (outputs, 1)
                total = sums_over(c, values, range(5), X[:1])[0].astype(complex)
                np.testing.assert_allclose(linear(z), total, rtol=RTOL[dtype])
                np.testing.assert_allclose(
                    linear(e), Oracle(c, values).linear(X[:1])[0].astype(complex), rtol=RTOL[dtype]
                )


def test_several_units_are_the_second_axis() -> None:
    layers = [ConstantValueLayer(3, value=1.0 + number) for number in range(2)]
    compiled = plica.compile(Circuit(layers, {}, layers), semiring="sum-product")
    assert compiled().tolist() == [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]


@pytest.mark.parametrize("shape", [(1, 5), (3, 0), (5,), (0, 1)])
def test_data_for_a_circuit_without_variables_is_refused(shape: tuple[int, ...]) -> None:
    z = plica.compile(integrated(tree(), range(5)))
    with pytest.raises(InputError, match=r"no variables left.*call it without an argument: circuit\(\)"):
        z(torch.zeros(shape))
    if shape[-1]:
        with pytest.raises(InputError, match=r"no variables left, found data of shape"):
            queries.log_likelihood(z, torch.zeros(shape))


def test_data_is_missing_where_a_circuit_has_variables() -> None:
    with pytest.raises(InputError, match=r"has 4 variables; call it with data of shape \(B, 5\)"):
        plica.compile(integrated(tree(), [4]))()


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_queries_of_a_circuit_without_variables_are_of_rows_without_columns(semiring: str) -> None:
    c = tree()
    context = PipelineContext(semiring=semiring, dtype="float64")
    z = context.compile(integrated(c, range(5)))
    rows = torch.zeros(3, 0, dtype=torch.float64)
    torch.testing.assert_close(queries.log_likelihood(z, rows), torch.zeros(3, dtype=torch.float64))
    hidden = IntegrateQuery(z)(rows, integrate_vars=Scope([]))
    torch.testing.assert_close(hidden, z().expand(3, -1, -1))
    assert queries.sample(z, 2, seed=0).shape == (2, 0)
    assert queries.sample(z, 2, given=rows, seed=0).shape == (6, 0)
    assert queries.mpe(z, rows)[0].shape == queries.mean(z, rows).shape == (3, 0)
    torch.testing.assert_close(queries.probability(z, rows, rows), torch.ones(3, dtype=torch.float64))
    bounds = queries.mpe_bounds(z, rows)
    value = np.log(sums_over(c, numbers(context[c]), range(5), X[:1]).astype(float)).item()
    np.testing.assert_allclose(bounds.found.detach(), np.full(3, value), rtol=1e-9)
    assert (bounds.upper >= bounds.found - 1e-9).all()


def test_parameters_for_each_row_give_rows() -> None:
    c = tree()
    z = PipelineContext(dtype="float64").compile(integrated(c, range(5)))
    for key, one in z.state_dict().items():
        two = torch.stack([one, one + 0.5])
        found = z(parameters={key: two})
        assert found.shape == (2, 1, 1)
        for row in range(2):
            torch.testing.assert_close(found[row], z(parameters={key: two[row]}))
        torch.testing.assert_close(found[0], z())


def test_a_layer_without_variables_alone_has_a_fold_axis_and_one_row() -> None:
    layer = ConstantValueLayer(2, value=3.0)
    assert PipelineContext(semiring="sum-product").compile_layer(layer)().tolist() == [[[3.0, 3.0]]]


# Operands, and what is shared


def test_compiling_a_circuit_compiles_its_operands() -> None:
    c = tree()
    middle = observed(c, {0: 1})
    z = integrated(middle, range(1, 5))
    context = PipelineContext()
    compiled = context.compile(z)
    assert all(map(context.is_compiled, (c, middle, z)))
    assert context.get_compiled_circuit(c) is context.compile(c)
    assert context.get_symbolic_circuit(context[middle]) is middle
    assert context.compile(z) is compiled
    pointers = [{one.data_ptr() for one in context[part].parameters()} for part in (c, middle, z)]
    assert pointers[0] == pointers[1] == pointers[2]
    assert {id(one) for one in compiled.parameters()} == {id(one) for one in context[c].parameters()}


def test_operands_are_compiled_once_and_without_recursion() -> None:
    layer = ConstantValueLayer(1, value=2.0)
    first = last = Circuit([layer], {}, [layer])
    for _ in range(1100):
        last = copied(last)
    both = product(last, first)
    context = PipelineContext(semiring="sum-product", fold=False, optimize=False)
    assert context.compile(both)().tolist() == [[4.0]]
    assert context[first]().tolist() == [[2.0]]


@pytest.mark.full
def test_the_gradient_of_an_integral_is_that_of_its_operands_tensors() -> None:
    c = tree()
    context = PipelineContext(dtype="float64")
    z = context.compile(integrated(c, range(5)))
    (z() * 2.0).sum().backward()
    found = gradients(context[c])

    def twice_log_z(values: dict[str, Any]) -> Any:
        return 2 * np.log(sums_over(c, values, range(5), X[:1])).sum()

    expected = finite_differences(twice_log_z, numbers(context[c]), step=1e-4)
    assert found.keys() == expected.keys()
    for key, gradient in expected.items():
        np.testing.assert_allclose(found[key], gradient, rtol=1e-6, atol=1e-7, err_msg=key)


def _step(compiled: Any) -> None:
    """One step of an optimizer, as training would take it."""
    optimizer = torch.optim.SGD(compiled.parameters(), lr=0.5)
    optimizer.zero_grad()
    compiled(torch.from_numpy(X)).sum().backward()
    optimizer.step()


CHANGES: dict[str, Any] = {
    "step": _step,
    "in place": lambda c: [one.data.mul_(1.5) for one in c.parameters()],
    "no_grad": lambda c: [torch.no_grad()(one.add_)(0.25) for one in c.parameters()],
    "reset": lambda c: c.reset_parameters(seed=3),
    "load": lambda c: c.load_state_dict({key: value + 0.5 for key, value in c.state_dict().items()}),
    "assign": lambda c: c.load_state_dict({key: value + 0.5 for key, value in c.state_dict().items()}, assign=True),
    "dtype": lambda c: c.to(torch.float32).to(torch.float64),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("change", CHANGES)
def test_what_eval_mode_keeps_of_an_integral_follows_its_operand(change: str) -> None:
    c = tree()
    context = PipelineContext(dtype="float64")
    z, m = (context.compile(integrated(c, scope)).eval() for scope in (range(5), [4]))
    compiled = context[c]
    x = torch.from_numpy(X)

    def check() -> None:
        values = numbers(compiled)
        with torch.no_grad():
            for _ in range(2):
                np.testing.assert_allclose(linear(z), sums_over(c, values, range(5), X[:1])[0].astype(float), rtol=1e-6)
                np.testing.assert_allclose(linear(m, x), sums_over(c, values, [4], X).astype(float), rtol=1e-6)

    check()
    before = linear(z)
    for _ in range(2):
        CHANGES[change](compiled)
        check()
    assert change == "dtype" or not np.allclose(linear(z), before)


def test_training_an_integral_changes_its_operand() -> None:
    c = tree()
    context = PipelineContext(dtype="float64")
    z, compiled = context.compile(integrated(c, range(5))), context[c].eval()
    x = torch.from_numpy(X)
    with torch.no_grad():
        before = compiled(x)
    optimizer = torch.optim.Adam(z.parameters(), lr=0.1)
    z().sum().backward()
    optimizer.step()
    with torch.no_grad():
        after = compiled(x)
    assert not torch.allclose(before, after)
    np.testing.assert_allclose(after, Oracle(c, numbers(compiled)).log(X).astype(float), rtol=1e-11)


def test_state_dicts_of_both_name_the_same_numbers_and_load() -> None:
    c = tree()
    z = integrated(c, range(5))
    first, second = (PipelineContext(dtype="float64") for _ in range(2))
    compiled, other = first.compile(z), second.compile(z)
    assert list(compiled.state_dict()) == list(other.state_dict())
    other.load_state_dict(compiled.state_dict())
    torch.testing.assert_close(other(), compiled())
    torch.testing.assert_close(second[c](torch.from_numpy(X)), first[c](torch.from_numpy(X)))


def test_moving_one_moves_the_other() -> None:
    c = tree()
    context = PipelineContext()
    z = context.compile(integrated(c, range(5))).eval()
    context[c].double()
    assert z().dtype == torch.float64
    z.float()
    assert context[c].dtype == torch.float32


def test_an_operand_that_was_compiled_before_stays_the_same() -> None:
    c = tree()
    context = PipelineContext(dtype="float64")
    compiled = context.compile(c)
    before = {key: value.clone() for key, value in compiled.state_dict().items()}
    z = context.compile(integrated(c, range(5)))
    assert context[c] is compiled
    assert all(torch.equal(value, before[key]) for key, value in compiled.state_dict().items())
    np.testing.assert_allclose(linear(z), sums_over(c, before, range(5), X[:1])[0].astype(float), rtol=1e-11)


def test_threads_compile_a_circuit_and_its_operand_at_one_time() -> None:
    from concurrent.futures import ThreadPoolExecutor

    c = tree()
    z = integrated(c, range(5))
    context = PipelineContext()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(context.compile, [z, c, z, c, integrated(c, [4])]))
    assert found[0] is found[2]
    assert found[1] is found[3] is context[c]
    assert len({id(one) for one in itertools.chain(*(one.parameters() for one in found))}) == len(
        list(found[1].parameters())
    )


def test_copies_stand_alone() -> None:
    c = tree()
    context = PipelineContext(dtype="float64")
    z = context.compile(integrated(c, range(5)))
    for other in (copy.deepcopy(z), pickle.loads(pickle.dumps(z))):
        torch.testing.assert_close(other(), z())
        with torch.no_grad():
            for one in other.parameters():
                one.mul_(2.0)
        assert not torch.allclose(other(), z())


def test_a_circuit_that_nobody_has_is_freed_without_the_collector() -> None:
    """As all memory of a device is: a compiled circuit and its compiler are no cycle."""
    c = tree()
    gc.collect()
    gc.disable()
    try:
        compiled = plica.compile(integrated(c, range(5)))
        compiled()
        gone = weakref.ref(next(iter(compiled.parameters())))
        del compiled
        assert gone() is None
    finally:
        gc.enable()


def test_a_compiled_circuit_keeps_its_operands() -> None:
    c = tree()
    compiler = TorchCompiler()
    z = compiler.compile(integrated(c, range(5)))
    gc.collect()
    assert compiler.circuits.is_compiled(c)
    assert {id(one) for one in compiler.compile(c).parameters()} == {id(one) for one in z.parameters()}


def test_the_layers_of_compiled_circuits_are_found_in_all() -> None:
    c = tree()
    context = PipelineContext()
    z = context.compile(integrated(c, [4]))
    found = context.get_compiled_layers(c.layers[0])
    assert list(found) == [context[c]]
    assert [group.kind for group in z.inputs] == ["input"] * len(z.inputs)
    assert len(z.inputs) == 2, "categorical layers, and the constant"
    assert next(z.topological_ordering()) is z.layers[0]


def test_an_operation_is_remembered() -> None:
    c = tree()
    z = integrated(c, [4])
    assert isinstance(z.operation, CircuitOperation)
    assert (z.operation.operator, z.operation.operands) == ("integrate", (c,))
