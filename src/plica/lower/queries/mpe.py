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

from plica.lower.queries.choose import Chooser
from plica.lower.queries.query import Query
from plica.symbolic.layers import Layer
from plica.symbolic.semirings import LSE_SUM, MAX_SUM, Params
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def _term(table: Tracer, rows: Tracer, uniforms: Tracer | None) -> Tracer:  # noqa: ARG001
    return xp.take_along_axis(xp.argmax(table, axis=-1), rows, axis=-1, nonnegative=True)


def _fill(mode: Any, layer: Layer, params: Params, units: Tracer, uniforms: Tracer | None) -> Tracer:  # noqa: ARG001
    values: Tracer = mode(xp, layer, params)  # (F, K, num_variables)
    return xp.lookup(xp.matrix_transpose(values), units)


LARGEST = Chooser(_term, _term, _fill, column="mode", draws=False)
MPE = Query("mpe", "the most probable explanation", MAX_SUM, LARGEST)
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
