"""Products of circuits where no variable is missing: the products of the operands' values, of the operands' work."""

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica import queries
from plica.errors import FileFormatError
from plica.files.structure import decode_circuit, encode_circuit
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit, CircuitOperation
from plica.symbolic.functional import condition, integrate, mixture, multiply, normalize, power, simplify, smooth
from plica.symbolic.initializers import UniformInitializer
from plica.symbolic.layers import CategoricalLayer, EmbeddingLayer, GaussianLayer, HadamardLayer, Layer, SumLayer
from plica.symbolic.operators.complete import complete_form
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter, normal, softmax_normal
from tests.harness.pairwise import by_turns

STATES, VARIABLES = 3, 4
ROWS = np.array(list(itertools.product(range(STATES), repeat=VARIABLES)))
SEMIRINGS = ["sum-product", "signed-lse-sum", "complex-lse-sum", "lse-sum"]
OPTIONS: dict[str, list[Any]] = {"semiring": SEMIRINGS, "fold": [True, False], "optimize": [True, False]}


def chain(
    units: int,
    make: Callable[[int], Layer],
    *,
    variables: int = VARIABLES,
    arity: int = 2,
    positive: bool = False,
) -> Circuit:
    """`x0 (x1 (x2 ..))`, each sum of `arity` products; its leaves are drawn when it is compiled."""
    factory = softmax_normal if positive else normal
    edges: dict[Layer, list[Layer]] = {}
    layers: list[Layer] = [make(variables - 1)]
    below = layers[0]
    for variable in reversed(range(variables - 1)):
        products = []
        for _ in range(arity):
            read, product = make(variable), HadamardLayer(units)
            edges[product] = [read, below]
            layers += [read, product]
            products.append(product)
        total = SumLayer(units, units if variable else 1, arity, weight_factory=factory)
        edges[total] = list(products)
        layers.append(total)
        below = total
    return Circuit(layers, edges, [below])


def tables(units: int, *, positive: bool = False, **settings: Any) -> Circuit:
    def make(variable: int) -> Layer:
        if positive:
            return CategoricalLayer([variable], units, num_categories=STATES)
        return EmbeddingLayer([variable], units, num_states=STATES)

    return chain(units, make, positive=positive, **settings)


def linear(circuit: Any, *x: Any) -> Any:
    values = circuit(*x).detach()
    return (values.exp() if circuit.semiring.logarithmic else values).numpy()


def summed(values: Any, gone: list[int]) -> Any:
    """Values of `ROWS`, with some variables summed out, for each row."""
    table = values.reshape(*[STATES] * VARIABLES, *values.shape[1:])
    return np.broadcast_to(table.sum(tuple(gone), keepdims=True), table.shape).reshape(values.shape)


@pytest.mark.one_in(2)
@by_turns(**OPTIONS)
def test_values_are_those_of_the_operands_and_their_sums(semiring: str, fold: bool, optimize: bool) -> None:
    positive = semiring == "lse-sum"
    first, second = tables(3, positive=positive), tables(2, arity=1, positive=positive)
    made: dict[str, tuple[Circuit, Callable[[Any, Any], Any]]] = {
        "product": (multiply(first, second), lambda a, b: a * b),
        "square": (multiply(first, first), lambda a, _: a * a),
        "cube": (power(first, 3), lambda a, _: a**3),
        "nested": (multiply(multiply(first, second), power(second, 2)), lambda a, b: a * b**3),
        "mixture": (
            mixture([power(first, 2), multiply(first, second)], [0.5, 2.0]),
            lambda a, b: a * a / 2 + 2 * a * b,
        ),
        "simpler": (simplify(multiply(first, second)), lambda a, b: a * b),
        "smooth": (smooth(multiply(first, second)), lambda a, b: a * b),
        "part": (integrate(multiply(first, second), [1]), lambda a, b: summed(a * b, [1])),
        "last": (integrate(power(first, 2), [3]), lambda a, _: summed(a * a, [3])),
    }
    if positive:
        made["quotient"] = normalize(multiply(first, second)), lambda a, b: a * b / (a * b).sum()
        made["condition"] = (
            condition(multiply(first, second), {0: 1}),
            lambda a, b: _given_first(a * b),
        )
    if not fold or semiring.startswith("complex"):  # they take longer to compile
        made = {name: made[name] for name in ("product", "mixture", "part")}
    with PipelineContext(semiring=semiring, dtype="float64", fold=fold, optimize=optimize) as context:
        a, b = (linear(context.compile(circuit), torch.from_numpy(ROWS)) for circuit in (first, second))
        for name, (circuit, by_definition) in made.items():
            compiled, expected = context.compile(circuit), by_definition(a, b)
            assert compiled.folded.complete is not None, name
            lacking = {"part": [1], "last": [3]}.get(name, [])
            rows = torch.from_numpy(ROWS)
            np.testing.assert_allclose(linear(compiled, rows), expected, rtol=1e-9, atol=1e-12, err_msg=name)
            floats = rows.double()
            floats[:, lacking] = torch.nan  # which the circuit does not read
            np.testing.assert_allclose(linear(compiled, floats), expected, rtol=1e-9, atol=1e-12, err_msg=name)
            gone = [2] if name != "last" else [0]
            floats[1::2, gone] = torch.nan
            np.testing.assert_allclose(
                linear(compiled, floats),
                np.where(np.arange(len(ROWS))[:, None, None] % 2, summed(expected, gone), expected),
                rtol=1e-9,
                atol=1e-12,
                err_msg=name,
            )


