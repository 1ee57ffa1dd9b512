"""scan: a loop along the first axis of arrays that stacks what each step makes."""
# ruff: noqa: ARG005 - bodies are given what they need not use

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import InputError, ShapeError
from plica.frontend.programs import interpret, trace
from plica.ir.types import spec
from tests.harness.functions import Cases, ones, ramp, run_torch

N, NM = spec("n"), spec(("n", "m"))
SOME = ((ramp(3),), (ramp(1),), (ramp(0),))
cases = Cases()


@pytest.mark.parametrize("case", cases)
def test_every_way_gives_the_same(case) -> None:
    case()


@cases.add([NM], (ramp(3, 4),), (ramp(0, 2),), (ramp(2, 0),))
def scan_over_rows(x):
    return plica.scan(lambda c, row: (c + row, c * row), pnp.zeros((x.shape[1],), dtype="float32"), x)


@cases.add([N], *SOME)
def scan_over_trees(x):
    return plica.scan(
        lambda c, row: ({"s": c["s"] + row["a"]}, (c["s"], row["b"])),
        {"s": pnp.zeros((), dtype="float32")},
        {"a": x, "b": x * 2},
        reverse=True,
    )


@cases.add([N, int], (ramp(3), 3), (ramp(0), 0))
def scan_of_a_given_length(x, k):
    return plica.scan(lambda c, row: (c + row, (row, c)), pnp.zeros((), dtype="float32"), x, length=k)


@cases.add([int], (3,), (0,))
def scan_without_rows(k):
    return plica.scan(lambda c, row: (c + 1, c * 2.0), 0, None, length=k)


@cases.add([N], *SOME)
def scan_whose_carry_grows(x):
    def body(c, row):
        return pnp.concat([c, pnp.reshape(row, (1,))]), pnp.sum(c)

    return plica.scan(body, pnp.ones((0,), dtype="float32"), x, preserve_dimensions=False)


@cases.add([NM], (ramp(3, 4),), (ramp(0, 2),))
def scan_that_stacks_the_same_twice(x):
    return plica.scan(lambda c, row: (row, (row, row, 1.5)), pnp.sum(x, axis=0), x)


@cases.add([N], *SOME)
def stacks_of_python_numbers_are_arrays(x):
    return plica.scan(lambda c, row: (c, 1.5), 0, x)[1] * x  # float64


@cases.add([NM], (ramp(3, 4),), (ramp(0, 2),))
def some_stacks_are_not_used(x):
    return plica.scan(lambda c, row: (c + pnp.sum(row), (c, row * 2)), 0.0, x)[1][1]


@cases.add([N], *SOME)
def a_captured_array_meets_rows(x):
    table = pnp.stack([x, x * 2])
    return plica.scan(lambda c, row: (c + row, row * x), x, table)


@cases.add([N, int], (ramp(3), 2), (ramp(1), 0), (ramp(0), 3))
def a_scan_in_a_loop_in_a_scan(x, k):
    def outer(c, row):
        total = plica.for_loop(0, k, 1, lambda i, s: s + plica.scan(lambda a, r: (a + r, a * i), s, x)[0], c)
        return total + row, total

    return plica.scan(outer, pnp.zeros((), dtype="float32"), x)


@cases.add([NM], (ramp(3, 4),), (ramp(0, 2),), (ramp(2, 0),))
def stacks_of_several_axes(x):
    return plica.scan(lambda c, row: (c, (row[:, None] * row, x)), 0, x)[1]


def test_the_text() -> None:
    assert str(trace(lambda x: plica.scan(lambda c, row: (c + row, c), 0, x, reverse=True), N)) == (
        "{ lambda ; {n:i64[]} x:f32[n] . let\n"
        "    a:f32[] b:f32[n] = scan[body={ lambda ; c:f32[] row:f32[] . let\n"
        "          a:f32[] = add c row\n"
        "        in (a, c) } body_nconsts=0 num_carries=1 length=n reverse=True num_implicit_inputs=0 "
        "num_implicit_outputs=0 preserve_dimensions=True] 0.0:f32[] x\n"
        "  in (a, b) }"
    )


def test_gradients_are_those_of_the_loop_written_out() -> None:
    x = torch.tensor([0.5, -1.5, 2.0], requires_grad=True)
    function = plica.jit(lambda x: plica.scan(lambda c, r: (pnp.sin(c * r), c * c), 1.0, x), abstracted_axes={0: "n"})
    last, rows = function(x)
    carry, squares = torch.ones(()), []
    for row in x:
        squares.append(carry * carry)
        carry = torch.sin(carry * row)
    (found,) = torch.autograd.grad(last + (rows * torch.arange(1, 4)).sum(), x)
    (expected,) = torch.autograd.grad(carry + (torch.stack(squares) * torch.arange(1, 4)).sum(), x)
    torch.testing.assert_close(found, expected)


def test_a_length_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"scan has 3 steps, but is given f32\[4\]"):
        trace(lambda x: plica.scan(lambda c, row: (c, row), 0.0, x, length=3), spec((4,)))
    program = trace(lambda x, k: plica.scan(lambda c, row: (c, row), 0.0, x, length=k), N, int)
    with pytest.raises(InputError, match=r"shape \(3,\), but \(2,\) is needed"):
        run_torch(program, ones(3), np.asarray(2))


@pytest.mark.parametrize("used", [0, 1])
def test_a_negative_length_is_refused(used: int) -> None:
    program = trace(lambda k: plica.scan(lambda c, row: (c + 1, c), 0, None, length=k)[used], int)
    for run in (interpret, run_torch):
        with pytest.raises(InputError, match=r"test_scan.py:\d+: the size .*-2 .*is negative; take 0 or more"):
            run(program, np.asarray(-2))
