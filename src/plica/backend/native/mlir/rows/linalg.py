"""Contractions: products of matrices, Einstein sums, diagonals."""

from __future__ import annotations

from string import ascii_letters
from typing import TYPE_CHECKING

from plica.backend.native.mlir.contract import Factor, contract
from plica.backend.native.mlir.rows.row import Call, Row
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.structured import entry_at, indexed
from plica.backend.native.mlir.types import Value

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter


def _einsum(emitter: Emitter, call: Call) -> Value:
    left, _, result = call.params["equation"].replace(" ", "").partition("->")
    factors = [Factor(value, term) for value, term in zip(call.inputs, left.split(","), strict=True)]
    return contract(emitter, factors, result)


def _matmul(emitter: Emitter, call: Call) -> Value:
    first, second = call.inputs
    *letters, high, wide, inner = ascii_letters[: len(call.types[0].shape) + 3]
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
    offset = call.params["offset"]
    down, along = (index_constant(emitter.code, max(0, by)) for by in (-offset, offset))

    def body(places: list[str]) -> str:
        *batch, place = places
        row, column = (emitter.code.op(f"arith.addi {place}, {by} : index") for by in (down, along))
        return entry_at(emitter, x, [*batch, row, column])

    return indexed(emitter, type_.shape, type_.dtype, body)


LINALG = {"einsum": Row(_einsum), "matmul": Row(_matmul), "diagonal": Row(_diagonal)}
