"""Circuits of every input layer, at the ends of what these take, against NumPy and SciPy alone."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.native.circuits.with_constants import ProgramWithConstants
from plica.backend.native.entry_programs import EntryProgram
from plica.frontend.native import _with_joined_trees, entry_programs_of
from tests.harness.native_circuits import compiled
from tests.harness.swept_circuits import Swept, swept_circuit
from tests.harness.swept_inputs import FAMILIES

Array = Any
_STATES = ("bernoulli", "categorical by probs", "embedding, not negative")
_TOLERANCE = {np.float32: (2e-4, 2e-5), np.float64: (1e-9, 1e-10)}
_COUNTS = (0, 1, 7, 128, 1000)


def _model(made: Swept) -> Any:
    return compiled(made.circuit, dtype=getattr(torch, np.dtype(made.dtype).name))


def _assert_close(found: Array, expected: Array, dtype: Any, where: Any = ...) -> None:
    atol, rtol = _TOLERANCE[dtype]
    np.testing.assert_allclose(np.asarray(found, float)[where], expected[where], rtol=rtol, atol=atol)


def _check_answers(made: Swept, x: Array, best: Sequence[Array], drawn: Sequence[Array]) -> None:
    """Completions, and what is drawn: what is known stays, and values are those that were told."""
    scores, most = made.scores(x)[:, 0, 0], made.best(x)
    whole = ~made.is_half(x)  # layers over several variables of which some are missing have no completion
    _assert_close(best[1], most, made.dtype, whole)
    _assert_close(drawn[1], scores, made.dtype, whole)
    for rows, value in ((best[0], most), (drawn[0], scores)):
        possible = whole & np.isfinite(value)
        completed, known = rows[possible].astype(made.dtype), ~np.isnan(x[possible])
        assert not np.isnan(completed).any()
        np.testing.assert_array_equal(completed[known], x[possible][known])
        if rows is best[0]:
            _assert_close(made.best(completed), most[possible], made.dtype)
        else:
            assert (made.scores(completed)[:, 0, 0] > -np.inf).all()


def _interpreted(entry_programs: dict[str, EntryProgram], name: str, x: Array) -> Array:
    """Scores by the Programs of a file; the fallback computes rows whose bound fails."""
    fallback = entry_programs[name].fallback
    scores, *bounds = entry_programs[name].body(x)
    if fallback is not None and len(x):
        holds = np.broadcast_to(bounds[0].reshape(-1), (len(x),))
        scores = np.where(holds[:, None, None], scores, entry_programs[fallback.entry].body(x)[0])
    return scores


def _uniforms(program: ProgramWithConstants, count: int, seed: int) -> Array:
    type_ = program.program.arguments[-1].type
    shape = [dim if isinstance(dim, int) else count for dim in type_.shape]
    return np.random.default_rng(seed).random(shape).astype(type_.dtype.numpy)


def _check_programs(seed: int, dtype: Any, outputs: int, wild: float) -> None:
    made = swept_circuit(np.random.default_rng([seed, outputs]), dtype, outputs=outputs, wild=wild)
    model = _model(made)
    wanted = ["marginal", "mpe", "conditional-sample"] if outputs == 1 else ["marginal"]
    entry_programs = {
        entry_program.name: entry_program for entry_program in _with_joined_trees(entry_programs_of(model, wanted))
    }
    for count, missing, wrong in ((0, 0.0, 0.0), (1, 0.3, 0.0), (40, 0.4, 0.1)):
        x = made.rows(count, missing, wrong)
        expected = made.scores(x)
        _assert_close(_interpreted(entry_programs, "marginal", x), expected, dtype)
        legal = ~made.is_wrong(x)
        with torch.no_grad():
            _assert_close(model(torch.from_numpy(x[legal])), expected[legal], dtype)
        if outputs == 1:
            choose, draw = entry_programs["mpe"].body, entry_programs["conditional_sample"].body
            best, drawn = choose(x), draw(x, _uniforms(draw, count, seed))
            _check_answers(made, x, best, drawn)


@pytest.mark.parametrize("seed", [1])
def test_a_programs_answers(seed: int) -> None:
    """A small one; the interpreter runs what a file would hold."""
    _check_programs(seed, np.float64, 1, 0.0)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("outputs", "dtype"), [(1, np.float32), (3, np.float64)])
@pytest.mark.parametrize("first", range(0, 10, 5))
def test_programs(first: int, outputs: int, dtype: Any) -> None:
    for seed in range(first, first + 5):
        _check_programs(seed, dtype, outputs, 0.0)


@pytest.mark.full
@pytest.mark.parametrize("at", range(0, len(FAMILIES), 4))
def test_files_of_every_family(at: int, tmp_path: Path) -> None:
    """All queries of one file, however many rows."""
    families, dtype = tuple(FAMILIES)[at : at + 4], (np.float32, np.float64)[at // 4 % 2]
    made = swept_circuit(np.random.default_rng(len(families[0])), dtype, families, joint=families[0] == "gaussian")
    path = tmp_path / "swept.plicab"
    plica.native.compile(_model(made), path, queries=("marginal", "mpe", "conditional-sample"))
    with plica.native.load(path) as module:
        for count in _COUNTS:
            x = made.rows(count, 0.3, 0.02)
            _assert_close(module.marginal(x), made.scores(x), dtype)
            _check_answers(made, x, module.mpe(x), module.conditional_sample(x, seed=3))


def _is_same_in_a_child(module: Any, x: Array, expected: Array) -> bool:
    """What a process that forks while threads ask gets in its child."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    code = 1
    try:
        code = 0 if np.allclose(module.marginal(x), expected, rtol=1e-4, atol=1e-4, equal_nan=True) else 1
    finally:
        os._exit(code)


def _check_updates(seed: int, path: Path) -> None:
    """A file with new weights, asked by threads and a child, gives what the torch backend gives with these."""
    rng = np.random.default_rng([seed, 9])
    families = [str(rng.choice(_STATES)) for _ in range(rng.integers(1, 7))]
    made = swept_circuit(rng, np.float32 if seed % 2 else np.float64, families, joint=False)
    model = _model(made)
    plica.native.compile(model, path, updatable=True, queries=("marginal", "mpe", "conditional-sample"))
    with plica.native.load(path) as module, ThreadPoolExecutor(3) as threads:
        rows = [made.rows(count, 0.3) for count in (0, 1, 7, 128)]
        for _ in range(3):
            for x in rows:
                with torch.no_grad():
                    expected = model(torch.from_numpy(x)).double().numpy()
                _assert_close(module.marginal(x), expected, made.dtype)
            asked = [threads.submit(module.marginal, rows[-1]) for _ in range(6)]
            assert sys.platform != "linux" or _is_same_in_a_child(module, rows[-1], expected)
            for one in asked:
                _assert_close(one.result(), expected, made.dtype)
            state = model.state_dict()
            new = {
                name: one.numpy() * rng.choice([0.5, 1.25, 0.0], one.shape).astype(made.dtype)
                for name, one in state.items()
                if rng.random() < 0.7
            }
            model.load_state_dict({**state, **{name: torch.from_numpy(one) for name, one in new.items()}})
            module.update(new)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_updates(seed: int, tmp_path: Path) -> None:
    _check_updates(seed, tmp_path / "updated.plicab")
