"""Faults of input layers that are known from other tools, where nothing fails and numbers are wrong."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from plica import Circuit, PipelineContext, Scope
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import IntegrateQuery
from plica.errors import UnsupportedError
from plica.queries import mpe, sample
from plica.symbolic.layers import DISTRIBUTIONS, LAYER_ROWS, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import TensorParameter
from tests.harness.layer_cases import LAYER_CASES, InputCase
from tests.harness.oracle import Oracle, evaluate, numbers

UNITS = 2
# those whose totals are computed, and some that are known to be 1
KINDS = ("categorical", "histogram", "gaussian with", "bernoulli", "binomial", "poisson")
FAMILIES = {str(case): case for case in LAYER_CASES if isinstance(case, InputCase) and str(case).startswith(KINDS)}
SPREADS = ("stddev", "scale", "rate", "total_count", "concentration", "df", "alpha", "beta")


def chain(case: InputCase, variables: int) -> Circuit:
    inputs = [case.build([variable], UNITS) for variable in range(variables)]
    product, total = HadamardLayer(UNITS, variables), SumLayer(UNITS, 1)
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


@pytest.mark.parametrize("name", FAMILIES)
def test_marginals_at_one_row_and_at_as_many_rows_as_folds(name: str) -> None:
    """A total (F, 1, K) must not be taken for one of (1, B, K), nor the reverse; hidden entries hold anything."""
    case, folds = FAMILIES[name], 3
    circuit = chain(case, folds)
    torch.manual_seed(3)
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    oracle, rng = Oracle(circuit, numbers(compiled)), np.random.default_rng(0)
    query = IntegrateQuery(compiled)
    for rows in (1, folds):
        columns = [case.draw(layer, rng, rows) for layer in circuit.input_layers]
        x = np.concatenate(columns, axis=1).astype(float)
        hidden = np.zeros(x.shape, bool)
        hidden[:, 1], hidden[0] = True, [True, False, True]
        expected = oracle.log(np.where(hidden, np.nan, x)).astype(float)
        with torch.no_grad():
            missing = compiled(torch.tensor(np.where(hidden, np.nan, x)))
            np.testing.assert_allclose(missing.numpy(), expected, rtol=1e-9, atol=1e-12)
            for garbage in (np.nan, -1e9, 0.5):
                held = torch.tensor(np.where(hidden, garbage, x))
                found = query(held, integrate_vars=torch.tensor(hidden))
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)


class Subclass(GaussianLayer):  # type: ignore[misc]
    """A class under one of Plica's own, which is registered nowhere."""


def test_a_subclass_is_no_layer_of_its_base_class_anywhere() -> None:
    """Rows are found by the class itself, so that no part of a context takes it for its base and another does not."""
    layer = Subclass([0], UNITS)
    total = SumLayer(UNITS, 1)
    circuit = Circuit([layer, total], {total: [layer]}, [total])
    context = PipelineContext()
    for refused in (context.compile, lambda _: context.compile_layer(layer)):
        with pytest.raises(UnsupportedError, match="Subclass is not registered"):
            refused(circuit)
    own = PipelineContext()
    row: Any = LAYER_ROWS[GaussianLayer]
    own.add_layer_compilation_rule(replace(row, layer=Subclass))
    compiled = own.compile(circuit)
    assert own.compile_layer(layer) is not None
    assert compiled(torch.zeros(2, 1)).isfinite().all()
    assert sample(compiled, 3).shape == (3, 1)
    assert mpe(compiled, torch.tensor([[float("nan")]]))[0].isfinite().all()
    with pytest.raises(UnsupportedError, match="Subclass is not registered"):
        context.compile(circuit)


def defaults(name: str) -> dict[str, Any]:
    distribution = DISTRIBUTIONS[name]
    layer = distribution.layer(Scope([0]), UNITS, **distribution.settings_for(300))
    return {key: one for key, one in layer.params.items() if key in SPREADS}


def filled(parameter: Any, value: float) -> Any:
    tensors = [leaf for leaf in parameter.leaves if isinstance(leaf, TensorParameter)]
    return evaluate(parameter, {leaf: np.full(leaf.shape, value, np.longdouble) for leaf in tensors})


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in DISTRIBUTIONS for key in defaults(name)])
def test_default_spreads_are_positive_and_unbounded(name: str, key: str) -> None:
    parameter = defaults(name)[key]
    assert (filled(parameter, -1e4) > 0).all()
    assert (filled(parameter, 1e4) > 1e3).all()


def test_a_default_gaussian_learns_a_wide_spread() -> None:
    """Data 50 times as wide as 1, which a bounded deviation would not follow."""
    torch.manual_seed(0)
    layer = GaussianLayer([0], 1)
    compiled = TorchCompiler(dtype="float64").compile(Circuit([layer], {}, [layer]))
    x = 50.0 * torch.linspace(-2, 2, 41, dtype=torch.float64)[:, None]
    optimizer = torch.optim.Rprop(compiled.parameters(), lr=0.5)  # by signs: slopes are large at first, small at last
    for _ in range(150):
        optimizer.zero_grad()
        loss = -compiled(x).mean()
        loss.backward()
        optimizer.step()
    best = 0.5 * np.log(2 * np.pi * np.e * x.var(correction=0).item())
    assert loss.item() < best + 0.01
