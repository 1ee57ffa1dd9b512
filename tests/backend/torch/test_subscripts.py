"""Subscripts: parts of arrays are read and written in brackets, with as few comparisons of bounds as are needed."""
# ruff: noqa: ARG005 - bodies are given what they need not use

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import BoundsError

AXES: tuple[dict[int, str], ...] = ({0: "n"}, {0: "n", 1: "m"}, {})


def _loop(body: Callable[..., Any], first: Any = 0, last: Any = None) -> Callable[..., Any]:
    """A loop over the first argument, from `first` to its size or `last`; the body is given the others too."""

    def function(x: Any, y: Any, k: Any) -> Any:
        end = x.shape[0] if last is None else k if last == "k" else last
        return plica.for_loop(first, end, 1, lambda i, a: body(i, a, y, k), x)

    return function


# a function, the lines of its loop that compare, read or write
TEXTS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a slice to the end, in the range of the loop": (
        _loop(lambda i, a, y, k: a.at[i:].set(a[i:] * 2)),
        ["b_1 = b[i:n]", "b[i:n] = c_1"],
    ),
    "one element, in the range of the loop": (
        _loop(lambda i, a, y, k: a.at[i : i + 1].add(1.0)),
        ["b[i:1 + i].add_(1.0)"],
    ),
    "a range that is not known": (
        _loop(lambda i, a, y, k: a.at[i].max(pnp.sum(a[i:])), last="k"),
        ["if not (i <= n):", "b_1 = b[i:n]", "b[i].clamp_min_(c_1)"],
    ),
    "what was compared is not compared again": (
        _loop(lambda i, a, y, k: a.at[i : i + 2].set(a[i : i + 2] + a[i : i + 1]), last="k"),
        ["if not (2 + i <= n):", "b_1 = b[i:2 + i]", "c_1 = b[i:1 + i]", "b[i:2 + i] = d"],
    ),
    "values that may be written over are copied": (
        _loop(lambda i, a, y, k: a.at[1:].set(a[:-1])),
        ["b_1 = b[0:bound_1]", "b[bound_2:n] = b_1.clone()"],
    ),
    "clipped bounds are computed before the loop": (
        _loop(lambda i, a, y, k: a.at[1:-1].set(a[2:] + a[:-2])),
        ["b_1 = b[bound_1:n]", "c_1 = b[0:bound_2]", "b[bound_3:bound_4] = d"],
    ),
    "a cell of a cell": (
        lambda x, y, k: plica.for_loop(1, k, 1, lambda i, a: a.at[i, 1].set(a[i - 1, 0]), y),
        ["d_1 = c[c_1, 0]", "c[i, 1] = d_1"],
    ),
    "a part of a row": (
        lambda x, y, k: plica.for_loop(0, k, 1, lambda i, a: a.at[i].multiply(pnp.sum(y[i, :i])), y * 1.0),
        ["if not (i <= m):", "c = y[i, 0:i]", "b[i].mul_(d)"],
    ),
    "steps": (
        _loop(lambda i, a, y, k: a.at[i::2].min(0.5)),
        ["b[i:n:2].clamp_max_(0.5)"],
    ),
}


def _lines(code: str) -> list[str]:
    """The lines of the first loop that compare, and those with brackets but the calls of kernels."""
    lines = [line.strip() for line in code.partition("for i in ")[2].splitlines()[1:]]
    return [line for line in lines if line.startswith("if not (") or ("[" in line and "kernels" not in line)]


@pytest.mark.parametrize(("function", "expected"), TEXTS.values(), ids=TEXTS)
def test_the_lines_of_a_loop(function: Any, expected: list[str]) -> None:
    run = plica.jit(function, abstracted_axes=AXES)
    x, y = torch.arange(4.0), torch.arange(12.0).reshape(4, 3)
    defined = plica.jit(function, abstracted_axes=AXES, backend="interpreter")(x.numpy(), y.numpy(), 2)
    np.testing.assert_allclose(run(x, y, 2).numpy(), defined)
    assert _lines(run.code) == expected


