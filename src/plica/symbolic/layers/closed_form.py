"""What expectation maximization knows of an input layer: statistics of rows, and the parameters they make most likely.

The statistics of a layer of finitely many states are the expected counts of its states, `{"states": (F, K, C)}`, which
derivatives give at once. Other layers add up statistics of rows, each weighted with the *flow* of a unit: the
probability that sampling, given what is known of the row, chooses the unit. Statistics are sums, so that those of two
halves of the rows add up.

Rules get an array namespace `xp` that has the functions of the Python Array API standard, and arrays in float64.

    >>> import numpy as np
    >>> from operator import truediv
    >>> form = ratio("rate", truediv)
    >>> statistics = {"count": np.array([[4.0]]), "sum": np.array([[2.0]])}
    >>> form.maximum(np, None, statistics, 0.0)["rate"].tolist()
    [[2.0]]

Source: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from plica.symbolic.layers.univariate import MIN_STDDEV
from plica.symbolic.parameters import Array, Namespace

Statistics: TypeAlias = Mapping[str, Array]
# x, missing: (F, B, V), flows: (F, B, K) -> sums over rows, each (F, K, ...), "count" among them
Expected: TypeAlias = Callable[[Namespace, Any, Any, Array, Array, Array], Statistics]
# statistics, pseudocount -> evaluated parameters by name, each (F, K, ...)
Maximum: TypeAlias = Callable[[Namespace, Any, Statistics, float], Mapping[str, Array]]
# evaluated parameters -> the expected statistics of one row that each unit draws, each (F, K, ...)
Own: TypeAlias = Callable[[Namespace, Any], Statistics]


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """The column `closed_form` of an `InputRow`.

    Args:
        maximum: The values of parameters that make statistics most likely, by name; those of one parameter that may be
            given in two ways by both names. The pseudocount is a number of imaginary rows for each unit, like the rows
            of the whole layer, or spread evenly over its states. Numbers of units of count 0 are not read.
        expected: The statistics of rows; None where they are the counts of states.
        names: The names of the results of `maximum`.
        own: The statistics that `expected` gives in expectation for a row that a unit draws; None where nobody wrote
            them. Counts of states need none.
    """

    maximum: Maximum
    expected: Expected | None
    names: tuple[str, ...]
    own: Own | None = None


def _shares(xp: Namespace, counts: Array, pseudocount: float) -> Array:
    """Counts `(..., C)` as probabilities, after imaginary rows spread evenly."""
    smoothed = counts + pseudocount / counts.shape[-1]
    total = xp.sum(smoothed, axis=-1, keepdims=True)
    return smoothed / xp.where(total > 0, total, xp.ones_like(total))


def table(*names: str) -> ClosedForm:
    """The form of tables `(K, C)` of probabilities of states; names that begin with "log" hold logarithms."""
    return ClosedForm(partial(_table_maximum, names), None, names)


def _table_maximum(
    names: tuple[str, ...],
    xp: Namespace,
    layer: Any,  # noqa: ARG001
    statistics: Statistics,
    pseudocount: float,
) -> Statistics:
    shares = _shares(xp, statistics["states"], pseudocount)
    return {name: safe_log(xp, shares) if name.startswith("log") else shares for name in names}


def safe_log(xp: Namespace, x: Array) -> Array:
    """The logarithm, with that of the smallest normal number for smaller ones."""
    return xp.log(xp.clip(x, float(xp.finfo(x.dtype).smallest_normal), None))


def trials(count: str | None = None) -> ClosedForm:
    """The form of the successes among trials; its states are the numbers of successes.

    Args:
        count: The attribute of the layer that has the number of trials; None for a single one.
    """
    return ClosedForm(partial(_trials_maximum, count), None, ("logits", "probs"))


def _trials_maximum(
    count: str | None, xp: Namespace, layer: Any, statistics: Statistics, pseudocount: float
) -> Statistics:
    counts, total = statistics["states"], 1 if count is None else getattr(layer, count)
    states = xp.arange(counts.shape[-1], dtype=counts.dtype, device=counts.device)
    successes = xp.sum(counts * states, axis=-1)
    number_of_trials = total * xp.sum(counts, axis=-1)
    return successes_of(xp, successes, number_of_trials - successes, pseudocount * total / 2)


def successes_of(xp: Namespace, successes: Array, failures: Array, pseudocount: float = 0.0) -> Statistics:
    """Probabilities and log-odds of successes, after imaginary ones and as many failures."""
    successes, failures = successes + pseudocount, failures + pseudocount
    total = successes + failures
    probs = successes / xp.where(total > 0, total, xp.ones_like(total))
    return {"probs": probs, "logits": safe_log(xp, successes) - safe_log(xp, failures)}


def first_successes() -> ClosedForm:
    """The form of failures before a first success."""
    return ClosedForm(_first_success_maximum, sums, ("logits", "probs"))


def _first_success_maximum(
    xp: Namespace,
    layer: Any,  # noqa: ARG001
    statistics: Statistics,
    pseudocount: float,
) -> Statistics:
    return successes_of(xp, *with_imaginary_rows(xp, statistics, pseudocount))


def sums(xp: Namespace, layer: Any, params: Any, x: Array, missing: Array, flows: Array) -> Statistics:  # noqa: ARG001
    """The number of rows that have the variable, and the sum of its values: `(F, K)` each."""
    known = xp.where(missing, 0.0, flows)
    return {
        "count": xp.sum(known, axis=1),
        "sum": xp.matmul(xp.matrix_transpose(known), xp.where(missing, 0.0, x))[..., 0],
    }


def ratio(name: str, value: Callable[[Array, Array], Array]) -> ClosedForm:
    """The form of a parameter that is a function of the number of rows and the sum of their values.

    Functions of a module alone can be pickled: `operator.truediv` for an inverse mean, `mean_of` for a mean.
    """
    return ClosedForm(partial(_ratio_maximum, name, value), sums, (name,), partial(_own_ratio, name, value))


def _own_ratio(name: str, value: Callable[[Array, Array], Array], xp: Namespace, params: Any) -> Statistics:
    count = xp.ones_like(params[name])
    return {"count": count, "sum": value(count, params[name])}  # x -> value(1, x) is its own inverse


def mean_of(count: Array, total: Array) -> Array:
    """The mean of values, from their number and their sum."""
    return total / count


def _ratio_maximum(
    name: str,
    value: Callable[[Array, Array], Array],
    xp: Namespace,
    layer: Any,  # noqa: ARG001
    statistics: Statistics,
    pseudocount: float,
) -> Statistics:
    return {name: value(*with_imaginary_rows(xp, statistics, pseudocount))}


def with_imaginary_rows(xp: Namespace, statistics: Statistics, pseudocount: float) -> tuple[Array, Array]:
    """Positive counts and sums of values, after imaginary rows of the layer's mean."""
    count, total = statistics["count"], statistics["sum"]
    number = xp.sum(count, axis=-1, keepdims=True)
    mean = xp.sum(total, axis=-1, keepdims=True) / xp.where(number > 0, number, xp.ones_like(number))
    count, total = count + pseudocount, total + pseudocount * mean
    least = float(xp.finfo(count.dtype).smallest_normal)
    return xp.clip(count, least, None), xp.clip(total, least, None)