def _given_first(values: Any) -> Any:
    table = values.reshape(STATES, -1)
    return np.tile(table[1] / table[1].sum(), STATES).reshape(values.shape)


@pytest.mark.parametrize("semiring", ["sum-product", "signed-lse-sum"])
def test_the_work_is_that_of_the_operand(semiring: str) -> None:
    c = tables(8)
    with PipelineContext(semiring=semiring) as context:
        compiled, square = context.compile(c), context.compile(multiply(c, c))
    assert square.compiled.complete_work.total <= 1.2 * compiled.compiled.work.total
    assert square.compiled.work.total > 5 * compiled.compiled.work.total
    sizes = [
        math.prod(size for size in var.type.shape if isinstance(size, int))
        for equation in square.program.equations
        for var in equation.outputs
        if "b" in map(str, var.type.shape)
    ]
    largest = [
        math.prod(size for size in var.type.shape if isinstance(size, int))
        for equation in compiled.program.equations
        for var in equation.outputs
        if "b" in map(str, var.type.shape)
    ]
    assert max(sizes) <= max(largest)


def test_a_square_of_float32_is_as_exact_as_the_circuit_and_never_negative() -> None:
    def make(variable: int) -> Layer:
        return EmbeddingLayer([variable], 8, num_states=4)

    torch.manual_seed(3)
    c = chain(8, make, variables=64, arity=1)
    x = torch.from_numpy(np.random.default_rng(1).integers(0, 4, (256, 64)))
    with PipelineContext(semiring="signed-lse-sum") as context:
        compiled, square = context.compile(c), context.compile(multiply(c, c))
    exact = copy.deepcopy(compiled).double()(x).real.detach()
    logs = square(x).detach()
    values = compiled(x).detach().real.double()
    error, of_operand = (logs.real.double() - 2 * exact).abs().max(), (2 * values - 2 * exact).abs().max()
    assert error <= 2 * of_operand
    assert float(logs.imag.cos().min()) == 1.0  # a number is exp(size) times exp(i phase)


@by_turns(semiring=["sum-product", "signed-lse-sum", "lse-sum"], optimize=[True, False])
def test_gradients_are_those_of_the_product(semiring: str, optimize: bool) -> None:
    positive = semiring == "lse-sum"
    first, second = tables(3, positive=positive), tables(2, positive=positive)
    weights = torch.linspace(-1.0, 2.0, len(ROWS), dtype=torch.float64)[:, None, None]
    with PipelineContext(semiring=semiring, dtype="float64", optimize=optimize) as context:
        a, b = context.compile(first), context.compile(second)
        product = context.compile(multiply(first, second))
        leaves = [*a.parameters(), *b.parameters()]
        rows = torch.from_numpy(ROWS)

        def of(values: Any) -> Any:
            numbers = values.exp().real if values.is_complex() or semiring != "sum-product" else values
            return torch.autograd.grad((weights * numbers).sum(), leaves)

        expected = of(torch.stack([a(rows), b(rows)]).sum(0) if semiring != "sum-product" else a(rows) * b(rows))
        floats = rows.double()
        lacking = floats.clone()
        lacking[0, 1] = torch.nan  # this row alone is computed by the product
        for gradient, other in zip(of(product(rows)), expected, strict=True):
            torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-10)
        weights = weights.clone()
        weights[0] = 0.0
        expected = of(product(rows))
        for gradient, other in zip(of(product(lacking)), expected, strict=True):
            torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-10)


