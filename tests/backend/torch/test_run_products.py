"""Products of joins become products of runs: which of them, and that they and their derivatives stay the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import plica
import plica.numpy as pnp
from plica.backend.torch import runs as kernels
from plica.backend.torch.emit import load, source
from plica.backend.torch.operations.private import TORCH_OPS
from plica.backend.torch.run_products import MIN_LENGTH, multiply_in_runs
from plica.ir.interpret import interpret_program
from plica.ir.verify import verify_program
from plica.passes.clean import clean

X = plica.spec((32, 3), "float64")


def runs_of(function: Callable[..., Any], *specs: Any) -> list[Any]:
    program = multiply_in_runs(clean(plica.trace(function, *specs)))
    verify_program(program, TORCH_OPS)
    return [one.params["runs"] for one in program.equations if one.op.name == "multiply_runs"]


def twice_read(x: Any) -> tuple[Any, Any]:
    join = pnp.concat([x[16:], x[:16]])
    return join * pnp.concat([x[8:], x[:8]]), pnp.exp(join)


def parts_joined(x: Any, y: Any) -> Any:
    """Both halves of one product and two parts of another."""
    other = y[:24] * y[8:]
    return pnp.concat([other[:8], x[16:], x[:16], other[8:]])


CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "two joins": (
        lambda x: pnp.concat([x[16:], x[:16]]) * pnp.concat([x[8:24], x[:16]]),
        [((0, 16, 0, 8, 16), (0, 0, 0, 0, 16))],
    ),
    "ends in other places": (
        lambda x: pnp.concat([x[24:], x[:24]]) * pnp.concat([x[8:24], x[:16]]),
        [((0, 24, 0, 8, 8), (0, 0, 0, 16, 8), (0, 8, 0, 0, 16))],
    ),
    "one join": (lambda x: x * pnp.concat([x[16:], x[:16]]), [((0, 0, 0, 16, 16), (0, 16, 0, 0, 16))]),
    "runs that go on": (lambda x: x * pnp.concat([x[:8], x[8:]]), [((0, 0, 0, 0, 32),)]),
    "what is computed": (
        lambda x: pnp.concat([pnp.exp(x[:8]), x[8:]]) * x,
        [((0, 0, 1, 0, 8), (1, 8, 1, 8, 24))],
    ),
    "little of an array": (
        lambda x: pnp.concat([x[:8], pnp.exp(x[8:16])]) * pnp.exp(x[16:]),
        [((0, 0, 2, 0, 8), (1, 0, 2, 8, 8))],
    ),
    "no join": (lambda x: x[:16] * x[16:], []),
    "short runs": (lambda x: pnp.concat([x[3:6], x[:3]]) * x[:6], []),
    "one join is read twice": (twice_read, [((0, 0, 1, 8, 24), (0, 24, 1, 0, 8))]),
    "a square of a join": (lambda x: (lambda y: y * y)(pnp.concat([x[16:], x[:16]])), []),
    "a join that is a result": (lambda x: (lambda y: (y, y * x))(pnp.concat([x[16:], x[:16]])), []),
    "another axis": (lambda x: pnp.concat([x[:, 1:], x[:, :1]], axis=1) * x, []),
    "a broadcast": (lambda x: pnp.concat([x[16:], x[:16]]) * x[:, :1], []),
    "a sum": (lambda x: pnp.concat([x[16:], x[:16]]) + x, []),
    "integers": (lambda x: (lambda y: pnp.concat([y[16:], y[:16]]) * y)(pnp.astype(x, "int64")), []),
    "steps": (lambda x: pnp.concat([x[::2], x[1::2]]) * x, [((0, 0, 2, 0, 16), (1, 0, 2, 16, 16))]),
    "a join of products": (
        lambda x: pnp.concat([x[16:] * x[:16], x[:16] * x[8:24]]),
        [((0, 16, 0, 0, 16), (0, 0, 0, 8, 16))],
    ),
    "a join of parts of products": (
        lambda x: parts_joined(x * pnp.exp(x), pnp.exp(x)),
        [((0, 0, 0, 8, 8), (1, 16, 0, 16, 16), (1, 0, 0, 0, 16), (0, 8, 0, 16, 16))],
    ),
    "parts of a product that others read": (lambda x: (lambda y: (y[16:], pnp.concat([y[:16], x[:16]])))(x * x), []),
    "a part of a product beside others": (
        lambda x: (lambda y: (pnp.concat([y[16:], y[16:] * 2.0]), pnp.exp(y[:16])))(x * pnp.exp(x)),
        [],
    ),
    "nothing": (lambda x: pnp.concat([x[:0], x[:0]]) * x[:0], []),
}


@pytest.mark.parametrize("name", CASES)
def test_which_products_are_of_runs(name: str) -> None:
    function, expected = CASES[name]
    assert runs_of(function, X) == expected


@pytest.mark.parametrize("name", CASES)
def test_values_stay(name: str) -> None:
    program = clean(plica.trace(CASES[name][0], X))
    x = np.random.default_rng(0).normal(size=(32, 3))
    for one, other in zip(
        interpret_program(program, TORCH_OPS, [x]),
        interpret_program(multiply_in_runs(program), TORCH_OPS, [x]),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_joins_of_sizes_that_are_not_known_stay() -> None:
    many = plica.spec(("n", 3))
    assert runs_of(lambda x, y: pnp.concat([x, y[:16]]) * pnp.concat([y[:16], x]), many, plica.spec((32, 3))) == []


@st.composite
def joins(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Runs of two arrays: which, from where, how many."""
    return [
        (draw(st.integers(0, 1)), draw(st.integers(0, 8)), draw(st.integers(MIN_LENGTH, 2 * MIN_LENGTH)))
        for _ in range(draw(st.integers(1, 4)))
    ]


