"""Hidden Chow-Liu trees against sums over all hidden states, and what they take from data."""

import itertools

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, ShapeError
from plica.learn import Adam, fit
from plica.symbolic.layers import DISTRIBUTIONS, CategoricalLayer, GaussianLayer
from plica.symbolic.parameters import SoftmaxParameter, SoftplusParameter
from plica.templates import hclt
from plica.templates.hidden_trees import hidden_tree
from plica.templates.parameterization import Parameterization
from plica.templates.region_graph import ChowLiuTree
from plica.templates.region_graph.chow_liu import children_of
from tests.harness.circuits import coin
from tests.harness.oracle import Oracle, all_states, keys
from tests.harness.region_graphs import dependent_rows


def random_oracle(circuit, seed: int = 0) -> Oracle:
    rng = np.random.default_rng(seed)
    return Oracle(circuit, {key: rng.normal(size=leaf.shape) for leaf, key in keys(circuit).items()})


@pytest.mark.parametrize("tree", [[-1], [-1, 0], [1, -1, 1, 2], [2, 2, -1, 2, 0], [4, 0, 1, 2, -1]], ids=str)
def test_is_the_sum_over_all_hidden_states(tree: list[int]) -> None:
    units = 3
    circuit = hidden_tree(np.array(tree), [coin([v], units) for v in range(len(tree))])
    oracle = random_oracle(circuit)
    emissions = [
        np.exp(oracle.parameter(layer.params["logits"]).astype(float)) for layer in inputs_by_variable(circuit)
    ]
    transitions = {}  # of variable v: (states of its predecessor, states of v)
    for layer in circuit.sum_layers:
        scope = circuit.layer_scope(layer)
        (v,) = [v for v in range(len(tree)) if scope == subtree(tree, v)]
        transitions[v] = oracle.parameter(layer.weight).astype(float)
    assert sorted(transitions) == list(range(len(tree)))
    states = all_states(circuit)
    expected = np.zeros(len(states))
    for z in itertools.product(range(units), repeat=len(tree)):
        term = np.ones(len(states))
        for v, before in enumerate(tree):
            term *= transitions[v][z[before] if before >= 0 else 0, z[v]] * emissions[v][z[v], states[:, v]]
        expected += term
    np.testing.assert_allclose(oracle.linear(states)[:, 0, 0].astype(float), expected, rtol=1e-12)
    assert expected.sum() == pytest.approx(1.0)


def inputs_by_variable(circuit):
    return sorted(circuit.input_layers, key=lambda layer: list(layer.scope))


def subtree(tree, variable: int) -> plica.Scope:
    below = [variable]
    for one in below:
        below += [v for v, before in enumerate(tree) if before == one]
    return plica.Scope(below)


@pytest.mark.parametrize("size", [1, 2, 7, 12])
def test_the_tree_is_that_of_the_data(size: int) -> None:
    rows = dependent_rows(200, size, 3, seed=size)
    tree = ChowLiuTree(rows, "categorical", root=0, pseudocount=1.0, as_region_graph=False)
    circuit = hclt(rows, 4, root=0)
    assert {circuit.layer_scope(layer) for layer in circuit.sum_layers} == {subtree(tree, v) for v in range(size)}
    assert sorted(layer.arity - 1 for layer in circuit.product_layers) == sorted(
        len(children) for children in children_of(tree) if children
    )
    assert (len(circuit.input_layers), len(circuit.sum_layers)) == (size, size)
    assert circuit.is_smooth
    assert circuit.is_decomposable
    assert circuit.is_structured_decomposable


