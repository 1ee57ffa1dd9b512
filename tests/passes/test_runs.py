"""Runs of arrays: which equations show or join them, and runs that go on."""

import itertools
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.passes.runs import is_along_first, merged, start_of

CASES: dict[str, tuple[Any, int | None]] = {
    "slice": (lambda x: x[2:6], 2),
    "slice in steps": (lambda x: x[::2], None),
    "slice along another axis": (lambda x: x[:, 1:], None),
    "part of a split": ("a:f32[3,3] y:f32[5,3] = split[axis=0 sizes=(3,5)] x", 3),
    "split along another axis": ("a:f32[8,1] y:f32[8,2] = split[axis=1 sizes=(1,2)] x", None),
    "join": (lambda x: pnp.concat([x, x]), None),
    "no view": (pnp.exp, None),
}


@pytest.mark.parametrize("name", CASES)
def test_where_a_view_begins(name: str) -> None:
    made, expected = CASES[name]
    text = f"{{ lambda ; x:f32[8,3] . let {made} in (y,) }}"
    program = plica.parse(text) if isinstance(made, str) else plica.trace(made, plica.spec((8, 3)))
    (result,) = program.results
    equation = next(one for one in program.equations if result in one.outputs)
    assert start_of(equation, equation.outputs[-1]) == expected
    assert is_along_first(equation, "concat") is (name == "join")


def test_views_of_unknown_sizes_begin_nowhere() -> None:
    program = plica.trace(lambda x: x[2:], plica.spec(("n", 3)))
    (result,) = program.equations[-1].outputs
    assert start_of(program.equations[-1], result) is None
    assert start_of(None, result) is None


def test_merged_runs_are_the_same_entries() -> None:
    random = np.random.default_rng(0)

    def entries(runs):
        return [(a, at + k, b, to + k) for a, at, b, to, length in runs for k in range(length)]

    for _ in range(100):
        runs = [tuple(map(int, random.integers(0, 3, 5))) for _ in range(6)]
        found = merged(runs)
        assert entries(found) == entries(runs)
        for (a, at, b, to, length), after in itertools.pairwise(found):
            assert after[:4] != (a, at + length, b, to + length)
