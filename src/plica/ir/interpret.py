"""The interpreter: a Program's meaning, equation by equation, through the numpy references of the table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import InputError
from plica.ir.dtypes import DType
from plica.ir.op import Array, OpTable
from plica.ir.program import Equation, Literal, Operand, Program, Var
from plica.ir.signature import bind_sizes
from plica.ir.sizes import Size, evaluate

_WIDE = {"float16": "float64", "float32": "float64", "complex64": "complex128"}


def interpret_program(
    program: Program, table: OpTable, args: Sequence[Any], consts: Sequence[Any] = (), *, precise: bool = False
) -> tuple[Array, ...]:
    """The results of `program`.

    Args:
        program: What to run.
        table: The operations.
        args: The arguments, without the implicit sizes.
        consts: The leaves, in the order of `program.consts`.
        precise: Compute floats in float64 whatever the Program declares.

    Raises:
        InputError: The number, dtype or shape of an argument does not fit.
    """
    if len(consts) != len(program.consts):
        raise InputError(f"the program captures {len(program.consts)} leaves, but {len(consts)} were given.")
    arrays = [np.asarray(arg) for arg in args]
    sizes = bind_sizes(program, [(array.shape, str(array.dtype)) for array in arrays])
    values: dict[Var, Array] = dict(zip(program.consts, map(np.asarray, consts), strict=True))
    for var, value in values.items():
        _check_leaf(var, value, sizes)
    values.update((var, np.asarray(size, dtype=np.int64)) for var, size in sizes.items())
    values.update(zip(program.arguments, arrays, strict=True))
    if precise:
        values = {var: _widen(value) for var, value in values.items()}
    with np.errstate(all="ignore"):
        for equation in program.equations:
            _step(equation, table, values, precise)
    return tuple(_read(one, values, precise) for one in program.results)


def _check_leaf(var: Var, value: Array, sizes: Mapping[Var, int]) -> None:
    shape = tuple(evaluate(dim, sizes.__getitem__) for dim in var.type.shape)  # type: ignore[arg-type]
    if value.shape != shape or value.dtype != var.type.dtype.numpy:
        raise InputError(
            f"leaf {var.name} is {value.dtype} of shape {value.shape}, but the program expects {var.type}."
        )


def _step(equation: Equation, table: OpTable, values: dict[Var, Array], precise: bool) -> None:
    inputs = [_read(one, values, precise) for one in equation.inputs]
    params = {name: _resolve(value, values, precise) for name, value in equation.params.items()}
    results = table[equation.op.name].reference(*inputs, **params)
    for output, result in zip(equation.outputs, results if isinstance(results, tuple) else (results,), strict=True):
        dtype = output.type.dtype.value
        values[output] = np.asarray(result).astype(_WIDE.get(dtype, dtype) if precise else dtype, copy=False)


def _read(operand: Operand, values: Mapping[Var, Array], precise: bool) -> Array:
    if isinstance(operand, Literal):
        dtype = operand.type.dtype.value
        return np.asarray(operand.value, dtype=_WIDE.get(dtype, dtype) if precise else dtype)
    return values[operand]


def _resolve(value: Any, values: Mapping[Var, Array], precise: bool) -> Any:
    if isinstance(value, Size):
        return evaluate(value, lambda atom: int(values[atom]))  # type: ignore[index]
    if isinstance(value, tuple):
        return tuple(_resolve(entry, values, precise) for entry in value)
    if precise and isinstance(value, DType):
        return DType(_WIDE.get(value, value))
    return value


def _widen(value: Array) -> Array:
    return value.astype(_WIDE.get(str(value.dtype), value.dtype), copy=False)