def test_pseudocounts_change_which_variables_are_joined() -> None:
    # 1 and 2 are known together in four rows alone, in which they agree; 0 is known with both in many rows, and is like
    # them in most of these
    rows = np.zeros((60, 3))
    rows[:, 0] = np.arange(60) % 2
    rows[:, 1] = np.where(np.arange(60) % 5 == 0, 1 - rows[:, 0], rows[:, 0])
    rows[:, 2] = np.where(np.arange(60) < 4, rows[:, 1], np.where(np.arange(60) < 40, np.nan, rows[:, 0]))
    rows[40:, 1] = np.nan
    scopes = []
    for pseudocount in (0.0, 20.0):
        circuit = hclt(rows, 2, pseudocount=pseudocount, root=0)
        scopes.append({circuit.layer_scope(layer) for layer in circuit.sum_layers})
    chain, star = ([[0, 1, 2], [1, 2], [1]], [[0, 1, 2], [1], [2]])
    assert scopes == [set(map(plica.Scope, chain)), set(map(plica.Scope, star))]


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("num_classes", [1, 3])
def test_compiles_and_sums_to_one(fold: bool, num_classes: int) -> None:
    rows = dependent_rows(100, 7, 2, seed=0)
    circuit = hclt(rows, 3, num_classes=num_classes)
    compiled = TorchCompiler(dtype="float64", fold=fold).compile(circuit)
    states = torch.as_tensor(all_states(circuit))
    total = compiled(states).logsumexp(0)
    assert total.shape == (1, num_classes)
    torch.testing.assert_close(total, torch.zeros_like(total))


def test_learns_what_the_variables_say_of_each_other() -> None:
    rows = dependent_rows(600, 6, 2, seed=1)
    torch.manual_seed(0)
    model = plica.compile(hclt(rows, 4))
    result = fit(model, rows[:500], rows[500:], learner=Adam(0.2), epochs=12, batch=50)
    first, best = result.history[0].valid, result.history[result.best_epoch].valid
    alone = [rows[:500, v].mean() for v in range(6)]
    independent = sum(np.log(np.where(rows[500:, v], p, 1 - p)).mean() for v, p in enumerate(alone))
    assert first < independent < best - 0.8


def test_numbers_of_categories_follow_from_the_data() -> None:
    rows = np.array([[0, 4, 1], [1, 2, 0]])
    one_for_all = hclt(rows, 2)
    assert [layer.config["num_categories"] for layer in one_for_all.input_layers] == [5, 5, 5]
    listed = inputs_by_variable(hclt(rows, 2, input_layer=["categorical"] * 3))
    assert [layer.config["num_categories"] for layer in listed] == [2, 5, 2]
    given = hclt(rows, 2, input_layer_kwargs={"num_categories": 9})
    assert [layer.config["num_categories"] for layer in given.input_layers] == [9, 9, 9]
    each = hclt(rows, 2, input_layer=["categorical"] * 3, input_layer_kwargs=[{"num_categories": 3}, {}, {}])
    assert [layer.config["num_categories"] for layer in inputs_by_variable(each)] == [3, 5, 2]


def test_mixed_columns() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.integers(2, size=300)
    rows = np.stack([hidden, hidden * 6 + rng.normal(size=300) + 1e5, rng.integers(3, size=300)], axis=1)
    circuit = hclt(rows, 3, input_layer=["categorical", "gaussian", "categorical"])
    first, second, third = inputs_by_variable(circuit)
    assert (type(first), type(second), type(third)) == (CategoricalLayer, GaussianLayer, CategoricalLayer)
    assert any(circuit.layer_scope(layer) == plica.Scope([0, 1]) for layer in circuit.product_layers) or any(
        len(circuit.layer_scope(layer)) == 3 for layer in circuit.product_layers
    )
    torch.manual_seed(0)
    compiled = plica.compile(circuit, dtype=torch.float64)
    assert float(compiled(torch.as_tensor(rows)).mean().detach()) > -30  # means start where the columns lie


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_by_name(name: str) -> None:
    domain = DISTRIBUTIONS[name].domain(4)
    least, most = max(domain.least, 0.0), min(domain.most, 3.0)
    reals = np.random.default_rng(0).uniform(least + 0.01, most, size=(50, 3))
    rows = np.round(reals) if domain.whole else reals
    circuit = hclt(rows, 2, input_layer=name)
    assert [layer.domain for layer in circuit.input_layers] == [domain] * 3
    torch.manual_seed(0)
    values = plica.compile(circuit, semiring="sum-product", dtype=torch.float64)(torch.as_tensor(rows))
    assert (values.isfinite() & (values != 0)).all()  # embeddings have negative numbers too


