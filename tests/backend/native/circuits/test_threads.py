"""Whoever computes the rows of a call, and however they are cut into pieces, answers are the same to rounding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plica import native
from plica.runtime import entries
from plica.runtime.threads import share
from tests.backend.native.circuits.test_layers import image
from tests.harness.circuits import CIRCUITS, data
from tests.harness.native_circuits import compiled

_ALL = ("log-likelihood", "marginal", "sample", "conditional-sample", "mpe")


def _answers(module: Any, x: Any, missing: Any) -> list[Any]:
    """Of all entries, for some rows; draws are those of one seed."""
    drawn = module.conditional_sample(missing, seed=1)
    answers = [module.log_likelihood(x), *drawn, *module.mpe(missing), module.sample(n=len(x), seed=2)]
    return [*answers, module.marginal(missing)] if "marginal" in module.entries else answers


@pytest.mark.full
@pytest.mark.parametrize("name", ["image", pytest.param("several sizes", marks=pytest.mark.full)])
def test_answers_are_those_of_one_thread(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled(image(2) if name == "image" else CIRCUITS[name](), dtype=torch.float64)
    queries = _ALL if name == "image" else tuple(query for query in _ALL if query != "marginal")
    native.compile(model, tmp_path / "m.plicab", queries=queries, driver="local-task", updatable=True)
    shared: list[int] = []

    def share_of(run: Any, pieces: Any, threads: int) -> Any:
        shared.append(threads)
        return share(run, pieces, threads)

    monkeypatch.setattr(entries, "share", share_of)
    with native.load(tmp_path / "m.plicab") as module:
        for count in (0, 1, 9, 200):
            x = data(model.symbolic, count)
            missing = x.astype(np.float64)
            missing[np.random.default_rng(0).random(x.shape) < 0.4] = np.nan
            monkeypatch.setattr(entries, "num_threads", lambda: 1)
            shared.clear()
            expected = _answers(module, x, missing)
            assert 2 not in shared
            for workers in (2, 5):
                monkeypatch.setattr(entries, "num_threads", lambda workers=workers: workers)
                for one, other in zip(_answers(module, x, missing), expected, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
            assert (max(shared, default=0) >= 2) == (count > entries.TILE)


def test_rows_whose_bound_fails_are_computed_again_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In log space, those of all pieces together."""
    model = compiled(CIRCUITS["unnormalized"]())
    with torch.no_grad():
        for tensor in model.leaves.tensors():
            tensor.sub_(60.0)  # of logarithms: products of three are below all numbers of 32 bits
    native.compile(model, tmp_path / "m.plicab", queries=("log-likelihood",), driver="local-task")
    x = data(model.symbolic, 100)
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    with native.load(tmp_path / "m.plicab") as module:
        assert [one.name for one in module.manifest.entries] == ["log_likelihood", "log_likelihood_exact"]
        for workers in (1, 3):
            monkeypatch.setattr(entries, "num_threads", lambda workers=workers: workers)
            np.testing.assert_allclose(module(x), expected, rtol=1e-5)