@settings(max_examples=20)
@given(left=joins(), right=joins(), small=st.booleans(), transposed=st.booleans())
def test_products_of_any_joins_and_their_derivatives(
    left: list[tuple[int, int, int]], right: list[tuple[int, int, int]], small: bool, transposed: bool
) -> None:
    total = min(sum(length for *_, length in side) for side in (left, right))

    def joined(side: list[tuple[int, int, int]], arrays: tuple[Any, Any]) -> Any:
        parts, missing = [], total
        for array, start, length in side:
            parts.append(arrays[array][start : start + min(length, missing)])
            missing -= min(length, missing)
        return pnp.concat([*parts[:-1], parts[-1][:1], parts[-1][1:]])  # at least two

    def function(x: Any, y: Any) -> Any:
        return joined(left, (x, y)) * joined(right, (x, y))

    program = clean(plica.trace(function, X, X))
    changed = multiply_in_runs(program)
    verify_program(changed, TORCH_OPS)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(32, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    if transposed:
        x, y = (one.T.contiguous().T for one in (x, y))
    (expected,), (found,) = (interpret_program(one, TORCH_OPS, [x.numpy(), y.numpy()]) for one in (program, changed))
    np.testing.assert_array_equal(found, expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_SMALL", 10**6 if small else 0)
        run = load(source(program), "forward")
        np.testing.assert_array_equal(run(None, x, y).numpy(), expected)
        for one in (x, y):
            one.requires_grad_()
        plain = function_of_torch(left, right, total)
        weights = torch.rand(expected.shape, generator=generator, dtype=torch.float64)
        gradients = torch.autograd.grad((run(None, x, y) * weights).sum(), (x, y), materialize_grads=True)
        wanted = torch.autograd.grad((plain(x, y) * weights).sum(), (x, y), materialize_grads=True)
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one, other)


def function_of_torch(left: list[Any], right: list[Any], total: int) -> Callable[..., torch.Tensor]:
    def joined(side: list[Any], arrays: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return torch.cat([arrays[array][start : start + length] for array, start, length in side])[:total]

    return lambda x, y: joined(left, (x, y)) * joined(right, (x, y))
