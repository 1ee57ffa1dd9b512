"""Random circuits of negative and complex numbers in log space, against plain arithmetic; squared ones as queries."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import IntegrateQuery
from plica.errors import UnsupportedError
from plica.queries import cdf, conditional_log_likelihood, log_likelihood, mean, mpe, posterior, probability, sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import EmbeddingLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.scope import Scope
from tests.harness.directed_circuits import STATES, DirectedDraw, draw_directed

Array = Any
ROWS = (7, 0, 1, 2, 3)


def assert_values(seed: int, *, is_complex: bool, is_extreme: bool) -> None:
    """In both dtypes and modes, however compiled, as few rows and as many."""
    draw = draw_directed(seed, is_complex=is_complex, is_extreme=is_extreme, rows=ROWS[seed % 5])
    semirings = ("complex-lse-sum",) if is_complex else ("complex-lse-sum", "signed-lse-sum")
    for number, (semiring, dtype) in enumerate(itertools.product(semirings, ("float32", "float64"))):
        flag = bool((seed + number) % 2)
        compiled = TorchCompiler(semiring, fold=flag, optimize=flag, dtype=dtype).compile(draw.circuit)
        x = torch.from_numpy(draw.x).to(getattr(torch, dtype))
        draw.check(compiled(x), draw.x)
        with torch.no_grad():
            draw.check(compiled.eval()(x.repeat(50, 1))[: len(x)], draw.x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            draw.check(compiled(x), draw.x)


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_values_of_random_circuits(seed: int) -> None:
    assert_values(seed, is_complex=bool(seed % 2), is_extreme=seed > 2)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("is_extreme", [False, True])
def test_values_of_more_random_circuits(seed: int, is_complex: bool, is_extreme: bool) -> None:
    assert_values(seed, is_complex=is_complex, is_extreme=is_extreme)


def plain(draw: DirectedDraw, compiler: TorchCompiler) -> tuple[torch.Tensor, dict[TensorParameter, torch.Tensor]]:
    """The values in complex numbers of torch, and the learned ones that they are made of."""
    leaves = {}
    for leaf in draw.leaves:
        tensor, fold = compiler.tensor_of(leaf)
        leaves[leaf] = tensor.detach()[fold].to(torch.complex128).requires_grad_()
    return draw.value(leaves, draw.x), leaves


def assert_gradients(seed: int, *, is_complex: bool) -> None:
    """Of numbers that are not nearly 0, through their logarithms and through themselves."""
    draw = draw_directed(seed, is_complex=is_complex, rows=ROWS[seed % 5] or 5)
    flag = bool(seed % 2)
    semiring = "complex-lse-sum" if is_complex or seed % 3 else "signed-lse-sum"
    compiler = TorchCompiler(semiring, fold=flag, optimize=flag, dtype="float64")
    found = compiler.compile(draw.circuit)(torch.from_numpy(draw.x))
    if not draw.leaves or not found.requires_grad:
        return
    values, leaves = plain(draw, compiler)
    found = found.reshape(values.shape)
    sizes = torch.from_numpy(draw.sizes(draw.x).astype(float)).reshape(values.shape)
    counts = (values.detach().abs() > 1e-6 * sizes) & (sizes > 1e-9)
    logs, numbers = torch.where(counts, found, 0), torch.where(counts, values, 1)
    pairs = [(logs, numbers.log()), ((1 + 0.5j) * logs.exp(), (1 + 0.5j) * numbers)]
    for one, other in pairs:
        loss, expected = (value.real.sum() + 0.3 * value.imag.sum() for value in (one, other))
        tensors = [compiler.tensor_of(leaf) for leaf in leaves]
        slopes = torch.autograd.grad(loss, [tensor for tensor, _ in tensors], retain_graph=True, allow_unused=True)
        wanted = torch.autograd.grad(expected, list(leaves.values()), retain_graph=True, allow_unused=True)
        for (tensor, fold), slope, want in zip(tensors, slopes, wanted, strict=True):
            given = torch.zeros_like(tensor[fold]) if slope is None else slope[fold]
            want = torch.zeros_like(given) if want is None else want
            want = want if given.is_complex() else want.real
            torch.testing.assert_close(given, want, rtol=1e-6, atol=1e-7 * (1 + float(want.abs().max())))


@pytest.mark.parametrize("seed", [2, 5])
def test_gradients_of_random_circuits(seed: int) -> None:
    assert_gradients(seed, is_complex=bool(seed % 2))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("is_complex", [False, True])
def test_gradients_of_more_random_circuits(seed: int, is_complex: bool) -> None:
    assert_gradients(seed, is_complex=is_complex)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_random_circuits_under_torch_compile(seed: int) -> None:
    draw = draw_directed(seed, is_complex=bool(seed % 2))
    compiled = TorchCompiler("complex-lse-sum", dtype="float64").compile(draw.circuit)
    draw.check(torch.compile(compiled, backend="eager")(torch.from_numpy(draw.x)), draw.x)


def squared(rng: Any, variables: int, units: int, *, is_complex: bool) -> tuple[Circuit, Array]:
    """A circuit times its conjugate, made of products of its numbers, and the probabilities of all states."""
    edges: dict[Any, list[Any]] = {}

    def leaf(value: Array) -> TensorParameter:
        kind = DataType.COMPLEX if is_complex else DataType.REAL
        return TensorParameter(*value.shape, initializer=ConstantTensorInitializer(value), dtype=kind)

    def numbers(*shape: int) -> Array:
        found = rng.normal(size=shape)
        return found + 1j * rng.normal(size=shape) if is_complex else found

    def over(some: range, outputs: int) -> tuple[Any, Array]:
        """A layer, and what it computes without the square for all states of its variables, `(states, outputs)`."""
        if len(some) == 1:
            table = numbers(units, STATES)
            pairs = (table[:, None] * table.conj()[None]).reshape(units**2, STATES)
            layer: Any = EmbeddingLayer([some[0]], units**2, num_states=STATES, weight=leaf(pairs))
            edges[layer], values = [], table.T
        else:
            (left, a), (right, b) = (over(part, units) for part in (some[: len(some) // 2], some[len(some) // 2 :]))
            layer = HadamardLayer(units**2, 2)
            edges[layer], values = [left, right], (a[:, None] * b[None]).reshape(-1, units)
        weight = numbers(outputs, units)
        total = SumLayer(units**2, outputs**2, weight=leaf(np.kron(weight, weight.conj())))
        edges[total] = [layer]
        return total, values @ weight.T

    root, values = over(range(variables), 1)
    circuit = Circuit(list(edges), {layer: inputs for layer, inputs in edges.items() if inputs}, [root])
    return circuit, np.abs(values[:, 0]) ** 2


def assert_squared(seed: int, *, is_complex: bool) -> None:
    """What is asked of a squared circuit is answered by enumeration, in each row of what it hides."""
    rng = np.random.default_rng(seed)
    variables = int(rng.integers(1, 5))
    circuit, masses = squared(rng, variables, int(rng.integers(1, 4)), is_complex=is_complex)
    masses = masses / masses.sum()
    states = np.array(list(itertools.product(range(STATES), repeat=variables)))
    x = states[rng.integers(len(states), size=6)].astype(float)
    x[rng.random(x.shape) < 0.4] = math.nan

    def probabilities(rows: Array) -> Array:
        return np.array([masses[(np.isnan(row) | (states == row)).all(axis=1)].sum() for row in rows])

    for semiring in ("complex-lse-sum", "sum-product" if is_complex else "signed-lse-sum"):
        flag = bool(rng.integers(2))
        compiled = TorchCompiler(semiring, dtype="float64", fold=flag, optimize=flag).compile(circuit)
        rows, given = torch.from_numpy(x), rng.random(x.shape) < 0.5
        np.testing.assert_allclose(log_likelihood(compiled, rows).exp().detach(), probabilities(x), rtol=1e-9)
        found = conditional_log_likelihood(compiled, rows, torch.from_numpy(given)).exp().detach()
        expected = probabilities(x) / probabilities(np.where(given, x, math.nan))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        low, high = (states[rng.integers(len(states), size=6)] for _ in range(2))
        below, between = (states[None] <= high[:, None]).all(2), (states[None] >= low[:, None]).all(2)
        ends = [torch.from_numpy(one) for one in (low, high)]
        np.testing.assert_allclose(cdf(compiled, ends[1]), below @ masses, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(probability(compiled, *ends), (below & between) @ masses, rtol=1e-9, atol=1e-12)
        assert_hidden(compiled, x, probabilities)
        for ask in (mpe, posterior, mean, lambda one, x: sample(one, given=x)) if is_complex else ():
            with pytest.raises(UnsupportedError, match="has complex numbers"):
                ask(compiled, rows)


def assert_hidden(compiled: Any, x: Array, probabilities: Any) -> None:
    """Each row hides other variables, by a mask, by scopes, and by NaN: values and gradients are those of NaN."""
    hidden = np.isnan(x)
    junk = np.where(hidden, np.resize([math.nan, math.inf, -3.0, 1e30, 0.5], x.shape), x)
    scopes = [Scope(np.flatnonzero(row)) for row in hidden]
    whole = torch.from_numpy(np.where(hidden, 99, x).astype(int))
    query, gradients = IntegrateQuery(compiled), []
    ways: list[tuple[torch.Tensor, dict[str, Any]]] = [
        (torch.from_numpy(junk), {"integrate_vars": torch.from_numpy(hidden)}),
        (torch.from_numpy(junk), {"observed": torch.from_numpy(~hidden)}),
        (whole, {"integrate_vars": scopes}),
        (torch.from_numpy(x), {"integrate_vars": Scope([])}),
    ]
    for rows, which in ways:
        if rows.is_floating_point():
            rows.requires_grad_()
        found = query(rows, **which)[:, 0, 0]
        numbers = found.exp() if compiled.semiring.logarithmic else found
        shares = (numbers / compiled(torch.full_like(rows[:1].double(), math.nan)).flatten().exp()).abs()
        if compiled.semiring.logarithmic:
            np.testing.assert_allclose(shares.detach(), probabilities(x), rtol=1e-9)
        compiled.zero_grad()
        found.abs().sum().backward()
        gradients.append([one.grad.clone() for one in compiled.parameters()])
        assert rows.grad is None or not rows.grad[torch.from_numpy(hidden)].any()
    for other in gradients[1:]:
        for one, same in zip(gradients[0], other, strict=True):
            assert one.isfinite().all()
            torch.testing.assert_close(one, same)


@pytest.mark.parametrize("seed", range(2))
def test_queries_of_squared_circuits(seed: int) -> None:
    assert_squared(seed, is_complex=bool(seed % 2))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 30))
@pytest.mark.parametrize("is_complex", [False, True])
def test_queries_of_more_squared_circuits(seed: int, is_complex: bool) -> None:
    assert_squared(seed, is_complex=is_complex)
