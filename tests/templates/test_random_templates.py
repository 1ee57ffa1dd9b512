"""Random settings of every template: values, marginals and totals are those of enumeration, whatever the flags."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.symbolic.circuit import Circuit
from plica.templates import hclt
from plica.templates.data_modalities import IMAGE_REGION_GRAPHS, image_data, tabular_data
from plica.templates.pgms import fully_factorized, hmm
from plica.templates.tabular import TABULAR_REGION_GRAPHS
from plica.templates.tensor_factorizations import cp, tensor_train, tucker
from plica.templates.utils import Parameterization
from tests.harness.oracle import Oracle, all_states

Random = random.Random
SHAPES = [(1, 1, 1), (1, 1, 2), (1, 2, 2), (2, 1, 2), (1, 1, 5), (3, 1, 1), (2, 2, 1), (1, 2, 3)]
PARAMETERS = [
    None,
    Parameterization("uniform", "none"),
    Parameterization("dirichlet", "none"),
    Parameterization("normal", "softplus"),
    Parameterization("uniform", "positive-clamp"),
    Parameterization("normal", "sigmoid"),
    Parameterization("uniform", "softmax", activation_kwargs={"axis": 0}),
]
LAYERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "categorical": lambda size: {"num_categories": size},
    "embedding": lambda size: {"num_states": size},
    "binomial": lambda size: {"total_count": size},
    "bernoulli": lambda _: {},
}


def _sizes(rng: Random) -> dict[str, Any]:
    return {
        "sum_product_layer": rng.choice(["cp", "cp-t", "tucker"]),
        "num_input_units": rng.randint(1, 3),
        "num_sum_units": rng.randint(1, 3),
        "num_classes": rng.randint(1, 3),
        "sum_weight_param": rng.choice(PARAMETERS),
        "use_mixing_weights": rng.random() < 0.5,
    }


def _layer(rng: Random) -> tuple[str, dict[str, Any]]:
    name = rng.choice(list(LAYERS))
    return name, LAYERS[name](rng.randint(1, 3))


def _rows(rng: Random, columns: int) -> Any:
    """Zeros and ones, some missing; there may be a column without any, one that is constant, and two alike."""
    draw = np.random.default_rng(rng.randrange(2**31))
    rows = draw.integers(2, size=(rng.randint(1, 20), columns)).astype(float)
    rows[draw.random(rows.shape) < rng.choice([0.0, 0.4])] = np.nan
    rows[:, 0] = rng.choice([rows[:, -1], np.nan, 0.0, rows[:, 0]])
    return rows


def _image(rng: Random) -> Circuit:
    region_graph, layer, shape = rng.choice(list(IMAGE_REGION_GRAPHS)), rng.choice(list(LAYERS)), rng.choice(SHAPES)
    return image_data(shape, region_graph, input_layer=layer, num_values=rng.randint(2, 3), **_sizes(rng))


def _table(rng: Random) -> Circuit:
    rows = _rows(rng, rng.randint(1, 4))
    layers = [
        {"name": name, "args": LAYERS[name](rng.randint(2, 3))} for name in rng.choices(list(LAYERS), k=rows.shape[1])
    ]
    return tabular_data(rng.choice(list(TABULAR_REGION_GRAPHS)), data=rows, input_layers=layers, **_sizes(rng))


def _hidden_tree(rng: Random) -> Circuit:
    rows = _rows(rng, rng.randint(1, 5))
    return hclt(rows, rng.randint(1, 3), num_classes=rng.randint(1, 2), weight_param=rng.choice(PARAMETERS))


def _chain(rng: Random) -> Circuit:
    name, settings = _layer(rng)
    steps = rng.randint(1, 5)
    return hmm(
        rng.sample(range(steps), steps),
        name,
        rng.randint(1, 3),
        input_layer_kwargs=settings,
        weight_param=rng.choice(PARAMETERS),
        homogeneous=rng.random() < 0.5,
    )


def _independent(rng: Random) -> Circuit:
    name, settings = _layer(rng)
    return fully_factorized(rng.randint(1, 5), name, input_layer_kwargs=settings)


def _tensor(rng: Random) -> Circuit:
    make: Any
    make, name = rng.choice([(cp, "weight_param"), (tucker, "core_param"), (tensor_train, "factor_param")])
    shape = [rng.randint(1, 3) for _ in range(rng.randint(1, 4))]
    return make(shape, rng.randint(1, 3), **{name: rng.choice(PARAMETERS)})


MAKERS = [_image, _table, _hidden_tree, _chain, _independent, _tensor]
_SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 150))]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", _SEEDS)
def test_values_marginals_and_totals(make: Callable[[Random], Circuit], seed: int) -> None:
    rng = Random(seed)
    circuit = make(rng)
    how: dict[str, Any] = {"fold": rng.random() < 0.7, "optimize": rng.random() < 0.7, "dtype": torch.float64}
    torch.manual_seed(seed)
    compiled = plica.compile(circuit, semiring="sum-product", **how)
    compiled.train(rng.random() < 0.5)
    states, draw = all_states(circuit), np.random.default_rng(seed)
    some = states[draw.integers(len(states), size=20)].astype(float)
    some[draw.random(some.shape) < 0.5] = np.nan
    rows = np.concatenate([some, np.full_like(some[:1], np.nan)])
    oracle = Oracle(circuit, {key: value.numpy() for key, value in compiled.state_dict().items()})
    expected = np.stack([oracle.marginal(row) for row in rows]).astype(float)
    found = compiled(torch.tensor(rows)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
