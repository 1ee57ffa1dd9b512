"""Programs as the functions of one file that holds a shared library, called with numpy arrays."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from plica.backend.native.circuits.with_constants import ProgramWithConstants
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.file import file_of
from plica.backend.native.loops.shared_library import MACHINES, Machine
from plica.backend.native.targets import target_of
from plica.ir.program import Program, Var
from plica.runtime.container import write
from plica.runtime.manifest import LIBRARY
from plica.runtime.module import load
from tests.harness.programs import Array

HOST: Machine = MACHINES[target_of("host").name]
"""The best machine that this one is."""


class LibraryPrograms:
    """Programs by name, in one file, and what stands behind their consts."""

    def __init__(
        self, programs: Mapping[str, Program], consts: Mapping[Var, Array] | None = None, kind: str = HOST.name
    ) -> None:
        self.programs = programs
        known = consts or {}
        entry_programs = [
            EntryProgram(
                name,
                ProgramWithConstants(program, {var: known[var] for var in program.consts}),
                tuple(f"r{number}" for number in range(len(program.results))),
            )
            for name, program in programs.items()
        ]
        parts, manifest = file_of(entry_programs, [target_of(kind)], {})
        assert manifest.targets[0].driver == LIBRARY
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "programs.plicab"
            write(path, parts, manifest)
            self.module = load(path)

    def __call__(self, name: str, *arguments: Any) -> tuple[Array, ...]:
        """The results of one Program."""
        return self.module[name].arrays(*arguments)


def compile_library(program: Program, kind: Machine = HOST) -> Callable[..., tuple[Array, ...]]:
    """A Program as a function of captured arrays and arguments."""
    inputs = (*program.inputs[: program.num_implicit_inputs], *program.consts, *program.arguments)
    programs = LibraryPrograms({"main": replace(program, consts=(), inputs=inputs)}, kind=kind.name)
    return lambda *arguments: programs("main", *arguments)
