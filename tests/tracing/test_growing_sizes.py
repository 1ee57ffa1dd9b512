"""Sizes that grow with each step of a function: the work of tracing grows no faster than the number of steps."""

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import plica
import plica.numpy as pnp
from plica.backend.torch.emit import source
from plica.frontend.programs import parse, trace, verify
from plica.ir.program import Program
from plica.ir.sizes import polynomials as sizes
from plica.ir.types import spec
from plica.passes.clean import clean
from tests.harness.functions import checked, ramp

Step = Callable[[Any], Any]

STEPS: dict[str, Step] = {
    "slice": lambda x: x[1:],
    "concat": lambda x: pnp.concat([x, x[1:]]),
    "both ends": lambda x: pnp.concat([x[:3], x[2:]]),
    "reshape": lambda x: pnp.concat([pnp.reshape(pnp.stack([x, x]), -1)[2:], x])[:5],
    "every second": lambda x: pnp.concat([x[::2], pnp.flip(x)[:-5], x[-1:]]),
}


def repeated(step: Step, count: int) -> Step:
    """The function that does `step` so many times."""

    def function(x: Any) -> Any:
        for _ in range(count):
            x = step(x)
        return x

    return function


def traced(step: Step, count: int) -> Program:
    return trace(repeated(step, count), spec("n"))


@pytest.mark.parametrize("name", STEPS)
def test_values(name: str) -> None:
    checked(repeated(STEPS[name], 5), [spec("n")], *((ramp(size),) for size in (0, 1, 2, 5)))


def test_values_of_many_steps() -> None:
    checked(repeated(STEPS["slice"], 30), [spec("n")], (ramp(2),), (ramp(31),))


@pytest.mark.parametrize("name", ["slice", "concat"])
def test_the_work_is_linear(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted are the terms of all sizes that are made, and the letters that are written."""
    made = 0
    consed = sizes._consed

    def counted(terms: Any) -> sizes.Size:
        nonlocal made
        made += len(terms)
        return consed(terms)

    monkeypatch.setattr(sizes, "_consed", counted)
    work: list[tuple[int, int, int, int, int]] = []
    for count in (30, 60):
        made = 0
        program = traced(STEPS[name], count)
        tracing, made = made, 0
        verify(program)
        verifying, made = made, 0
        code = source(clean(program))
        work.append((tracing, verifying, made, len(str(program)), len(code)))
    for once, twice in zip(*work, strict=True):
        assert twice < 2.3 * once


@pytest.mark.full
@pytest.mark.parametrize("name", ["slice", "concat"])
def test_a_thousand_steps(name: str) -> None:
    program = traced(STEPS[name], 1000)
    assert parse(str(program)) == program
    checked(repeated(STEPS[name], 1000), [spec("n")], (ramp(1),), (ramp(0),))  # longer arrays grow exponentially


@pytest.mark.full
def test_a_thousand_slices_in_a_loop() -> None:
    def function(x: Any, times: Any) -> Any:
        @plica.for_loop(0, times, preserve_dimensions=False)
        def shorter(_i: Any, y: Any) -> Any:
            return repeated(STEPS["concat"], 1000)(y)[:4]

        return shorter(x)

    checked(function, [spec("n"), int], (ramp(1), 2), (ramp(0), 1))  # longer arrays grow exponentially


def test_numbers_that_grow() -> None:
    def function(n: Any) -> Any:
        m = n
        for _ in range(60):
            m = (m + m // 2) % 1000 + 1
        return pnp.ones([m % 7]), m

    assert len(str(checked(function, [int], (3,), (10,)))) < 20_000


def test_loops_carry_sizes_that_are_variables() -> None:
    grow = repeated(STEPS["both ends"], 4)  # 3 make the first variable

    def function(x: Any, times: Any) -> Any:
        y = grow(x)

        @plica.for_loop(0, times)
        def total(_i: Any, z: Any) -> Any:
            return z + pnp.sum(grow(z)) + pnp.sum(x) + y

        @plica.for_loop(0, times, preserve_dimensions=False)
        def other(_i: Any, z: Any) -> Any:
            return grow(z)[:4]

        @plica.cond(times > 1)
        def last() -> Any:
            return grow(y)[:2]

        @last.otherwise
        def last() -> Any:
            return y[:2]

        return total(y), other(y), last()

    checked(function, [spec("n"), int], (ramp(4), 2), (ramp(1), 0), (ramp(7), 1))


@pytest.mark.parametrize("name", STEPS)
def test_values_where_nearly_every_size_is_a_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MOST_WEIGHT", 6)
    step = STEPS[name]

    def function(x: Any, times: Any) -> Any:
        y = step(step(x))
        shifted = pnp.at(y)[1:].set(pnp.flip(y)[1:])

        @plica.for_loop(0, times, preserve_dimensions=False)
        def grown(_i: Any, z: Any) -> Any:
            return pnp.at(step(z) + pnp.sum(y))[: x.shape[0] // 2].multiply(2.0)[:6]

        @plica.cond(times > 1)
        def chosen() -> Any:
            return step(y)

        @chosen.otherwise
        def chosen() -> Any:
            return y + shifted

        return shifted, pnp.sum(grown(pnp.concat([x, x]))), chosen()

    checked(function, [spec("n"), int], (ramp(6), 1), (ramp(7), 2))


def test_sizes_of_one_meaning_stay_equal() -> None:
    grow = repeated(STEPS["concat"], 12)
    program = checked(lambda x, y: grow(x) + grow(y), [spec("n"), spec("n")], (ramp(3), ramp(3)), (ramp(0), ramp(0)))
    checks = str(program).count("assert_shape")
    assert checks == str(trace(lambda x: pnp.sum(grow(x)), spec("n"))).count("assert_shape") * 2, "no more for the sum"


def test_programs_of_many_steps_are_copied() -> None:
    program = traced(STEPS["concat"], 20)
    for other in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program), copy.copy(program)):
        assert other == program
        assert hash(other) == hash(program)
        assert str(other) == str(program)
        verify(other)


def test_sizes_are_forgotten_with_their_programs() -> None:
    gc.collect()
    before = len(sizes._SIZES)
    program = traced(STEPS["concat"], 30)
    assert len(sizes._SIZES) > before + 30
    del program
    gc.collect()
    assert len(sizes._SIZES) <= before
