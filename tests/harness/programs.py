"""Programs of one operation for tests, how torch runs them, and when two results are the same."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plica.backend.torch.emit import emit
from plica.ir.builder import Builder
from plica.ir.dtypes import as_dtype
from plica.ir.op import OpTable
from plica.ir.program import Literal, Operand, Program
from plica.ir.sizes import Size, evaluate
from plica.ir.types import ShapedArray
from plica.ops import OPS

Array = NDArray[Any]

# Two implementations of one elementary function or short sum differ by a few units in the last place:
# 2**-23 = 1.2e-7 in float32, 2**-52 = 2.2e-16 in float64. Integers and truth values are exact.
RELATIVE = {"float32": 2e-6, "float64": 1e-13, "complex64": 5e-6, "complex128": 1e-13}
ABSOLUTE = {"float32": 1e-6, "float64": 1e-13, "complex64": 1e-6, "complex128": 1e-13}

# Programs, which keep their numbers, and their functions: what takes differences runs one Program a hundred times.
_EMITTED: dict[int, tuple[Program, Callable[..., Any]]] = {}

# What does not depend on the phases of eigenvectors and singular vectors, which two libraries choose differently; of
# numpy arrays and of tensors alike.
UNIQUE: Mapping[str, Callable[..., tuple[Any, ...]]] = {
    "eigh": lambda values, vectors: (values, (vectors * values[..., None, :]) @ vectors.conj().swapaxes(-2, -1)),
    "qr": lambda q, r: (q @ r, abs(q @ q.conj().swapaxes(-2, -1))),
    "svd": lambda left, values, right: (
        values,
        (left[..., : values.shape[-1]] * values[..., None, :]) @ right[..., : values.shape[-1], :],
        abs(left @ left.conj().swapaxes(-2, -1)),
        abs(right @ right.conj().swapaxes(-2, -1)),
    ),
}


def unique(op: str, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """What two libraries must agree on of the results of an operation."""
    return UNIQUE[op](*results) if op in UNIQUE else results


def literal(array: Array) -> Literal:
    """The scalar `array` as a literal."""
    return Literal(array.item(), ShapedArray((), as_dtype(array.dtype)))


def one_equation(
    op: str,
    inputs: Sequence[Array],
    params: Mapping[str, Any],
    literals: Sequence[int] = (),
    table: OpTable = OPS,
) -> Program:
    """The Program of one operation on inputs of static shapes; those at `literals` are written in the Program."""
    builder = Builder(table)
    operands: list[Operand] = [
        literal(array) if place in literals else builder.argument(None, array.shape, as_dtype(array.dtype))
        for place, array in enumerate(inputs)
    ]
    return builder.build(builder.add(op, *operands, **params))


def reference(op: str, inputs: Sequence[Array], params: Mapping[str, Any], table: OpTable = OPS) -> tuple[Array, ...]:
    """What the reference of an operation makes of arrays, run by nothing but references."""
    row = table[op]
    with np.errstate(all="ignore"):
        results = row.reference(run_region, *inputs, **params) if row.regions else row.reference(*inputs, **params)
    return results if isinstance(results, tuple) else (results,)


def run_region(
    program: Program, consts: Sequence[Array], inputs: Sequence[Array], *, wide: bool = False
) -> tuple[Array, ...]:
    """All results of a Program, nested or not, at all its inputs; `wide` keeps floats as wide as the inputs are."""
    values: dict[Any, Array] = dict(zip((*program.consts, *program.inputs), (*consts, *inputs), strict=True))

    def read(operand: Operand) -> Array:
        return np.asarray(operand.value, operand.type.dtype.numpy) if isinstance(operand, Literal) else values[operand]

    def known(value: Any) -> Any:
        if isinstance(value, Size):
            return evaluate(value, lambda atom: int(values[atom]))
        return tuple(map(known, value)) if isinstance(value, tuple) else value

    for equation in program.equations:
        params = {name: known(value) for name, value in equation.params.items()}
        results = reference(equation.op.name, [read(one) for one in equation.inputs], params)
        for var, result in zip(equation.outputs, results, strict=True):
            is_wide = wide and var.type.dtype.kind == "float"
            values[var] = np.asarray(result) if is_wide else np.asarray(result).astype(var.type.dtype.numpy)
    return tuple(read(one) for one in program.outputs)


def run_torch(program: Program, *tensors: torch.Tensor, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """The results of a Program without leaves in torch."""
    if id(program) not in _EMITTED:
        if len(_EMITTED) > 100:
            _EMITTED.clear()
        _EMITTED[id(program)] = program, emit(program, shares=True)
    results = _EMITTED[id(program)][1](SimpleNamespace(device=torch.device(device)), *tensors)
    return results if len(program.results) != 1 else (results,)


def to_torch(array: Array) -> torch.Tensor:
    """A tensor with its own memory."""
    return torch.from_numpy(np.array(array))


def assert_same(found: torch.Tensor | Array, expected: Array, scale: float = 1.0) -> None:
    """Check shape, dtype and values; NaN equals NaN, infinities have equal signs."""
    assert isinstance(found, torch.Tensor | np.ndarray), f"found a {type(found).__name__}"
    array = found.detach().resolve_conj().numpy() if isinstance(found, torch.Tensor) else found
    assert array.shape == expected.shape, f"shape {array.shape}, expected {expected.shape}"
    assert array.dtype == expected.dtype, f"dtype {array.dtype}, expected {expected.dtype}"
    name = str(expected.dtype)
    relative, absolute = RELATIVE.get(name, 0) * scale, ABSOLUTE.get(name, 0) * scale
    np.testing.assert_allclose(array, expected, rtol=relative, atol=absolute, equal_nan=True)
