"""Elementwise operations: one writer for all, over the scalar code of each (`scalars/`)."""

from collections.abc import Sequence

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.checks import Fault
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.structured import entrywise, reduction
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import SCALARS, Scalar
from plica.backend.native.scalars.builder import Application, Failure, Write
from plica.ir.dtypes import DType


def _entries(emitter: Emitter, call: Call, write: Write, dtype: DType) -> Value:
    """An array of the result's shape, each entry of which scalar code computes."""
    (type_,) = call.types

    def body(entries: Sequence[str]) -> str:
        operands = tuple(Scalar(text, value.dtype.carrier) for text, value in zip(entries, call.inputs, strict=True))
        application = Application(operands, dtype, call.params)
        result = write(emitter.scalars, application)
        return emitter.scalars.convert(result, dtype.carrier).text if dtype.is_storage else result.text

    return entrywise(emitter, call.inputs, type_.shape, dtype, body)


def any_entry(emitter: Emitter, value: Value) -> Value:
    """Whether some entry of an array of booleans is true."""
    if not value.shape:
        return value
    start = emitter.full((), emitter.constant(False, DType.BOOL))
    axes = range(len(value.shape))
    (some,) = reduction(
        emitter, value, axes, [start], lambda entry: emitter.code.op(f"arith.ori {entry[0]}, {entry[1]} : i1")
    )
    return some


def _check(emitter: Emitter, call: Call, failure: Failure) -> None:
    """Fail where an entry of a divisor is 0."""
    wrong = any_entry(emitter, _entries(emitter, call, failure.is_raised, DType.BOOL))
    fault = Fault("ZeroDivisorError", failure.message, source=call.source)
    if wrong.is_scalar:
        emitter.checks.require(emitter.checks.negated(wrong), fault)
    else:
        emitter.checks.later(wrong, fault)


def _may_be_zero(divisor: Value) -> bool:
    """Whether an integer is divided by something that is not known to differ from 0."""
    return divisor.dtype.kind == "int" and (not isinstance(divisor.size, int) or divisor.size == 0)


def write_entries(emitter: Emitter, call: Call) -> Value:
    """The result of an elementwise operation, and the check of its divisor."""
    row = SCALARS[call.name]
    if row.failure is not None and _may_be_zero(call.inputs[1]):
        _check(emitter, call, row.failure)
    return _entries(emitter, call, row.write, call.types[0].dtype)


ELEMENTWISE = {name: Row(write_entries) for name in SCALARS}
