"""Averages of mixtures of normal vectors: their start, and members that learn as if they were alone."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError, ShapeError, UnsupportedError
from plica.learn import FullEM, fit
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import MultivariateGaussianLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter
from plica.templates.normal_mixtures import normal_mixtures
from tests.harness.learned_circuits import evaluated

CATEGORIES = {"name": "categorical", "args": {"num_categories": 3}}


def mixed(rows: int = 60, share: float = 0.2) -> Any:
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=rows)
    numbers = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 3)) + 2.0 * group[:, None]
    table = np.concatenate([numbers[:, :1], group[:, None], np.round(numbers[:, 1:])], axis=1)
    table[rng.random(table.shape) < share] = np.nan
    return table


def described(members: tuple[int, ...], seed: int = 0) -> Circuit:
    return normal_mixtures(
        mixed(), [0, 2, 3], members=members, input_layers=CATEGORIES, steps=[0.0, 1.0, 1.0], seed=seed
    )


def compiled(circuit: Circuit) -> Any:
    model = plica.compile(circuit).double()
    model.reset_parameters(seed=0)
    return model


def test_members_that_learn_apart_learn_as_alone() -> None:
    rows = torch.as_tensor(mixed())
    together = compiled(described((2, 4)))
    fit(together, rows, learner=FullEM(apart=True), epochs=3)
    parts = [compiled(described((units,), seed)) for seed, units in enumerate((2, 4))]
    for part in parts:
        fit(part, rows, learner=FullEM(), epochs=3)
    average = torch.logsumexp(torch.stack([part(rows) for part in parts]), 0) - np.log(2.0)
    torch.testing.assert_close(together(rows), average, rtol=1e-9, atol=1e-9)
    shared = compiled(described((2, 4)))
    fit(shared, rows, learner=FullEM(), epochs=3)
    assert float((shared(rows) - average).abs().max().detach()) > 1e-3


def shrunk(rows: Any, flows: Any, steps: Any, pseudocount: float) -> tuple[Any, Any]:
    """Means and covariances of units by the formulas of `_shrunk`, unit by unit."""
    (count, size), units, middle = rows.shape, flows.shape[1], rows.mean(0)
    means, scatters, numbers = [], [], flows.sum(0)
    for unit in range(units):
        mean = (flows[:, unit] @ rows + pseudocount * middle) / (numbers[unit] + pseudocount)
        away = rows - mean
        beside = np.outer(mean - middle, mean - middle)
        scatters.append(np.einsum("n,ni,nj->ij", flows[:, unit], away, away) + pseudocount * beside)
        means.append(mean)
    within = sum(scatters) / count
    stddev = np.sqrt(np.diag(within))
    squares = [(within[i, j] / stddev[i] / stddev[j]) ** 2 for i in range(size) for j in range(size) if i != j]
    trust = np.clip(1.0 - sum((1 - r) ** 2 for r in squares) / count / sum(squares), 0.0, 1.0)
    within = np.where(np.eye(size, dtype=bool), within, trust * within)
    weight = pseudocount * np.clip(units / 5, 0.5, 2.0) * size
    variance = rows.var(0)
    least = np.maximum(1e-3 * variance, np.minimum((0.3 * np.array(steps)) ** 2, 0.2 * variance))
    covariances = [
        (scatter + weight * within) / (number + weight) + np.diag(least)
        for scatter, number in zip(scatters, numbers, strict=True)
    ]
    return np.array(means), np.array(covariances)


@pytest.mark.parametrize(("units", "pseudocount"), [(2, 1.0), (7, 0.5)])
def test_a_step_with_a_prior_shrinks_covariances_to_the_common_one(units: int, pseudocount: float) -> None:
    rng = np.random.default_rng(units)
    rows = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4)) + 0.5
    layer, mix = MultivariateGaussianLayer(range(4), units, steps=(0.0, 1.0, 20.0, 0.0)), SumLayer(units, 1)
    circuit = plica.Circuit([layer, mix], {mix: [layer]}, [mix])
    model = plica.compile(circuit).double()
    model.reset_parameters(seed=0)
    state = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    values = evaluated(circuit, state)
    means, factor = values[layer]["mean"], np.tril(values[layer]["scale_tril"])
    away = np.linalg.solve(factor[None], rows[:, None, :, None] - means[None, :, :, None])[..., 0]
    logs = -0.5 * (away**2).sum(-1) - np.log(np.abs(np.diagonal(factor, 0, 1, 2))).sum(-1)
    logs = logs + np.log(values[mix]["weight"][0])
    flows = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
    fit(model, rows, learner=FullEM(pseudocount=pseudocount), epochs=1)
    values = evaluated(circuit, {key: value.numpy() for key, value in model.state_dict().items()})
    factor = np.tril(values[layer]["scale_tril"])
    expected_means, expected = shrunk(rows, flows, layer.steps, pseudocount)
    np.testing.assert_allclose(values[layer]["mean"], expected_means, rtol=1e-9)
    np.testing.assert_allclose(factor @ factor.transpose(0, 2, 1), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_what_is_learned_does_not_depend_on_units_of_measurement(scale: float) -> None:
    rows = mixed()
    scaled = rows * [scale, 1.0, 1.0, 1.0]
    logs = []
    for table in (rows, scaled):
        circuit = normal_mixtures(table, [0, 2, 3], members=(2,), input_layers=CATEGORIES, steps=[0.0, 1.0, 1.0])
        model = compiled(circuit)
        fit(model, table, learner=FullEM(apart=True), epochs=3)
        logs.append(model(torch.as_tensor(table))[:, 0, 0])
    known = torch.as_tensor(np.isfinite(rows[:, 0]))
    torch.testing.assert_close(logs[0], logs[1] + np.log(scale) * known, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 3.3, 123456.789])
def test_a_constant_column_has_the_least_standard_deviation(value: float) -> None:
    rows = np.full((30, 2), value)
    rows[:, 1] = np.arange(30) / 7
    model = compiled(normal_mixtures(rows, [0, 1], members=(2,)))
    (layer,) = model.symbolic.input_layers
    for epochs in (0, 2):
        fit(model, rows, learner=FullEM(apart=True), epochs=epochs)
        state = {key: value.numpy() for key, value in model.state_dict().items()}
        factor = np.tril(evaluated(model.symbolic, state)[layer]["scale_tril"])
        variance = (factor[:, 0] ** 2).sum(-1)
        assert (variance > 0.999e-10).all()
        assert (variance < 1.001e-10 + (1e-7 * value) ** 2).all()


def test_a_constant_column_says_nothing_of_others() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3)) @ [[1e6, 1e6, 0.0], [0.0, 1e6, 0.0], [0.0, 0.0, 0.0]] + 1e9
    model = compiled(normal_mixtures(rows, [0, 1, 2], members=(1,)))
    fit(model, rows, learner=FullEM(apart=True), epochs=1)
    (layer,) = model.symbolic.input_layers
    state = {key: value.numpy() for key, value in model.state_dict().items()}
    factor = np.tril(evaluated(model.symbolic, state)[layer]["scale_tril"])[0]
    correlation = np.asarray(np.corrcoef(rows[:, :2].T))[0, 1]
    fitted = np.asarray(factor @ factor.T)
    assert abs(fitted[0, 1] / np.sqrt(fitted[0, 0] * fitted[1, 1]) - correlation) < 0.05
    assert not fitted[2, :2].any()


def test_one_component_starts_at_the_mean_and_the_covariance_of_its_rows() -> None:
    rows = mixed(share=0.0)[:, [0, 2, 3]]
    model = compiled(normal_mixtures(rows, [0, 1, 2], members=(1,)))
    (layer,) = model.symbolic.input_layers
    values = evaluated(model.symbolic, {key: value.numpy() for key, value in model.state_dict().items()})[layer]
    factor = np.tril(values["scale_tril"])[0]
    np.testing.assert_allclose(values["mean"][0], rows.mean(0), rtol=1e-9)
    np.testing.assert_allclose(np.diag(factor @ factor.T), 1.001 * rows.var(0), rtol=1e-9)


def test_tables_without_known_or_without_different_cells_have_a_start() -> None:
    rows = np.array([[1.0, np.nan, 2.0], [1.0, np.nan, np.nan], [1.0, np.nan, 4.0]])
    model = compiled(normal_mixtures(rows, [0, 1, 2], members=(1, 2), steps=[1.0, 0.0, 0.0]))
    fit(model, rows, learner=FullEM(apart=True), epochs=2)
    assert torch.isfinite(model(torch.as_tensor(rows))).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"vectors": []}, InputError, "vectors are columns"),
        ({"vectors": [0, 0]}, InputError, "vectors are columns"),
        ({"vectors": [4]}, InputError, "vectors are columns"),
        ({"members": ()}, ShapeError, "members are numbers of components"),
        ({"members": (2, 0)}, ShapeError, "members are numbers of components"),
        ({"steps": [1.0]}, ShapeError, "steps"),
        ({"steps": [1.0, float("nan"), 0.0]}, InputError, "steps must be finite"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments: Any, error: type[Exception], message: str) -> None:
    settings: Any = {"vectors": [0, 2, 3], "input_layers": CATEGORIES} | arguments
    with pytest.raises(error, match=message):
        normal_mixtures(mixed(), **settings)


def test_terms_that_cannot_learn_apart_are_refused() -> None:
    vectors = MultivariateGaussianLayer([0], 2)
    mixture, average = SumLayer(2, 1), SumLayer(1, 1)
    learned = plica.Circuit([vectors, mixture, average], {mixture: [vectors], average: [mixture]}, [average])
    with pytest.raises(UnsupportedError, match="weights are not learned"):
        fit(plica.compile(learned), np.zeros((3, 1)), learner=FullEM(apart=True))
    with pytest.raises(UnsupportedError, match="sum of terms of one unit"):
        fit(
            plica.compile(plica.Circuit([vectors, mixture], {mixture: [vectors]}, [mixture])),
            np.zeros((3, 1)),
            learner=FullEM(apart=True),
        )
    circuit = described((2,))
    term = circuit.layer_inputs(circuit.outputs[0])[0]
    copy = term.with_params({name: graph.ref() for name, graph in term.params.items()})
    twice = SumLayer(1, 1, 2, weight=ConstantParameter(1, 2, value=0.5))
    edges = {layer: list(circuit.layer_inputs(layer)) for layer in circuit.subgraph(term).layers}
    edges |= {copy: edges[term], twice: [term, copy]}
    shared = plica.compile(plica.Circuit(edges, edges, [twice]))
    with pytest.raises(UnsupportedError, match="share no leaf"):
        fit(shared, mixed(), learner=FullEM(apart=True))


def skewed(rows: int = 60) -> Any:
    """Two numbers on a logarithmic scale, one of them whole, between a plain number and categories, with holes."""
    table = mixed(rows)
    return np.stack([np.exp(table[:, 0]), table[:, 1], table[:, 2], np.round(20.0 * np.exp(0.5 * table[:, 3]))], axis=1)


def logarithmic(members: tuple[int, ...], **settings: Any) -> Circuit:
    columns: Any = {"steps": [1.0, 0.0, 0.0], "logs": [True, True, False]} | settings
    return normal_mixtures(skewed(), [3, 0, 2], members=members, input_layers=CATEGORIES, **columns)


def test_all_but_the_first_of_the_smallest_mixtures_have_logarithms() -> None:
    def marks(members: tuple[int, ...]) -> list[tuple[int, Any]]:
        layers = [layer for layer in logarithmic(members).input_layers if isinstance(layer, MultivariateGaussianLayer)]
        return [(layer.num_output_units, layer.logs) for layer in layers]

    logs = (True, False, True)
    assert marks((4, 2, 2)) == [(4, logs), (2, None), (2, logs)]
    assert marks((3,)) == [(3, None)]


def test_mixtures_of_logarithms_start_as_those_of_a_table_of_logarithms() -> None:
    """But for the Jacobian, and steps, which are divided by the geometric mean."""
    table = skewed()
    logs = np.where([True, False, False, True], np.log(np.where([True, False, False, True], table, 1.0)), table)
    step = 1.0 / np.exp(np.nanmean(logs[:, 3]))
    own = logarithmic((2, 4))
    plain = normal_mixtures(logs, [0, 2, 3], members=(2, 4), input_layers=CATEGORIES, steps=[0.0, 0.0, step])
    models = [compiled(circuit) for circuit in (own, plain)]
    parts: list[Any] = []
    for model in models:
        circuit = model.symbolic
        values = evaluated(circuit, {key: value.numpy() for key, value in model.state_dict().items()})
        (layer,) = [one for one in circuit.input_layers if values.get(one, {}).get("mean", np.zeros(0)).shape == (4, 3)]
        parts.append((layer, values[layer]))
    np.testing.assert_allclose(parts[0][0].steps, parts[1][0].steps, rtol=1e-12)
    for name in ("mean", "scale_tril"):
        np.testing.assert_allclose(parts[0][1][name], parts[1][1][name], rtol=1e-9, atol=1e-12)
    both = torch.as_tensor(table)
    fit(models[0], both, learner=FullEM(apart=True), epochs=2)
    assert torch.isfinite(models[0](both)).all()


def test_numbers_without_a_logarithm_are_missing_at_the_start_of_mixtures_of_logarithms() -> None:
    table = skewed()
    table[:3, 0] = [0.0, -5.0, np.inf]
    settings: Any = {"members": (1, 2), "input_layers": CATEGORIES, "logs": [True, False, False]}
    model = compiled(normal_mixtures(table, [0, 2, 3], **settings))
    zeros = torch.as_tensor(table[:2])
    assert torch.isfinite(model(zeros)).all()
    table[2, 0] = np.nan
    fit(model, table, learner=FullEM(apart=True), epochs=3)
    assert torch.isfinite(model(torch.as_tensor(table))).all()


def test_other_numbers_of_logs_are_refused() -> None:
    with pytest.raises(ShapeError, match="found 1 logs, expected one for each of 3 vectors"):
        logarithmic((2, 3), logs=[True])
