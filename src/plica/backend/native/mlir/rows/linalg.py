"""Contractions: products of matrices, Einstein sums, in log space too, diagonals."""

from collections.abc import Sequence
from string import ascii_letters

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.contract import Factor, contract
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.logs import log_contract
from plica.backend.native.mlir.rows.shape import join
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.structured import apart, entry_at, indexed
from plica.backend.native.mlir.types import Value


def _einsum(emitter: Emitter, call: Call) -> Value:
    left, _, result = call.params["equation"].replace(" ", "").partition("->")
    factors = [Factor(value, term) for value, term in zip(call.inputs, left.split(","), strict=True)]
    return contract(emitter, factors, result)


def _matmul(emitter: Emitter, call: Call) -> Value:
    first, second = call.inputs
    *letters, high, wide, inner = list(ascii_letters[: len(call.types[0].shape) + 3])
    left = inner if len(first.shape) == 1 else high + inner
    right = inner if len(second.shape) == 1 else inner + wide
    batch = max(len(first.shape), len(second.shape)) - 2

    def axes(rank: int) -> str:
        return "".join(letters[max(0, batch - rank + 2) : max(0, batch)])

    result = axes(batch + 2) + (high if len(first.shape) > 1 else "") + (wide if len(second.shape) > 1 else "")
    factors = [Factor(first, axes(len(first.shape)) + left), Factor(second, axes(len(second.shape)) + right)]
    return contract(emitter, factors, result)


def _diagonal(emitter: Emitter, call: Call) -> Value:
    (x,), (type_,) = call.inputs, call.types
    x, offset = apart(emitter, x), call.params["offset"]
    down, along = (index_constant(emitter.code, max(0, by)) for by in (-offset, offset))

    def body(indices: Sequence[str]) -> str:
        *batch, index = indices
        row, column = (emitter.code.op(f"arith.addi {index}, {by} : index") for by in (down, along))
        return entry_at(emitter, x, [*batch, row, column])

    return indexed(emitter, type_.shape, type_.dtype, body)


def _log_matmul_exp(emitter: Emitter, call: Call) -> Value:
    (*inputs, weight), log_source = _with_log_source(call)
    *letters, sums, rows, units = list(ascii_letters[: len(call.types[0].shape) + 1])
    tensors = [emitter.tensor(operand) for operand in inputs]
    x = join(emitter, tensors, len(tensors[0].shape) - 1)
    batch = "".join(letters)
    factor = Factor(x, batch[len(batch) - len(x.shape) + 2 :] + rows + units)
    weighted = Factor(weight, batch[len(batch) - len(weight.shape) + 2 :] + sums + units)
    return log_contract(emitter, [factor], weighted, log_source, *_form(call), batch + rows + sums)


def _log_einsum_exp(emitter: Emitter, call: Call) -> Value:
    operands, log_source = _with_log_source(call)
    left, _, result = call.params["equation"].replace(" ", "").partition("->")
    *factors, weight = (Factor(value, term) for value, term in zip(operands, left.split(","), strict=True))
    return log_contract(emitter, factors, weight, log_source, *_form(call), result)


def _with_log_source(call: Call) -> tuple[Sequence[Value], Value | None]:
    """The logarithms and the weight; and the array from which the weight's logarithms are computed, or None."""
    return (call.inputs, None) if call.params.get("logs") is None else (call.inputs[:-1], call.inputs[-1])


def _form(call: Call) -> tuple[str | None, float]:
    """The arguments `form` and `lost` of `log_contract`."""
    return call.params.get("logs"), call.params.get("lost", 1.0)


LINALG = {
    "log_matmul_exp": Row(_log_matmul_exp, reads_memory=True),
    "log_einsum_exp": Row(_log_einsum_exp, reads_memory=True),
    "einsum": Row(_einsum, reads_memory=True),
    "matmul": Row(_matmul, reads_memory=True),
    "diagonal": Row(_diagonal, reads_memory=True),
}
