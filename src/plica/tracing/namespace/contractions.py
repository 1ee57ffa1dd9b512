"""Contractions: products of matrices and Einstein sums, linear and in log space."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from plica.errors import ShapeError
from plica.ops.rules import normal_axis
from plica.tracing.locations import user_line
from plica.tracing.namespace.elementwise import conj
from plica.tracing.namespace.operands import Array, as_static_integer, as_tracer, promoted
from plica.tracing.namespace.shapes import expand_dims, moveaxis, squeeze
from plica.tracing.scope import record, record_all
from plica.tracing.tracer import Tracer


def matmul(x1: Array, x2: Array, /) -> Tracer:
    """The matrix product; the axes before the last two broadcast.

    An array of one axis is a row on the left and a column on the right, whose axis of size 1 is not in the result.
    """
    return record("matmul", *promoted("matmul", [x1, x2]))


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Tracer:
    """The sum of products along `axis`, of `x1` conjugated where it is complex; the other axes broadcast."""
    first, second = as_tracer("vecdot", x1), as_tracer("vecdot", x2)
    if axis >= 0 and first.ndim != second.ndim:
        raise ShapeError(
            f"{user_line()}: vecdot of {first.aval} and {second.aval} counts axes from the end, found {axis}; "
            "give a negative axis."
        )
    row, column = (moveaxis(operand, normal_axis(axis, operand.ndim), -1) for operand in (first, second))
    return squeeze(matmul(expand_dims(conj(row), axis=-2), expand_dims(column, axis=-1)), (-2, -1))


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tracer:
    """Products summed over pairs of axes: the last `axes` of `x1` and the first of `x2`, or those of two sequences."""
    first, second = as_tracer("tensordot", x1), as_tracer("tensordot", x2)
    left, right = _paired_axes(first, second, axes)
    letters = iter(ascii_letters)
    first_letters = [next(letters) for _ in range(first.ndim)]
    second_letters = [
        first_letters[left[right.index(axis)]] if axis in right else next(letters) for axis in range(second.ndim)
    ]
    result_letters = [
        letter
        for letter in (*first_letters, *second_letters)
        if not (letter in first_letters and letter in second_letters)
    ]
    equation = f"{''.join(first_letters)},{''.join(second_letters)}->{''.join(result_letters)}"
    return record("einsum", *promoted("tensordot", [first, second]), equation=equation)


def _paired_axes(
    first: Tracer, second: Tracer, axes: int | tuple[Sequence[int], Sequence[int]]
) -> tuple[list[int], list[int]]:
    if not isinstance(axes, Sequence):
        axes = as_static_integer("the number of axes of tensordot", axes)
        if not 0 <= axes <= min(first.ndim, second.ndim):
            raise ShapeError(f"{user_line()}: tensordot cannot contract {axes} axes of {first.aval} and {second.aval}.")
        return list(range(first.ndim - axes, first.ndim)), list(range(axes))
    left, right = axes
    pair = [normal_axis(axis, first.ndim) for axis in left], [normal_axis(axis, second.ndim) for axis in right]
    if any(len(dict.fromkeys(listed)) != len(listed) for listed in pair) or len(pair[0]) != len(pair[1]):
        raise ShapeError(f"{user_line()}: tensordot pairs axes, each named once, found {left} and {right}.")
    return pair


def einsum(equation: str, *arrays: Array) -> Tracer:
    """An Einstein sum.

    A letter that occurs twice in a term is a diagonal; `...` stands for further axes, which broadcast. Without `->`
    the result has the axes of `...`, then letters that occur once, in alphabetical order.
    """
    operands = [as_tracer("einsum", array) for array in arrays]
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ShapeError(f"{user_line()}: einsum {equation!r} needs one term for each of {len(operands)} operands.")
    if not arrow:
        once = sorted(letter for letter in dict.fromkeys(left) if letter.isalpha() and left.count(letter) == 1)
        right = f"{'...' if '...' in left else ''}{''.join(once)}"
    if "..." in left or "..." in right:
        terms, right, operands = _without_ellipsis(equation, terms, right, operands)
    return record("einsum", *promoted("einsum", operands), equation=f"{','.join(terms)}->{right}")


def _without_ellipsis(
    equation: str, terms: list[str], right: str, operands: list[Tracer]
) -> tuple[list[str], str, list[Tracer]]:
    """The equation with letters for `...`, and the operands without axes of size 1 that are to be broadcast."""
    ranks = [x.ndim - len(term) + 3 if "..." in term else 0 for term, x in zip(terms, operands, strict=True)]
    rank = max(ranks)
    if min(ranks) < 0 or ("..." not in right and rank):
        shown = ", ".join(str(x.aval) for x in operands)
        why = "the result needs '...' too" if min(ranks) >= 0 else "a term has more letters than its operand has axes"
        raise ShapeError(f"{user_line()}: einsum {equation!r} of {shown}: {why}.")
    letters = [letter for letter in ascii_letters if letter not in equation][:rank]
    wide = {
        letter
        for x, count, term in zip(operands, ranks, terms, strict=True)
        for letter, size in zip(letters[rank - count :], x.dims[term.find(".") :], strict=False)
        if "..." in term and size != 1
    }
    for position, (term, x, count) in enumerate(zip(terms, operands, ranks, strict=True)):
        if "..." not in term:
            continue
        start, own = term.index("."), letters[rank - count :]
        single = [i for i, letter in enumerate(own) if letter in wide and x.dims[start + i] == 1]
        operands[position] = squeeze(x, tuple(start + i for i in single)) if single else x
        terms[position] = term.replace("...", "".join(letter for i, letter in enumerate(own) if i not in single))
    return terms, right.replace("...", "".join(letters)), operands


def log_matmul_exp(
    x: Tracer | Sequence[Tracer],
    weight: Tracer,
    logs: Tracer | None = None,
    form: str = "log",
    lost: float = 1.0,
) -> Tracer:
    """`log(exp(x) @ weight.T)`: inputs in log space, the weight linear and not negative.

    With m the largest of a row's inputs, `log(exp(x - m) @ weight.T) + m`; the error is that of a sum of as many terms.
    Where every term `weight * exp(x - m)` is below the smallest normal number of the dtype (float32: 1.2e-38, float64:
    2.2e-308), torch takes the logarithm of each term first: of such results alone where a branch may depend on them, as
    on the CPU, else of all. A row of `-inf` gives `-inf`, gradient 0.

    Args:
        x: The inputs.
        weight: Ordinary numbers.
        logs: The source of the weight's logarithms where it may underflow: an array of its shape.
        form: `"log"` where `logs` are the logarithms, `"log_softmax"` where the log-softmax of their last axis is.
        lost: The error that underflow may have made in an entry of `weight`, in smallest normal numbers.

    Shapes: x (..., B, I) or H of them, weight (..., O, H*I), result (..., B, O).
    """
    inputs = [x] if isinstance(x, Tracer) else list(x)
    if not inputs:
        raise ShapeError(f"{user_line()}: log_matmul_exp multiplies values, found none; give a list of one or more.")
    if logs is None:
        return record("log_matmul_exp", *inputs, weight)
    return record("log_matmul_exp", *inputs, weight, logs, logs=form, **_losses(lost))


def log_einsum_exp(
    equation: str,
    values: Sequence[Tracer],
    weight: Tracer,
    logs: Tracer | None = None,
    form: str = "log",
    lost: float = 1.0,
) -> Tracer:
    """`log(einsum(equation, exp(values)..., weight))`: values in log space, the weight linear and not negative.

    Values of one term are added first. Each value is then shifted by its largest entry along the axes that are summed
    out: the error, and below which ratio of terms a result becomes `-inf`, are those of `log_matmul_exp`; so are the
    `logs`, which have the axes of the weight behind its second as one.
    """
    if not values:
        raise ShapeError(f"{user_line()}: log_einsum_exp multiplies values, found none; give a list of one or more.")
    if logs is None:
        return record("log_einsum_exp", *values, weight, equation=equation)
    return record("log_einsum_exp", *values, weight, logs, equation=equation, logs=form, **_losses(lost))


def log_multivariate_normal(scores: Array, factor: Array, missing: Array | None = None, /) -> Tracer:
    """The logarithms of normal densities of mean 0 and covariance `factor @ factor.T`, of the entries that are there.

    Computed in float64. In torch on the CPU a factorization is made for each pattern of missing entries; elsewhere, and
    under `torch.compile`, for all patterns that there may be or, where rows are fewer, for each row.

    Args:
        scores: The vectors.
        factor: Matrices, of which the lower triangle is read; no zeros in the diagonal.
        missing: Which entries of each row are not there, whatever `scores` has there; none by default.

    Shapes: scores (F, B, K, V), factor (F, K, V, V), missing (F, B, V), result (F, B, K).
    """
    name = "log_multivariate_normal"
    masks = () if missing is None else (as_tracer(name, missing),)
    return record(name, *promoted(name, [scores, factor]), *masks)


def regression_matrix(factor: Array, missing: Array, /) -> Tracer:
    """The matrices that complete vectors of mean 0 and covariance `factor @ factor.T` by the means of what rows lack.

    A matrix times what is known is what is known and, of the rest, the mean given it; columns of the rest are 0. It is
    computed in float64, with as many factorizations as `log_multivariate_normal` makes.

    Args:
        factor: Matrices, of which the lower triangle is read; no zeros in the diagonal.
        missing: Which entries of each row are not there.

    Shapes: factor (F, K, V, V), missing (F, B, V), result (F, B, K, V, V).
    """
    name = "regression_matrix"
    return record(name, as_tracer(name, factor), as_tracer(name, missing))


def conditional_factor(factor: Array, missing: Array, /) -> Tracer:
    """The factors of covariances of what each row lacks, given the rest, where those of all are `factor @ factor.T`.

    They are lower triangular, with a positive diagonal; rows and columns of what is known are 0. They are computed as
    `regression_matrix` is, and take its arguments.

    Shapes: factor (F, K, V, V), missing (F, B, V), result (F, B, K, V, V).
    """
    name = "conditional_factor"
    return record(name, as_tracer(name, factor), as_tracer(name, missing))


def conditional_moments(scores: Array, factor: Array, missing: Array, weights: Array, /) -> tuple[Tracer, Tracer]:
    """What is expected of the missing entries of vectors of mean 0 and covariance `factor @ factor.T`.

    It takes less time than `regression_matrix` and `conditional_factor`, whose matrices it does not make.

    Args:
        scores: The vectors.
        factor: Matrices, of which the lower triangle is read; no zeros in the diagonal.
        missing: Which entries of each row are not there, whatever `scores` has there.
        weights: Of each row and unit.

    Returns:
        The vectors with the means of missing entries given the others; and the covariances of missing entries given the
        others, summed over rows with their weights, where entries of what is known are 0.

    Shapes: scores (F, B, K, V), factor (F, K, V, V), missing (F, B, V), weights (F, B, K), results (F, B, K, V) and
        (F, K, V, V).
    """
    name = "conditional_moments"
    scores, factor, weights = promoted(name, [scores, factor, weights])
    completed, covariances = record_all(name, scores, factor, as_tracer(name, missing), weights)
    return completed, covariances


def directed_matmul(
    direction: Tracer, size: Tracer, weight: Tracer, logs: Tracer | None = None, form: str = "log"
) -> tuple[Tracer, Tracer]:
    """The directions and sizes of `(direction * exp(size)) @ weight.T`: of sums that underflow nowhere.

    A direction is a real or complex number of size 1 to a rounding, or 0; a size is a finite number. Differentiation
    takes sizes for constants, so that a number that is 0 has the derivative that it has in ordinary arithmetic.

    Args:
        direction: The directions.
        size: Their sizes.
        weight: Ordinary numbers, real or complex.
        logs: The source of the logarithms of a weight that is not negative, where it may underflow.
        form: `"log"` where `logs` are the logarithms, `"log_softmax"` where the log-softmax of their last axis is.

    Shapes: direction and size (F, B, I), weight and logs (F, O, I), results (F, B, O).
    """
    turned, numbers = promoted("directed_matmul", [direction, weight])
    given, params = ([], {}) if logs is None else ([logs], {"logs": form})
    results = record_all("directed_matmul", turned, size, numbers, *given, **params)
    return results[0], results[1]


def _losses(lost: float) -> dict[str, float]:
    return {"lost": float(lost)} if lost > 1 else {}
