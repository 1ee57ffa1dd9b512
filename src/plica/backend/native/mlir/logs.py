"""Contractions in log space: log sum_n w_n exp(a_n + b_n) for logarithms a, b and linear weights w.

The fast way subtracts from each factor its largest entry, the shift, and contracts exponentials as linear numbers:

    log sum_n w_n exp(a_n - max a) exp(b_n - max b)  +  max a  +  max b

A sum that underflows or overflows loses digits. Entries that may have lost some are computed again, each as a sum of
exponentials of terms that are added in log space (`exact.py`); where no entry has, nothing is.
"""

from collections.abc import Callable, Sequence

from plica.backend.native.mlir.blocks import either
from plica.backend.native.mlir.contract import Factor, contract, label_sizes
from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.exact import Exact
from plica.backend.native.mlir.structured import generic
from plica.backend.native.mlir.types import Value, limits_of
from plica.backend.native.scalars import Scalar, write_scalar
from plica.ir.dtypes import DType


def log_contract(
    emitter: Emitter,
    factors: Sequence[Factor],
    weight: Factor,
    log_source: Value | None,
    form: str | None,
    lost: float,
    result: str,
) -> Value:
    """The logarithm of a sum of products of exponentials and of a weight.

    Args:
        emitter: Where the lines go.
        factors: The logarithms, each with a label for each axis.
        weight: Linear numbers.
        log_source: The array from which the weight's logarithms are computed; the weight's last axes are one axis here.
        form: How they are computed: "log" where the array holds them, "log_softmax" over its last axis. None where the
            logarithms of the linear weight are exact enough.
        lost: The error that underflow may have made in an entry of the weight, in smallest normal numbers.
        result: The labels of the result; the others are summed over.
    """
    originals = [Factor(emitter.tensor(factor.value), factor.labels) for factor in factors]
    weight = Factor(emitter.tensor(weight.value), weight.labels)
    separate = _separated(emitter, originals, result)
    shifts = [_shift(emitter, factor, result) for factor in separate]
    exponentials = [_exponentials(emitter, factor, shift) for factor, shift in zip(separate, shifts, strict=True)]
    total = contract(emitter, [exponentials[0], weight, *exponentials[1:]], result)
    sizes = label_sizes([*separate, weight])
    fast = _logs(emitter, total, shifts, result)
    limit = _limit(emitter, weight.value, form, lost)
    is_any_lost = _is_any_lost(emitter, total, shifts, limit, result)
    summed = "".join(label for label in sizes if label not in result)
    if any(sizes[label] == 0 for label in summed) or 0 in total.shape:
        return fast
    # the lines of sizes stand before the branch, not within it
    bounds = {label: emitter.size(sizes[label]) for label in sizes}

    def repaired() -> list[Value]:
        exact = Exact(emitter, originals, weight, log_source, form, summed, bounds)
        return [_repaired(emitter, total, fast, shifts, limit, result, exact)]

    [chosen] = either(emitter, emitter.scalar(is_any_lost), [fast], repaired, lambda: [fast])
    return chosen


def _separated(emitter: Emitter, factors: Sequence[Factor], result: str) -> list[Factor]:
    """Adds factors that share a label which is summed over, so that each such label has one shift."""
    separate: list[Factor] = []
    for factor in factors:
        for index, other in enumerate(separate):
            if any(label in other.labels and label not in result for label in factor.labels):
                factor = _added(emitter, separate.pop(index), factor)
                break
        separate.append(factor)
    return separate


def _added(emitter: Emitter, first: Factor, second: Factor) -> Factor:
    """The sums of two arrays of logarithms, broadcast to the labels of both."""
    labels = "".join(dict.fromkeys(first.labels + second.labels))
    sizes = label_sizes([first, second])
    start = emitter.empty([sizes[label] for label in labels], first.value.dtype)
    return Factor(
        _over(emitter, labels, [first, second], start, lambda names: _sum_of(emitter, names[:2], start.dtype)), labels
    )


def _sum_of(emitter: Emitter, names: Sequence[str], dtype: DType) -> str:
    """The sum of two scalars; infinities are added as IEEE 754 says."""
    return write_scalar(emitter.scalars, "add", tuple(Scalar(name, dtype) for name in names), dtype).text


def _over(
    emitter: Emitter,
    loops: str,
    factors: Sequence[Factor],
    start: Value,
    body: Callable[[Sequence[str]], str],
    kept: str | None = None,
) -> Value:
    """One nest of loops, one for each label in `loops`; labels that are not `kept` (by default all are) are reduced."""
    kept = loops if kept is None else kept
    operands = [(factor.value, [loops.index(label) for label in factor.labels]) for factor in factors]
    kept_loops = [loops.index(label) for label in kept]
    return generic(emitter, operands, [(start, kept_loops)], [label not in kept for label in loops], body)[0]


def _shift(emitter: Emitter, factor: Factor, result: str) -> Factor:
    """The largest entries of a factor along the labels that are summed over, kept finite: `inf - inf` would be NaN."""
    x, kept = factor.value, "".join(label for label in factor.labels if label in result)
    scalars, limits = emitter.scalars, limits_of(x.dtype)
    shape = [x.shape[factor.labels.index(label)] for label in kept]
    start = emitter.full(shape, emitter.constant(float(limits.min), x.dtype))

    def body(names: Sequence[str]) -> str:
        entry, old = (Scalar(name, x.dtype) for name in names)
        return scalars.minimum(scalars.maximum(old, entry), scalars.constant(float(limits.max), x.dtype)).text

    return Factor(_over(emitter, factor.labels, [factor], start, body, kept), kept)