def moments(transform: Callable[[Namespace, Array], Array] | None = None) -> Expected:
    """The number of rows that have each variable, sums of what a function makes of its values, and of their squares.

    Each is `(F, K, V)`: variables are independent given the unit.

    Args:
        transform: The function, one of a module; None for the values themselves.
    """
    return partial(_expected_moments, transform)


def _expected_moments(
    transform: Callable[[Namespace, Array], Array] | None,
    xp: Namespace,
    layer: Any,  # noqa: ARG001
    params: Any,  # noqa: ARG001
    x: Array,
    missing: Array,
    flows: Array,
) -> Statistics:
    values = xp.where(missing, 0.0, x if transform is None else transform(xp, xp.where(missing, 1.0, x)))
    units = xp.matrix_transpose(flows)
    return {
        "count": xp.matmul(units, xp.where(missing, 0.0, xp.ones_like(x))),
        "sum": xp.matmul(units, values),
        "squares": xp.matmul(units, values * values),
    }


def normal_moments(xp: Namespace, statistics: Statistics, pseudocount: float) -> tuple[Array, Array]:
    """Means and variances `(F, K, V)`, with imaginary rows at the mean of each unit that vary as the layer's rows do.

    Variances are at least the square of `MIN_STDDEV`.
    """
    count, total, squares = (statistics[name] for name in ("count", "sum", "squares"))
    mean, variance = _mean_and_variance(xp, count, total, squares)
    pooled = (xp.sum(array, axis=1, keepdims=True) for array in (count, total, squares))
    variance = (count * variance + pseudocount * _mean_and_variance(xp, *pooled)[1]) / _positive(
        xp, count + pseudocount
    )
    return mean, xp.clip(variance, MIN_STDDEV**2, None)


def _mean_and_variance(xp: Namespace, count: Array, total: Array, squares: Array) -> tuple[Array, Array]:
    number = _positive(xp, count)
    mean = total / number
    return mean, xp.clip(squares / number - mean * mean, 0.0, None)


def _positive(xp: Namespace, x: Array) -> Array:
    return xp.where(x > 0, x, xp.ones_like(x))


def normal(location: str, spread: str, expected: Expected, *, axis: bool = False) -> ClosedForm:
    """The form of normal densities; `axis` says whether parameters have one for the variables."""
    names = (location, spread)
    return ClosedForm(partial(_normal_maximum, names, axis), expected, names, partial(_own_normal, names, axis))


def _own_normal(names: tuple[str, str], axis: bool, xp: Namespace, params: Any) -> Statistics:
    mean, stddev = (params[name] if axis else xp.expand_dims(params[name], axis=-1) for name in names)
    return {"count": xp.ones_like(mean), "sum": mean, "squares": xp.square(mean) + xp.square(stddev)}


def _normal_maximum(
    names: tuple[str, str],
    axis: bool,
    xp: Namespace,
    layer: Any,  # noqa: ARG001
    statistics: Statistics,
    pseudocount: float,
) -> Statistics:
    mean, variance = normal_moments(xp, statistics, pseudocount)
    numbers = dict(zip(names, (mean, xp.sqrt(variance)), strict=True))
    return numbers if axis else {name: array[..., 0] for name, array in numbers.items()}
