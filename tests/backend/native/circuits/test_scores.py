"""Log-likelihoods and marginals of native files: those of torch, for any number of rows."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.native.loops.build import build_nest
from plica.errors import UnsupportedError
from plica.frontend.native import entry_programs_of
from plica.ir.dtypes import as_dtype
from plica.lower.data import not_reduced, samples_dtype
from plica.lower.leaves import opaque_keys
from plica.runtime.module import NativeModule
from plica.symbolic.semirings import SEMIRINGS
from tests.backend.native.circuits.test_layers import image
from tests.harness import complex_circuits
from tests.harness.case_circuits import circuit_of, data_of
from tests.harness.circuits import CIRCUITS, data
from tests.harness.layer_cases import LAYER_CASES
from tests.harness.native_circuits import compiled, native_file

_LAPLACE = next(case for case in LAYER_CASES if case.name == "laplace")


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """Circuits: proven by their weights, of another algebra, of states and reals, which are proven by their rows."""
    largest = compiled(CIRCUITS["mixing"](), "max-product")
    mixed = compiled(CIRCUITS["several sizes"]())
    return {"image": compiled(image(2)), "largest": largest, "mixed": mixed}


@pytest.fixture(scope="module")
def module(models: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeModule]:
    """All of them in one file."""
    with native_file(tmp_path_factory.mktemp("native") / "circuits.plicab", models) as loaded:
        yield loaded


def _complete_dtype(model: Any) -> np.dtype[Any]:
    """The dtype of complete rows: int64 if every variable has whole values, else that of real numbers."""
    return samples_dtype(model.symbolic, as_dtype(model.dtype)).numpy


def _scores(model: Any, x: Any) -> Any:
    with torch.no_grad():
        return model(torch.from_numpy(x)).numpy()


def _check_rows(module: NativeModule, models: dict[str, Any], rows: int) -> None:
    for name, model in models.items():
        x = data(model.symbolic, rows).astype(_complete_dtype(model))
        found = getattr(module, f"{name}_log_likelihood")(x)
        np.testing.assert_allclose(found, _scores(model, x), rtol=2e-6, atol=2e-6)
        assert found.shape == (rows, len(model.symbolic.outputs), found.shape[2])


def _check_missing(module: NativeModule, models: dict[str, Any]) -> None:
    for name, model in models.items():
        x = data(model.symbolic, 9).astype("float32")
        x[np.random.default_rng(0).random(x.shape) < 0.4] = np.nan
        x[3] = np.nan
        is_real = _complete_dtype(model).kind == "f"
        ask = getattr(module, f"{name}_log_likelihood" if is_real else f"{name}_marginal")
        np.testing.assert_allclose(ask(x), _scores(model, x), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("rows", [0, 1, 7, 130])
def test_rows(module: NativeModule, models: dict[str, Any], rows: int) -> None:
    """One file answers any number of rows."""
    _check_rows(module, models, rows)


def test_missing(module: NativeModule, models: dict[str, Any]) -> None:
    """What is NaN is summed out, all of a row too."""
    _check_missing(module, models)


@pytest.mark.full
def test_larger_circuits(tmp_path: Path) -> None:
    """Of reals alone, and of more pixels."""
    models = {"image": compiled(image(3)), "real": compiled(circuit_of(_LAPLACE))}
    with native_file(tmp_path / "larger.plicab", models) as module:
        for rows in (0, 1, 7, 130):
            _check_rows(module, models, rows)
        _check_missing(module, models)


def test_illegal_rows(module: NativeModule) -> None:
    """A row with an entry that is no state is NaN, and no other row."""
    x = np.zeros((5, 4), np.int64)
    x[1, 3], x[3, 0] = 4, -1
    assert np.isnan(module.image_log_likelihood(x))[:, 0, 0].tolist() == [False, True, False, True, False]
    y = x.astype("float32")
    y[0, 2] = 0.5
    assert np.isnan(module.image_marginal(y))[:, 0, 0].tolist() == [True, True, False, True, False]


@pytest.mark.full
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


BUILDERS: dict[str, Any] = {**CIRCUITS, **{case.name: partial(circuit_of, case) for case in LAYER_CASES}}
_TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def _questions(module: NativeModule, name: str, model: Any, rows: int) -> Iterator[tuple[Any, Any, str]]:
    """What a file answers to whole rows, and to some of which a part is missing; what torch does, and the question."""
    real = as_dtype(model.dtype)
    complete = _complete_dtype(model)
    for missing, question in ((0.0, "log_likelihood"), (0.4, "marginal" if complete.kind == "i" else "log_likelihood")):
        if missing and not_reduced(model.folded, model.semiring):
            continue  # torch refuses such rows
        x = data_of(model.symbolic, LAYER_CASES, rows, missing)
        x = x.astype(complete if complete.kind == "f" or not missing else real.numpy)
        yield getattr(module, f"{name}_{question}")(x), _scores(model, x), f"{question} of {model.symbolic!r}"


def _assert_close(found: Any, expected: Any, is_log: bool, tolerance: float, what: str) -> None:
    """Numbers are equal; of complex logarithms, sizes and the directions of what is not 0."""
    assert found.dtype == expected.dtype
    if is_log and found.dtype.kind == "c":
        counted = expected.real > -np.inf
        turned = np.exp(1j * np.stack([found.imag, expected.imag]))[:, counted]
        np.testing.assert_allclose(turned[0], turned[1], rtol=0, atol=10 * tolerance, err_msg=what)
        found, expected = found.real, expected.real
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def _assert_scores(semiring: str, models: dict[str, Any], path: Path, dtype: str) -> None:
    is_log = SEMIRINGS[semiring].logarithmic
    with native_file(path, models, None) as module:
        for name, model in models.items():
            for found, expected, what in _questions(module, name, model, 6):
                _assert_close(found, expected, is_log, _TOLERANCE[dtype], f"{semiring}: {what}")


def _is_refused(model: Any) -> bool:
    """Whether torch refuses a circuit, or a part of it is code of another library."""
    if opaque_keys(model.symbolic):
        return True
    x = data_of(model.symbolic, LAYER_CASES, 1, 0.0).astype(_complete_dtype(model))
    try:
        _scores(model, x)
    except UnsupportedError:
        return True
    return False


@pytest.mark.full
@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_all(semiring: str, tmp_path: Path) -> None:
    """Every circuit and kind of layer; what torch refuses is refused, and nothing else.

    Each is compiled under one semiring, and the next under the next one, in one dtype and the other by turns.
    """
    models, builders, turn = {}, list(enumerate(BUILDERS.values())), list(SEMIRINGS).index(semiring)
    dtype = ("float32", "float64")[(turn + turn // 4) % 2]
    for number, build in builders[turn :: len(SEMIRINGS)]:
        try:
            model = compiled(build(), semiring, getattr(torch, dtype))
        except UnsupportedError:  # as torch refuses it
            continue
        try:
            for entry_program in entry_programs_of(model):
                build_nest(entry_program.body.program, has_blas=False)
        except UnsupportedError:
            assert _is_refused(model)
        else:
            models[f"m{number}"] = model
    assert len(models) > len(builders) // len(SEMIRINGS) * 0.5  # of so few, several more may be refused
    _assert_scores(semiring, models, tmp_path / "all.plicab", dtype)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("semiring", ["sum-product", "complex-lse-sum"])
def test_complex_weights(semiring: str, dtype: str, tmp_path: Path) -> None:
    """Results are complex numbers, or their logarithms."""
    model = compiled(complex_circuits.circuit(), semiring, getattr(torch, dtype))
    x = complex_circuits.data().numpy().astype(dtype)
    whole = np.nan_to_num(x).astype(np.int64)
    with native_file(tmp_path / "complex.plicab", {"m": model}) as module:
        for found, rows in ((module.m_log_likelihood(whole), whole), (module.m_marginal(x), x)):
            expected = _scores(model, rows)
            assert found.dtype.kind == "c"
            _assert_close(found, expected, SEMIRINGS[semiring].logarithmic, 10 * _TOLERANCE[dtype], "complex weights")