def _exponentials(emitter: Emitter, factor: Factor, shift: Factor) -> Factor:
    """The exponentials of `factor - shift`: 1 at the largest entry."""
    x, scalars = factor.value, emitter.scalars

    def body(names: Sequence[str]) -> str:
        entry, shift_entry, _ = (Scalar(name, x.dtype) for name in names)
        return write_scalar(scalars, "exp", (scalars.subtract(entry, shift_entry),), x.dtype).text

    start = emitter.empty(x.shape, x.dtype)
    return Factor(_over(emitter, factor.labels, [factor, shift], start, body), factor.labels)


def _logs(emitter: Emitter, total: Value, shifts: Sequence[Factor], result: str) -> Value:
    """The logarithms of the sums, with the shifts added back."""
    scalars, dtype = emitter.scalars, total.dtype

    def body(names: Sequence[str]) -> str:
        entry, *shift_entries = (Scalar(name, dtype) for name in names[:-1])
        logarithm = write_scalar(scalars, "log", (entry,), dtype)
        for shift in shift_entries:
            logarithm = scalars.add(logarithm, shift)
        return logarithm.text

    start = emitter.empty(total.shape, dtype)
    return _over(emitter, result, [Factor(total, result), *shifts], start, body)


def _limit(emitter: Emitter, weight: Value, form: str | None, lost: float) -> Value:
    """A scalar: a sum below it may have lost digits to underflow.

    It is `lost` smallest normal numbers, divided by the precision of the dtype, times the largest entry of the weight.
    A softmax has no entry above 1.
    """
    dtype, limits = weight.dtype, limits_of(weight.dtype)
    least = min(float(limits.tiny) / float(limits.eps) * lost, float(limits.max))
    start = emitter.full((), emitter.constant(least, dtype))
    if form == "log_softmax":
        return start
    scalars, rank = emitter.scalars, len(weight.shape)

    def body(names: Sequence[str]) -> str:
        entry, old = (Scalar(name, dtype) for name in names)
        scaled = scalars.multiply(scalars.absolute(entry), scalars.constant(least, dtype))
        most = scalars.minimum(scaled, scalars.constant(float(limits.max), dtype))
        return scalars.maximum(old, most).text

    return generic(emitter, [(weight, range(rank))], [(start, ())], [True] * rank, body)[0]


def _is_lost(emitter: Emitter, total: Scalar, shifts: Sequence[Scalar], limit: Scalar) -> Scalar:
    """Whether a sum may have lost digits. A sum of zeros, one of whose shifts is the least number, has lost none."""
    scalars, limits = emitter.scalars, limits_of(total.dtype)
    small = scalars.compare("less", total, limit)
    for shift in shifts:
        is_nonzero = scalars.compare("greater", shift, scalars.constant(float(limits.min), total.dtype))
        small = scalars.and_(small, is_nonzero)
    large = scalars.compare("greater", total, scalars.constant(float(limits.max), total.dtype))
    return scalars.or_(small, large)


def _is_any_lost(emitter: Emitter, total: Value, shifts: Sequence[Factor], limit: Value, result: str) -> Value:
    """Whether some sum may have lost digits: a boolean tensor without axes."""
    dtype, scalars = total.dtype, emitter.scalars

    def body(names: Sequence[str]) -> str:
        entry, *shift_entries, least = (Scalar(name, dtype) for name in names[:-1])
        return scalars.or_(Scalar(names[-1], DType.BOOL), _is_lost(emitter, entry, shift_entries, least)).text

    start = emitter.full((), emitter.constant(False, DType.BOOL))
    return _over(emitter, result, [Factor(total, result), *shifts, Factor(limit, "")], start, body, "")


def _repaired(
    emitter: Emitter,
    total: Value,
    fast: Value,
    shifts: Sequence[Factor],
    limit: Value,
    result: str,
    exact: Exact,
) -> Value:
    """The logarithms `fast`; where the sum may have lost digits, those that `exact` computes."""
    dtype, code = total.dtype, emitter.code

    def body(names: Sequence[str]) -> str:
        entry, fast_log, *shift_entries, least = (Scalar(name, dtype) for name in names[:-1])
        indices = {label: code.op(f"linalg.index {loop} : index") for loop, label in enumerate(result)}
        is_lost, name = _is_lost(emitter, entry, shift_entries, least), code.name()
        code.put(f"{name} = scf.if {is_lost.text} -> ({total.element}) {{")
        with code.block():
            code.put(f"scf.yield {exact.entry(indices).text} : {total.element}")
        code.put("} else {")
        code.put(f"  scf.yield {fast_log.text} : {total.element}")
        code.put("}")
        return name

    start = emitter.empty(total.shape, dtype)
    operands = [Factor(total, result), Factor(fast, result), *shifts, Factor(limit, "")]
    return _over(emitter, result, operands, start, body)
