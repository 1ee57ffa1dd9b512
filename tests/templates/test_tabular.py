import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import InputError, ShapeError
from plica.symbolic.layers import DISTRIBUTIONS, CategoricalLayer, GaussianLayer
from plica.symbolic.parameters import SoftmaxParameter, SoftplusParameter, normal
from plica.templates.data_modalities import tabular_data
from plica.templates.parameterization import Parameterization
from plica.templates.region_graph import RandomBinaryTree
from plica.templates.tabular import TABULAR_REGION_GRAPHS
from tests.harness.oracle import Oracle, all_states, numbers

SMALL: dict[str, Any] = {"num_input_units": 2, "sum_product_layer": "cp", "num_sum_units": 3}
COIN: dict[str, Any] = {"name": "categorical", "args": {"num_categories": 2}}
REAL: dict[str, Any] = {"name": "gaussian"}
DIE: dict[str, Any] = {"name": "categorical", "args": {"num_categories": 6}}
GRAPHS = sorted(TABULAR_REGION_GRAPHS)


def table(rows: int = 40, seed: int = 0) -> np.ndarray:
    """Three columns: 2 states, reals around 100, 5 states."""
    generator = np.random.default_rng(seed)
    data = [generator.integers(2, size=rows), generator.normal(100, 5, size=rows), np.arange(rows) % 5]
    return np.stack(data, axis=1)


def columns(region_graph: str, number: int) -> dict[str, Any]:
    """How many columns there are, told as the region graph needs it."""
    if region_graph == "chow-liu-tree":
        return {"data": np.random.default_rng(1).integers(2, size=(30, number))}
    return {"num_features": number}


def total(circuit: Any, columns: int) -> float:
    compiled = plica.compile(circuit, dtype=torch.float64)
    return compiled(torch.full((1, columns), float("nan"), dtype=torch.float64)).exp().item()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("region_graph", GRAPHS)
@pytest.mark.parametrize("sum_product", ["cp", "cp-t", "tucker"])
@pytest.mark.parametrize("layers", [COIN, REAL, [COIN, REAL, DIE, REAL, COIN]], ids=["coin", "real", "mixed"])
def test_every_choice_by_name_sums_to_one(region_graph: str, sum_product: str, layers: Any) -> None:
    circuit = tabular_data(
        region_graph, input_layers=layers, **columns(region_graph, 5), **{**SMALL, "sum_product_layer": sum_product}
    )
    assert list(circuit.scope) == list(range(5))
    assert circuit.is_smooth
    assert circuit.is_decomposable
    assert circuit.outputs[0].num_output_units == 1
    assert total(circuit, 5) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("region_graph", GRAPHS)
def test_mixed_states_against_enumeration(region_graph: str) -> None:
    layers = [{"name": "categorical", "args": {"num_categories": count}} for count in (2, 3, 4, 2)]
    circuit = tabular_data(region_graph, input_layers=layers, num_classes=3, **columns(region_graph, 4), **SMALL)
    compiled = plica.compile(circuit, dtype=torch.float64)
    states = all_states(circuit)
    assert states.shape == (48, 4)
    found = compiled(torch.as_tensor(states)).detach().numpy()
    np.testing.assert_allclose(found, Oracle(circuit, numbers(compiled)).log(states).astype(float), atol=1e-9)
    np.testing.assert_allclose(np.exp(found).sum(axis=0), np.ones((1, 3)), atol=1e-9)


@pytest.mark.parametrize("sum_product", ["cp", "cp-t", "tucker"])
def test_fifty_mixed_columns_fold(sum_product: str) -> None:
    """One group for each kind of input layer, then one for each level of the tree: columns of any kind share them."""
    kinds = [COIN, REAL, DIE, {"name": "categorical", "args": {"num_categories": 3}}]
    layers = [kinds[place] for place in np.random.default_rng(0).integers(4, size=50)]
    circuit = tabular_data(num_features=50, input_layers=layers, **{**SMALL, "sum_product_layer": sum_product})
    groups = plica.compile(circuit).layers
    inputs = {group.layer_class: group.num_folds for group in groups if group.kind == "input"}
    real = sum(one is REAL for one in layers)
    assert inputs == {CategoricalLayer: 50 - real, GaussianLayer: real}
    assert sum(group.kind == "input" for group in groups) == 2
    levels = 6  # 50 columns
    assert len(groups) <= 2 + levels + (2 if sum_product == "cp" else 1)


