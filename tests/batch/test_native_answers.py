"""Native files answer batches: as the model does, with one thread, and say what they have no answer to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.batch import Completer, Predictor, Sampler, Scorer
from plica.errors import InputError, UnsupportedError
from plica.queries import log_likelihood, mpe, posterior
from tests.harness.circuits import pixels

QUERIES = ("log-likelihood", "marginal", "mpe", "conditional-sample")


@pytest.fixture(scope="module")
def circuit() -> Any:
    torch.manual_seed(0)
    return plica.compile(pixels(2, 3)).eval()


@pytest.fixture(scope="module")
def path(circuit: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("native") / "pixels.plicab"
    plica.native.compile(circuit, target, queries=QUERIES)
    return target


@pytest.fixture(scope="module")
def holes(circuit: Any) -> Any:
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (40, circuit.num_variables)).astype(np.float64)
    return np.where(random.random(rows.shape) < 0.3, np.nan, rows)


@pytest.mark.full
def test_answers_are_those_of_the_circuit(circuit: Any, path: Path, holes: Any) -> None:
    x = torch.from_numpy(holes)
    with torch.no_grad():
        scores = log_likelihood(circuit, x).numpy()
    np.testing.assert_allclose(Scorer(path)(holes)[:, 0], scores, atol=1e-5)
    whole = np.nan_to_num(holes).astype(np.int64)
    with torch.no_grad():
        expected = log_likelihood(circuit, torch.from_numpy(whole)).numpy()
    np.testing.assert_allclose(Scorer(path)({"data": whole})["log_likelihood"], expected, atol=1e-5)
    np.testing.assert_array_equal(Completer(path, "mpe")(holes), mpe(circuit, x)[0].numpy())
    probabilities = posterior(circuit, torch.from_numpy(np.where(np.arange(holes.shape[1]) == 1, np.nan, holes)))
    predicted = Predictor(path, "1")({str(column): holes[:, column] for column in range(holes.shape[1])})
    assert next(iter(predicted)) == "0"
    for state, column in enumerate(predicted.values()):
        np.testing.assert_allclose(column, probabilities.probabilities[:, 1, state].numpy(), atol=1e-5)
    known = ~np.isnan(np.repeat(holes, 2, axis=0))
    drawn = Sampler(path, 2)(holes)
    np.testing.assert_array_equal(drawn[known], np.repeat(holes, 2, axis=0)[known])
    assert not np.isnan(drawn).any()


def test_what_a_native_file_does_not_answer_is_refused(path: Path, holes: Any) -> None:
    for ask, message in (
        (Scorer(path, comparable=True), "comparable"),
        (Completer(path), "no means"),
        (Predictor(path, "0", (0.5,)), "no quantiles"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            ask(holes)
    wrong = holes.copy()
    wrong[7, 0] = 99
    with pytest.raises(InputError, match="row 7"):
        Scorer(path)(wrong)
