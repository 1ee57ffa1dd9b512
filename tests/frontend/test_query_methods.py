"""Methods of compiled circuits, and rows of every library wherever tensors go."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch

import plica
from plica import queries
from plica.backend.torch.queries import IntegrateQuery
from plica.errors import InputError
from plica.learn import flows
from plica.templates.pgms import fully_factorized

NAN = float("nan")
ROWS = [[0.0, NAN, 2.0], [1.0, 1.0, NAN], [2.0, 0.0, 1.0]]


@pytest.fixture(scope="module")
def model() -> Any:
    circuit = fully_factorized(3, input_layer="categorical", input_layer_kwargs={"num_categories": 3})
    return plica.compile(circuit, dtype="float64").eval()


ASK: dict[str, Callable[[Any, Any], Any]] = {
    "call": lambda model, x: model(x),
    "check": lambda model, x: model.check(x),
    "integrate": lambda model, x: IntegrateQuery(model)(x, integrate_vars=plica.Scope([0])),
    "flows": lambda model, x: flows(model, x).log_likelihood,
    "conditional_log_likelihood": lambda model, x: queries.conditional_log_likelihood(model, x, [True, False, False]),
    "probability": lambda model, x: queries.probability(model, x, x),
    "quantile": lambda model, x: queries.quantile(model, 0, 0.5, x),
    "sample": lambda model, x: queries.sample(model, 2, x, seed=0),
    "covariance": lambda model, x: queries.covariance(model, [0, 1], x),
    "mpe_bounds": lambda model, x: queries.mpe_bounds(model, x).upper,
    "posterior": lambda model, x: queries.posterior(model, x).probabilities,
    **{
        name: getattr(queries, name)
        for name in ("log_likelihood", "cdf", "mpe", "mean", "variance", "latent_posterior")
    },
}


def _same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ASK)
def test_rows_of_any_library(model, name: str) -> None:
    expected = ASK[name](model, torch.tensor(ROWS, dtype=torch.float64))
    array = np.array(ROWS)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (ROWS, array, np.asfortranarray(ROWS), pd.DataFrame(ROWS)):
            _same(ASK[name](model, x), expected)


def test_methods_call_queries(model) -> None:
    _same(model.log_likelihood(ROWS), queries.log_likelihood(model, ROWS))
    _same(model.sample(3, seed=1), queries.sample(model, 3, seed=1))
    _same(model.sample(2, given=ROWS, seed=1), queries.sample(model, 2, ROWS, 1))
    _same(model.complete(ROWS), queries.mpe(model, ROWS)[0])
    _same(model.complete(ROWS, "sample", seed=4), queries.sample(model, 1, ROWS, 4))
    _same(model.complete(ROWS, "mean"), queries.mean(model, ROWS))
    with pytest.raises(InputError, match="method must be one of mpe, sample, mean, found 'mode'"):
        model.complete(ROWS, "mode")