def densities() -> Circuit:
    return chain(2, lambda variable: GaussianLayer([variable], 2), variables=3, arity=1)


def test_rows_of_real_numbers_with_and_without_missing_values() -> None:
    c = densities()
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        compiled, square = context.compile(c), context.compile(multiply(c, c))
        over_last = context.compile(integrate(multiply(c, c), [2]))
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 3)))
    np.testing.assert_allclose(linear(square, x), linear(compiled, x) ** 2, rtol=1e-12)
    lacking = x.clone()
    lacking[[0, 3, 6], 2] = torch.nan
    found = linear(square, lacking)
    np.testing.assert_allclose(found[[1, 2, 4, 5]], linear(compiled, x)[[1, 2, 4, 5]] ** 2, rtol=1e-12)
    np.testing.assert_allclose(found[[0, 3, 6]], linear(over_last, x)[[0, 3, 6]], rtol=1e-9)
    lacking[:] = torch.nan
    total = linear(context.integrate(square))
    np.testing.assert_allclose(linear(square, lacking), np.broadcast_to(total, (7, 1, 1)), rtol=1e-9)
    assert square(x[:0]).shape == (0, 1, 1)


def test_columns_that_are_not_read_may_be_anything() -> None:
    c = tables(2)
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        part = context.compile(integrate(multiply(c, c), [1]))
        rows = torch.from_numpy(ROWS)
        expected = linear(part, rows)
    for other in (torch.nan, torch.inf, 99.0):
        floats = rows.double()
        floats[:, 1] = other
        np.testing.assert_array_equal(linear(part, floats), expected)


def test_log_likelihoods_in_another_number_format_and_conditional_ones() -> None:
    c = tables(2, positive=True)
    with PipelineContext(semiring="max-product", dtype="float64") as context:
        square = context.compile(multiply(c, c))
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        values = linear(context.compile(c), torch.from_numpy(ROWS))
        square = context.compile(multiply(c, c))
    table = values[:, 0, 0] ** 2 / (values**2).sum()
    floats = torch.from_numpy(ROWS).double()
    np.testing.assert_allclose(queries.log_likelihood(square, floats).exp().detach(), table, rtol=1e-10)
    np.testing.assert_allclose(queries.log_likelihood(square, torch.from_numpy(ROWS)).exp().detach(), table, rtol=1e-10)
    floats[5, 0] = torch.nan
    expected = table.copy()
    expected[5] = table.reshape(STATES, -1).sum(0)[5]
    np.testing.assert_allclose(queries.log_likelihood(square, floats).exp().detach(), expected, rtol=1e-10)


def test_parameters_given_for_each_row_reach_the_operands() -> None:
    c = tables(2)
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        compiled, square = context.compile(c), context.compile(multiply(c, c))
    key = next(iter(compiled.state_dict()))
    leaf = compiled.state_dict()[key]
    name = next(name for name, tensor in square.state_dict().items() if torch.equal(tensor, leaf))
    shape = leaf.shape
    for given in (torch.full(shape, 0.7), torch.linspace(-1, 1, 9 * shape.numel()).reshape(9, *shape)):
        rows = torch.from_numpy(ROWS[:9]).double()
        expected = linear_of(compiled, key, given, rows) ** 2
        np.testing.assert_allclose(linear_of(square, name, given, rows), expected, rtol=1e-10)
        rows[4, 3] = torch.nan
        found = linear_of(square, name, given, rows)
        np.testing.assert_allclose(np.delete(found, 4, 0), np.delete(expected, 4, 0), rtol=1e-10)
        assert np.isfinite(found).all()


