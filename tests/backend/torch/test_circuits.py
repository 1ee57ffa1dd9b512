"""`TorchCircuit` as a module: inputs, dtypes, copies, torch's transformations, and what it tells of itself."""

import copy
import io
import pickle
import traceback
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, InputError, StructuralPropertyError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, Layer, SumLayer
from tests.harness.circuits import (
    CIRCUITS,
    bag,
    chain,
    coin,
    constant,
    constants,
    data,
    gaussians,
    many_outputs,
    several_sizes,
    shared,
    tensor,
)
from tests.harness.oracle import Oracle, gradients, numbers

X = torch.tensor([[0, 1], [1, 1], [1, 0]])


def coins() -> Circuit:
    product, total = HadamardLayer(2, 2), SumLayer(2, 1)
    inputs = [coin([v], 2) for v in range(2)]
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


def not_smooth() -> Circuit:
    return bag(SumLayer(2, 1, 2), coin([0], 2), coin([1], 2))


def not_decomposable() -> Circuit:
    return bag(HadamardLayer(1, 2), coin([0], 1), coin([0], 1))


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool, torch.float16, torch.float32, torch.float64],
)
def test_every_input_dtype_gives_the_same(dtype: torch.dtype) -> None:
    compiled = TorchCompiler().compile(coins())
    torch.testing.assert_close(compiled(X.to(dtype)), compiled(X), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_variables_of_different_kinds(dtype: torch.dtype) -> None:
    """Limits differ by column, and a real column may hold anything; column 2 belongs to no layer."""
    circuit = several_sizes()
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    oracle = Oracle(circuit, numbers(compiled))
    x = np.array([[1.0, 3.0, 7.5, -2.5], [0.0, 0.0, np.nan, 1e3]])
    expected = oracle.log(np.nan_to_num(x)).astype(float)
    np.testing.assert_allclose(compiled(torch.from_numpy(x).to(dtype)).detach(), expected, rtol=1e-9)
    whole = torch.tensor([[1, 3, 0, -2], [0, 2, 99, 10**6]])  # whole numbers are real numbers too
    np.testing.assert_allclose(compiled(whole).detach(), oracle.log(whole.numpy()).astype(float), rtol=1e-9)
    np.testing.assert_allclose(compiled(whole.float()).detach(), compiled(whole).detach(), rtol=1e-12)
    for row, column, value in [([2.0, 0, 0, 0], 0, 2), ([0, 4.0, 0, 0], 1, 4), ([0, 0.5, 0, 0], 1, 0.5)]:
        for kind in (torch.float64, torch.int64) if value != 0.5 else (torch.float64,):
            with pytest.raises(InputError, match=f"row 1, variable {column}: the value {value:g} is none of"):
                compiled(torch.tensor([[0, 0, 0, 0], row], dtype=kind))


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows: int) -> None:
    for circuit in (coins(), many_outputs()):
        compiled = TorchCompiler().compile(circuit)
        for x in (X, X.float()):
            result = compiled(x[:rows])
            assert result.shape == (rows, len(circuit.outputs), circuit.outputs[0].num_output_units)
            torch.testing.assert_close(result, compiled(x)[:rows])
            result.sum().backward()


def test_strides_do_not_matter() -> None:
    compiled = TorchCompiler().compile(coins())
    wide = torch.zeros(6, 4, dtype=torch.int64)
    wide[::2, 1::2] = X
    for x in (X.T.contiguous().T, wide[::2, 1::2], X.flip(0).flip(0), X[:1].expand(3, 2)):
        torch.testing.assert_close(compiled(x), compiled(x.contiguous()), rtol=0, atol=0)


def test_parameters_are_read_at_each_call() -> None:
    compiled = TorchCompiler().compile(coins())
    before = compiled(X).detach()
    with torch.no_grad():
        for parameter in compiled.parameters():
            parameter.add_(torch.randn_like(parameter))
    after = compiled(X).detach()
    assert not torch.allclose(before, after)
    np.testing.assert_allclose(
        after, Oracle(compiled.symbolic, numbers(compiled)).log(X.numpy()).astype(float), rtol=1e-5
    )


