"""Programs as the functions of one file that holds a shared library, called with numpy arrays."""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plica.backend.native.circuits.with_constants import ProgramWithConstants
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.file import file_of
from plica.backend.native.loops.shared_library import MACHINES, Machine
from plica.backend.native.targets import target_of
from plica.errors import PlicaError
from plica.frontend.programs import interpret
from plica.ir.builder import Builder
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program, Var
from plica.ir.sizes import Size
from plica.ops import OPS
from plica.runtime.container import write
from plica.runtime.module import load
from tests.harness.programs import Array, assert_same, unique
from tests.harness.samples import Case

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


def assert_interpreted(
    modules: LibraryPrograms, name: str, arguments: Sequence[Any], op: str = "", scale: float = 1.0
) -> None:
    """Check that a Program gives what the interpreter gives, or raises what it raises."""
    scale = OPS[op].tolerance if op else scale
    expected: tuple[Array, ...] | PlicaError
    try:
        expected = interpret(modules.programs[name], *arguments)
    except PlicaError as error:
        expected = error
    except ValueError:  # numpy's own, of arrays without entries: only that nothing ends the process
        with suppress(PlicaError):
            modules(name, *arguments)
        return
    if isinstance(expected, PlicaError):
        with pytest.raises(type(expected)) as raised:
            modules(name, *arguments)
        assert without_names(raised.value) == without_names(expected)
        return
    found = modules(name, *arguments)
    for one, other in zip(unique(op, found), unique(op, expected), strict=True):
        assert_same(one, other, scale)


def without_names(error: Exception) -> str:
    """What an error says, but for the names of a negative size, which nests call otherwise."""
    return re.sub(r"size (\S+ = )?(-\d+)( of \w+)? is", r"size \2 is", str(error))


def with_unknown_sizes(case: Case) -> Program | None:
    """The Program of a case with a name for each size of its operands but 1; None where that is no Program."""
    names: dict[int, str] = {}
    builder = Builder(OPS)
    operands = []
    for array in case.inputs:
        shape = [1 if size == 1 else names.setdefault(size, f"n{len(names)}") for size in array.shape]
        operands.append(builder.argument(None, shape, as_dtype(array.dtype)))
    sizes = {size: builder.size(name) for size, name in names.items()}
    params = {
        key: _named(value, sizes) if key in ("shape", "sizes", "stop", "size", "length") else value
        for key, value in case.params.items()
    }
    try:
        return builder.build(builder.add(case.op, *operands, **params))
    except Exception:
        return None


def _named(value: Any, sizes: Mapping[int, Size]) -> Any:
    if isinstance(value, tuple):
        return tuple(_named(one, sizes) for one in value)
    return sizes.get(value, value) if isinstance(value, int) else value
