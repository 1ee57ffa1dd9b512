"""Which results may be written over an operand, and that the generated code gives the same."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.backend.torch.emit import emit, source
from plica.ir.types import spec
from plica.passes.clean import clean
from plica.passes.reuse import overwritten
from plica.tracing.trace import trace
from tests.harness.work import count_calls

PLACES = {"multiply": (0, 1), "divide": (0,), "maximum": (0,), "rescale": (0,)}
LEAVES = SimpleNamespace(device=torch.device("cpu"))


def broadcast(x):
    return pnp.broadcast_to(x[:1] + 1, (4, 3)) * x


def overlapping(x):
    y = x + 1
    return (y[:3] * 2.0) * y[1:]


# name: (function of an array (4, 3), places that are written over)
CASES = {
    "made here": (lambda x: (x + 1) * x, [0]),
    "the second operand": (lambda x: x * (x + 1), [1]),
    "an argument": (lambda x: x * 2.0, []),
    "a view of an argument": (lambda x: x[:2] * x[2:], []),
    "read later": (lambda x: (lambda y: (y * 2.0) + y)(x + 1), []),
    "a result too": (lambda x: (lambda y: (y, y * 2.0))(x + 1), []),
    "a quotient": (lambda x: (x + 1) / x, [0]),
    "a divisor": (lambda x: x / (x + 1), []),
    "a maximum": (lambda x: pnp.maximum(x + 1, 3.0), [0]),
    "a maximum of arrays": (lambda x: pnp.maximum(x + 1, x * x), [0]),
    "twice the same": (lambda x: (lambda y: y * y)(x + 1), [0]),
    "its view is read later": (lambda x: (lambda y: (y * 2.0, y[:2]))(x + 1), []),
    "a part of a split": (lambda x: (lambda y: y[:2] * y[2:])(x + 1), [0]),
    "the other part is read later": (lambda x: (lambda y: (y[:2] * 2.0, pnp.sin(y[2:])))(x + 1), [0]),
    "the whole is read later": (lambda x: (lambda y: (y[:2] * y[2:], y))(x + 1), []),
    "one over the other": (lambda x: (lambda y: (y[:2] * 2.0) * 3.0)(x + 1), [0]),
    "parts that overlap": (overlapping, [0]),
    "reshaped": (lambda x: (lambda y: y * x[:2].reshape((6,)))((x[:2] + 1).reshape((6,))), [0]),
    "parts of what is reshaped": (lambda x: (lambda y: y[:3] * y[3:])((x + 1).reshape((6, 2))), [0]),
    "read later in its first shape": (lambda x: (lambda y: (y.reshape((12,)) * 2.0, y))(x + 1), []),
    "read later in another shape": (lambda x: (lambda y: (y * 2.0, y.reshape((12,))))(x + 1), []),
    "a reshaped copy": (lambda x: (lambda y: (y.T.reshape((12,)) * 2.0, y))(x + 1), []),
    "a reshaped argument": (lambda x: x.reshape((12,)) * 2.0, []),
    "integers": (lambda x: (lambda y: (y + 1) * y)(pnp.astype(x, "int64")), []),
    "a broadcast": (broadcast, []),
    "another type": (lambda x: (x[:1] + 1) * x, []),
}


@pytest.mark.parametrize("name", CASES)
def test_which_results_are_written_over_operands(name: str) -> None:
    function, places = CASES[name]
    program = clean(trace(function, spec((4, 3), "float32")))
    assert list(overwritten(program, PLACES).values()) == places
    x = np.arange(1, 13, dtype="float32").reshape(4, 3)
    given = torch.from_numpy(x.copy())
    expected = emit(program)(LEAVES, given)
    found = emit(program, reuses=True)(LEAVES, given)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    np.testing.assert_array_equal(given, x)
    assert ("in_place" in source(program, reuses=True)) == bool(places)


def test_nothing_is_written_over_where_gradients_are_asked_for() -> None:
    program = clean(trace(lambda x: pnp.exp(x) * x * x, spec((3,), "float32")))
    run = emit(program, reuses=True)
    x = torch.ones(3, requires_grad=True)
    run(LEAVES, x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 3 * torch.e))


def test_loops_and_updates_write_over_nothing_here() -> None:
    program = trace(lambda x: ((x + 1) * x).at[0].set(1.0), spec((3,), "float32"))
    assert overwritten(program, PLACES) == {}


def test_the_work_is_linear_in_the_parts_of_a_split() -> None:
    """Such are the units of all steps of a chain: computed at once, and read one after the other."""

    def work(steps: int) -> int:
        def chain(x):
            y, result = x + 1, pnp.ones((1, 3))
            for step in range(steps):
                result = result * y[step : step + 1]
            return result

        program = clean(trace(chain, spec((steps, 3), "float32")))
        assert sum(one.op.name == "split" for one in program.equations) == 1
        found = []
        calls = count_calls(lambda: found.append(overwritten(program, PLACES)))
        assert len(found[0]) > steps // 2
        return calls

    assert work(80) < 2.5 * work(40)
