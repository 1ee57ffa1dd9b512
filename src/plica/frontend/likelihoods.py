"""Questions about the probability of rows, whatever is missing in them; all of them NaN = missing, any mask per row.

>>> import torch
>>> import plica
>>> from plica.symbolic.layers import CategoricalLayer
>>> from plica.symbolic.parameters import ConstantParameter
>>> layer = CategoricalLayer([0], 1, num_categories=3, probs=ConstantParameter(1, 3, value=[[0.5, 0.25, 0.25]]))
>>> circuit = plica.compile(plica.Circuit([layer], {}, [layer]))
>>> log_likelihood(circuit, torch.tensor([[0.0], [torch.nan]])).exp().tolist()
[0.5, 1.0]
"""

from __future__ import annotations

from typing import Any

from plica.frontend.queries import room

__all__ = ["cdf", "conditional_log_likelihood", "log_likelihood", "probability", "quantile"]


def log_likelihood(circuit: Any, x: Any) -> Any:
    """The logarithm of the probability (or density) of what is known of rows; what is NaN is summed out.

    That is the logarithm of the circuit's value minus that of its total, so that a circuit need not be normalized. The
    total is computed once where parameters do not change: in eval mode, without gradients. Differentiable with respect
    to parameters: a circuit trains on rows with holes, which send no gradient.

    Args:
        circuit: A compiled circuit, of any semiring of real numbers or of one that chooses: the answer is the same.
        x: Rows `(B, D)`; integers, or floats where NaN is what is missing.

    Returns:
        `(B,)`; `-inf` for what has probability zero; NaN where a circuit of negative weights has a negative value.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
        InputError: A row does not fit the circuit (on the CPU; on other devices it is NaN, see `circuit.check`), or the
            total is no positive number.
        UnsupportedError: A weight is negative, and the semiring carries no such numbers.
    """
    return room("log_likelihood", circuit).log_likelihood(circuit, x)


def conditional_log_likelihood(circuit: Any, x: Any, given: Any) -> Any:
    """The logarithm of the probability (or density) of a part of each row, given the rest of it.

    Each row is conditioned on its own part. What is NaN is not known: in the part that is given it is left out of the
    condition, in the other part it is summed out. Differentiable, as `log_likelihood` is.

    Args:
        circuit: A compiled circuit.
        x: Rows `(B, D)`; integers, or floats where NaN is what is missing.
        given: Booleans `(B, D)`, or `(D,)` for all rows alike: true where a row is conditioned on.

    Returns:
        `(B,)`; NaN where what is given has probability zero, since nothing follows from it.

    Raises:
        DTypeError: `given` is no mask of booleans.
        InputError: A row, or the mask, does not fit the circuit, or a layer of several variables is given some of them.
        StructuralPropertyError, ShapeError, UnsupportedError: As for `log_likelihood`.
    """
    return room("conditional_log_likelihood", circuit).conditional_log_likelihood(circuit, x, given)


def cdf(circuit: Any, x: Any) -> Any:
    """The probability that every variable of a row is at most its entry, all of them together.

    Args:
        circuit: A compiled circuit.
        x: Rows `(B, D)` of any numbers, infinities among them; NaN where a variable may have any value.

    Returns:
        `(B,)` probabilities of the normalized distribution, without gradients. Errors are those of rounding beside 1 in
        the dtype of the circuit: smaller tails are not resolved.

    Raises:
        UnsupportedError: The layer of a variable that has an end does not say what lies in an interval.
        InputError, StructuralPropertyError, ShapeError: As for `log_likelihood`; no number is outside a domain here.
    """
    return room("cdf", circuit).cdf(circuit, x)


def probability(circuit: Any, low: Any, high: Any) -> Any:
    """The probability of boxes: that every variable lies between its ends, both included.

    Args:
        circuit: A compiled circuit.
        low: Rows `(B, D)` of lower ends; minus infinity or NaN where there is none.
        high: Rows of upper ends; infinity or NaN where there is none. A box with an end above the other is empty.

    Returns:
        `(B,)`, as `cdf` gives it; 0 for an empty box.

    Raises:
        InputError: `low` and `high` differ in shape, or do not fit the circuit.
        UnsupportedError, StructuralPropertyError, ShapeError: As for `cdf`.
    """
    return room("probability", circuit).probability(circuit, low, high)


def quantile(circuit: Any, variable: int, p: Any, given: Any = None) -> Any:
    """The smallest value of a variable up to which it lies with probability p or more, given the rest of a row.

    Args:
        circuit: A compiled circuit.
        variable: The variable.
        p: A number above 0 and below 1, or several of them `(P,)`.
        given: Rows `(R, D)` with what is known, NaN elsewhere; what they say of the variable itself is left out. By
            default nothing is known.

    Returns:
        Of the shape of `p`; with `given` `(R,)`, or `(R, P)`. Integers where the variable has states or counts, else
        numbers in the dtype of the circuit: the first whose probability, as computed, suffices.

    Raises:
        InputError: `p` is no probability, `variable` not among the circuit's, a row does not fit or cannot be, or knows
            another variable of a layer of this one.
        UnsupportedError: A layer of the variable does not say what lies in an interval, or another layer how a query
            goes through it.
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
    """
    return room("quantile", circuit).quantile(circuit, variable, p, given)
