"""Contractions in log space: products of exponentials, shifted so that the largest is 1, summed as linear numbers.

A sum that underflows or overflows loses digits. The lost entries are computed again, each as a sum of exponentials of
terms that are added in log space.
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
        emitter: Where its lines go.
        factors: The logarithms.
        weight: Ordinary numbers.
        log_source: The array from which the weight's logarithms are computed. It has one axis in place of the weight's
            last axes.
        form: "log" if it contains the logarithms, "log_softmax" if they are its log-softmax; None without `log_source`.
        lost: How many smallest normal numbers an entry of the weight may lack.
        result: The labels of the result; the others are summed over.
    """
    tensor_factors = [Factor(emitter.tensor(factor.value), factor.labels) for factor in factors]
    weight = Factor(emitter.tensor(weight.value), weight.labels)
    separated = _separated(emitter, tensor_factors, result)
    shifts = [_shift(emitter, factor, result) for factor in separated]
    powers = [_powers(emitter, factor, shift) for factor, shift in zip(separated, shifts, strict=True)]
    total = contract(emitter, [powers[0], weight, *powers[1:]], result)
    sizes = label_sizes([*separated, weight])
    fast = _logs(emitter, total, shifts, result)
    limit = _limit(emitter, weight.value, form, lost)
    some = _some_lost(emitter, total, shifts, limit, result)
    summed = "".join(label for label in sizes if label not in result)
    if any(sizes[label] == 0 for label in summed) or 0 in total.shape:
        return fast
    # sizes are written before the branch, and not first within it
    bounds = {label: emitter.size(sizes[label]) for label in sizes}

    def repaired() -> list[Value]:
        exact = Exact(emitter, tensor_factors, weight, log_source, form, summed, bounds)
        return [_repaired(emitter, total, fast, shifts, limit, result, exact)]

    [chosen] = either(emitter, emitter.scalar(some), [fast], repaired, lambda: [fast])
    return chosen


def _separated(emitter: Emitter, factors: Sequence[Factor], result: str) -> list[Factor]:
    """Factors of which no two share a summed label: those that do are added."""
    separated: list[Factor] = []
    for factor in factors:
        for index, other in enumerate(separated):
            if any(label in other.labels and label not in result for label in factor.labels):
                factor = _added(emitter, separated.pop(index), factor)
                break
        separated.append(factor)
    return separated


def _added(emitter: Emitter, first: Factor, second: Factor) -> Factor:
    labels = "".join(dict.fromkeys(first.labels + second.labels))
    sizes = label_sizes([first, second])
    start = emitter.empty([sizes[label] for label in labels], first.value.dtype)
    return Factor(
        _over(emitter, labels, [first, second], start, lambda names: _plain(emitter, "add", names[:2], start.dtype)),
        labels,
    )


def _plain(emitter: Emitter, name: str, names: Sequence[str], dtype: DType) -> str:
    return write_scalar(emitter.scalars, name, tuple(Scalar(name, dtype) for name in names), dtype).text


def _over(
    emitter: Emitter,
    loops: str,
    factors: Sequence[Factor],
    start: Value,
    body: Callable[[Sequence[str]], str],
    kept_labels: str | None = None,
) -> Value:
    """A nest over labels; those that are not in `kept_labels` are reduced."""
    kept_labels = loops if kept_labels is None else kept_labels
    operands = [(factor.value, [loops.index(label) for label in factor.labels]) for factor in factors]
    axes = [loops.index(label) for label in kept_labels]
    return generic(emitter, operands, [(start, axes)], [label not in kept_labels for label in loops], body)[0]


def _shift(emitter: Emitter, factor: Factor, result: str) -> Factor:
    """The largest entries along the summed labels, clamped to finite numbers: `inf - inf` would be NaN."""
    x, kept_labels = factor.value, "".join(label for label in factor.labels if label in result)
    scalars, limits = emitter.scalars, limits_of(x.dtype)
    shape = [x.shape[factor.labels.index(label)] for label in kept_labels]
    start = emitter.full(shape, emitter.constant(float(limits.min), x.dtype))

    def body(names: Sequence[str]) -> str:
        entry, old = (Scalar(name, x.dtype) for name in names)
        return scalars.minimum(scalars.maximum(old, entry), scalars.constant(float(limits.max), x.dtype)).text

    return Factor(_over(emitter, factor.labels, [factor], start, body, kept_labels), kept_labels)


def _powers(emitter: Emitter, factor: Factor, shift: Factor) -> Factor:
    """The exponentials of the shifted logarithms."""
    x, scalars = factor.value, emitter.scalars

    def body(names: Sequence[str]) -> str:
        entry, by, _ = (Scalar(name, x.dtype) for name in names)
        return write_scalar(scalars, "exp", (scalars.subtract(entry, by),), x.dtype).text

    start = emitter.empty(x.shape, x.dtype)
    return Factor(_over(emitter, factor.labels, [factor, shift], start, body), factor.labels)


def _logs(emitter: Emitter, total: Value, shifts: Sequence[Factor], result: str) -> Value:
    """The logarithms of sums, without the shifts."""
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
    """The least sum that is right to rounding, though each of its factors may lack up to a smallest number."""
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
    """Whether a sum has lost digits; not if all its terms are zeros."""
    scalars, limits = emitter.scalars, limits_of(total.dtype)
    small = scalars.compare("less", total, limit)
    for shift in shifts:
        some = scalars.compare("greater", shift, scalars.constant(float(limits.min), total.dtype))
        small = scalars.and_(small, some)
    large = scalars.compare("greater", total, scalars.constant(float(limits.max), total.dtype))
    return scalars.or_(small, large)


def _some_lost(emitter: Emitter, total: Value, shifts: Sequence[Factor], limit: Value, result: str) -> Value:
    """Whether some sum has lost digits, as an array of no dimension."""
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
    """The logarithms, computed again where they are lost."""
    dtype, code = total.dtype, emitter.code

    def body(names: Sequence[str]) -> str:
        entry, fast_sum, *shift_entries, least = (Scalar(name, dtype) for name in names[:-1])
        indices = {label: code.op(f"linalg.index {loop} : index") for loop, label in enumerate(result)}
        lost, name = _is_lost(emitter, entry, shift_entries, least), code.name()
        code.put(f"{name} = scf.if {lost.text} -> ({total.element}) {{")
        with code.block():
            code.put(f"scf.yield {exact.entry(indices).text} : {total.element}")
        code.put("} else {")
        code.put(f"  scf.yield {fast_sum.text} : {total.element}")
        code.put("}")
        return name

    start = emitter.empty(total.shape, dtype)
    operands = [Factor(total, result), Factor(fast, result), *shifts, Factor(limit, "")]
    return _over(emitter, result, operands, start, body)
