"""`UpdatableConstant`: constants of a native file that users may replace, and what is computed from them.

A file passes such arrays to its functions as arguments. What depends on them is computed by functions of the file
(`runtime_fold0`, ...), again at each update; the file has their first values.
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
        name: As users call it; empty where they replace parts of it alone, or nothing.
        parts: As users call the arrays along its first axis, an empty name for one that stays; empty where they replace
            all of it, or nothing.
        made: What computes it; None where users give it.
        place: Which of its results it is.
    """

    array: Array
    name: str = ""
    parts: tuple[str, ...] = ()
    made: UpdatableFold | None = None
    place: int = 0

    def through(self, function: Callable[[Tracer], Tracer]) -> UpdatableConstant:
        """What a function makes of it, with its first value."""
        program = trace(function, spec(self.array.shape, self.array.dtype))
        (first,) = interpret_program(program, OPS, [self.array])
        return UpdatableConstant(first, made=UpdatableFold(program, {}, (self,), (first,)))


@dataclass(frozen=True, slots=True, eq=False)
class UpdatableFold:
    """A part of the folding that depends on arrays that may change.

    Args:
        program: Its consts are known; its arguments are `updatable`.
        constants: What stands behind the consts.
        updatable: What stands behind the arguments.
        first: The first values of its results.
    """

    program: Program
    constants: Mapping[Var, Array]
    updatable: tuple[UpdatableConstant, ...]
    first: tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NonNegative:
    """Numbers none of which may be negative; an update that would make one so is refused.

    Args:
        updatable: The numbers, of one axis.
        names: What has each of them, for messages.
    """

    updatable: UpdatableConstant
    names: tuple[str, ...]