OUTSIDE: dict[str, tuple[Callable[..., Any], str]] = {
    "read to the end": (_loop(lambda i, a, y, k: a + pnp.sum(a[i:]), last=7), "slice 5:4 does not lie within axis 0"),
    "read from the front": (
        _loop(lambda i, a, y, k: a + pnp.sum(a[:i]), last=7),
        "slice 0:5 does not lie within axis 0",
    ),
    "read before the front": (_loop(lambda i, a, y, k: a + pnp.sum(a[i - 1 : 2])), "slice -1:2 does not lie"),
    "written to the end": (_loop(lambda i, a, y, k: a.at[i:].set(1.0), last=7), "slice 5:4 does not lie within axis 0"),
    "written backwards": (
        _loop(lambda i, a, y, k: a.at[i:k].add(1.0)),
        "slice 3:2 does not lie within axis 0 of size 4",
    ),
    "written in steps of 0": (_loop(lambda i, a, y, k: a.at[: k + 1 : i].set(1.0)), "slice 0:3:0 does not lie"),
    "a part of a row": (
        _loop(lambda i, a, y, k: a + pnp.sum(y[0, :i]), last=7),
        "slice 0:4 does not lie within axis 1",
    ),
    "a part of no row": (_loop(lambda i, a, y, k: a + pnp.sum(y[i, :k]), last=7), "index 4 does not lie within axis 0"),
    "no cell": (_loop(lambda i, a, y, k: a + y[0, i]), "index 3 does not lie within axis 1 of size 3"),
}


@pytest.mark.parametrize(("function", "message"), OUTSIDE.values(), ids=OUTSIDE)
def test_bounds_that_are_not_known_are_compared(function: Any, message: str) -> None:
    """With gradients, where updates are new arrays, and without; and as the interpreter says it."""
    run = plica.jit(function, abstracted_axes=AXES)
    defined = plica.jit(function, abstracted_axes=AXES, backend="interpreter")
    x, y = torch.arange(4.0), torch.arange(12.0).reshape(4, 3)
    for one in (x, x.clone().requires_grad_()):
        with pytest.raises(BoundsError, match=rf"test_subscripts.py:\d+: {message}"):
            run(one, y, 2)
    with pytest.raises(BoundsError, match=message):
        defined(x.numpy(), y.numpy(), 2)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_loop_without_iterations_compares_nothing() -> None:
    run = plica.jit(lambda x, k: plica.for_loop(0, k, 1, lambda i, a: a.at[i + 9 :].set(a[i + 9 :]), x))
    assert run(torch.arange(3.0), 0).tolist() == [0.0, 1.0, 2.0]


def test_a_size_that_a_loop_keeps_is_not_read_again() -> None:
    run = plica.jit(_loop(lambda i, a, y, k: a.at[1:].set(a[:-1])), abstracted_axes=AXES)
    run(torch.arange(4.0), torch.ones(4, 1), 2)
    assert ".shape" not in run.code.partition("for i in ")[2]


def test_a_size_that_a_loop_changes_is_read_in_each_iteration() -> None:
    @plica.jit(abstracted_axes={0: "n"})
    def grown(x: Any, k: Any) -> Any:
        longer = plica.for_loop(
            0, k, 1, lambda i, a: pnp.concat([a[1:], a.at[i:].set(0.5)]), x, preserve_dimensions=False
        )
        return longer, longer[k:]

    values, rest = grown(torch.arange(3.0), 2)
    assert values.tolist() == [2.0, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 0.5]
    assert rest.tolist() == values.tolist()[2:]


def test_names_of_bounds_avoid_those_of_arguments() -> None:
    run = plica.jit(
        lambda bound_1, x: plica.for_loop(0, 2, 1, lambda i, a: a.at[1:-1].add(bound_1), x),
        abstracted_axes=({}, {0: "n"}),
    )
    assert run(torch.tensor(2.0), torch.zeros(4)).tolist() == [0.0, 4.0, 4.0, 0.0]
    assert run(torch.tensor(2.0), torch.zeros(1)).tolist() == [0.0]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "float16", "complex64"])
def test_parts_of_arrays_of_other_dtypes(dtype: str) -> None:
    x = np.asarray([[1, 0, 1], [1, 1, 0]], dtype)

    def function(x: Any) -> Any:
        def body(i: Any, a: Any) -> Any:
            return a.at[i, : i + 1].set(x[1 - i, : i + 1]).at[0].add(x[i])

        return plica.for_loop(0, 2, 1, body, x)

    expected = plica.jit(function, backend="interpreter")(x)
    assert plica.jit(function)(x).tolist() == expected.tolist()
