"""Scalar code of elementwise operations in LLVM. Long code becomes a function, optimized once for all calls."""

from typing import Any

from plica.backend.native.loops.nest import FAILS, Apply
from plica.backend.native.scalars import SCALARS, LlvmScalars, Scalar, write_scalar
from plica.backend.native.scalars.builder import Application, ScalarCode
from plica.backend.native.scalars.llvm import llvm_type

_INLINE = 4  # lines; longer scalar code becomes a function


class Entries:
    """Writes entries of elementwise operations.

    Args:
        declared: Declarations of intrinsics so far; further ones are added.
        functions: Functions so far, by name; further ones are added.
    """

    def __init__(self, declared: set[str], functions: dict[str, str]) -> None:
        self._declared, self._functions = declared, functions
        self._names: dict[Any, str | None] = {}

    def write(self, code: LlvmScalars, statement: Apply, operands: tuple[Scalar, ...]) -> str:
        """Append the entry of an operation to `code`, and return its name."""
        dtypes = tuple(value.dtype for value in operands)
        key = (statement.op, statement.result.dtype, dtypes, tuple(sorted(statement.params.items())))
        if key not in self._names:
            self._names[key] = self._function(statement, operands)
        name = self._names[key]
        if name is None:
            return scalar_code(code, statement, operands).text
        assigned = code.fresh()
        arguments = ", ".join(f"{llvm_type(value.dtype)} {value.text}" for value in operands)
        code.lines.append(f"{assigned} = call {llvm_type(statement.result.dtype)} @{name}({arguments})")
        return assigned

    def _function(self, statement: Apply, operands: tuple[Scalar, ...]) -> str | None:
        """The name of the function of an operation; None if its code is short and written in place."""
        row = SCALARS.get(statement.op)
        code = LlvmScalars([], "%t", declared=self._declared, is_fused=row is not None and row.is_rounded)
        parameters = tuple(Scalar(f"%a{index}", value.dtype) for index, value in enumerate(operands))
        result = scalar_code(code, statement, parameters)
        if len(code.lines) <= _INLINE:
            return None
        name, type_ = f"row{len(self._functions)}.{statement.op.replace(':', '.')}", llvm_type(statement.result.dtype)
        head = ", ".join(f"{llvm_type(value.dtype)} {value.text}" for value in parameters)
        attributes = "nounwind willreturn memory(none) inlinehint"
        start = [f"define internal {type_} @{name}({head}) {attributes} {{", "entry:"]
        self._functions[name] = "\n".join([*start, *code.lines, f"ret {type_} {result.text}", "}"])
        return name


def scalar_code(code: ScalarCode, statement: Apply, operands: tuple[Scalar, ...]) -> Scalar:
    """Append the scalar code of an operation, or of the test whether it raises an error."""
    if not statement.op.startswith(FAILS):
        return write_scalar(code, statement.op, operands, statement.result.dtype, statement.params)
    failure = SCALARS[statement.op.removeprefix(FAILS)].failure
    assert failure is not None, "only operations that may fail are tested"
    return failure.is_raised(code, Application(operands, statement.result.dtype, statement.params))
