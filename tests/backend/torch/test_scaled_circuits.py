"""Circuits on scaled numbers where these underflow or overflow: every row is right, whichever way it was computed.

Each case has rows that the scaled path proves right and rows that it leaves to log space; how many is part of the
table, so that neither way goes untested.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch import scoring
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.scoring import Batch
from plica.lower import cascade
from plica.lower.fold.groups import fold_circuit
from plica.queries import posterior
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, KroneckerLayer, MultivariateGaussianLayer, SumLayer
from plica.symbolic.semirings import Bound
from plica.symbolic.semirings.scaled import SCALED
from plica.templates.pgms import hmm
from plica.templates.region_graph import LinearTree, RandomBinaryTree
from tests.harness.circuits import CIRCUITS, chain, data, gaussians, tensor
from tests.harness.oracle import Oracle, gradients, numbers
from tests.harness.pairwise import flagged

FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
# A result is a sum of logarithms, each rounded relative to its size; sharp densities multiply the rounding of data.
BOUND = {torch.float32: 1e-5, torch.float64: 1e-13}
RARE = {torch.float32: 1e-30, torch.float64: 1e-300}  # a weight that only rare rows need


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled numbers for data of any size."""
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)


def sharp(dtype: torch.dtype) -> tuple[Circuit, Any]:
    """Narrow densities: a row may be near unit 0 in one variable and near unit 1 in the next."""
    size = {torch.float32: 1, torch.float64: 4}[dtype]

    def factory(scope, units):
        means = 16.0 * size * np.arange(units)
        return GaussianLayer(scope, units, mean=tensor(means), stddev=tensor(np.full(units, 0.5)))

    circuit = RandomBinaryTree(8).build_circuit(
        input_factory=factory, sum_product="cp-t", num_input_units=3, num_sum_units=3
    )
    x = np.zeros((6, 8))
    x[1] = 16.0 * size
    x[2, ::2] = 16.0 * size  # units against units
    x[3, 0] = 16.0 * size
    x[4] = 8.0 * size
    x[5] = 40.0
    return circuit, x


def rare_weights(dtype: torch.dtype) -> tuple[Circuit, Any]:
    """Nearly deterministic sums: states of one unit alone, and tiny weights between units, over 40 variables."""
    rare = RARE[dtype]
    table = tensor([[1 - rare, rare], [rare, 1 - rare]])

    circuit = LinearTree(40).build_circuit(
        input_factory=lambda scope, units: CategoricalLayer(scope, units, num_categories=2, probs=table),
        sum_product="cp",
        sum_weight_factory=lambda shape: tensor(
            np.full(shape, 0.5) if shape[0] == 1 else [[1 - rare, rare], [rare, 1 - rare]]
        ),
        num_input_units=2,
        num_sum_units=2,
    )
    x = np.zeros((5, 40), np.int64)
    x[1] = 1
    x[2, ::2] = 1
    x[3, 20:] = 1
    x[4, 7] = 1
    return circuit, x


def zeros(dtype: torch.dtype) -> tuple[Circuit, Any]:  # noqa: ARG001
    """Probabilities of zero: one unit, or all."""
    tables = [[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]]
    inputs = [CategoricalLayer([v], 2, num_categories=3, probs=tensor(table)) for v, table in enumerate(tables)]
    product, total = KroneckerLayer(2, 2), SumLayer(4, 2, weight=tensor([[0.5, 0.5, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]]))
    circuit = Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    return circuit, np.array([[0, 1], [2, 1], [1, 0], [2, 2], [0, 0], [1, 1]])


def overflowing(dtype: torch.dtype) -> tuple[Circuit, Any]:
    """Sums whose linear values pass the largest number unless each is scaled; state 2 keeps them small."""
    large = float(np.sqrt(torch.finfo(dtype).max)) * 10
    table = tensor([[0.3, 0.7 / large, 0.7 / large**1.5], [0.6, 0.4 / large, 0.4 / large**1.5]])
    weights = [tensor([[large, large / 2], [large, large / 3]]) for _ in range(3)]
    layers = [SumLayer(2, 2, weight=weight) for weight in weights]
    circuit = chain(CategoricalLayer([0], 2, num_categories=3, probs=table), *layers)
    return circuit, np.array([[0], [1], [2], [0]])


# name: (circuit and data, rows that are left to log space)
CASES: dict[str, tuple[Callable[[torch.dtype], tuple[Circuit, Any]], int]] = {
    "sharp": (sharp, 2),
    "rare weights": (rare_weights, 3),
    "zeros": (zeros, 4),
    "overflow": (overflowing, 3),
}
ALL = pytest.mark.parametrize("name", CASES)
MAY_BE_ZERO = ("rare weights", "zeros", "overflow")
"""Circuits of learned weights that may be 0, where nobody may look whether they are."""


def proven(compiled: Any, x: torch.Tensor) -> torch.Tensor:
    """The rows that the scaled path proves right."""
    _, mask = compiled._run(SCALED, Batch(x))
    return mask


