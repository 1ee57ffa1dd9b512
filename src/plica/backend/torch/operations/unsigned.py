"""Operations on unsigned integers of 16, 32 and 64 bits, for which torch has few functions: others compute in int64.

Integers of 16 and 32 bits fit int64; sums and products are cast back, which takes them modulo their range. For uint64
this is right for arithmetic modulo 2**64, such as sums. Operations that compare numbers are refused.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plica.backend.torch.operations.call import Call, Row, Text, Unsigned, dtype_source
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.program import Literal, Operand

UNSIGNED = (DType.UINT16, DType.UINT32, DType.UINT64)


def with_unsigned(rows: Mapping[str, Row]) -> dict[str, Row]:
    """The rows, where those that are marked `unsigned` also take unsigned integers, for which torch has none."""
    return {name: row if row.unsigned is None else replace(row, text=_signed(name, row)) for name, row in rows.items()}


def _signed(name: str, row: Row) -> Text:
    """The text of a row for any integers: unsigned operands are cast to int64, and the result back."""

    def text_of(call: Call) -> str:
        equation = call.equation
        if not any(operand.type.dtype in UNSIGNED for operand in equation.inputs):
            return row.text(call)
        if row.unsigned is Unsigned.ORDERED or call.params.get("mode") in ("min", "max"):
            _refuse_uint64(name, call)
        inputs = tuple(map(_as_int64, equation.inputs))
        texts = tuple(
            _source(text, old, new, is_host=call.is_host(index))
            for index, (text, old, new) in enumerate(zip(call.inputs, equation.inputs, inputs, strict=True))
        )
        outputs = tuple(replace(output, type=_as_int64(output).type) for output in equation.outputs)
        text = row.text(replace(call, equation=replace(equation, inputs=inputs, outputs=outputs), inputs=texts))
        dtype = equation.outputs[0].type.dtype
        return f"({text}).to({dtype_source(dtype)})" if dtype in UNSIGNED else text

    return text_of


def _source(text: str, old: Operand, new: Operand, *, is_host: bool) -> str:
    """The text of an operand as int64; a Python number has no dtype to change."""
    if isinstance(new, Literal):
        return repr(new.value)
    return text if new is old or is_host else f"{text}.to(torch.int64)"


def _as_int64(operand: Any) -> Any:
    """An unsigned operand with the dtype int64; other operands unchanged."""
    if operand.type.dtype not in UNSIGNED:
        return operand
    if not isinstance(operand, Literal):
        return replace(operand, type=replace(operand.type, dtype=DType.INT64))
    value = int(operand.value.real)
    return Literal(value - (1 << 64) if value >= 1 << 63 else value, replace(operand.type, dtype=DType.INT64))


def _refuse_uint64(name: str, call: Call) -> None:
    if any(operand.type.dtype == DType.UINT64 for operand in call.equation.inputs):
        where = f"{call.equation.source}: " if call.equation.source else ""
        raise UnsupportedError(
            f"{where}torch has no {name} of uint64; convert with astype(x, 'int64') where numbers are below 2**63."
        )
