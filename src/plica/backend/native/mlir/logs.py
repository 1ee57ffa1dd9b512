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
    given: Value | None,
    form: str | None,
    lost: float,
    result: str,
) -> Value:
    """The logarithm of a sum of products of exponentials and of a weight.

    Args:
        emitter: Where its lines go.
        factors: The logarithms.
        weight: Ordinary numbers.
        given: The array from which the weight's logarithms are computed; its last axes are one.
        form: How: "log" or "log_softmax"; None where they are those of the weight.
        lost: How many smallest normal numbers an entry of the weight may lack.
        result: The labels of the result; the others are summed over.
    """
    whole = [Factor(emitter.tensor(factor.value), factor.labels) for factor in factors]
    weight = Factor(emitter.tensor(weight.value), weight.labels)
    apart = _separated(emitter, whole, result)
    shifts = [_shift(emitter, factor, result) for factor in apart]
    powers = [_powers(emitter, factor, shift) for factor, shift in zip(apart, shifts, strict=True)]
    total = contract(emitter, [powers[0], weight, *powers[1:]], result)
    sizes = label_sizes([*apart, weight])
    fast = _logs(emitter, total, shifts, result)
    limit = _limit(emitter, weight.value, form, lost)
    some = _some_lost(emitter, total, shifts, limit, result)
    summed = "".join(label for label in sizes if label not in result)
    if any(sizes[label] == 0 for label in summed) or 0 in total.shape:
        return fast
    # the sizes are written here, and not first within the branch
    bounds = {label: emitter.size(sizes[label]) for label in sizes}

    def repaired() -> list[Value]:
        exact = Exact(emitter, whole, weight, given, form, summed, bounds)
        return [_repaired(emitter, total, fast, shifts, limit, result, exact)]

    [chosen] = either(emitter, emitter.scalar(some), [fast], repaired, lambda: [fast])
    return chosen


def _separated(emitter: Emitter, factors: Sequence[Factor], result: str) -> list[Factor]:
    """Factors no two of which share a label that is summed over: those that do are added."""
    done: list[Factor] = []
    for factor in factors:
        for index, other in enumerate(done):
            if any(label in other.labels and label not in result for label in factor.labels):
                factor = _added(emitter, done.pop(index), factor)
                break
        done.append(factor)
    return done


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
    kept: str | None = None,
) -> Value:
    """A nest over labels; those that are not `kept` are reduced."""
    kept = loops if kept is None else kept
    operands = [(factor.value, [loops.index(label) for label in factor.labels]) for factor in factors]
    places = [loops.index(label) for label in kept]
    return generic(emitter, operands, [(start, places)], [label not in kept for label in loops], body)[0]


def _shift(emitter: Emitter, factor: Factor, result: str) -> Factor:
    """The largest entries along what is summed over, kept finite: `inf - inf` would be NaN."""
    x, kept = factor.value, "".join(label for label in factor.labels if label in result)
    scalars, limits = emitter.scalars, limits_of(x.dtype)
    shape = [x.shape[factor.labels.index(label)] for label in kept]
    start = emitter.full(shape, emitter.constant(float(limits.min), x.dtype))

    def body(names: Sequence[str]) -> str:
        entry, old = (Scalar(name, x.dtype) for name in names)
        return scalars.minimum(scalars.maximum(old, entry), scalars.constant(float(limits.max), x.dtype)).text

    return Factor(_over(emitter, factor.labels, [factor], start, body, kept), kept)


def _powers(emitter: Emitter, factor: Factor, shift: Factor) -> Factor:
    """The exponentials of what is shifted."""
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
        entry, *given = (Scalar(name, dtype) for name in names[:-1])
        logarithm = write_scalar(scalars, "log", (entry,), dtype)
        for shift in given:
            logarithm = scalars.add(logarithm, shift)
        return logarithm.text

    start = emitter.empty(total.shape, dtype)
    return _over(emitter, result, [Factor(total, result), *shifts], start, body)


def _limit(emitter: Emitter, weight: Value, form: str | None, lost: float) -> Value:
    """The least sum that has kept its digits, though each of its factors lacks up to a smallest number."""
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
    """Whether a sum has lost digits: not where all terms are zeros, which are none."""
    scalars, limits = emitter.scalars, limits_of(total.dtype)
    small = scalars.compare("less", total, limit)
    for shift in shifts:
        some = scalars.compare("greater", shift, scalars.constant(float(limits.min), total.dtype))
        small = scalars.and_(small, some)
    large = scalars.compare("greater", total, scalars.constant(float(limits.max), total.dtype))
    return scalars.or_(small, large)


def _some_lost(emitter: Emitter, total: Value, shifts: Sequence[Factor], limit: Value, result: str) -> Value:
    """Whether some sum has, of no dimension."""
    dtype, scalars = total.dtype, emitter.scalars

    def body(names: Sequence[str]) -> str:
        entry, *given, least = (Scalar(name, dtype) for name in names[:-1])
        return scalars.or_(Scalar(names[-1], DType.BOOL), _is_lost(emitter, entry, given, least)).text

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
        entry, fast_sum, *given, least = (Scalar(name, dtype) for name in names[:-1])
        places = {label: code.op(f"linalg.index {loop} : index") for loop, label in enumerate(result)}
        lost, name = _is_lost(emitter, entry, given, least), code.name()
        code.put(f"{name} = scf.if {lost.text} -> ({total.element}) {{")
        with code.block():
            code.put(f"scf.yield {exact.entry(places).text} : {total.element}")
        code.put("} else {")
        code.put(f"  scf.yield {fast_sum.text} : {total.element}")
        code.put("}")
        return name

    start = emitter.empty(total.shape, dtype)
    operands = [Factor(total, result), Factor(fast, result), *shifts, Factor(limit, "")]
    return _over(emitter, result, operands, start, body)