def compile_case(name: str, dtype: torch.dtype, optimize: bool = False) -> tuple[Any, Any]:
    circuit, x = CASES[name][0](dtype)
    return TorchCompiler(dtype=dtype, optimize=optimize).compile(circuit), x


@pytest.mark.one_in(3)
@ALL
@FLOATS
def test_every_row_is_the_oracles(name: str, dtype: torch.dtype, always: None) -> None:  # noqa: ARG001
    compiled, x = compile_case(name, dtype)
    expected = Oracle(compiled.symbolic, numbers(compiled)).log(x).astype(float)
    data_ = torch.from_numpy(x)
    assert int((~proven(compiled, data_)).sum()) == CASES[name][1]
    np.testing.assert_allclose(compiled(data_).detach(), expected, rtol=BOUND[dtype], atol=BOUND[dtype])
    exact = compiled._run(compiled.semiring, Batch(data_)).detach()
    np.testing.assert_allclose(exact, expected, rtol=BOUND[dtype], atol=BOUND[dtype])
    for row in range(len(x)):  # alone, and in another order
        np.testing.assert_allclose(compiled(data_[row : row + 1])[0].detach(), expected[row], rtol=BOUND[dtype])
    reverse = np.arange(len(x))[::-1].copy()
    np.testing.assert_allclose(
        compiled(data_[reverse]).detach(), expected[reverse], rtol=BOUND[dtype], atol=BOUND[dtype]
    )


@pytest.mark.one_in(3)
@flagged(name=list(CASES), dtype=[torch.float32, torch.float64], optimize=[False, True])
def test_gradients_are_finite_and_those_of_log_space(
    name: str,
    dtype: torch.dtype,
    optimize: bool,
    always: None,  # noqa: ARG001
) -> None:
    if optimize and name == "overflow":
        optimize = False  # the product of its weights is no float
    compiled, x = compile_case(name, dtype, optimize)
    found = []
    for score in (compiled, lambda data_: compiled._run(compiled.semiring, Batch(data_))):
        compiled.zero_grad()
        result = score(torch.from_numpy(x))
        result.masked_fill(result.isneginf(), 0).sum().backward()
        found.append({key: value.copy() for key, value in gradients(compiled).items()})
    tensors = numbers(compiled)
    for key, gradient in found[0].items():
        assert np.isfinite(gradient).all()
        # at a probability of 0 log space sends none, and linear numbers the one-sided derivative
        zero = (tensors[key] == 0) & (found[1][key] == 0)
        gradient[zero] = 0
        size = np.abs(found[1][key]).max()
        np.testing.assert_allclose(gradient, found[1][key], rtol=100 * BOUND[dtype], atol=100 * BOUND[dtype] * size)


@FLOATS
def test_a_row_of_zero_probability_sends_no_gradient(dtype: torch.dtype, always: None) -> None:  # noqa: ARG001
    circuit, x = zeros(dtype)
    compiled = TorchCompiler(dtype=dtype).compile(circuit)
    result = compiled(torch.from_numpy(x[3:4]))
    assert result.isneginf().all()
    result.sum().backward()
    assert not any(value.any() for value in gradients(compiled).values())


@FLOATS
def test_missing_values_beside_underflow(dtype: torch.dtype, always: None) -> None:  # noqa: ARG001
    compiled, x = compile_case("sharp", dtype)
    x = x.copy()
    x[:, 1] = np.nan
    x[5] = np.nan
    found = compiled(torch.from_numpy(x)).detach()
    mask = proven(compiled, torch.from_numpy(x))
    assert mask.any()
    assert not mask.all()
    np.testing.assert_allclose(
        found,
        compiled._run(compiled.semiring, Batch(torch.from_numpy(x))).detach(),
        rtol=BOUND[dtype],
        atol=BOUND[dtype],
    )
    np.testing.assert_allclose(found[5], 0, atol=BOUND[dtype])


def calls(compiled: Any, x: torch.Tensor) -> list[tuple[str, int]]:
    """The Programs that run for `x`, with their numbers of rows."""
    made = []
    original = compiled._run

    def run(semiring, batch, watch):
        made.append((semiring.name, len(batch.x)))
        return original(semiring, batch, watch)

    compiled._run = run
    compiled(x)
    del compiled._run
    return made


