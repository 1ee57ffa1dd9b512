"""The interpreter: a Program's meaning, equation by equation, through the numpy references of the table."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import InputError
from plica.ir.dtypes import DType
from plica.ir.op import Array, OpTable
from plica.ir.program import Equation, Literal, Operand, Program, Var
from plica.ir.signature import bind_sizes, check_leaf
from plica.ir.sizes import Size, evaluate
from plica.ir.types import SCALAR_SIZE

_WIDE = {"bfloat16": "float64", "float16": "float64", "float32": "float64", "complex64": "complex128"}
_AXES = ("size", "length", "num")  # parameters that become the size of one axis


def interpret_program(
    program: Program, table: OpTable, args: Sequence[Any], consts: Sequence[Any] = (), *, precise: bool = False
) -> tuple[Array, ...]:
    """The results of `program`.

    Args:
        program: The Program.
        table: The operations.
        args: The arguments, without the implicit sizes.
        consts: The leaves, in the order of `program.consts`.
        precise: Compute floats in float64 whatever the Program declares.

    Raises:
        InputError: The number, dtype or shape of an argument does not fit.
    """
    if len(consts) != len(program.consts):
        raise InputError(f"the program captures {len(program.consts)} leaves, but {len(consts)} were given.")
    arrays = [_native(np.asarray(arg)) for arg in args]
    leaves = [np.asarray(const) for const in consts]
    captured = {
        var: int(value)
        for var, value in zip(program.consts, leaves, strict=True)
        if var.type == SCALAR_SIZE and not value.shape
    }
    sizes = bind_sizes(program, [(array.shape, array.dtype.name) for array in arrays], captured)
    known: dict[Hashable, int] = dict(sizes.items())
    for var, value in zip(program.consts, leaves, strict=True):
        check_leaf(var, value.shape, value.dtype.name, known)
        if var.type == SCALAR_SIZE:
            known[var] = int(value)
    implicit = [np.asarray(sizes[var], dtype=np.int64) for var in program.inputs[: program.num_implicit_inputs]]
    inputs = [*leaves, *implicit, *arrays]
    if precise:
        inputs = [_widen(value) for value in inputs]
    count = len(leaves)
    with np.errstate(all="ignore"):
        outputs = _run(program, table, inputs[:count], inputs[count:], precise)
    return outputs[program.num_implicit_outputs :]


def _run(
    program: Program, table: OpTable, consts: Sequence[Array], inputs: Sequence[Array], precise: bool
) -> tuple[Array, ...]:
    """All outputs of a Program, nested or not, at all its inputs; recursion is as deep as Programs are nested."""
    values = dict(zip((*program.consts, *program.inputs), (*consts, *inputs), strict=True))
    for equation in program.equations:
        _step(equation, table, values, precise)
    return tuple(_read(operand, values, precise) for operand in program.outputs)


def _step(equation: Equation, table: OpTable, values: dict[Var, Array], precise: bool) -> None:
    inputs = [_read(operand, values, precise) for operand in equation.inputs]
    params = {name: _resolve(value, values, precise) for name, value in equation.params.items()}
    operation = table[equation.op.name]
    for dim in (*params.get("shape", ()), *(params[name] for name in _AXES if name in params)):
        if isinstance(dim, int) and not 0 <= dim < 2**63:
            where = f"{equation.source}: " if equation.source else ""
            wrong = "negative; take 0 or more" if dim < 0 else "too large; sizes are below 2**63"
            raise InputError(f"{where}the size {dim} of {equation.op.name} is {wrong}.")
    try:
        if operation.regions:
            results = operation.reference(
                lambda program, *given: _run(program, table, given[0], given[1], precise), *inputs, **params
            )
        else:
            results = operation.reference(*(inputs if operation.of_dtype else map(_computed, inputs)), **params)
    except InputError as error:
        if not equation.source or equation.source in str(error):
            raise
        raise type(error)(f"{equation.source}: {error}") from None
    for output, result in zip(equation.outputs, results if isinstance(results, tuple) else (results,), strict=True):
        dtype = output.type.dtype.value
        values[output] = np.asarray(result).astype(_WIDE.get(dtype, dtype) if precise else dtype, copy=False)


def _read(operand: Operand, values: Mapping[Var, Array], precise: bool) -> Array:
    if isinstance(operand, Literal):
        dtype = operand.type.dtype.value
        return np.asarray(operand.value, dtype=_WIDE.get(dtype, dtype) if precise else dtype)
    return values[operand]


def _resolve(value: Any, values: Mapping[Var, Array], precise: bool) -> Any:
    """A parameter with numbers for symbolic sizes, and with the dtype in which numpy computes."""
    if isinstance(value, Size):
        return evaluate(value, lambda atom: int(values[atom]))  # type: ignore[index]
    if isinstance(value, tuple):
        return tuple(_resolve(entry, values, precise) for entry in value)
    if precise and isinstance(value, DType):
        return DType(_WIDE.get(value.value, value.value))
    if value is DType.BFLOAT16:
        return DType.FLOAT32
    return value


def _computed(value: Array) -> Array:
    """An array that numpy computes with; the result is rounded once, as backends do."""
    return value.astype("float32") if value.dtype == DType.BFLOAT16.numpy else value


def _native(value: Array) -> Array:
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))


def _widen(value: Array) -> Array:
    return value.astype(_WIDE.get(str(value.dtype), value.dtype), copy=False)
