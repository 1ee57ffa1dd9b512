"""Slices of one array become one split: which of them, what it computes, and what its derivative makes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import plica
import plica.numpy as pnp
from plica.frontend.programs import verify
from plica.ir.program import Program
from plica.passes.splits import split_slices

N = plica.spec(("n", 3), "float64")


def parts(function: Callable[..., Any], *specs: Any) -> list[tuple[int, tuple[int, ...]]]:
    program = split_slices(plica.trace(lambda *args: tuple(one * 2 for one in function(*args)), *specs))
    verify(program)
    return [(one.params["axis"], one.params["sizes"]) for one in program.equations if one.op.name == "split"]


def slices(program: Program) -> int:
    return sum(one.op.name == "slice" for one in program.equations)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (x[:2], x[2:]), [(0, (2, 4))]),
        (lambda x: (x[4:5], x[1:3]), [(0, (1, 2, 1, 1, 1))]),
        (lambda x: (x[:, :1], x[:, 2:], x[:3], x[3:]), [(1, (1, 1, 1)), (0, (3, 3))]),
        (lambda x: (x[:3], x[2:4], x[4:]), [(0, (3, 1, 2))]),
        (lambda x: (x[:4], x[1:]), []),
        (lambda x: (x[::2], x[1::2]), []),
        (lambda x: (x[:2],), []),
    ],
    ids=["halves", "gaps", "two axes", "one overlaps", "all overlap", "steps", "one alone"],
)
def test_slices_that_do_not_overlap_are_split(function: Callable[..., Any], expected: list[Any]) -> None:
    assert parts(function, plica.spec((6, 3))) == expected


def test_sizes_that_are_not_known_stay_slices() -> None:
    assert parts(lambda x: (x[:1], x[1:]), N) == []
    assert parts(lambda x: (x[:, :1], x[:, 1:]), N) == [(1, (1, 2))]


def test_a_slice_that_overlaps_stays_beside_the_split() -> None:
    program = split_slices(plica.trace(lambda x: x[:3] * pnp.sum(x[2:4]) * x[3:], plica.spec((6, 3))))
    assert slices(program) == 1


RETURNED: dict[str, Callable[[Any], Any]] = {
    "parts": lambda x: (x[:2], x[2:]),
    "views of parts": lambda x: (x[:2].T, pnp.reshape(x[2:], (-1,))),
    "from a branch": lambda x: (plica.cond(pnp.sum(x) > 0, lambda: x[:2], lambda: x[:2] * 2), x[2:]),
    "beside other parts": lambda x: (x[:2], x[2:4] * x[4:]),
}


@pytest.mark.parametrize("name", RETURNED)
@pytest.mark.parametrize("own", [True, False])
def test_who_gets_a_part_may_write_to_it(name: str, own: bool) -> None:
    compiled = plica.jit(lambda x: RETURNED[name](pnp.exp(x) if own else x))
    start = torch.ones(6, 3, requires_grad=True)
    for result in compiled(start * 1):
        result.mul_(2.0)
    assert compiled(start)[0].requires_grad


def test_bodies_of_loops_are_split_too() -> None:
    def swap(x: Any) -> Any:
        return plica.for_loop(0, 3)(lambda _, y: pnp.concat([y[4:], y[:4]]))(x)

    x = np.arange(6.0)
    compiled = plica.jit(swap)
    np.testing.assert_array_equal(compiled(x), swap(x))
    assert ".split_with_sizes((4, 2), 0)" in compiled.code


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6), st.data())
def test_values_and_gradients_stay(size: int, bounds: list[tuple[int, int]], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, 1))

    def function(x: Any) -> Any:
        cut = [x[a:b] if axis == 0 else x[:, a:b] for a, b in bounds]
        return sum(place * pnp.sum(one * one) for place, one in enumerate(cut, 1))

    x = torch.randn((size, 2) if axis == 0 else (2, size), dtype=torch.float64, requires_grad=True)
    found, expected = plica.jit(function)(x), function(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(one, x)[0] for one in (found, expected)))


class Filled(TorchDispatchMode):
    """Counts numbers of arrays of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.slice_backward.default, torch.ops.aten.zeros.default):
            self.numbers += result.numel()
        return result


def test_the_derivative_fills_no_array_for_each_slice() -> None:
    def function(x: Any) -> Any:
        return sum(pnp.sum(x[k : k + 1]) * k for k in range(1, 100))

    x = torch.ones(100, requires_grad=True)
    with Filled() as filled:
        plica.jit(function)(x).backward()
    assert filled.numbers <= 200
    assert x.grad is not None
    assert torch.equal(x.grad, torch.arange(100.0))
