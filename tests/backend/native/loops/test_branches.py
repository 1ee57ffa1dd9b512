"""Branches and loops around operations that allocate memory within them, against numpy in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.rows import linalg
from tests.harness.libraries import compile_library

Array = Any
Function = Callable[[Array], Array]


def _log_sum(x: Array) -> Array:
    top = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - top) @ np.exp(x).T) + top


_OPERATIONS: tuple[tuple[Function, Function], ...] = (
    (lambda x: pnp.einsum("ab,cb,cd->ad", x, x, x), lambda x: x @ x.T @ x),
    (lambda x: pnp.log_matmul_exp([x * 9.0], pnp.exp(x * 9.0)), lambda x: _log_sum(x * 9.0)),
    (lambda x: pnp.sort(x @ x, axis=1), lambda x: np.sort(x @ x, axis=1)),
    (
        lambda x: pnp.linalg.solve(x @ x.T + pnp.eye(x.shape[0]), x),
        lambda x: np.linalg.solve(x @ x.T + np.eye(len(x)), x),
    ),
    (
        lambda x: pnp.concat([x, x @ x], axis=0)[1 : x.shape[0] + 1],
        lambda x: np.concatenate([x, x @ x])[1 : len(x) + 1],
    ),
    (lambda x: x + pnp.einsum("aa->a", x @ x), lambda x: x + np.diag(x @ x)),
)


def _nested(chosen: Array, shape: int, side: int) -> Function:
    """A function of some operations: of plica (`side` 0), or of numpy."""
    first, second, third = (_OPERATIONS[number][side] for number in chosen)
    xp: Any = np if side else pnp

    def branch(condition: Any, then: Callable[[], Array], otherwise: Callable[[], Array]) -> Array:
        if side:
            return then() if condition else otherwise()
        return plica.cond(condition, then, otherwise)

    def twice(body: Function, x: Array) -> Array:
        if side:
            return body(body(x))
        return plica.while_loop(lambda step, _: step < 2, lambda step, x: (step + 1, body(x)), 0, x)[1]

    def function(x: Array) -> Array:
        if shape == 0:
            return twice(lambda y: branch(xp.sum(y) > 0, lambda: xp.tanh(first(y)), lambda: xp.tanh(second(y))), x)
        y = xp.tanh(third(x))
        return branch(
            xp.sum(y) > 0,
            lambda: xp.tanh(first(y)) + branch(xp.sum(x) > 0, lambda: xp.tanh(second(x)), lambda: y),
            lambda: xp.tanh(second(y) + x),
        )

    return function


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 30))])
def test_memory_of_branches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linalg, "PRODUCT_FROM", 20)
    monkeypatch.setattr(linalg, "PACKED_FROM", 30)
    monkeypatch.setattr(linalg, "PACKED_SIDE", 1)
    rng = np.random.default_rng(seed)
    chosen, shape = rng.integers(0, len(_OPERATIONS), 3), seed % 2
    program = plica.trace(_nested(chosen, shape, 0), plica.spec(("n", "n"), "float64"))
    run = (compile_library if seed % 4 < 2 else compile_jit)(program)
    for size in (1, 4, 9, 9, 9):
        x = rng.normal(size=(size, size))
        np.testing.assert_allclose(run(x)[0], _nested(chosen, shape, 1)(x), rtol=1e-6, atol=1e-7)