def test_real_columns_join_those_that_move_together() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 4))
    rows[:, 3] = rows[:, 0] ** 2 + 0.01 * rows[:, 3]  # not correlated, yet one says all of the other
    rows[:, 2] += rows[:, 1]
    circuit = hclt(rows, 2, input_layer="gaussian", root=0)
    scopes = {circuit.layer_scope(layer) for layer in circuit.sum_layers}
    tree = ChowLiuTree(rows, "gaussian", root=0, num_bins=16, as_region_graph=False)
    assert tree[3] == 0
    assert scopes == {subtree(tree, v) for v in range(4)}


def test_missing_values_are_left_out() -> None:
    rows = dependent_rows(300, 5, 2, seed=2).astype(float)
    rows[np.random.default_rng(0).random(rows.shape) < 0.2] = np.nan
    rows[:, 4] = np.nan
    circuit = hclt(rows, 2)
    assert circuit.num_variables == 5
    assert [layer.config["num_categories"] for layer in circuit.input_layers] == [2] * 5


def test_parameters_as_asked() -> None:
    rows = dependent_rows(30, 3, 2, seed=0)
    circuit = hclt(
        rows,
        2,
        input_params={"probs": Parameterization("uniform", "softmax")},
        weight_param=Parameterization("uniform", "softplus"),
    )
    assert all(isinstance(layer.params["probs"].output, SoftmaxParameter) for layer in circuit.input_layers)
    assert all(isinstance(layer.weight.output, SoftplusParameter) for layer in circuit.sum_layers)


def test_the_same_data_gives_the_same_circuit() -> None:
    rows = dependent_rows(50, 9, 2, seed=0)
    first, again = (hclt(rows, 2) for _ in range(2))
    assert [first.layer_scope(layer) for layer in first.layers] == [again.layer_scope(layer) for layer in again.layers]


@pytest.mark.parametrize(
    ("rows", "settings", "error", "message"),
    [
        ([[0, 1]], {"num_latents": 0}, ShapeError, "at least one latent state and one class, found num_latents=0"),
        ([[0, 1]], {"num_classes": 0}, ShapeError, "num_classes=0"),
        ([0, 1], {}, ShapeError, r"hclt: expected data of shape \(rows, variables\)"),
        ([[0, 0.5]], {}, InputError, "'categorical' counts values, but column 1 .* integers from 0 on; encode them"),
        ([[0, -1]], {}, InputError, "column 1 .counted from 0. holds others than integers from 0 on"),
        ([[0, 1]], {"input_layer": "cat"}, InputError, "unknown input layer 'cat'; expected one of .*categorical"),
        (
            [[0, 1]],
            {"input_layer": ["categorical"]},
            ShapeError,
            "input_layer has 1 entries, but the data has 2 columns",
        ),
        ([[0, 1]], {"input_layer_kwargs": [{}]}, ShapeError, "input_layer_kwargs has 1 entries"),
        ([[0, 1]], {"input_layer_kwargs": {"states": 2}}, InputError, "does not take the settings"),
        ([[0, 1]], {"input_params": {"mean": Parameterization()}}, InputError, "has no parameter 'mean'"),
        (
            [[0, 3]],
            {"input_layer_kwargs": {"num_categories": 3}},
            InputError,
            "row 0, column 1 .counted from 0. holds 3, which is none of the 3 states 0 to 2",
        ),
        ([[0, 1]], {"root": 5}, InputError, "hclt: root must be a variable from 0 to 1, found 5"),
        ([[0, 1]], {"pseudocount": -1.0}, InputError, "pseudocount must be at least 0"),
        ([[0.0, np.inf]], {"input_layer": "gaussian", "num_bins": 0}, InputError, "num_bins must be at least 1"),
    ],
)
def test_refuses(rows, settings, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hclt(rows, **{"num_latents": 2, **settings})
