"""The code of a native file under construction: functions of loop nests; and the same functions as MLIR text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from plica.backend.native.build import compile_text
from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.faults import faults_of
from plica.backend.native.loops.llvm import whole_text
from plica.backend.native.loops.nest import Nest
from plica.backend.native.loops.shared_library import MACHINES, library
from plica.backend.native.mlir.emit import Function, emit, module_text
from plica.backend.native.targets import Target
from plica.extras import require
from plica.ir.program import Program, Var
from plica.ir.signature import size_sources
from plica.ir.sizes import Size
from plica.runtime.arrays import Array
from plica.runtime.library_code import types_text
from plica.runtime.manifest import Fault, Manifest


@dataclass(frozen=True, slots=True)
class Written:
    """A function, as code of one kind.

    Args:
        name: Its name.
        source: Its text or its nest.
        constants: The names of tensors that are passed after its arguments.
        faults: The errors that end it, where the file tells them.
    """

    name: str
    source: Any
    constants: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


class Code(ABC):
    """The functions of a file as code of one kind."""

    @abstractmethod
    def written(
        self, name: str, program: Program, constants: Mapping[Var, str], *, are_indices_in_bounds: bool = False
    ) -> Written:
        """A function, which is not added yet.

        Args:
            name: Its name.
            program: The Program.
            constants: The tensors of the file that it captures, by name.
            are_indices_in_bounds: Whether all indices are known to lie within their axes.

        Raises:
            UnsupportedError: An operation has no code of this kind.
        """

    @abstractmethod
    def key(self, function: Written) -> str:
        """A text that is equal for functions that compute the same of the same arrays."""

    @abstractmethod
    def add(self, function: Written) -> None:
        """Add a function."""

    @abstractmethod
    def compiled(self, target: Target, manifest: Manifest) -> bytes:
        """The code of all functions for a target.

        Raises:
            UnsupportedError: The compiler refuses the functions for the target, or is not installed.
            WriteError: The folder for temporary files is full, or is not writable.
        """


class LibraryCode(Code):
    """Loop nests as a shared library; all constants are passed.

    Raises:
        MissingExtraError: The linker is not installed.
    """

    def __init__(self) -> None:
        require("ziglang")  # before a long time passes, and with the extra that brings the compiler too
        self._nests: dict[str, Nest] = {}
        self._sizes: dict[str, str] = {}

    def written(
        self,
        name: str,
        program: Program,
        constants: Mapping[Var, str],
        *,
        are_indices_in_bounds: bool = False,  # noqa: ARG002
    ) -> Written:
        """The nest of a Program."""
        program, passed = with_arguments(program, constants)
        nest = build_nest(program, has_blas=False)
        self._sizes[name] = ",".join(str(Size.of(var)) for var in size_sources(program))
        return Written(name, nest, passed, faults_of(nest))

    def key(self, function: Written) -> str:
        """The text of the nest on one machine, without that of products, and its errors, which name lines."""
        registers = MACHINES["x86-64"].registers
        text = whole_text(function.source, "", registers, lambda _dtype, _registers, _declared: "")
        return f"{text}\n{function.faults}"

    def add(self, function: Written) -> None:
        """Add a nest."""
        self._nests[function.name] = function.source

    def compiled(self, target: Target, manifest: Manifest) -> bytes:
        """The library."""
        types = {function.name: types_text(function.inputs, function.results) for function in manifest.functions()}
        described = {name: f"{self._sizes[name]}\t{types[name]}" for name in self._nests}
        return library(self._nests, MACHINES[target.name], described)


class ModuleCode(Code):
    """MLIR, which IREE compiles; functions read constants as parameters."""

    def __init__(self) -> None:
        self._functions: list[Function] = []

    def written(
        self, name: str, program: Program, constants: Mapping[Var, str], *, are_indices_in_bounds: bool = False
    ) -> Written:
        """The text of a Program."""
        return Written(name, emit(program, name, constants, are_indices_in_bounds=are_indices_in_bounds))

    def key(self, function: Written) -> str:
        """The text without its name."""
        text: str = function.source.text
        return text.replace(f"@{function.name}", "@")

    def add(self, function: Written) -> None:
        """Add a text."""
        self._functions.append(function.source)

    def text(self, arrays: Mapping[str, Array]) -> str:
        """The module, which contains some of the arrays that it reads."""
        return module_text(self._functions, arrays)

    def compiled(self, target: Target, manifest: Manifest) -> bytes:  # noqa: ARG002
        """The module's machine code."""
        return compile_text(self.text({}), target)


def with_arguments(program: Program, constants: Mapping[Var, str]) -> tuple[Program, tuple[str, ...]]:
    """A Program whose captures are its last arguments, and the names of these."""
    moved = replace(program, consts=(), inputs=(*program.inputs, *program.consts))
    return moved, tuple(constants[var] for var in program.consts)
