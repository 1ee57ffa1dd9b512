"""`Call`: an equation as rows take it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plica.backend.native.mlir.types import Value
from plica.ir.program import Operand, Var
from plica.ir.types import ArrayType


@dataclass(frozen=True, slots=True)
class Call:
    """An equation whose operands are already written.

    Args:
        name: The operation.
        inputs: The operands.
        outputs: The variables that are the results. Where one of them is a size of another, a row that needs it before
            it returns binds it with `emitter.bind`.
        params: The parameters.
        source: The line of the user's code that the equation comes from.
        operands: The operands as the Program has them.
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