def linear_of(circuit: Any, key: str, given: Any, rows: Any) -> Any:
    return circuit(rows, parameters={key: given.double()}).detach().numpy()


def test_steps_copies_and_eval_mode() -> None:
    c = tables(2)
    rows = torch.from_numpy(ROWS)
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        compiled, square = context.compile(c), context.compile(multiply(c, c))
    for mode in (True, False):
        compiled.train(mode), square.train(mode)
        for _ in range(2):
            with torch.no_grad():
                for parameter in compiled.parameters():
                    parameter.mul_(0.9)
                np.testing.assert_allclose(linear(square, rows), linear(compiled, rows) ** 2, rtol=1e-12)
                np.testing.assert_allclose(linear(square, rows.double()), linear(compiled, rows) ** 2, rtol=1e-12)
    expected = linear(square, rows)
    for other in (copy.deepcopy(square), pickle.loads(pickle.dumps(square))):
        np.testing.assert_array_equal(linear(other, rows), expected)
        assert other.folded.complete is not None
    halves = copy.deepcopy(square).float()
    np.testing.assert_allclose(linear(halves, rows), expected, rtol=1e-5)


def test_a_product_in_a_traced_function() -> None:
    c = tables(2)
    rows = torch.from_numpy(ROWS)
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        square = context.compile(multiply(c, c))
    expected = linear(square, rows)

    @plica.jit
    def twice(x: Any) -> Any:
        return pnp.multiply(square(x), 2.0)

    np.testing.assert_allclose(twice(rows).detach(), 2 * expected, rtol=1e-12)
    floats = rows.double()
    floats[0] = torch.nan
    np.testing.assert_allclose(twice(floats).detach()[0], 2 * expected.sum(0), rtol=1e-12)
    np.testing.assert_allclose(twice(floats).detach()[1:], 2 * expected[1:], rtol=1e-12)


def test_explain_tells_how_complete_rows_are_computed() -> None:
    c = tables(16)
    with PipelineContext(semiring="sum-product") as context:
        text = context.compile(multiply(c, c)).explain()
        other = context.compile(c).explain()
    assert "rows without missing variables: products of the values of the operands" in text
    assert "Kronecker weights: 2 of 3 are never built (524,288 numbers)\n  built: SumLayer(" in text
    assert "Kronecker" not in other


@pytest.mark.parametrize("make", ["square", "part", "quotient"])
def test_a_model_file_keeps_how_complete_rows_are_computed(make: str, tmp_path: Path) -> None:
    c = tables(6, positive=True)
    square = multiply(c, c)
    made = {"square": square, "part": integrate(square, [1]), "quotient": normalize(square)}[make]
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        compiled = context.compile(made)
    plica.save(compiled, tmp_path / "square.plica")
    loaded = plica.load(tmp_path / "square.plica")
    rows = torch.from_numpy(ROWS)
    floats = rows.double()
    floats[::3, 2] = torch.nan
    for x in (rows, floats):
        np.testing.assert_array_equal(linear(loaded, x), linear(compiled, x))
    assert loaded.compiled.complete_work == compiled.compiled.complete_work
    assert loaded.state_dict().keys() == compiled.state_dict().keys()
    plica.save(loaded, tmp_path / "again.plica")
    again = plica.load(tmp_path / "again.plica")
    np.testing.assert_array_equal(linear(again, rows), linear(compiled, rows))
    assert again.compiled.complete_work == compiled.compiled.complete_work


def test_the_live_layers_of_a_loaded_circuit_keep_how_complete_rows_are_computed() -> None:
    square = multiply(*[tables(4)] * 2)
    unread = CategoricalLayer([0], 3, num_categories=3)
    padded = Circuit.from_operation(
        [*square.layers, unread],
        square.layers_inputs,
        square.outputs,
        operation=CircuitOperation("multiply", ()),
        factors=square.factors,
    )
    loaded = decode_circuit(*encode_circuit(padded))
    assert loaded.live is not loaded
    assert complete_form(loaded.live) is complete_form(loaded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["outputs"].append(0), r"circuit\.complete.*outputs"),
        (lambda record: record["inputs"].pop(), r"circuit\.complete\.inputs: expected the inputs of"),
        (lambda record: record["outputs"].__setitem__(0, 0), r"circuit\.complete: expected 1 outputs of 1 units over"),
        (lambda record: record.pop("layers"), "complete"),
    ],
)
def test_damaged_layers_of_complete_rows_are_refused(change: Any, message: str) -> None:
    c = tables(2)
    structure, arrays = encode_circuit(multiply(c, c))
    change(structure["complete"])
    with pytest.raises(FileFormatError, match=message):
        decode_circuit(structure, arrays)


