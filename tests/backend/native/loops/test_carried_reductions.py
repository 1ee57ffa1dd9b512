"""Loops that carry what they reduce: random bodies, beside the same text over numpy."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp

SHAPES = ((1, 1), (5, 3), (17, 9), (2, 33), (0, 4))
ROUNDING = 1e-12
STEPS = (
    "softmax({c}, axis={a})",
    "log_softmax({c}, axis={a})",
    "xp.tanh({c} - logsumexp({d}, axis={a}, keepdims=True))",
    "xp.tanh(cumulative_sum({c}, axis={a}))",
    "{c} - xp.mean({d}, axis={a}, keepdims=True)",
    "xp.tanh({c} + xp.sum({d}, axis={a}, keepdims=True))",
    "xp.tanh({c} * xp.prod(xp.minimum({d}, 1.0), axis={a}, keepdims=True))",
    "xp.where(xp.any({d} > 0, axis={a}, keepdims=True), {c}, {d})",
    "xp.where({c} == xp.max({c}, axis=1, keepdims=True), {d}, {c})",
    "xp.flip({c}, axis={a})",
    "xp.tanh(xp.einsum('ij,kj->ik', {c}, {d}) @ {c})",
    "{c} @ xp.tanh(xp.einsum('ki,kj->ij', {c}, {d}))",
)


def _shifted(x: Any, axis: int) -> Any:
    return x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)


def _softmax(x: Any, axis: int) -> Any:
    powers = np.exp(_shifted(x, axis))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _logsumexp(x: Any, axis: int, *, keepdims: bool) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def _for_loop(lower: int, upper: int, step: int, body: Any, *state: Any) -> Any:
    for i in range(lower, upper, step):
        state = body(i, *state)
    return state


OURS = {
    "xp": pnp,
    "for_loop": plica.for_loop,
    **{name: getattr(pnp, name) for name in ("softmax", "log_softmax", "logsumexp", "cumulative_sum")},
}
NUMPYS = {
    "xp": SimpleNamespace(**{name: getattr(np, name) for name in dir(np) if not name.startswith("_")}),
    "for_loop": _for_loop,
    "softmax": _softmax,
    "log_softmax": lambda x, axis: _shifted(x, axis) - _logsumexp(_shifted(x, axis), axis, keepdims=True),
    "logsumexp": _logsumexp,
    "cumulative_sum": np.cumsum,
}


def _function(seed: int) -> str:
    generator = np.random.default_rng(seed)
    lines = []
    for _ in range(generator.integers(1, 4)):
        first, second, changed = generator.choice(["c", "d"], 3)
        step = str(generator.choice(STEPS)).format(c=first, d=second, a=generator.integers(2))
        lines.append(f"        {changed} = {step}")
    results = str(generator.choice(["c, d", "d, c"]))
    body = "\n".join(["    def body(i, c, d):", *lines, f"        return {results}"])
    return f"def function(x, y):\n{body}\n    return for_loop(0, {generator.integers(1, 4)}, 1, body, x, y)\n"


def _check(seed: int, backend: str) -> None:
    text = _function(seed)
    ours: dict[str, Any] = {**OURS}
    numpys: dict[str, Any] = {**NUMPYS}
    exec(text, ours)
    exec(text, numpys)
    run = plica.jit(ours["function"], backend=backend, abstracted_axes=({0: "n", 1: "m"}, {0: "n", 1: "m"}))
    for shape in SHAPES:
        x, y = np.random.default_rng(seed).normal(size=(2, *shape))
        before = x.copy(), y.copy()
        with np.errstate(all="ignore"):
            expected = numpys["function"](x, y)
        for found, wanted in zip(run(x, y), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=ROUNDING, atol=ROUNDING, err_msg=f"{shape}\n{text}")
        for array, entries in zip((x, y), before, strict=True):
            np.testing.assert_array_equal(array, entries, err_msg=f"an argument changed: {shape}\n{text}")


@pytest.mark.one_in(3)
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("backend", ["native", "torch", "interpreter"])
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(one, marks=pytest.mark.full) for one in range(12, 150))])
def test_loops_that_carry_what_they_reduce(seed: int, backend: str) -> None:
    _check(seed, backend)
