"""Random well-typed Programs: they verify, their text is read back, and torch computes what the interpreter does."""

import copy
from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings

from plica.frontend.programs import interpret, parse, verify
from plica.ir.program import Program, Var
from plica.ir.sizes import evaluate
from tests.harness.programs import assert_same, run_torch, to_torch
from tests.harness.random_programs import SIZES, arguments, programs


def _agrees_at(program: Program, sizes: Mapping[str, int]) -> None:
    arrays = arguments(program, sizes)
    expected = interpret(program, *arrays)
    found = run_torch(program, *map(to_torch, arrays))
    wide = interpret(program, *arrays, precise=True)
    for one, other, precise, operand in zip(expected, found, wide, program.results, strict=True):
        # a dozen operations on a few hundred numbers: rounding errors add up and cancel
        assert_same(other, one, 1e3)
        np.testing.assert_allclose(one, precise, rtol=1e-3, atol=1e-3)
        assert one.shape == tuple(evaluate(dim, lambda atom: sizes[cast(Var, atom).name]) for dim in operand.type.shape)


def _agrees(program: Program) -> None:
    for sizes in SIZES:
        _agrees_at(program, sizes)


@given(programs())
def test_torch_is_the_interpreter(program: Program) -> None:
    _agrees(program)


@pytest.mark.full
@settings(max_examples=2000)
@given(programs())
def test_torch_is_the_interpreter_on_many(program: Program) -> None:
    _agrees(program)


@given(programs())
def test_they_verify_and_their_text_is_read_back(program: Program) -> None:
    verify(program)
    again = parse(str(program))
    assert again == program
    assert hash(again) == hash(program)
    assert str(again) == str(program)
    assert copy.deepcopy(program) == program


def test_the_generator_reaches_every_kind_of_step() -> None:
    seen: set[str] = set()

    @settings(max_examples=200)
    @given(programs())
    def collect(program: Program) -> None:
        seen.update(equation.op.name for equation in program.equations)

    collect()
    wanted = (
        "tanh add maximum where less sum logsumexp softmax reshape permute_dims flip expand_dims broadcast_to squeeze"
    )
    wanted += " astype stack concat slice einsum matmul arange full cumulative_sum bitwise_xor"
    assert set(wanted.split()) <= seen