def test_layers_of_complete_rows_with_other_tensors_are_refused() -> None:
    c, other = tables(2), tables(2)
    product = multiply(c, c)
    object.__setattr__(product, "_complete_form", multiply(other, other))
    structure, arrays = encode_circuit(product)
    with pytest.raises(FileFormatError, match=r"circuit\.complete: the circuit does not have the tensor of"):
        decode_circuit(structure, arrays)


def test_layers_of_complete_rows_with_fewer_states_are_refused() -> None:
    layer, other = (
        EmbeddingLayer([0], 1, num_states=3),
        EmbeddingLayer([0], 1, weight=ConstantParameter(1, 2, value=1.0)),
    )
    c = Circuit([layer], {}, [layer])
    product = multiply(c, c)
    object.__setattr__(product, "_complete_form", Circuit([other], {}, [other]))
    structure, arrays = encode_circuit(product)
    with pytest.raises(FileFormatError, match=r"circuit\.complete: variable 0 is of 3 states in the circuit, and of 2"):
        decode_circuit(structure, arrays)


def test_signs_that_cancel_are_left_to_the_product() -> None:
    """All weights are negative, so that those of the square are not."""

    def negative(shape: tuple[int, ...]) -> Parameter:
        return Parameter.from_input(TensorParameter(*shape, initializer=UniformInitializer(-1.0, -0.5)))

    layers = [GaussianLayer([variable], 2) for variable in (0, 1)]
    product, total = HadamardLayer(2), SumLayer(2, 1, weight_factory=negative)
    c = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    x = torch.tensor([[0.5, -1.0], [0.1, 0.3]], dtype=torch.float64)
    with PipelineContext(semiring="sum-product", dtype="float64") as context:
        compiled = context.compile(c)
        linear_square = context.compile(multiply(c, c))
    expected = linear(compiled, x) ** 2
    np.testing.assert_allclose(linear(linear_square, x), expected, rtol=1e-12)
    square = plica.compile(multiply(c, c), semiring="lse-sum", dtype="float64")
    square.load_state_dict(linear_square.state_dict())
    np.testing.assert_allclose(linear(square, x), expected, rtol=1e-10)
    assert square.folded.complete is None


@pytest.mark.parametrize("semiring", ["sum-product", pytest.param("signed-lse-sum", marks=pytest.mark.full)])
def test_native_code_of_a_square(semiring: str, tmp_path: Path) -> None:
    c = tables(4)
    with PipelineContext(semiring=semiring, dtype="float64") as context:
        square = context.compile(multiply(c, c)).eval()
    plica.native.compile(square, tmp_path / "square.plicab", queries=["log-likelihood", "marginal"])
    expected = square(torch.from_numpy(ROWS)).detach().numpy()
    floats = ROWS.astype(float)
    floats[::2, 1] = np.nan
    with plica.native.load(tmp_path / "square.plicab") as module:
        np.testing.assert_allclose(module(ROWS), expected, rtol=1e-10, atol=1e-12)
        found, expected = module.marginal(floats), square(torch.from_numpy(floats)).detach().numpy()
        if semiring != "sum-product":  # terms of both signs cancel, so that a small number has a large relative error
            found, expected = np.exp(found), np.exp(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("semiring", ["sum-product", "lse-sum", "signed-lse-sum"])
def test_transforms_map_over_rows_of_a_product(semiring: str) -> None:
    c = densities()
    with PipelineContext(semiring=semiring, dtype="float64") as context:
        square = context.compile(multiply(c, c))
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 3)))
    mapped = torch.func.vmap(lambda row: square(row[None])[0, 0, 0])(x)
    torch.testing.assert_close(mapped, square(x)[:, 0, 0], rtol=1e-9, atol=1e-12)