def test_few_activations_take_log_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides of the switch give the same."""
    circuit = CIRCUITS["random tree, cp"]()
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.from_numpy(data(circuit, 9))
    activations = sum(group.num_folds * group.representative.num_output_units for group in compiled.layers)
    for rows in (0, 1, 4, 5, 6, 9):
        monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 5 * activations)
        expected = [("scaled" if rows >= 5 else "lse-sum", rows)]
        assert calls(compiled, x[:rows]) == expected
        found = compiled(x[:rows])
        monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 10**9)
        torch.testing.assert_close(found, compiled(x[:rows]), rtol=1e-13, atol=1e-13)


def test_the_switch_as_it_is() -> None:
    """A circuit and as many rows as it takes."""
    compiled = TorchCompiler().compile(gaussians())
    activations = sum(group.num_folds * group.representative.num_output_units for group in compiled.layers)
    rows = -(-cascade.FROM[Bound.OF_ROWS] // activations)
    x = torch.from_numpy(data(compiled.symbolic, rows))
    assert calls(compiled, x) == [("scaled", rows)]
    assert calls(compiled, x[1:]) == [("lse-sum", rows - 1)]
    torch.testing.assert_close(compiled(x)[1:], compiled(x[1:]), rtol=1e-5, atol=1e-5)


def test_a_mixture_of_vectors_takes_logarithms_alone() -> None:
    """Its densities take longer than its one sum, and would be computed twice wherever the bound fails."""
    vectors, mix = MultivariateGaussianLayer([0, 1, 2], 5), SumLayer(5, 1)
    compiled = TorchCompiler().compile(Circuit([vectors, mix], {vectors: [], mix: [vectors]}, [mix]))
    rows = -(-cascade.FROM[Bound.OF_ROWS] // 6)
    assert calls(compiled, torch.zeros(rows, 3)) == [("lse-sum", rows)]


def test_only_rows_that_need_it_are_computed_again(always: None) -> None:  # noqa: ARG001
    compiled, x = compile_case("rare weights", torch.float32)
    assert calls(compiled, torch.from_numpy(x)) == [("scaled", 5), ("lse-sum", 3)]
    assert calls(compiled, torch.from_numpy(x[:2])) == [("scaled", 2)]


@pytest.mark.parametrize("rows", [0, 1])
def test_no_row_and_one_row(rows: int, always: None) -> None:  # noqa: ARG001
    for name in ("sharp", "zeros"):
        compiled, x = compile_case(name, torch.float64)
        result = compiled(torch.from_numpy(x[:rows]))
        assert result.shape == (rows, 1, compiled.symbolic.outputs[0].num_output_units)
        result.sum().backward()
        assert all(np.isfinite(value).all() for value in gradients(compiled).values())


def test_other_semirings_have_no_scaled_path(always: None) -> None:  # noqa: ARG001
    compiled = TorchCompiler("sum-product").compile(gaussians())
    assert calls(compiled, torch.zeros(3, 2)) == [("sum-product", 3)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name != "zeros" else []) for name in CASES]
)
def test_compilation_and_transforms_take_log_space(name: str, always: None) -> None:  # noqa: ARG001
    torch._dynamo.reset()
    compiled, x = compile_case(name, torch.float64)
    x = torch.from_numpy(x)
    expected = compiled(x)
    compiled._runs.clear()
    names = []
    original = compiled._specialize
    compiled._specialize = lambda key: (names.append(key[0]), original(key))[1]
    mapped = torch.vmap(lambda row: compiled(row[None])[0])(x)
    torch.testing.assert_close(mapped, expected, rtol=1e-12, atol=1e-12)
    params = {key: value.detach() for key, value in compiled.named_parameters()}
    by_call = torch.func.vmap(lambda values: torch.func.functional_call(compiled, values, (x,)))(
        {key: value[None] for key, value in params.items()}
    )
    torch.testing.assert_close(by_call[0], expected, rtol=1e-12, atol=1e-12)
    assert names[0] == ("lse-sum-at-zeros" if name in MAY_BE_ZERO else "lse-sum")
    del compiled._specialize
    fast = torch.compile(compiled, fullgraph=True, backend="eager")
    torch.testing.assert_close(fast(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 16, 17, 40])
def test_large_batches_are_computed_in_parts_where_nobody_differentiates(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "_PART", 1)
    circuit = CIRCUITS["random tree, cp"]()
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.from_numpy(data(circuit, rows))
    whole = calls(compiled, x)
    assert [count for _, count in whole] == [rows], "gradients are asked for"
    expected = compiled(x)
    with torch.no_grad():
        parts = [count for _, count in calls(compiled, x)]
        torch.testing.assert_close(compiled(x), expected, rtol=1e-13, atol=1e-13)
    assert sum(parts) == rows
    assert max(parts) <= scoring._LEAST_ROWS
    assert max(parts) - min(parts) < len(parts), "they are alike"


@pytest.mark.parametrize(
    ("steps", "dtype", "expected"),
    [
        (40, "float32", "scaled"),
        (80, "float32", "lse-sum"),
        pytest.param(80, "float64", "scaled", marks=pytest.mark.full),
    ],
)
def test_circuits_too_deep_to_be_proven_are_not_tried(steps: int, dtype: str, expected: str, always: None) -> None:  # noqa: ARG001
    circuit = hmm(range(steps), "categorical", num_latent_states=3, input_layer_kwargs={"num_categories": 4})
    assert fold_circuit(circuit).depth() in (steps, steps + 1), "a sum for each step"
    compiled = TorchCompiler(dtype=dtype).compile(circuit)
    x = torch.from_numpy(data(circuit, 3))
    assert calls(compiled, x)[0][0] == expected
    posterior(compiled, x.double().masked_fill(x > 1, torch.nan))
    carriers = {key[1] for key in compiled.queries if isinstance(key, tuple)}
    assert ("scaled" in carriers) == (expected == "scaled")
