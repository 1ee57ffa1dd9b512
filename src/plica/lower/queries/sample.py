"""Sampling: the way down draws.

On the way up every variable that is not known is summed out, so that circuits need not be normalized and samples are
exact, whatever is known. On the way down a sum draws a term with probability proportional to its weight times what it
reads, and input layers draw from the distributions of their units.

Source: Poon and Domingos, "Sum-product networks: a new deep architecture", 2011; Vergari et al., "Tractable
probabilistic models", 2019.
"""

from typing import Any

from plica.lower.queries.choose import Chooser
from plica.lower.queries.query import Query
from plica.symbolic.layers import Layer
from plica.symbolic.semirings import LSE_SUM, Params
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def _term(table: Tracer, rows: Tracer, uniforms: Tracer | None) -> Tracer:
    assert uniforms is not None, "a chooser that draws is given uniform numbers"
    cumulative = xp.cumulative_sum(xp.softmax(table, axis=-1), axis=-1)
    return xp.search_cumulative(cumulative, rows, uniforms)


def _term_of_numbers(table: Tracer, rows: Tracer, uniforms: Tracer | None) -> Tracer:
    assert uniforms is not None, "a chooser that draws is given uniform numbers"
    return xp.search_cumulative(xp.cumulative_sum(table, axis=-1), rows, uniforms)


def _fill(sample: Any, layer: Layer, params: Params, units: Tracer, uniforms: Tracer | None) -> Tracer:
    found: Tracer = sample(xp, layer, params, units, uniforms)
    return found


DRAW = Chooser(_term, _term_of_numbers, _fill, column="sample", draws=True)
SAMPLING = Query("sample", "sampling", LSE_SUM, DRAW)
