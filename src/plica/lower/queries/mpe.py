"""The most probable explanation: the way down takes the largest.

On the way up a sum is the largest of its terms and a variable that is not known takes its largest value; on the way
down a sum takes the term that was the largest, and input layers the modes of their units. The result is the completion
of the row that is the most probable together with the terms that were chosen for it (the latent variables of the sums).
Where the circuit is deterministic (`determinism.py`), no other term is above zero there, so that it is the most
probable completion; elsewhere its value is a lower bound of the largest. A walk up in `MOST`, where a sum adds the
largest values of its terms, gives an upper bound: no completion makes one of them larger.

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
    """The most probable explanation of rows: what completes each best, and how probable that is.

    Every sum of a circuit stands for a latent variable, whose value is the term that it chooses. The answer is the
    completion that is the most probable *together with the terms that are chosen for it*. In a deterministic circuit a
    row has one choice of terms, so that it is the most probable completion. In others another completion may have a
    larger probability, shared by several choices; finding that one is NP-hard. `mpe_bounds` says which it is, and how
    far from the largest probability the answer may be.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)` with NaN in place of what is to be filled in.

    Returns:
        Rows `(R, D)`, and logarithms `(R,)` of the circuit's value of each row together with its choices, which is at
        most that of the row, and its probability where the circuit is normalized (`log_likelihood` subtracts the total,
        this does not); `-inf` where every completion has probability zero, and the completion means nothing. Rows are
        int64 if every variable has states; else of the dtype of `x` if it is floating, or the circuit's (float32 in
        place of float16 where some variable has states or is a count, which float16 rounds).

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
        InputError: A row does not fit the circuit.
        UnsupportedError: A layer does not say where it is largest.
    """
    found: tuple[Any, Any] = ask(circuit, "mpe", x)
    return found


def mpe_bounds(circuit: Any, x: Any) -> Explanations:
    """What `mpe` finds, and how far from the most probable completions it may be.

    Args:
        circuit: A compiled circuit.
        x: Rows `(R, D)`; NaN is what is missing.

    Returns:
        The completions, the values found and an upper bound of the largest: see `Explanations`.

    Raises:
        StructuralPropertyError, ShapeError, InputError, UnsupportedError: As for `mpe`.
    """
    found: Explanations = ask(circuit, "mpe_bounds", x)
    return found


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
    entries=(Entry("mpe", "Each row with what is NaN as it is most probable, and the logarithm of its value."),),
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
    attempt=None,
)
"""Sums of ordinary numbers in which a variable that is not known takes the largest value that each unit has."""
