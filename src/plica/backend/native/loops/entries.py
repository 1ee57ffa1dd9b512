"""Scalar code of elementwise operations in LLVM: functions where it is long, which LLVM optimizes once for all uses."""

from typing import Any

from plica.backend.native.loops.nest import FAILS, Apply
from plica.backend.native.scalars import SCALARS, LlvmScalars, Scalar, write_scalar
from plica.backend.native.scalars.builder import Call, ScalarCode
from plica.backend.native.scalars.llvm import llvm_type

_INLINE = 4  # lines of scalar code that are no function of their own


class Entries:
    """Writes entries of elementwise operations.

    Args:
        declared: Declarations of intrinsics, which it adds to.
        functions: Functions by their names, which it adds to.
    """

    def __init__(self, declared: set[str], functions: dict[str, str]) -> None:
        self._declared, self._functions = declared, functions
        self._names: dict[Any, str | None] = {}

    def write(self, code: LlvmScalars, statement: Apply, operands: tuple[Scalar, ...]) -> str:
        """The entry of an operation at the end of `code`."""
        dtypes = tuple(value.dtype for value in operands)
        key = (statement.op, statement.result.dtype, dtypes, tuple(sorted(statement.params.items())))
        if key not in self._names:
            self._names[key] = self._function(statement, operands)
        name = self._names[key]
        if name is None:
            return written(code, statement, operands).text
        assigned = code.fresh()
        given = ", ".join(f"{llvm_type(value.dtype)} {value.text}" for value in operands)
        code.lines.append(f"{assigned} = call {llvm_type(statement.result.dtype)} @{name}({given})")
        return assigned

    def _function(self, statement: Apply, operands: tuple[Scalar, ...]) -> str | None:
        """The name of the function of an operation; None where it is written where it is used."""
        row = SCALARS.get(statement.op)
        code = LlvmScalars([], "%t", declared=self._declared, is_fused=row is not None and row.is_rounded)
        given = tuple(Scalar(f"%a{index}", value.dtype) for index, value in enumerate(operands))
        result = written(code, statement, given)
        if len(code.lines) <= _INLINE:
            return None
        name, type_ = f"row{len(self._functions)}.{statement.op.replace(':', '.')}", llvm_type(statement.result.dtype)
        head = ", ".join(f"{llvm_type(value.dtype)} {value.text}" for value in given)
        how = "nounwind willreturn memory(none) inlinehint"
        start = [f"define internal {type_} @{name}({head}) {how} {{", "entry:"]
        self._functions[name] = "\n".join([*start, *code.lines, f"ret {type_} {result.text}", "}"])
        return name


def written(code: ScalarCode, statement: Apply, operands: tuple[Scalar, ...]) -> Scalar:
    """Scalar code of an operation, or of whether it raises an error."""
    if not statement.op.startswith(FAILS):
        return write_scalar(code, statement.op, operands, statement.result.dtype, statement.params)
    failure = SCALARS[statement.op.removeprefix(FAILS)].failure
    assert failure is not None, "only what may fail is asked"
    return failure.found(code, Call(operands, statement.result.dtype, statement.params))
