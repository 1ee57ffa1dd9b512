"""Compiled circuits against the brute-force oracle: values, gradients, totals and marginals, whatever the flags."""

import copy
import gc
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError
from plica.lower.fold import read
from plica.lower.queries.score import lower_score
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import Initializer, UniformInitializer
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import TensorParameter
from tests.harness.circuits import CIRCUITS, chain, circuits, coin, data, gaussians, pixels
from tests.harness.oracle import Oracle, all_states, finite_differences, gradients, keys, numbers
from tests.harness.pairwise import flagged

ALL = pytest.mark.parametrize("name", CIRCUITS)
FLAGS = [(True, True), (True, False), (False, True), (False, False)]
# The bound on one layer, relative in linear space and absolute beside relative in log space; layers add up.
BOUND = {torch.float32: 1e-5, torch.float64: 1e-11}
GRADIENT_BOUND = {torch.float32: 1e-4, torch.float64: 1e-8}
EVERY: dict[str, list[Any]] = {"name": list(CIRCUITS), "semiring": ["lse-sum", "sum-product"], "dtype": list(BOUND)}
FEWER = settings(max_examples=settings().max_examples // 2)


def assert_values(compiled, x: np.ndarray, *, rtol: float) -> None:
    oracle = Oracle(compiled.symbolic, numbers(compiled))
    log_space = compiled.semiring.name == "lse-sum"
    expected = oracle.log(x) if log_space else oracle.linear(x)
    found = compiled(torch.from_numpy(x)).detach().numpy()
    assert found.shape == (len(x), len(compiled.symbolic.outputs), compiled.symbolic.outputs[0].num_output_units)
    underflow = torch.finfo(compiled.dtype).tiny  # what linear space cannot hold
    np.testing.assert_allclose(found, expected.astype(float), rtol=rtol, atol=rtol if log_space else underflow)


def assert_gradients(compiled, x: np.ndarray, *, rtol: float) -> None:
    """The gradient of a weighted sum of log-likelihoods, against finite differences of the oracle.

    Rows of probability zero have none, and send nothing that is infinite or NaN to the gradients of others.
    """
    if not any(parameter.requires_grad for parameter in compiled.parameters()):
        return
    compiled(torch.from_numpy(x)).sum().backward()
    assert all(np.isfinite(gradient).all() for gradient in gradients(compiled).values())
    compiled.zero_grad()
    x = x[np.isfinite(Oracle(compiled.symbolic, numbers(compiled)).log(x)).all(axis=(1, 2))]
    result = compiled(torch.from_numpy(x))
    log_space = compiled.semiring.name == "lse-sum"
    weights = np.random.default_rng(1).normal(size=result.shape)
    ((result if log_space else result.log()) * torch.from_numpy(weights)).sum().backward()

    def objective(values):
        return (Oracle(compiled.symbolic, values).log(x) * weights).sum()

    expected = finite_differences(objective, numbers(compiled))
    found = gradients(compiled)
    assert found.keys() == expected.keys()
    for key, gradient in expected.items():
        np.testing.assert_allclose(found[key], gradient, rtol=rtol, atol=rtol, err_msg=key)


@flagged(**EVERY)
def test_values_are_the_oracles(name: str, semiring: str, dtype: torch.dtype) -> None:
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(semiring, dtype=dtype).compile(circuit)
    assert_values(compiled, data(circuit, 7), rtol=BOUND[dtype] * len(circuit.layers))


@pytest.mark.one_in(3)
@flagged(**EVERY)
def test_gradients_are_the_oracles(name: str, semiring: str, dtype: torch.dtype) -> None:
    if name == "constants":
        return  # it has none
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(semiring, dtype=dtype).compile(circuit)
    assert_gradients(compiled, data(circuit, 4), rtol=GRADIENT_BOUND[dtype])


@FEWER
@given(circuits())
def test_values_of_random_circuits(circuit: Circuit) -> None:
    for semiring in ("lse-sum", "sum-product"):
        torch.manual_seed(3)
        compiled = TorchCompiler(semiring, dtype="float64").compile(circuit)
        assert_values(compiled, data(circuit, 5), rtol=1e-9)


@FEWER
@given(circuits())
def test_gradients_of_random_circuits(circuit: Circuit) -> None:
    torch.manual_seed(4)
    assert_gradients(TorchCompiler(dtype="float64").compile(circuit), data(circuit, 2), rtol=1e-7)


@FEWER
@given(circuits())
def test_flags_do_not_change_values_or_keys(circuit: Circuit) -> None:
    x = torch.from_numpy(data(circuit, 5))
    found = []
    for fold, optimize in FLAGS:
        torch.manual_seed(5)
        found.append(TorchCompiler(fold=fold, optimize=optimize, dtype="float64").compile(circuit))
    first, *others = found
    for other in others:
        torch.testing.assert_close(other(x), first(x), rtol=1e-12, atol=1e-12)
        states = first.state_dict(), other.state_dict()
        assert list(states[0]) == list(states[1])
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


NORMALISED = [
    name
    for name in CIRCUITS
    if name not in ("unnormalized", "shared", "gaussian", "gaussian, log_partition", "several sizes")
]


@pytest.mark.parametrize("name", [*NORMALISED, "unnormalized"])
def test_the_total_is_the_sum_over_all_states(name: str) -> None:
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    if name == "many outputs":  # its layers have one scope, so that all of them are distributions
        assert len({circuit.layer_scope(layer) for layer in circuit.outputs}) == 1
    total = compiled(torch.from_numpy(all_states(circuit))).exp().sum(dim=0).detach()
    np.testing.assert_allclose(total, Oracle(circuit, numbers(compiled)).total().astype(float), rtol=1e-9)
    if name in NORMALISED:
        np.testing.assert_allclose(total, 1, rtol=1e-9)
    missing = torch.full((1, max(circuit.scope) + 1), torch.nan, dtype=torch.float64)
    np.testing.assert_allclose(compiled(missing)[0].exp().detach(), total, rtol=1e-9)


@pytest.mark.parametrize("log_partition", [False, True])
def test_densities_integrate_by_quadrature(log_partition: bool) -> None:
    circuit = gaussians(2, log_partition=log_partition)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    oracle = Oracle(circuit, numbers(compiled))
    for row in ([np.nan, 0.3], [np.nan, np.nan]):
        expected = oracle.integral(np.array(row))
        found = compiled(torch.tensor([row], dtype=torch.float64)).exp().item()
        assert found == pytest.approx(expected, rel=1e-6)
    if not log_partition:
        assert found == pytest.approx(1)


@FEWER
@given(circuits(finite=True))
def test_missing_values_are_summed_out(circuit: Circuit) -> None:
    torch.manual_seed(6)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    oracle = Oracle(circuit, numbers(compiled))
    rng = np.random.default_rng(7)
    x = data(circuit, 4).astype(float)
    x[rng.random(x.shape) < 0.5] = np.nan
    x[0] = np.nan
    found = compiled(torch.from_numpy(x)).exp().detach().numpy()
    for number, layer in enumerate(circuit.outputs):  # an interior layer may lack variables: they do not count
        part = oracle.part(layer)
        width = max(part.circuit.scope) + 1
        rows = np.where([v in part.circuit.scope for v in range(width)], x[:, :width], np.nan)
        expected = np.stack([part.marginal(row) for row in rows])[:, 0]
        np.testing.assert_allclose(found[:, number], expected.astype(float), rtol=1e-9)


@pytest.mark.full
@settings(max_examples=50)
@given(circuits())
def test_the_full_product_of_semirings_flags_and_dtypes(circuit: Circuit) -> None:
    for semiring, (fold, optimize), dtype in itertools.product(("lse-sum", "sum-product"), FLAGS, BOUND):
        torch.manual_seed(9)
        compiled = TorchCompiler(semiring, fold=fold, optimize=optimize, dtype=dtype).compile(circuit)
        assert_values(compiled, data(circuit, 3), rtol=BOUND[dtype] * len(circuit.layers))


@FEWER
@given(circuits(), st.integers(0, 20), st.booleans(), st.booleans())
def test_circuits_of_one_compiler_share_tensors(circuit: Circuit, place: int, part_first: bool, fold: bool) -> None:
    """A circuit and a part of it, in either order: whatever folds with what, each tensor has one value."""
    torch.manual_seed(8)
    part = circuit.subgraph(circuit.layers[place % len(circuit.layers)])
    compiler = TorchCompiler(dtype="float64", fold=fold)
    both = [compiler.compile(one) for one in ((part, circuit) if part_first else (circuit, part))]
    assert_shared(both)
    for compiled in both:
        state = {key: value + torch.randn(()) for key, value in compiled.state_dict().items()}
        compiled.load_state_dict(state)
        assert_shared(both)
    smaller = both[0] if part_first else both[1]
    assert_gradients(smaller, data(part, 2), rtol=1e-7)
    assert_shared([copy.deepcopy(smaller)])


def assert_shared(compiled: list) -> None:
    values: dict = {}
    for one in compiled:
        state = numbers(one)
        for leaf, key in keys(one.symbolic).items():
            np.testing.assert_array_equal(values.setdefault(leaf, state[key]), state[key])
        assert_values(one, data(one.symbolic, 3), rtol=1e-9)


def test_symbolic_tensors_and_folds_are_found_from_each_other() -> None:
    layers = [CategoricalLayer([variable], 3, num_categories=2) for variable in range(3)]
    product = HadamardLayer(3, 3)
    circuit = Circuit([*layers, product], {product: layers}, [product])
    compiler = TorchCompiler()
    compiled = compiler.compile(circuit)
    keys = compiled.state_dict()
    for number, layer in enumerate(layers):
        (leaf,) = layer.params["logits"].leaves
        assert isinstance(leaf, TensorParameter)
        tensor, fold = compiler.tensor_of(leaf)
        torch.testing.assert_close(tensor[fold], keys[f"{number}.logits"])
        assert compiler.parameters_of(tensor)[fold] is leaf
    with pytest.raises(KeyError, match="holds no parameters"):
        compiler.parameters_of(torch.zeros(3))


def test_a_circuit_that_shares_tensors_goes_where_they_went() -> None:
    layer, other = CategoricalLayer([0], 3, num_categories=2), CategoricalLayer([1], 3, num_categories=2)
    product = HadamardLayer(3, 2)
    alone, both = Circuit([layer], {}, [layer]), Circuit([layer, other, product], {product: [layer, other]}, [product])
    compiler = TorchCompiler(dtype="float32")
    compiler.compile(alone).double()
    compiled = compiler.compile(both)
    assert compiled.dtype == torch.float64
    assert {tensor.dtype for tensor in compiled.state_dict().values()} == {torch.float64}
    data = torch.tensor([[0, 1], [1, 1]])
    assert compiled(data).dtype == torch.float64
    torch.testing.assert_close(
        compiled(torch.tensor([[0.0, torch.nan], [1.0, torch.nan]])), compiler.compile(alone)(data[:, :1])
    )


def named(circuit: Circuit) -> Circuit:
    """A circuit on layers that share the tensors of those of `circuit`."""
    layers = {layer: layer.copyref() for layer in circuit.layers}
    edges = {layers[one]: [layers[child] for child in circuit.layer_inputs(one)] for one in circuit.inner_layers}
    return Circuit(layers.values(), edges, [layers[one] for one in circuit.outputs])


def with_a_buffer() -> Circuit:
    """A leaf that is learnt beside one that is not."""
    weight = TensorParameter(1, 2, initializer=UniformInitializer(), learnable=False)
    return chain(coin([0], 2), SumLayer(2, 1, weight=weight))


CHANGES: dict[str, Any] = {
    "double": lambda compiled: compiled.double(),
    "assigned": lambda compiled: compiled.load_state_dict(
        {key: value.double() + 0.5 for key, value in compiled.state_dict().items()}, assign=True
    ),
    "both": lambda compiled: CHANGES["assigned"](compiled.double()),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_circuits_share_tensors_whatever_replaces_them(change: str, first: bool) -> None:
    """The map holds the tensors as they are, and circuits compiled before and after have them too."""
    circuit = with_a_buffer()
    again, later = named(circuit), named(circuit)
    compiler = TorchCompiler(dtype="float32")
    both = [compiler.compile(circuit), compiler.compile(again)]
    CHANGES[change](both[0] if first else both[1])
    both.append(compiler.compile(later))
    held = [dict(one.leaves.items()) for one in both]
    for leaf, tensor in held[0].items():
        assert tensor.dtype == torch.float64
        assert all(other[leaf] is tensor for other in held)
        for fold, member in enumerate(leaf.members):
            assert compiler.tensor_of(member)[0] is tensor
            assert compiler.tensor_of(member)[1] == fold
        assert compiler.parameters_of(tensor) == leaf.members
    x = torch.tensor([[0], [1]])
    with torch.no_grad():
        next(both[0].parameters()).add_(torch.tensor([1.0, -1.0], dtype=torch.float64))
    results = [one(x) for one in both]
    assert all(result.dtype == torch.float64 for result in results)
    assert all(torch.equal(result, results[0]) for result in results)


def test_copies_share_nothing() -> None:
    compiler = TorchCompiler(dtype="float32")
    compiled = compiler.compile(with_a_buffer())
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        CHANGES["assigned"](other)
        assert compiled.dtype == torch.float32
        assert {tensor.dtype for _, tensor in compiled.leaves.items()} == {torch.float32}


def test_circuits_and_compiled_ones_are_found_from_each_other() -> None:
    circuit, other = with_a_buffer(), with_a_buffer()
    compiler = TorchCompiler()
    compiled = compiler.compile(circuit)
    assert compiler.circuits.is_compiled(circuit)
    assert not compiler.circuits.is_compiled(other)
    assert compiler.circuits.get_compiled_circuit(circuit) is compiled
    assert compiler.circuits.get_symbolic_circuit(compiled) is circuit
    assert compiler.circuits.has_symbolic(compiled)
    assert not compiler.circuits.has_symbolic(TorchCompiler().compile(circuit))
    with pytest.raises(KeyError):
        compiler.circuits.get_compiled_circuit(other)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_of_garbage_is_as_before_after_compiling(enabled: bool) -> None:
    class Failing(Initializer):
        @property
        def config(self) -> dict[str, Any]:
            return {}

        def allows_shape(self, shape: tuple[int, ...]) -> bool:  # noqa: ARG002
            return True

        def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:  # noqa: ARG002
            seen.append(gc.isenabled())
            raise RuntimeError("no draw")

    seen: list[bool] = []
    weight = TensorParameter(1, 3, initializer=Failing())
    try:
        gc.enable() if enabled else gc.disable()
        TorchCompiler().compile(CIRCUITS["mixing"]())
        assert gc.isenabled() is enabled
        with pytest.raises(RuntimeError, match="no draw"):
            TorchCompiler().compile(chain(coin([0], 3), SumLayer(3, 1, weight=weight)))
        assert (seen, gc.isenabled()) == ([False], enabled)
    finally:
        gc.enable()


def test_programs_are_lowered_without_the_collector_of_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def watched(*args: Any, **settings: Any) -> Any:
        seen.append(gc.isenabled())
        return lower_score(*args, **settings)

    monkeypatch.setattr("plica.lower.compiled.lower_score", watched)
    compiled = TorchCompiler().compile(CIRCUITS["mixing"]())
    seen.clear()
    compiled(torch.full((1, compiled.num_variables), math.nan))
    assert (seen, gc.isenabled()) == ([False], True)


def test_compiling_leaves_little_in_cycles() -> None:
    def left(size: int) -> int:
        circuit = pixels(size)
        compiler = TorchCompiler()
        gc.collect()
        gc.disable()
        try:
            compiled = compiler.compile(circuit)
            return gc.collect()
        finally:
            gc.enable()
            del compiled

    left(4)
    assert left(16) - left(4) < 6 * (16 * 16 - 4 * 4), "the derived parameters of each would be more than 20"


def test_parameters_of_a_part_are_reset_alone() -> None:
    """The part reads one fold of a leaf that the whole circuit shares with it."""
    inputs = [coin([v], 2, 3) for v in range(3)]
    product = HadamardLayer(2, 3)
    whole = Circuit([*inputs, product], {product: inputs}, [product])
    compiler = TorchCompiler()
    compiled = compiler.compile(whole)
    part = compiler.compile(Circuit([inputs[1]], {}, [inputs[1]]))
    before = {key: value.copy() for key, value in numbers(compiled).items()}
    part.reset_parameters(5)
    after = numbers(compiled)
    assert [key for key in before if not np.array_equal(before[key], after[key])] == ["1.logits"]
    alone = TorchCompiler().compile(Circuit([inputs[1]], {}, [inputs[1]]))
    alone.reset_parameters(5)
    np.testing.assert_array_equal(numbers(alone)["0.logits"], after["1.logits"])


@ALL
@pytest.mark.parametrize("compiles", [True, False])
def test_a_first_call_under_inference_mode_leaves_a_circuit_that_trains(
    name: str, compiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Activations are gathered by constants, which differentiation keeps."""
    monkeypatch.setattr(read, "MAX_RUNS", 0)
    circuit = CIRCUITS[name]()
    x = torch.from_numpy(data(circuit, 4))
    compiler = TorchCompiler(dtype="float64")
    if not compiles:
        compiler.compile(circuit)
    with torch.inference_mode():
        expected = compiler.compile(circuit)(x), compiler.compile(circuit)(x.double())
    compiled = compiler.compile(circuit)
    for found, one in zip((compiled(x), compiled(x.double())), expected, strict=True):
        assert torch.equal(found, one)
        if name != "constants":
            found.sum().backward()
            assert all(parameter.grad is not None for parameter in compiled.parameters())


def test_what_is_no_circuit_is_refused_with_advice() -> None:
    compiler, circuit = TorchCompiler(), CIRCUITS["one input"]()
    cases: tuple[tuple[Any, str], ...] = (
        (3, "make one by a template"),
        (compiler.compile(circuit), "it is compiled already"),
        (lambda x: x, "a function of arrays by plica.jit"),
    )
    for value, advice in cases:
        with pytest.raises(DTypeError, match=f"compile takes a circuit, found .*; .*{advice}"):
            compiler.compile(value)
