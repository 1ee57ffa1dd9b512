"""`EntryProgram`: one function of a native file, as a Program with its constants, and how callers call it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plica.backend.native.circuits.updatable import NonNegative, UpdatableConstant
from plica.backend.native.circuits.with_constants import ProgramWithConstants
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType
from plica.runtime import manifest


@dataclass(frozen=True, slots=True, eq=False)
class EntryProgram:
    """One function of a native file.

    Args:
        name: Its name for users.
        body: The Program and its constants.
        results: The names of its results.
        rows: The size of the axis of rows, if the function computes each row by itself; else "".
        chunk: How many rows one call of the code takes at most.
        alone: How many rows the calling thread computes alone, though other threads could help.
        fallback: The entry point that computes the rows whose bound fails, and the result that says which these are.
        draws: How many of its last arguments are uniform numbers that the host draws.
        public: Whether users see it.
        text: One sentence for `help`.
        arguments: The names of its arguments, if users see other names than those of the Program.
        updatable: The arrays that users may replace, whether the Program reads them or not.
        non_negative: Checks that numbers do not become negative when arrays are replaced.
        takes: The arguments as trees (`manifest.Entry.takes`), by index among those that are not updatable.
        gives: The results as a tree.
    """

    name: str
    body: ProgramWithConstants
    results: tuple[str, ...]
    rows: str = ""
    chunk: int | None = None
    alone: int = 0
    fallback: manifest.Fallback | None = None
    draws: int = 0
    public: bool = True
    text: str = ""
    updatable: tuple[UpdatableConstant, ...] = ()
    non_negative: tuple[NonNegative, ...] = ()
    takes: manifest.Tree | None = None
    gives: manifest.Tree | None = None
    arguments: tuple[str, ...] = ()

    def entry(self, constants: tuple[str, ...] = (), faults: tuple[manifest.Fault, ...] = ()) -> manifest.Entry:
        """Its description in the manifest, with the names of the tensors that it is passed and its errors."""
        program = self.body.program
        variables = [var for var in program.arguments if var not in self.body.updatable]
        names = self.arguments or [var.name for var in variables]
        arguments = [_described(name, var.type) for name, var in zip(names, variables, strict=True)]
        num_arguments = len(arguments) - self.draws
        return manifest.Entry(
            self.name,
            function=self.name,
            arguments=tuple(arguments[:num_arguments]),
            draws=tuple(arguments[num_arguments:]),
            results=tuple(
                _described(name, result.type) for name, result in zip(self.results, program.results, strict=True)
            ),
            constants=constants,
            rows=manifest.Rows(self.rows, self.chunk, self.alone) if self.rows else None,
            fallback=self.fallback,
            public=self.public,
            text=self.text,
            takes=self.takes,
            gives=self.gives,
            faults=faults,
        )

    def as_fallback(self, name: str) -> EntryProgram:
        """The same function as the fallback of another one: under a name that users do not see."""
        return replace(self, name=name, public=False, text="")


def _described(name: str, type_: ArrayType) -> manifest.ArrayType:
    return manifest.ArrayType(name, type_.dtype.value, tuple(map(_dim, type_.shape)))


def _dim(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)
