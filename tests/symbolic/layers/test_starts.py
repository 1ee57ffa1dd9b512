"""Densities that start where a column lies, by name: their means and spreads are those of the column, more or less."""

from typing import Any

import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.symbolic.layers import DISTRIBUTIONS, LAYER_ROWS, Column
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import Params
from tests.harness.oracle import evaluate

UNITS = 500
POSITIVE = ((1e3, 1.0), (2.0, 1.0), (1.0, 2.0))
COLUMNS = [
    *[(name, mean, spread) for name in ("gaussian", "laplace") for mean, spread in ((1e4, 0.5), (-3.0, 40.0))],
    ("student-t", 1e4, 0.5),
    *[(name, mean, spread) for name in ("gamma", "log-normal") for mean, spread in POSITIVE],
    *[("exponential", mean, mean) for mean in (1e-4, 3.0, 1e5)],
    *[("beta", mean, spread) for mean, spread in ((0.3, 0.1), (0.98, 0.01), (0.5, 0.4))],
]


@pytest.mark.parametrize(("name", "mean", "spread"), COLUMNS)
def test_units_lie_where_their_column_does(name: str, mean: float, spread: float) -> None:
    distribution = DISTRIBUTIONS[name]
    assert distribution.fitted is not None
    column = Column(mean, spread, mean - 3 * spread, mean + 3 * spread)
    layer = distribution.layer([0], UNITS, **distribution.fitted(column))
    rng = np.random.default_rng(0)
    leaves = (leaf for one in layer.all_params.values() for leaf in one.leaves)
    draws = {leaf: rng.normal(size=leaf.shape) for leaf in leaves if isinstance(leaf, TensorParameter)}
    params = Params.of(
        pnp, {key: torch.tensor(evaluate(one, draws)[None].astype(float)) for key, one in layer.params.items()}
    )
    row: Any = LAYER_ROWS[type(layer)]
    means, variances = (moment(pnp, layer, params)[0, :, 0].numpy() for moment in (row.mean, row.variance))
    assert abs(np.median(means) - mean) < spread
    assert spread / 4 < np.median(np.abs(means - mean)) * 2 < 4 * spread  # they differ, but not by more than the column
    assert spread / 4 < np.median(np.sqrt(variances)) < 4 * spread