def test_a_column_is_what_it_is_called() -> None:
    circuit = tabular_data(num_features=3, input_layers=[COIN, REAL, DIE], **SMALL)
    kinds = {tuple(layer.scope): type(layer).__name__ for layer in circuit.input_layers}
    assert kinds == {(0,): "CategoricalLayer", (1,): "GaussianLayer", (2,): "CategoricalLayer"}
    assert [circuit.domains[column].num_states for column in range(3)] == [2, None, 6]


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_every_distribution_is_found_by_its_name(name: str) -> None:
    args = DISTRIBUTIONS[name].settings_for(4)
    layers = [COIN, {"name": name, "args": args}, COIN]
    circuit = tabular_data(num_features=3, input_layers=layers, **SMALL)
    assert circuit.domains[1] == DISTRIBUTIONS[name].domain(4)
    assert Counter(type(layer) for layer in circuit.input_layers)[CategoricalLayer] >= 2


def test_parameters_as_asked() -> None:
    probs = {"name": "categorical", "args": {"num_categories": 3, "probs": Parameterization("uniform", "softmax")}}
    means = {"name": "gaussian", "args": {"mean_factory": normal}}
    circuit = tabular_data(
        num_features=2, input_layers=[probs, means], sum_weight_param=Parameterization("uniform", "softplus"), **SMALL
    )
    described, other = sorted(circuit.input_layers, key=lambda layer: list(layer.scope))
    assert isinstance(described.params["probs"].output, SoftmaxParameter)
    assert len(other.params["mean"].nodes) == 1
    assert all(isinstance(layer.weight.output, SoftplusParameter) for layer in circuit.sum_layers)


def test_data_says_how_many_columns_and_values_there_are() -> None:
    data = table()
    data[3] = np.nan
    plain = {"name": "categorical"}
    circuit = tabular_data(data=data, input_layers=[plain, REAL, DIE], **SMALL)
    assert [circuit.domains[column].num_states for column in range(3)] == [2, None, 6]
    found = {tuple(layer.scope): layer.config.get("num_categories") for layer in circuit.input_layers}
    assert found == {(0,): 2, (1,): None, (2,): 6}


def test_densities_start_where_the_data_lies() -> None:
    data, described = table(), {"name": "gaussian", "args": {"mean_factory": normal}}
    rows = torch.as_tensor(data, dtype=torch.float64)
    scores = []
    for setting in (REAL, described):
        circuit = tabular_data(data=data, input_layers=[COIN, setting, DIE], **SMALL)
        scores.append(plica.compile(circuit, dtype=torch.float64)(rows).mean().item())
    assert scores[0] > -10
    assert scores[1] < -100


def test_edges_of_histograms_follow_from_data_beside_weights_that_are_described() -> None:
    data = table()
    settings = {"name": "histogram", "args": {"num_bins": 4, "logits": Parameterization(activation="none")}}
    circuit = tabular_data(data=data, input_layers=[COIN, settings, DIE], **SMALL)
    (histogram,) = (layer for layer in circuit.input_layers if list(layer.scope) == [1])
    assert len(histogram.params["logits"].nodes) == 1
    scores = plica.compile(circuit, dtype=torch.float64)(torch.as_tensor(data, dtype=torch.float64))
    assert torch.isfinite(scores).all()  # no value lies beyond the bins


def related(kind: str, rows: int = 300) -> np.ndarray:
    """Columns 0 and 3 say much of each other, and so do 1 and 2."""
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, rows, 1))
    pair, other = (one + 0.3 * generator.normal(size=(rows, 2)) for one in (first, second))
    real = np.stack([pair[:, 0], other[:, 0], other[:, 1], pair[:, 1]], axis=1)
    counted = (real > 0).astype(float)
    return {"counted": counted, "real": real, "mixed": np.where([True, False, True, False], counted, real)}[kind]


@pytest.mark.parametrize(("kind", "layers"), [("counted", COIN), ("real", REAL), ("mixed", [COIN, REAL, COIN, REAL])])
def test_a_chow_liu_tree_keeps_columns_together_that_say_much_of_each_other(kind: str, layers: Any) -> None:
    data = related(kind)
    data[5, 2] = np.nan
    circuit = tabular_data("chow-liu-tree", data=data, input_layers=layers, **SMALL)
    scopes = {frozenset(circuit.layer_scope(layer)) for layer in circuit.product_layers}
    pairs = {frozenset([0, 3]), frozenset([1, 2])}
    # a chain 0 - 3 - 1 - 2 or the like, rooted at its centre: one pair is a branch of its own
    assert scopes & pairs
    assert not any(len(scope) == 2 and scope not in pairs for scope in scopes)


