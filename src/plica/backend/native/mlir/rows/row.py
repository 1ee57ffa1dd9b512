"""What a row of MLIR is: how one equation is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plica.backend.native.mlir.types import Value
from plica.ir.program import Operand, Var
from plica.ir.types import ArrayType

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter


@dataclass(frozen=True, slots=True)
class Call:
    """An equation whose operands are written already.

    Args:
        name: The operation.
        inputs: The operands.
        outputs: The variables that are the results. Where one of them is a size of another, a row that needs it before
            it returns says what it is with `emitter.bind`.
        params: The parameters.
        source: Where in the user's code the equation comes from.
        operands: What the operands are in the Program.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Var, ...]
    params: Mapping[str, Any]
    source: str
    operands: tuple[Operand, ...]

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The types of the results; sizes are those of the Program (`emitter.size` writes one)."""
        return tuple(var.type for var in self.outputs)


Write = Callable[["Emitter", Call], "Value | Sequence[Value]"]


@dataclass(frozen=True, slots=True)
class Row:
    """How one operation is written.

    Args:
        write: `write(emitter, call)` writes the lines of an equation and gives its results: one value, or one for each.
            Each has the shape and the dtype of its type in `call.types`.
    """

    write: Write
