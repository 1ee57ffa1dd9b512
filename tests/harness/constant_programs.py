"""Random Programs of which some arguments are constant, and what folding them gives, run by the interpreter."""

from typing import Any

import hypothesis.strategies as st
import numpy as np

import plica
from plica.ir.program import Program
from plica.passes.constants.fold import Folding
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
    values: dict[str, Any] = dict(given)
    made = folding.split
    for program in (made.compiletime_fold, made.runtime_fold):
        if program is not None:
            results = plica.interpret(
                program,
                *(values[var.name] for var in program.arguments),
                consts=[values[var.name] for var in program.consts],
            )
            values.update(zip((one.name for one in program.results), map(np.asarray, results), strict=True))
    entry = made.entry
    return plica.interpret(
        entry, *(values[var.name] for var in entry.arguments), consts=[values[var.name] for var in entry.consts]
    )


def named_arguments(program: Program, sizes: dict[str, int]) -> dict[str, Array]:
    """Arguments of a random Program by name."""
    return dict(zip((var.name for var in program.arguments), arguments(program, sizes), strict=True))