def test_without_mixing_weights_sums_are_dense() -> None:
    settings = {"num_features": 4, "input_layers": COIN, **SMALL, "sum_product_layer": "cp-t"}
    TABULAR_REGION_GRAPHS["two-trees"] = lambda table: RandomBinaryTree(len(table.domains), num_repetitions=2)
    try:
        for mixes in (True, False):
            circuit = tabular_data("two-trees", use_mixing_weights=mixes, num_classes=2, **settings)
            found = [layer.mixing for layer in circuit.sum_layers if layer.arity > 1]
            assert found == [mixes]
    finally:
        del TABULAR_REGION_GRAPHS["two-trees"]


def test_one_column() -> None:
    assert total(tabular_data(num_features=1, input_layers=[DIE], **SMALL), 1) == pytest.approx(1)


def test_what_the_caller_passes_is_never_changed() -> None:
    args = {"num_categories": 3, "logits": Parameterization()}
    layers, data = [{"name": "categorical", "args": args}, REAL, dict(DIE, args=dict(DIE["args"]))], table()
    data[:, 0] = 1
    before, rows = copy.deepcopy(layers), data.copy()
    for _ in range(2):
        tabular_data(data=data, input_layers=layers, **SMALL)
    assert layers == before
    np.testing.assert_array_equal(data, rows)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"region_graph": "chow-liu-tree"}, InputError, "a chow-liu-tree is made from data; pass data"),
        ({"num_features": None}, InputError, "pass num_features, the number of columns, or data"),
        ({"data": table(), "num_features": 4}, ShapeError, "expected 4 columns .num_features., found 3 in the data"),
        (
            {"data": table()[0], "num_features": None},
            ShapeError,
            r"expected data of shape .rows, columns., found \(3,\)",
        ),
        ({"data": [["a", "b", "c"]]}, InputError, "expected data of numbers"),
        ({"data": -table(), "input_layers": {"name": "categorical"}}, InputError, r"\[0\]: .* the data holds -1"),
        ({"data": table() / 2, "input_layers": {"name": "categorical"}}, InputError, r"\[0\]: .* the data holds 0.5"),
        ({"data": np.full((2, 3), np.inf), "input_layers": {"name": "categorical"}}, InputError, "the data holds inf"),
        ({"data": table() * np.nan, "input_layers": {"name": "categorical"}}, InputError, "num_categories"),
        ({"input_layers": [COIN, REAL]}, ShapeError, "expected input_layers for 3 columns, found 2"),
        ({"input_layers": [COIN, "gaussian", COIN]}, InputError, r"input_layers\[1\] is 'gaussian'; expected"),
        ({"input_layers": {"args": {}}}, InputError, r"input_layers\[0\] is .*; expected"),
        ({"input_layers": {"name": "gaussian", "kwargs": {}}}, InputError, r"input_layers\[0\] is .*; expected"),
        (
            {"input_layers": [COIN, REAL, {"name": "normal"}]},
            InputError,
            r"input_layers\[2\]: unknown input layer 'normal'; expected one of .*categorical",
        ),
        (
            {"input_layers": {"name": "categorical"}},
            InputError,
            r"input_layers\[0\]: input layer 'categorical' .*num_categories",
        ),
        (
            {"input_layers": {"name": "gaussian", "args": {"logits": Parameterization()}}},
            InputError,
            r"input_layers\[0\]: input layer 'gaussian' has no parameter 'logits'; .* are mean, stddev",
        ),
        (
            {"region_graph": "quad-graph"},
            InputError,
            "unknown region graph 'quad-graph'; expected one of random-binary",
        ),
        ({"sum_product_layer": "cp-s"}, InputError, "sum_product must be one of cp, cp-t, tucker; found 'cp-s'"),
        ({"num_features": 0}, ShapeError, "at least one variable"),
    ],
)
def test_refuses(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tabular_data(**{"num_features": 3, "input_layers": COIN, **SMALL, **settings})


OUT_OF_REACH = {
    "subnormal": ([1e-310, 2e-310, 3e-310], "differ by .*e-311, too little for float64; rescale them"),
    "alike and subnormal": ([5e-324] * 3, "are 4.9.*e-324, too small for float64; rescale them"),
    "near the largest": ([1e307, 1e308, 2e307], r"reach 1e\+308, too large for float64"),
}


@pytest.mark.parametrize("name", ["exponential", "gamma", "log-normal", "gaussian", "uniform", "histogram"])
@pytest.mark.parametrize("case", OUT_OF_REACH)
def test_columns_at_the_ends_of_floats_are_refused(case: str, name: str) -> None:
    values, message = OUT_OF_REACH[case]
    with pytest.raises(InputError, match=rf"input_layers\[0\]: the values of a column of .*{name}' {message}"):
        tabular_data(
            data=np.array([values, values]).T,
            input_layers={"name": name},
            num_input_units=1,
            sum_product_layer="cp",
            num_sum_units=1,
        )
