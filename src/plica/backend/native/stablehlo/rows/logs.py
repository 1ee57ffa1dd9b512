"""Sums of products whose factors are logarithms, or directions and sizes.

The product is computed from exponentials divided by the largest one of their row. If terms of an entry may have
underflowed, a branch that runs only in this case computes all entries again, term by term.
"""

import math
from collections.abc import Sequence

import numpy as np

from plica.backend.native.stablehlo.call import Row, of
from plica.backend.native.stablehlo.rows.linalg import batched, diagonals, einsum
from plica.backend.native.stablehlo.rows.reduce import log_softmax
from plica.backend.native.stablehlo.values import Value, branches, joined
from plica.ir.sizes import Dim, Size


def _logarithms(values: Value, logs: str) -> Value:
    return values if logs == "log" else log_softmax(values, axis=-1)


def _log_matmul_exp(*operands: Value, logs: str | None = None, lost: float = 1.0) -> Value:
    values = list(operands)
    logarithms = None if logs is None else values.pop()
    weight = values.pop()
    letters, (left, right), factors = batched(joined(values, -1), weight, 2)
    return _log_sum(f"{left}mk,{right}nk->{letters}mn", factors, logarithms, logs, lost)


def _log_einsum_exp(*operands: Value, equation: str, logs: str | None = None, lost: float = 1.0) -> Value:
    factors = list(operands if logs is None else operands[:-1])
    return _log_sum(equation, factors, None if logs is None else operands[-1], logs, lost)


def _log_sum(equation: str, factors: Sequence[Value], logarithms: Value | None, logs: str | None, lost: float) -> Value:
    """The logarithm of an Einstein sum of exponentials and of a weight, which is the last factor."""
    left, _, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    weight = factors[-1]
    shifts, powers = [], []
    for x, term in zip(factors[:-1], terms, strict=False):
        axes = [axis for axis, letter in enumerate(term) if letter not in result]
        largest = x.max(axes, keep=True)
        shift = largest.is_finite().where(largest, 0.0)
        powers.append((x - shift).exp())
        shifts.append(_spread(shift.drop(*axes) if axes else shift, _letters_in_result(term, result), result))
    total = einsum(equation, [*powers, weight])
    largest = shifts[0]
    for other_shift in shifts[1:]:
        largest = largest + other_shift
    fast = total.log() + largest
    limits = np.finfo(weight.dtype.numpy)
    # the error of a term that underflows is below the least normal number; `number` counts the terms of a sum
    least = float(limits.tiny) / float(limits.eps) * max(lost, 1.0)
    summed = {letter: x.shape[axis] for x, term in zip(factors, terms, strict=True) for axis, letter in enumerate(term)}
    number = _number([dim for letter, dim in summed.items() if letter not in result], weight)
    doubtful = (~(total >= number * least)).any(range(total.rank))

    def exact() -> list[Value]:
        log_weight = (
            weight.log() if logarithms is None or logs is None else _logarithms(logarithms, logs).reshape(weight.shape)
        )
        return [_exact(terms, [*factors[:-1], log_weight], result).spread(fast.shape)]

    return branches(doubtful, [exact, lambda: [fast]])[0]


def _number(dims: Sequence[Dim], like: Value) -> Value:
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return (
        like.size(total).astype(like.dtype).maximum(1.0) if isinstance(total, Size) else like.like(float(max(total, 1)))
    )


def _letters_in_result(term: str, result: str) -> str:
    return "".join(letter for letter in term if letter in result)


def _spread(x: Value, term: str, letters: str) -> Value:
    """`x` with its axes in the order of `letters`, and axes of size 1 for those that it lacks."""
    ordered = x.transpose([term.index(letter) for letter in letters if letter in term])
    missing = [axis for axis, letter in enumerate(letters) if letter not in term]
    return ordered.expand(*missing) if missing else ordered


def _exact(terms: Sequence[str], factors: Sequence[Value], result: str) -> Value:
    """The logarithm of the sum of exponentials, with axes for all terms."""
    summed_letters = sorted({letter for term in terms for letter in term if letter not in result})
    letters = result + "".join(summed_letters)
    unique = [diagonals(term, x, -math.inf, Value.max) for term, x in zip(terms, factors, strict=True)]
    spread = [_spread(x, term, letters) for term, x in unique]
    total = spread[0]
    for factor in spread[1:]:
        total = total + factor
    axes = list(range(len(result), len(letters)))
    largest = total.max(axes, keep=True) if axes else total
    shift = largest.is_finite().where(largest, 0.0)
    scaled = (total - shift).exp()
    return (scaled.sum(axes).log() + shift.drop(*axes)) if axes else scaled.log() + shift


def _directed_matmul(
    direction: Value, size: Value, weight: Value, *logarithms: Value, logs: str | None = None
) -> tuple[Value, Value]:
    """`directed_matmul` with an axis for the terms of each sum; each term is divided by the largest of its sum."""
    zero = weight.like(0)
    if logarithms:
        log_weight = _logarithms(logarithms[0], logs or "log")
        turn = (log_weight * 0.0).exp() if weight.dtype.kind == "float" else None
        turn = zero.spread(weight.shape) + 1 if turn is None else turn
    else:
        log_weight = weight.absolute().log()
        turn = weight.equals(0).where(zero, weight * _like((-log_weight).exp(), weight))
    phases = direction.expand(2) * turn.expand(1)
    sizes = size.expand(2) + log_weight.expand(1)
    counted = (phases.differs(0) & (sizes > -math.inf)).where(sizes, -math.inf)
    largest = counted.max((-1,), keep=True)
    row = _of_row(direction, size)
    shift = (largest > -math.inf).where(largest, row.expand(2))
    factors = _like((counted - shift).exp(), phases)
    total = (counted > -math.inf).where(phases * factors, 0).sum((-1,))
    length = total.absolute()
    is_some = length > 0.0
    logarithm = is_some.where(length.log(), 0.0)
    return is_some.where(total * _like((-logarithm).exp(), total), 0), logarithm + is_some.where(shift.drop(-1), row)


def _like(x: Value, like: Value) -> Value:
    """Real numbers in the dtype of others."""
    return x.astype(like.dtype)


def _of_row(direction: Value, size: Value) -> Value:
    counted = direction.differs(0).where(size, -math.inf).max((-1,), keep=True)
    return (counted > -math.inf).where(counted, size.reduce("maximum", 0.0, (-1,), keep=True))


LOGS: dict[str, Row] = {
    "directed_matmul": of(_directed_matmul),
    "log_einsum_exp": of(_log_einsum_exp),
    "log_matmul_exp": of(_log_matmul_exp),
}