@pytest.mark.parametrize(
    "build", [coins, gaussians, several_sizes, constants, shared], ids=lambda build: build.__name__
)
def test_to_retypes_the_program(build) -> None:
    circuit = build()
    compiled = TorchCompiler().compile(circuit)
    x = torch.from_numpy(data(circuit, 4))
    expected = compiled(x)
    assert compiled.dtype == expected.dtype == torch.float32
    compiled.double()
    assert "f32" not in str(compiled.program)
    assert compiled.dtype == compiled(x).dtype == torch.float64
    torch.testing.assert_close(compiled(x).float(), expected, rtol=1e-5, atol=1e-5)
    oracle = Oracle(circuit, numbers(compiled))
    np.testing.assert_allclose(compiled(x).detach(), oracle.log(x.numpy()).astype(float), rtol=1e-11)
    assert compiled.float()(x).dtype == torch.float32


def copies(compiled):
    stream = io.BytesIO()
    torch.save(compiled, stream)
    stream.seek(0)
    yield "deepcopy", copy.deepcopy(compiled)
    yield "pickle", pickle.loads(pickle.dumps(compiled))
    yield "save", torch.load(stream, weights_only=False)


@pytest.mark.parametrize("name", ["quad graph, mixing", "several sizes", "shared", "constants"])
def test_copies_are_independent_and_alike(name: str) -> None:
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler().compile(circuit)
    x = torch.from_numpy(data(circuit, 3))
    expected = compiled(x).detach()
    for how, other in copies(compiled):
        assert torch.equal(other(x), expected), how
        assert torch.equal(other(x.double()), compiled(x.double())), how
        assert list(other.state_dict()) == list(compiled.state_dict())
        assert other.program == compiled.program
        other.load_state_dict({key: torch.randn_like(value) for key, value in other.state_dict().items()})
        assert torch.equal(compiled(x), expected), how
        assert name == "constants" or not torch.equal(other(x), expected), how
        other.reset_parameters(0)
        assert other.double()(x).dtype == torch.float64


def test_a_copy_outlives_the_original() -> None:
    other = copy.deepcopy(TorchCompiler().compile(coins()))
    other.load_state_dict(other.state_dict())
    assert other(X).shape == (3, 1, 1)


def test_training_mode_changes_nothing() -> None:
    compiled = TorchCompiler().compile(coins())
    assert torch.equal(compiled.train()(X), compiled.eval()(X))


def test_functional_call_and_transforms() -> None:
    compiled = TorchCompiler(dtype="float64").compile(coins())
    params = {name: value.detach() for name, value in compiled.named_parameters()}

    def loss(values, x):
        return torch.func.functional_call(compiled, values, (x,)).sum()

    compiled(X).sum().backward()
    expected = {name: parameter.grad for name, parameter in compiled.named_parameters()}
    torch.testing.assert_close(torch.func.grad(loss)(params, X), expected)
    with torch.no_grad():  # a learner may differentiate under no_grad
        torch.testing.assert_close(torch.func.grad(loss)(params, X), expected)

    stacked = {name: torch.stack([value, value + 0.5, value * 2]) for name, value in params.items()}
    found = torch.func.vmap(lambda values: torch.func.functional_call(compiled, values, (X,)))(stacked)
    for place in range(3):
        one = {name: value[place] for name, value in stacked.items()}
        torch.testing.assert_close(found[place], torch.func.functional_call(compiled, one, (X,)))
    torch.testing.assert_close(compiled(X).sum(), loss(params, X))  # the module kept its own tensors
    doubled = {name: value.float() for name, value in params.items()}
    assert torch.func.functional_call(compiled, doubled, (X,)).dtype == torch.float32


def test_gradients_of_single_rows_by_vmap() -> None:
    compiled = TorchCompiler(dtype="float64").compile(coins())
    params = {name: value.detach() for name, value in compiled.named_parameters()}

    def loss(values, row):
        return torch.func.functional_call(compiled, values, (row[None],)).sum()

    x = X.double()
    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(params, x)
    for row in range(len(x)):
        for name, value in torch.func.grad(loss)(params, x[row]).items():
            torch.testing.assert_close(found[name][row], value)


@pytest.mark.parametrize("name", [pytest.param("quad graph, mixing", marks=pytest.mark.full), "several sizes"])
def test_torch_compile_makes_one_graph_for_every_batch_size(name: str) -> None:
    torch._dynamo.reset()
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    graphs = []

    def backend(graph, example_inputs):  # noqa: ARG001
        graphs.append(graph)
        return graph.forward

    fast = torch.compile(compiled, fullgraph=True, dynamic=True, backend=backend)
    for rows in (3, 5, 8):
        x = torch.from_numpy(data(circuit, rows))
        found = fast(x)
        torch.testing.assert_close(found, compiled(x))
        compiled.zero_grad()
        found.sum().backward()
        through = gradients(compiled)
        compiled.zero_grad()
        compiled(x).sum().backward()
        assert all(np.allclose(value, through[key], rtol=1e-12) for key, value in gradients(compiled).items())
    assert len(graphs) == 1
    for rows in (4, 7):
        x = torch.from_numpy(data(circuit, rows)).float()
        torch.testing.assert_close(fast(x), compiled(x))
    assert len(graphs) == 2


