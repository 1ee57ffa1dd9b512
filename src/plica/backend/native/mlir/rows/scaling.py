"""Rows divided by powers of two."""

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.entries import Entry, on_entries
from plica.backend.native.mlir.rows.reduce import MAX, reduced
from plica.backend.native.mlir.structured import entrywise, expand, generic
from plica.backend.native.mlir.types import Value, limits_of
from plica.backend.native.scalars.values import words


def _rescale(emitter: Emitter, call: Call) -> tuple[Value, Value]:
    """With E the bits of the exponent of the largest entry, 2^(E + 1 - bias) is the power of two above it.

    Entries are multiplied by four times its inverse and by a quarter: the inverse itself may be subnormal.
    """
    (x,), dtype = call.inputs, call.types[0].dtype
    limits, word, last = limits_of(dtype), words(dtype), len(x.shape) - 1
    mantissa, bias = limits.nmant, 1 - limits.minexp
    largest = reduced(emitter, x, [last], MAX, dtype)

    def power(top: Entry) -> Entry:
        return ((exponent(top) + 1) << mantissa).bits_as(dtype)

    def exponent(top: Entry) -> Entry:
        """The bits of the exponent; where there is no normal number, of one whose power is 1."""
        normal = (top >= float(limits.tiny)) & (top <= float(limits.max))
        return normal.where(top.bits_as(word) >> mantissa, bias - 1)

    def divided(entry: Entry, top: Entry) -> Entry:
        factor = ((2 * bias + 1 - exponent(top)) << mantissa).bits_as(dtype)
        return entry * factor * 0.25

    scale = entrywise(emitter, [largest], largest.shape, dtype, on_entries(emitter, [dtype], power))
    axes, start = range(last + 1), emitter.empty(x.shape, dtype)
    body = on_entries(emitter, [dtype] * 2, divided)
    (result,) = generic(emitter, [(x, axes), (largest, range(last))], [(start, axes)], [False] * (last + 1), body)
    scale = emitter.tensor(scale)
    return result, expand(emitter, scale, (*scale.shape, 1), list(range(last)))


SCALING = {"rescale": Row(_rescale)}
