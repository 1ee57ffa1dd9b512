"""Log-likelihoods and marginals of native files: those of torch, for any number of rows."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.native.file import Store, module_of
from plica.errors import UnsupportedError
from plica.frontend.native import questions_of
from plica.runtime.module import NativeModule
from plica.symbolic.semirings import SEMIRINGS
from tests.backend.native.circuits.test_layers import image
from tests.harness.case_circuits import circuit_of, data_of
from tests.harness.circuits import CIRCUITS, data
from tests.harness.layer_cases import LAYER_CASES
from tests.harness.native_circuits import compiled, native_file

_LAPLACE = next(case for case in LAYER_CASES if case.name == "laplace")


_ALWAYS = [
    (one, name) for one in ("lse-sum", "sum-product", "max-product") for name in ("mixing", "hadamard", "shared")
]


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """Circuits: proven by their weights, by their rows, and of real numbers."""
    return {"image": compiled(image(3)), "real": compiled(circuit_of(_LAPLACE))}


@pytest.fixture(scope="module")
def module(models: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeModule]:
    """All of them in one file."""
    with native_file(tmp_path_factory.mktemp("native") / "circuits.plicab", models) as loaded:
        yield loaded


def _scores(model: Any, x: Any) -> Any:
    with torch.no_grad():
        return model(torch.from_numpy(x)).numpy()


@pytest.mark.parametrize("rows", [0, 1, 7, 130])
def test_rows(module: NativeModule, models: dict[str, Any], rows: int) -> None:
    """One file answers any number of rows."""
    for name, model in models.items():
        x = data(model.symbolic, rows)
        x = x.astype(model.program.arguments[-1].type.dtype.numpy)
        found = getattr(module, f"{name}_log_likelihood")(x)
        np.testing.assert_allclose(found, _scores(model, x), rtol=2e-6, atol=2e-6)
        assert found.shape == (rows, len(model.symbolic.outputs), found.shape[2])


def test_missing(module: NativeModule, models: dict[str, Any]) -> None:
    """What is NaN is summed out, all of a row too."""
    for name, model in models.items():
        x = data(model.symbolic, 9).astype("float32")
        x[np.random.default_rng(0).random(x.shape) < 0.4] = np.nan
        x[3] = np.nan
        is_real = model.program.arguments[-1].type.dtype.kind == "float"
        ask = getattr(module, f"{name}_log_likelihood" if is_real else f"{name}_marginal")
        np.testing.assert_allclose(ask(x), _scores(model, x), rtol=2e-6, atol=2e-6)


def test_illegal_rows(module: NativeModule) -> None:
    """A row with an entry that is no state is NaN, and no other row."""
    x = np.zeros((5, 9), np.int64)
    x[1, 7], x[3, 0] = 4, -1
    assert np.isnan(module.image_log_likelihood(x))[:, 0, 0].tolist() == [False, True, False, True, False]
    y = x.astype("float32")
    y[0, 2] = 0.5
    assert np.isnan(module.image_marginal(y))[:, 0, 0].tolist() == [True, True, False, True, False]


def test_unproven_rows(tmp_path: Path) -> None:
    """Rows whose scaled numbers underflow are asked again in log space."""
    model = compiled(CIRCUITS["unnormalized"]())
    with torch.no_grad():
        for tensor in model.leaves.tensors():
            tensor.sub_(60.0)  # of logarithms: products of three are below all numbers of 32 bits
    with native_file(tmp_path / "small.plicab", {"m": model}, ["log-likelihood"]) as module:
        entries = {one.name: one for one in module.manifest.entries}
        x = data(model.symbolic, 6)
        found = module.m_log_likelihood(x)
    assert [(one.name, one.public) for one in entries.values()] == [
        ("m_log_likelihood", True),
        ("m_log_likelihood_exact", False),
    ]
    assert found.max() < -100
    np.testing.assert_allclose(found, _scores(model, x), rtol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_all(semiring: str, tmp_path: Path) -> None:
    """Every circuit and layer kind that has native code, under every semiring that takes it."""
    builders: dict[str, Any] = {**CIRCUITS, **{case.name: partial(circuit_of, case) for case in LAYER_CASES}}
    models = {}
    for number, (name, build) in enumerate(builders.items()):
        try:  # what a semiring does not carry, and what has no native code, is refused by name
            model = compiled(build(), semiring)
            module_of(questions_of(model, ["log-likelihood"]), Store())
        except UnsupportedError:
            assert (semiring, name) not in _ALWAYS
        else:
            models[f"m{number}"] = model
    with native_file(tmp_path / "all.plicab", models, ["log-likelihood"]) as module:
        for name, model in models.items():
            x = data_of(model.symbolic, LAYER_CASES, 6, 0.0).astype(model.program.arguments[-1].type.dtype.numpy)
            found, expected = getattr(module, f"{name}_log_likelihood")(x), _scores(model, x)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=repr(model.symbolic))