@pytest.mark.full
def test_torch_compile_with_the_real_compiler() -> None:
    torch._dynamo.reset()
    compiled = TorchCompiler().compile(coins())
    fast = torch.compile(compiled, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (2, 3):
        compiled.zero_grad()
        fast(X[:rows]).sum().backward()
        through = gradients(compiled)
        compiled.zero_grad()
        compiled(X[:rows]).sum().backward()
        assert all(np.allclose(value, through[key], rtol=1e-5, atol=1e-6) for key, value in gradients(compiled).items())


def test_tracebacks_show_the_generated_line() -> None:
    compiled = TorchCompiler().compile(coins())
    first, *_ = compiled.parameters()
    first.data = torch.ones(1, 2, 5, 5)
    try:
        compiled(X)
    except Exception:
        text = traceback.format_exc()
    assert "<plica forward" in text
    line = text.split("<plica forward")[1].splitlines()[1].strip()
    assert line in compiled.code


def test_what_it_tells() -> None:
    circuit = several_sizes()
    compiled = TorchCompiler().compile(circuit)
    assert compiled.symbolic is circuit
    assert compiled.scope == plica.Scope([0, 1, 3])
    assert compiled.num_variables == 3
    assert sum(group.num_folds for group in compiled.layers) == len(compiled.folded.circuit.layers)
    assert compiled.properties == circuit.properties
    assert str(compiled.program).startswith("{ lambda ")
    assert compiled.code.startswith("def forward(leaves, x):")
    assert "semiring lse-sum, torch.float32" in compiled.explain()
    assert f"of {len(circuit.layers)} layers" in compiled.explain()
    assert "semiring=lse-sum" in repr(compiled)
    assert compiled.check(torch.zeros(2, 4)) is None


ERRORS: dict[str, Any] = {
    "width": (coins, torch.zeros(2, 3), InputError, r"expects data of shape \(B, 2\).*found \(2, 3\)"),
    "one row": (coins, torch.zeros(2), InputError, r"expects data of shape \(B, 2\).*found \(2,\)"),
    "too large": (coins, [[0, 1], [0, 2]], InputError, "row 1, variable 1: the value 2 is none of the 2 states 0 to 1"),
    "negative": (
        coins,
        [[0, 1], [-1, 1]],
        InputError,
        "row 1, variable 0: the value -1 is none of the 2 states 0 to 1",
    ),
    "negative float": (coins, [[0.0, -1.0]], InputError, "row 0, variable 1: the value -1 is none"),
    "fraction": (coins, [[0.0, 0.5]], InputError, r"the value 0.5 is none of the 2 states.*NaN where it is missing"),
    "infinite": (coins, [[0.0, torch.inf]], InputError, "row 0, variable 1: the value inf is none"),
    "bytes": (coins, torch.full((1, 2), 255, dtype=torch.uint8), InputError, "the value 255 is none"),
    "boolean": (lambda: chain(coin([0], 1, 1)), [[False], [True]], InputError, "row 1, variable 0: the value"),
    "complex": (coins, torch.zeros(1, 2, dtype=torch.complex64), DTypeError, "takes integers or floats.*real numbers"),
    "complex gaussian": (gaussians, torch.zeros(1, 2, dtype=torch.complex64), DTypeError, "takes integers or floats"),
    "no numbers": (coins, np.array([["a", "b"]]), DTypeError, "rows must be numbers, .*encode text as numbers"),
    "nothing": (coins, None, InputError, r"the circuit has 2 variables; call it with data of shape \(B, 2\)"),
    "missing, not smooth": (
        not_smooth,
        [[0.0, torch.nan]],
        StructuralPropertyError,
        r"missing value \(NaN\) needs a smooth circuit, but SumLayer",
    ),
    "missing, not decomposable": (
        not_decomposable,
        [[torch.nan]],
        StructuralPropertyError,
        "needs a decomposable circuit, but HadamardLayer.*disjoint",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_data_that_does_not_fit(case: str) -> None:
    build, x, error, message = ERRORS[case]
    compiled = TorchCompiler().compile(build())
    x = torch.tensor(x) if isinstance(x, list) else x
    with pytest.raises(error, match=message):
        compiled(x)
    if x is not None:
        with pytest.raises(error, match=message):
            compiled.check(x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8])
def test_where_nothing_is_checked_wrong_rows_are_nan(dtype: torch.dtype) -> None:
    """As on other devices: the check is left out, and nothing wraps or touches other rows."""
    compiled = TorchCompiler().compile(coins())
    x = torch.tensor([[0, 1], [0, 200], [1, 0]]).to(dtype)
    x = torch.cat([x, torch.tensor([[-1, 0]]).to(dtype)]) if dtype != torch.uint8 else x
    good = compiled(x[[0, 2]])
    compiled.checked = lambda x, semiring=None: x  # noqa: ARG005
    result = compiled(x)
    assert result.isnan().flatten().tolist() == [False, True, False, True][: len(x)]
    torch.testing.assert_close(result[[0, 2]], good)


def test_not_smooth_or_decomposable_circuits_take_complete_data() -> None:
    for circuit, x in ((not_smooth(), X), (not_decomposable(), X[:, :1])):
        compiled = TorchCompiler(dtype="float64").compile(circuit)
        expected = Oracle(circuit, numbers(compiled)).log(x.numpy()).astype(float)
        np.testing.assert_allclose(compiled(x).detach(), expected, rtol=1e-9)
        np.testing.assert_allclose(compiled(x.double()).detach(), expected, rtol=1e-9)


def probability_one(scope: list[int]) -> CategoricalLayer:
    return CategoricalLayer(scope, 1, num_categories=2, probs=constant([[0.5, 0.5]]))


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("length", [1_200, *(pytest.param(some, marks=pytest.mark.full) for some in (3_000, 20_000))])
def test_a_chain_of_many_layers(optimize: bool, length: int) -> None:
    """Each weight is 2, then 1/2, in turn: the value is known, and nothing recurses."""
    weight = {
        place: tensor([[2.0]]) if place == 0 else constant([[2.0 if place % 2 == 0 else 0.5]]) for place in range(2)
    }
    layers = [probability_one([0]), *[SumLayer(1, 1, weight=weight[place % 2]) for place in range(length)]]
    compiled = TorchCompiler(dtype="float64", optimize=optimize).compile(chain(*layers))
    result = compiled(torch.tensor([[0], [1]]))
    np.testing.assert_allclose(result.detach(), np.full((2, 1, 1), np.log(0.5)), atol=1e-11)
    result.sum().backward()
    (gradient,) = (parameter.grad for parameter in compiled.parameters())
    assert gradient.item() == pytest.approx(2 * (length // 2) / 2.0)  # d/dw log w^10000, for two rows
    copy.deepcopy(compiled)
    assert optimize or len(compiled.program.equations) >= length


def test_a_shared_graph_of_60_doublings() -> None:
    """2**60 paths lead to the input, and each layer is computed once."""
    total: list = [probability_one([0])]
    edges: dict[Any, Any] = {}
    for _ in range(60):
        layer = SumLayer(1, 1, 2, weight=constant([[1.0, 1.0]]))
        edges[layer] = [total[-1], total[-1]]
        total.append(layer)
    circuit = Circuit(total, edges, [total[-1]])
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    assert len(compiled.program.equations) < 60 * 10
    assert compiled(torch.tensor([[1]])).item() == pytest.approx(60 * np.log(2) + np.log(0.5), abs=1e-11)
    squares: list = [probability_one([0])]
    edges = {}
    for _ in range(60):
        square = HadamardLayer(1, 2)
        edges[square] = [squares[-1], squares[-1]]
        squares.append(square)
    compiled = TorchCompiler(dtype="float64").compile(Circuit(squares, edges, [squares[-1]]))
    assert compiled(torch.tensor([[1]])).item() == pytest.approx(2**60 * np.log(0.5), rel=1e-12)


@pytest.mark.parametrize("layer", [HadamardLayer(2, 3000), SumLayer(2, 2, 3000)], ids=["product", "sum"])
def test_layers_of_thousands_of_inputs_are_no_nested_expression(layer: Layer) -> None:
    first, last = coin([0], 2), SumLayer(2, 1)
    circuit = Circuit([first, layer, last], {layer: [first] * 3000, last: [layer]}, [last])
    compiled = TorchCompiler().compile(circuit)
    x = torch.tensor([[0], [1]])
    value = compiled(x)
    value.sum().backward()
    np.testing.assert_allclose(value.detach().numpy(), Oracle(circuit, numbers(compiled)).log(x.numpy()), 1e-4, 1e-4)
