"""Densities that start where a column lies, by name: their means and spreads are those of the column, more or less."""

from typing import Any

import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.symbolic.layers import DISTRIBUTIONS, LAYER_ROWS, Column
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import Params
from tests.harness.layer_cases import LAYER_CASES, InputCase
from tests.harness.oracle import evaluate

UNITS, STATES = 500, 40
COLUMNS = [(case, mean, spread) for case in LAYER_CASES if isinstance(case, InputCase) for mean, spread in case.starts]


def test_every_layer_that_is_made_for_columns_has_some() -> None:
    fitted = {name for name, one in DISTRIBUTIONS.items() if one.fitted is not None} - {"von-mises"}  # without means
    assert fitted == {case.row.distribution.name for case, _, _ in COLUMNS}


@pytest.mark.parametrize(("case", "mean", "spread"), COLUMNS, ids=str)
def test_units_lie_where_their_column_does(case: InputCase, mean: float, spread: float) -> None:
    distribution = case.row.distribution
    assert distribution.fitted is not None
    column = Column(mean, spread, mean - 3 * spread, mean + 3 * spread)
    layer = distribution.layer([0], UNITS, **distribution.settings_for(STATES), **distribution.fitted(column))
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
