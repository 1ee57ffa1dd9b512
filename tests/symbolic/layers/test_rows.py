"""Rows at the edge of what they are given; what they compute elsewhere is tested by the cases of layers."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from plica.errors import GraphError
from plica.symbolic.layers import (
    LAYER_ROWS,
    CategoricalLayer,
    GaussianLayer,
    HadamardLayer,
    layer_table,
)
from plica.symbolic.parameters import normal
from plica.symbolic.semirings import SEMIRINGS, Params
from plica.tracing import namespace as xp


def test_extreme_logits_stay_finite(run_rule) -> None:
    layer = CategoricalLayer([0], 1, num_categories=2, logits_factory=normal)
    row = LAYER_ROWS[CategoricalLayer]

    def rule(x, logits):
        return row.body(xp, SEMIRINGS["lse-sum"], layer, Params.of(xp, {"logits": logits}), x)[0]

    logits = np.array([[[0.0, 5000.0]]])
    assert run_rule(rule, np.array([[[0], [1]]]), logits)[0, :, 0].tolist() == [0.0, 5000.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaussian_samples_are_quantiles_and_finite(run_rule, dtype: str) -> None:
    layer = GaussianLayer([0], 2)
    row: Any = LAYER_ROWS[GaussianLayer]
    mean, stddev = np.array([[1.0, -2.0]], dtype), np.array([[0.5, 3.0]], dtype)
    levels = np.array([0.0, 0.01, 0.5, 0.99, np.nextafter(np.array(1, dtype), np.array(0, dtype))], dtype)
    drawn = run_rule(
        lambda m, s, units, u: row.sample(xp, layer, {"mean": m, "stddev": s}, units, u),
        mean,
        stddev,
        np.array([[0, 1, 0, 1, 0]]),
        levels[None, :, None],
    )
    assert drawn.shape == (1, 5, 1)
    assert np.isfinite(drawn).all()
    expected = stats.norm.ppf(levels[1:4], [-2.0, 1.0, -2.0], [3.0, 0.5, 3.0])
    np.testing.assert_allclose(drawn[0, 1:4, 0], expected, rtol=1e-5 if dtype == "float32" else 1e-9)


def test_two_rows_for_one_layer_are_refused() -> None:
    row = LAYER_ROWS[HadamardLayer]
    with pytest.raises(GraphError, match="two rows for HadamardLayer"):
        layer_table((row, row))
