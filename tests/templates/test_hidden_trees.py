"""Hidden Chow-Liu trees against sums over all hidden states, and what they take from data."""

import itertools

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, InputError, ShapeError
from plica.learn import Adam, fit
from plica.symbolic.layers import DISTRIBUTIONS, CategoricalLayer, GaussianLayer, SumLayer
from plica.symbolic.parameters import SoftmaxParameter, SoftplusParameter
from plica.templates import hclt
from plica.templates.hidden_trees import hidden_trees
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
    circuit = hidden_trees([np.array(tree)], [[coin([v], units) for v in range(len(tree))]])
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


def test_several_trees_are_the_weighted_sum_of_each() -> None:
    trees = [np.array([-1, 0, 1]), np.array([1, -1, 1]), np.array([2, 2, -1])]
    shared = [coin([v], 2) for v in range(3)]
    inputs = [shared, [coin([v], 2) for v in range(3)], shared]
    oracle = random_oracle(hidden_trees(trees, inputs, num_classes=2))
    circuit = oracle.circuit
    assert len(circuit.input_layers) == 6
    states = all_states(circuit)
    (top,) = circuit.outputs
    assert isinstance(top, SumLayer)
    weight = oracle.parameter(top.weight).astype(float)
    roots = [oracle.part(layer).linear(states)[:, 0].astype(float) for layer in circuit.layer_inputs(top)]
    expected = sum(values @ weight[:, 2 * number : 2 * number + 2].T for number, values in enumerate(roots))
    np.testing.assert_allclose(oracle.linear(states)[:, 0].astype(float), expected, rtol=1e-12)
    np.testing.assert_allclose(expected.sum(axis=0), 1.0)
    for layer, tree, root in zip(circuit.layer_inputs(top), trees, (0, 1, 2), strict=True):
        part = circuit.subgraph(layer)
        children = [plica.Scope([root]), *(plica.Scope(subtree(list(tree), v)) for v in children_of(tree)[root])]
        assert [part.layer_scope(child) for child in part.layer_inputs(layer)] == children


@pytest.mark.parametrize("share", [False, True])
def test_trees_of_drawn_rows(share: bool) -> None:
    rows = dependent_rows(60, 8, 3, seed=0)
    single = hclt(rows, 2)
    first, again, other = (hclt(rows, 2, num_trees=4, share_inputs=share, seed=seed) for seed in (0, 0, 1))
    scopes = [[circuit.layer_scope(layer) for layer in circuit.layers] for circuit in (first, again, other)]
    assert scopes[0] == scopes[1] != scopes[2]
    assert len(first.input_layers) == (8 if share else 32)
    assert len(first.sum_layers) == 4 * 7 + 1
    assert first.is_smooth
    assert first.is_decomposable
    assert not first.is_structured_decomposable
    of_first_tree = {
        first.layer_scope(layer) for layer in first.subgraph(first.layer_inputs(first.outputs[0])[0]).layers
    }
    assert of_first_tree == {single.layer_scope(layer) for layer in single.layers}


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


def test_input_layers_say_the_same_in_another_way() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(3, size=80), rng.normal(size=80), rng.poisson(3, size=80)], axis=1).astype(float)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    names = ["categorical", "gaussian", "poisson"]
    by_name = hclt(rows, 3, input_layer=names)
    own = lambda scope, units: GaussianLayer(scope, units)  # noqa: E731
    by_setting = hclt(rows, 3, input_layers=[{"name": "categorical"}, own, {"name": "poisson"}])
    described = [(type(layer), layer.config) for layer in by_name.layers]
    assert described == [(type(layer), layer.config) for layer in by_setting.layers]
    for_all = hclt(rows[:, :1], 2, input_layers={"name": "categorical", "args": {"num_categories": 7}})
    assert [layer.config["num_categories"] for layer in for_all.input_layers] == [7]


def test_trees_of_mixed_columns_join_what_depends() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=1000)
    rows = np.stack(
        [
            hidden > 0.3,
            rng.normal(size=1000),
            np.exp(hidden + 0.1 * rng.normal(size=1000)),
            rng.poisson(np.exp(np.clip(hidden, -2, 2))),
            rng.integers(40, size=1000),
        ],
        axis=1,
    ).astype(float)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    circuit = hclt(rows, 2, input_layer=["bernoulli", "gaussian", "log-normal", "poisson", "categorical"], root=2)
    scopes = {circuit.layer_scope(layer) for layer in circuit.sum_layers}
    assert any(0 in scope and len(scope) == 1 for scope in scopes)  # 0 and 3 hang on 2, on which both depend
    tree_parts = [scope for scope in scopes if len(scope) < 5 and (0 in scope) != (3 in scope)]
    assert len(tree_parts) == 2


@pytest.mark.parametrize(
    "rows",
    [[[0.0, 1.5, 2.0]], [[np.nan] * 3] * 4, [[1.0, 0.5, 3.0]] * 20, np.zeros((3, 3))],
    ids=["one row", "nothing known", "constant", "zeros"],
)
@pytest.mark.parametrize("num_trees", [1, 3])
def test_little_data_gives_a_proper_circuit(rows, num_trees: int) -> None:
    layers = [{"name": "bernoulli"}, {"name": "gaussian"}, {"name": "poisson"}]
    circuit = hclt(rows, 2, input_layers=layers, num_trees=num_trees)
    oracle = random_oracle(circuit)
    table = np.nan_to_num(np.asarray(rows, float), nan=1.0)
    assert np.isfinite(oracle.log(table).astype(float)).all()
    assert float(oracle.linear(np.full((1, 3), np.nan))[0, 0, 0]) == pytest.approx(1.0)


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
        ([[0, 1]], {"num_trees": 0}, ShapeError, "hclt: num_trees must be at least 1, found 0"),
        ([[0, 1]], {"share_inputs": 3}, DTypeError, "share_inputs must be True or False"),
        ([[0, 1]], {"seed": -1}, InputError, "hclt: seed must not be negative"),
        (
            [[0, 1]],
            {"input_layers": [{"name": "bernoulli"}]},
            ShapeError,
            "expected input_layers for 2 columns, found 1",
        ),
        ([[0, 1]], {"input_layers": "bernoulli"}, ShapeError, "expected input_layers for 2 columns"),
        (
            [[0, 1]],
            {"input_layers": lambda _, units: coin([7], units)},
            InputError,
            r"input_layers\[0\] gave CategoricalLayer.scope=.7., 1.; expected an input layer of scope .0. and 1 unit",
        ),
        (
            [[0, 1]],
            {"input_layers": {"name": "bernoulli"}, "input_layer": "gaussian"},
            InputError,
            "say the same in two ways; pass input_layers alone",
        ),
        ([[0, 1]], {"root": 5}, InputError, "hclt: root must be a variable from 0 to 1, found 5"),
        ([[0, 1]], {"pseudocount": -1.0}, InputError, "pseudocount must be at least 0"),
        ([[0.0, np.inf]], {"input_layer": "gaussian", "num_bins": 0}, InputError, "num_bins must be at least 1"),
    ],
)
def test_refuses(rows, settings, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hclt(rows, **{"num_latents": 2, **settings})
