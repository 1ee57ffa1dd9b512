"""The functions of a native file under construction: a loop nest for each, which become one shared library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.faults import faults_of
from plica.backend.native.loops.llvm import llvm_text
from plica.backend.native.loops.nest import Nest
from plica.backend.native.loops.shared_library import MACHINES, library
from plica.extras import require
from plica.ir.program import Program, Var
from plica.ir.signature import size_sources
from plica.ir.sizes import Size
from plica.runtime.library_code import types_text
from plica.runtime.manifest import Fault, Manifest


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a file.

    Args:
        name: Its name.
        nest: Its code.
        sizes: The names of the sizes that it takes.
        constants: The names of tensors that are passed after its arguments.
        faults: The errors that end it.
    """

    name: str
    nest: Nest
    sizes: tuple[str, ...]
    constants: tuple[str, ...]
    faults: tuple[Fault, ...]

    @property
    def key(self) -> str:
        """A text that is equal for functions that compute the same results from the same arrays.

        It is the nest's text for one machine, without the code of matrix products. Its errors follow, with their lines.
        """
        registers = MACHINES["x86-64"].registers
        text = llvm_text(self.nest, "", registers, None, lambda _dtype, _registers, _declared: "").main
        return f"{text}\n{self.faults}"


class FunctionSet:
    """The functions of a file.

    Raises:
        MissingExtraError: The linker is not installed.
    """

    def __init__(self) -> None:
        require("ziglang")  # fail before the work begins, and name the extra that also installs the compiler
        self._functions: dict[str, Function] = {}

    def written(self, name: str, program: Program, constants: Mapping[Var, str]) -> Function:
        """A function, which is not added yet.

        Args:
            name: Its name.
            program: The Program.
            constants: The tensors of the file that it captures, by name.

        Raises:
            UnsupportedError: An operation has no loop nest.
        """
        without_consts = replace(program, consts=(), inputs=(*program.inputs, *program.consts))
        nest = build_nest(without_consts, has_blas=False)
        sizes = tuple(str(Size.of(var)) for var in size_sources(without_consts))
        return Function(name, nest, sizes, tuple(constants[var] for var in program.consts), faults_of(nest))

    def add(self, function: Function) -> None:
        """Add a function."""
        self._functions[function.name] = function

    def compiled(self, target: str, manifest: Manifest) -> bytes:
        """The library of all functions for a target.

        Raises:
            UnsupportedError: The linker refuses the code for the target.
            MissingExtraError: The compiler is not installed.
            WriteError: The folder for temporary files is full, or is not writable.
        """
        types = {function.name: types_text(function.inputs, function.results) for function in manifest.functions()}
        nests = {name: function.nest for name, function in self._functions.items()}
        signatures = {name: f"{','.join(function.sizes)}\t{types[name]}" for name, function in self._functions.items()}
        return library(nests, MACHINES[target], signatures)
