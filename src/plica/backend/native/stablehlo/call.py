"""`Call`: one equation with the values of its operands; `row(call)` returns the value of its result, or of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plica.backend.native.stablehlo.code import Code, Shape
from plica.backend.native.stablehlo.values import Value
from plica.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Call:
    """One equation with the values of its operands.

    Args:
        code: The function that gets its text.
        inputs: The operands.
        params: The parameters; sizes that depend on data are scalars of int64.
        results: Shape and dtype of each result.
    """

    code: Code
    inputs: tuple[Value, ...]
    params: Mapping[str, Any]
    results: tuple[tuple[Shape, DType], ...]

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.results[0][0]

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.results[0][1]


Row = Callable[[Call], Value | Sequence[Value]]


def of(function: Callable[..., Value | Sequence[Value]]) -> Row:
    """The row that calls a function with the operands and the parameters."""
    return lambda call: function(*call.inputs, **call.params)
