"""The probability of rows with missing entries: the value of an upward pass, divided by the circuit's total.

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

from plica.lower.queries.needs import Needs
from plica.lower.queries.query import Entry, Query, Upward, ask
from plica.symbolic.semirings import LSE_SUM, Semiring


def log_likelihood(circuit: Any, x: Any) -> Any:
    """The logarithm of the probability (or density) of the known entries of rows; NaN entries are summed out.

    That is the logarithm of the circuit's value minus that of its total, so that a circuit need not be normalized. The
    total is computed once where parameters do not change: in eval mode, without gradients. Differentiable with respect
    to parameters: a circuit trains on rows with missing entries, which give no gradient.

    Args:
        circuit: A compiled circuit, of any semiring of real numbers or of one that chooses: the answer is the same.
        x: Rows `(B, D)`; integers, or floats with NaN in place of missing entries.

    Returns:
        `(B,)`; `-inf` for rows of probability zero; NaN where a circuit of negative weights has a negative value.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
        InputError: A row does not fit the circuit (on the CPU; on other devices it is NaN, see `circuit.check`), or the
            total is no positive number.
        UnsupportedError: A weight is negative, and the semiring carries no such numbers.
    """
    return ask(circuit, "log_likelihood", x)


def conditional_log_likelihood(circuit: Any, x: Any, given: Any) -> Any:
    """The logarithm of the probability (or density) of a part of each row, given the rest of it.

    Each row is conditioned on its own part. NaN entries are not known: those of the given part are left out of the
    condition, others are summed out. Differentiable, as `log_likelihood` is.

    Args:
        circuit: A compiled circuit.
        x: Rows `(B, D)`; integers, or floats with NaN in place of missing entries.
        given: Booleans `(B, D)`, or `(D,)` for all rows alike: true for entries that are conditioned on.

    Returns:
        `(B,)`; NaN where the condition has probability zero.

    Raises:
        DTypeError: `given` is no mask of booleans.
        InputError: A row, or the mask, does not fit the circuit, or a layer of several variables is given some of them.
        StructuralPropertyError, ShapeError, UnsupportedError: As for `log_likelihood`.
    """
    return ask(circuit, "conditional_log_likelihood", x, given)


LOG_LIKELIHOOD = Query(
    log_likelihood,
    "the log-likelihood",
    Upward(("marginal",), signed=True),
    driver="likelihood",
    entries=(
        Entry("log-likelihood", "The logarithm of each row's probability{missing}.", data="usual"),
        Entry("marginal", "The logarithm of each row's probability, NaN: missing, summed out."),
    ),
)
CONDITIONAL = Query(
    conditional_log_likelihood, "the conditional log-likelihood", Upward(("marginal",), signed=True), "likelihood"
)


def integration(semiring: Semiring = LSE_SUM) -> Needs:
    """The needs of reducing variables as the algebra of a semiring does."""
    column = semiring.algebra.reduction.value
    return Needs("IntegrateQuery", "losing variables", inputs=(column,), one_unit=False, semiring=None)
