"""The most probable explanation: the downward pass takes the largest term.

In the upward pass a sum is the largest of its terms, and a variable that is not known takes its largest value. In the
downward pass a sum takes its largest term, and input layers the modes of their units. The result is the completion of
the row that is most probable together with its chosen terms (the latent variables of the sums).

In a deterministic circuit (`determinism.py`) no other term is above zero, so that it is the most probable completion.
In others its value is a lower bound of the largest. An upward pass in `MOST` gives an upper bound: a sum adds the
largest values of its terms, which no completion exceeds.

Source: Poon and Domingos, "Sum-product networks: a new deep architecture", 2011, section 3; Peharz et al., "On the
latent variable interpretation in sum-product networks", 2016, on what is exact.
"""

from dataclasses import replace
from typing import Any

from plica.lower.queries.answers import Explanations
from plica.lower.queries.choose import Chooser
from plica.lower.queries.query import Choosing, Entry, Query, ask
from plica.symbolic.layers import Layer
from plica.symbolic.semirings import LSE_SUM, MAX_SUM, Params
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def mpe(circuit: Any, x: Any) -> tuple[Any, Any]:
    """The most probable explanation of rows: a completion of each, and its logarithm.

    Every sum of a circuit stands for a latent variable, whose value is the term that it chooses. The answer is the
    completion that is the most probable *together with its chosen terms*. In a deterministic circuit a row has one
    choice of terms, so that it is the most probable completion. In others another completion may have a larger
    probability, shared by several choices; finding that one is NP-hard. `mpe_bounds` says which it is, and how far from
    the largest probability the answer may be.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)` with NaN in place of entries to fill in.

    Returns:
        Rows `(R, D)`, and logarithms `(R,)` of the circuit's value of each row together with its choices. This is at
        most the value of the row, and a probability if the circuit is normalized (`log_likelihood` subtracts the total,
        this does not). It is `-inf` where every completion has probability zero; then the completion means nothing.
        Rows are int64 if every variable has states; else of the dtype of `x` if it is floating, or the circuit's
        (float32 in place of float16 where some variable has states or is a count, which float16 rounds).

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
        InputError: A row does not fit the circuit.
        UnsupportedError: A layer does not define its mode.
    """
    answer: tuple[Any, Any] = ask(circuit, "mpe", x)
    return answer


def mpe_bounds(circuit: Any, x: Any) -> Explanations:
    """The completions of `mpe`, with bounds of how far from the most probable ones they may be.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)`; NaN where an entry is missing.

    Returns:
        The completions, their values and an upper bound of the largest: see `Explanations`. For squares, whose sums
        have terms of any sign, each variable takes its most probable value (or its median, where it has no states)
        given those before it, and the bound is that of absolute values.

    Raises:
        StructuralPropertyError, ShapeError, InputError, UnsupportedError: As for `mpe`.
    """
    answer: Explanations = ask(circuit, "mpe_bounds", x)
    return answer


def _term(table: Tracer, rows: Tracer, uniforms: Tracer | None) -> Tracer:  # noqa: ARG001
    return xp.take_along_axis(xp.argmax(table, axis=-1), rows, axis=-1, nonnegative=True)


def _fill(mode: Any, layer: Layer, params: Params, units: Tracer, uniforms: Tracer | None) -> Tracer:  # noqa: ARG001
    values: Tracer = mode(xp, layer, params)  # (F, K, num_variables)
    return xp.lookup(xp.matrix_transpose(values), units)


LARGEST = Chooser(_term, _term, _fill, column="mode", draws=False)
MPE = Query(
    mpe,
    "the most probable explanation",
    Choosing(MAX_SUM, LARGEST),
    entries=(Entry("mpe", "Each row with NaN at its most probable values, and the logarithm of its value."),),
)
BOUNDS = replace(MPE, ask=mpe_bounds, driver="mpe", entries=())
MOST = replace(
    LSE_SUM,
    name="most",
    algebra=replace(
        LSE_SUM.algebra,
        name="most",
        meaning="no completion has a larger value",
        reduction=MAX_SUM.algebra.reduction,
    ),
    faster=(),
)
"""Sums of ordinary numbers in which a variable that is not known takes the largest value that each unit has."""
