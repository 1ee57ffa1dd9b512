"""Random Programs of which some arguments are constant, and what folding them gives, run by the interpreter."""

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np

import plica
from plica.constants.fold import Folding
from plica.ir.program import Program
from tests.harness.programs import Array
from tests.harness.random_programs import arguments, programs


@st.composite
def constant_programs(draw: st.DrawFn) -> tuple[Program, tuple[str, ...], tuple[str, ...]]:
    """A Program, and the names of its constants that are known at compile time and at run time."""
    program = draw(programs())
    names = [var.name for var in program.arguments]
    marks = draw(st.lists(st.sampled_from(("varying", "compile", "run")), min_size=len(names), max_size=len(names)))
    compile_time = tuple(name for name, mark in zip(names, marks, strict=True) if mark == "compile")
    return program, compile_time, tuple(name for name, mark in zip(names, marks, strict=True) if mark == "run")


def run_folded(folding: Folding, given: dict[str, Array]) -> tuple[Array, ...]:
    """The results of `entry` at what the foldings make of the constants."""
    made = folding.split
    return _run(made.entry, [made.compiletime_fold, made.runtime_fold], given)


def run_components(folding: Folding, given: dict[str, Array]) -> tuple[Array, ...]:
    """The results of `entry` at what the components make of the constants."""
    return _run(folding.split.entry, folding.components, given)


def _run(entry: Program, foldings: Sequence[Program | None], given: dict[str, Array]) -> tuple[Array, ...]:
    values: dict[str, Any] = dict(given)
    for program in foldings:
        if program is not None:
            results = _results(program, values)
            values.update(zip((one.name for one in program.results), map(np.asarray, results), strict=True))
    return _results(entry, values)


def _results(program: Program, values: dict[str, Any]) -> tuple[Array, ...]:
    arguments = [values[var.name] for var in program.arguments]
    return plica.interpret(program, *arguments, consts=[values[var.name] for var in program.consts])


def named_arguments(program: Program, sizes: dict[str, int]) -> dict[str, Array]:
    """Arguments of a random Program by name."""
    return dict(zip((var.name for var in program.arguments), arguments(program, sizes), strict=True))
