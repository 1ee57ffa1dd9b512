"""Compiled circuits against the brute-force oracle: values, gradients, totals and marginals, whatever the flags."""

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer
from tests.harness.circuits import (
    CIRCUITS,
    circuits,
    data,
    gaussians,
)
from tests.harness.oracle import Oracle, all_states, finite_differences, gradients, keys, numbers

ALL = pytest.mark.parametrize("name", CIRCUITS)
SEMIRINGS = pytest.mark.parametrize("semiring", ["lse-sum", "sum-product"])
FLAGS = [(True, True), (True, False), (False, True), (False, False)]
# The bound on one layer, relative in linear space and absolute beside relative in log space; layers add up.
BOUND = {torch.float32: 1e-5, torch.float64: 1e-11}
GRADIENT_BOUND = {torch.float32: 1e-4, torch.float64: 1e-8}


def assert_values(compiled, x: np.ndarray, *, rtol: float) -> None:
    oracle = Oracle(compiled.symbolic, numbers(compiled))
    log_space = compiled.semiring.name == "lse-sum"
    expected = oracle.log(x) if log_space else oracle.linear(x)
    found = compiled(torch.from_numpy(x)).detach().numpy()
    assert found.shape == (len(x), len(compiled.symbolic.outputs), compiled.symbolic.outputs[0].num_output_units)
    underflow = torch.finfo(compiled.dtype).tiny  # what linear space cannot hold
    np.testing.assert_allclose(found, expected.astype(float), rtol=rtol, atol=rtol if log_space else underflow)


def assert_gradients(compiled, x: np.ndarray, *, rtol: float) -> None:
    """The gradient of a weighted sum of log-likelihoods, against finite differences of the oracle."""
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


@ALL
@SEMIRINGS
@pytest.mark.parametrize("dtype", list(BOUND), ids=str)
def test_values_are_the_oracles(name: str, semiring: str, dtype: torch.dtype) -> None:
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(semiring, dtype=dtype).compile(circuit)
    assert_values(compiled, data(circuit, 7), rtol=BOUND[dtype] * len(circuit.layers))


@ALL
@SEMIRINGS
@pytest.mark.parametrize("dtype", list(BOUND), ids=str)
def test_gradients_are_the_oracles(name: str, semiring: str, dtype: torch.dtype) -> None:
    if name == "constants":
        return  # it has none
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(semiring, dtype=dtype).compile(circuit)
    assert_gradients(compiled, data(circuit, 4), rtol=GRADIENT_BOUND[dtype])


@given(circuits())
def test_values_of_random_circuits(circuit: Circuit) -> None:
    for semiring in ("lse-sum", "sum-product"):
        torch.manual_seed(3)
        compiled = TorchCompiler(semiring, dtype="float64").compile(circuit)
        assert_values(compiled, data(circuit, 5), rtol=1e-9)


@settings(max_examples=15)
@given(circuits())
def test_gradients_of_random_circuits(circuit: Circuit) -> None:
    torch.manual_seed(4)
    assert_gradients(TorchCompiler(dtype="float64").compile(circuit), data(circuit, 2), rtol=1e-7)


@settings(max_examples=25)
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
    if name not in ("unnormalised", "shared", "gaussian", "gaussian, log_partition", "several sizes")
]


@pytest.mark.parametrize("name", [*NORMALISED, "unnormalised"])
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


@settings(max_examples=30)
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


@settings(max_examples=25)
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
