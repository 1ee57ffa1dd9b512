"""`UpdatableConstant`: constants of a native file that users may replace, and constants computed from these.

A file passes such arrays to its functions as arguments. Functions of the file (`runtime_fold0`, ...) compute the arrays
that depend on them, again at each update. The file holds the first values of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from plica.ir.interpret import interpret_program
from plica.ir.program import Program, Var
from plica.ir.types import spec
from plica.ops import OPS
from plica.tracing.trace import trace
from plica.tracing.tracer import Tracer

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class UpdatableConstant:
    """An array that may change; compared by identity.

    Args:
        array: Its first value.
        name: Its name for users; empty if they may replace only parts of it, or nothing.
        parts: Names for users of the arrays along its first axis, an empty name for one that they cannot replace. An
            empty tuple if they may replace all of it, or nothing.
        fold: The computation that it is a result of; None if users replace it.
        index: Which result of `fold` it is.
    """

    array: Array
    name: str = ""
    parts: tuple[str, ...] = ()
    fold: UpdatableFold | None = None
    index: int = 0

    def mapped(self, function: Callable[[Tracer], Tracer]) -> UpdatableConstant:
        """The constant that a function computes from it, with its first value."""
        program = trace(function, spec(self.array.shape, self.array.dtype))
        (first,) = interpret_program(program, OPS, [self.array])
        return UpdatableConstant(first, fold=UpdatableFold(program, {}, (self,), (first,)))


@dataclass(frozen=True, slots=True, eq=False)
class UpdatableFold:
    """A computation of constants from updatable constants.

    Args:
        program: Its consts are fixed; its arguments are updatable.
        constants: The arrays of its consts.
        updatable: The constants of its arguments.
        first: The first values of its results.
    """

    program: Program
    constants: Mapping[Var, Array]
    updatable: tuple[UpdatableConstant, ...]
    first: tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NonNegative:
    """Numbers that may not be negative; an update that makes a number negative is refused.

    Args:
        updatable: The numbers, an array of one axis.
        names: The name of each, for messages.
    """

    updatable: UpdatableConstant
    names: tuple[str, ...]
