"""`Question`: one function of a native file, as a Program with its constants, and how it is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plica.backend.native.circuits.updatable import NonNegative, UpdatableConstant
from plica.backend.native.circuits.with_constants import ProgramWithConstants
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType
from plica.runtime import manifest


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One function of a native file.

    Args:
        name: As users call it.
        body: The Program and its constants.
        results: The names of its results.
        rows: The size of the axis of rows, which are answered one by one; empty where they are not.
        chunk: How many rows one call gets at most.
        alone: How many rows are answered by the thread that asks alone, where others could help.
        proven: The result that says which rows are proven, and the name of who answers the others.
        draws: How many of its last arguments are uniforms that the host draws.
        public: Whether users see it.
        are_places_known: Whether all indices in it are known to lie within their axes.
        text: One sentence for `help`.
        arguments: The names of its arguments, where those of the Program are not for users.
        given: What users may replace, whether the Program reads it or not.
        floors: What may not become negative when arrays are replaced.
        takes: The arguments as trees (`manifest.Entry.takes`), whose numbers count those that are not updatable.
        gives: The results as a tree.
        plain: The Program in operations of arrays alone, for graphics processors; None where `body` is that.
    """

    name: str
    body: ProgramWithConstants
    results: tuple[str, ...]
    rows: str = ""
    chunk: int | None = None
    alone: int = 0
    proven: tuple[str, str] | None = None
    draws: int = 0
    public: bool = True
    are_places_known: bool = False
    text: str = ""
    given: tuple[UpdatableConstant, ...] = ()
    floors: tuple[NonNegative, ...] = ()
    takes: manifest.Tree | None = None
    gives: manifest.Tree | None = None
    arguments: tuple[str, ...] = ()
    plain: ProgramWithConstants | None = None

    def entry(self, constants: tuple[str, ...] = ()) -> manifest.Entry:
        """What the file says of it, where what is updatable has these names."""
        program = self.body.program
        variables = [var for var in program.arguments if var not in self.body.updatable]
        names = self.arguments or [var.name for var in variables]
        given = [_described(name, var.type) for name, var in zip(names, variables, strict=True)]
        first = len(given) - self.draws
        return manifest.Entry(
            self.name,
            function=self.name,
            arguments=tuple(given[:first]),
            draws=tuple(given[first:]),
            results=tuple(_described(name, one.type) for name, one in zip(self.results, program.results, strict=True)),
            constants=constants,
            rows=manifest.Rows(self.rows, self.chunk, self.alone) if self.rows else None,
            way_out=manifest.WayOut(self.proven[1], self.proven[0]) if self.proven else None,
            public=self.public,
            text=self.text,
            takes=self.takes,
            gives=self.gives,
        )

    def asked_when_not_proven(self, name: str) -> Question:
        """The same answers for whoever asks it as a way out."""
        return replace(self, name=name, public=False, text="")


def _described(name: str, type_: ArrayType) -> manifest.ArrayType:
    return manifest.ArrayType(name, type_.dtype.value, tuple(map(_dim, type_.shape)))


def _dim(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)
