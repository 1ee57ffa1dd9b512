"""Covariances that few rows told are made wider."""

import numpy as np
import torch

import plica
from plica.learn.widening import widen_covariances
from plica.symbolic.layers import MultivariateGaussianLayer, SumLayer


def test_covariances_grow_by_what_the_number_of_known_cells_says() -> None:
    layer, mix = MultivariateGaussianLayer([0, 1], 2), SumLayer(2, 1)
    for known, factor in ((10, 1.25), (4, 1.5)):
        model = plica.compile(plica.Circuit([layer, mix], {mix: [layer]}, [mix])).double()
        model.reset_parameters(seed=0)
        rows = np.zeros((20, 2))
        rows[known:] = np.nan
        before = plica.queries.variance(model, torch.full((1, 2), torch.nan, dtype=torch.float64))
        spread = plica.queries.mean(model, torch.full((1, 2), torch.nan, dtype=torch.float64))
        widen_covariances(model, rows)
        after = plica.queries.variance(model, torch.full((1, 2), torch.nan, dtype=torch.float64))
        torch.testing.assert_close(
            plica.queries.mean(model, torch.full((1, 2), torch.nan, dtype=torch.float64)), spread
        )
        values = model.state_dict()
        weights = values["1.weight"].softmax(-1)[0]
        between = (weights[:, None] * (values["0.mean"] - spread) ** 2).sum(0)
        torch.testing.assert_close(after - between, factor * (before - between))
