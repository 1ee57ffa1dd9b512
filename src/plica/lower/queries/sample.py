"""Sampling: a downward pass that draws terms and values.

The upward pass sums out every variable that is not known, so that circuits need not be normalized and samples are exact
for any known entries. In the downward pass a sum draws a term with probability proportional to its weight times the
value of its unit. Input layers draw from the distributions of their units.

Source: Poon and Domingos, "Sum-product networks: a new deep architecture", 2011; Vergari et al., "Tractable
probabilistic models", 2019.
"""

from typing import Any

from plica.lower.queries.choose import Chooser
from plica.lower.queries.query import Choosing, Entry, Query, ask
from plica.symbolic.layers import Layer
from plica.symbolic.semirings import LSE_SUM, Params
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


def sample(circuit: Any, n: int = 1, given: Any = None, seed: int | None = None) -> Any:
    """Exact, independent samples, or exact completions of rows.

    Args:
        circuit: A compiled circuit.
        n: How many samples; with `given`, how many of each row.
        given: Rows `(R, D)` with NaN in place of entries to draw, from the distribution given the rest of the row.
        seed: The samples depend on it alone (and on the device), not on how the circuit was compiled; by default they
            come from the backend's own generator.

    Returns:
        `(n, D)`, or `(R * n, D)` with those of row r from `r * n` on. Column v is variable v, or 0 where no layer reads
        it. int64 if every variable has states; else the dtype of the circuit, or that of `given` if it is floating
        (float32 in place of float16 where some variable has states or is a count, which float16 rounds).

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable, or has negative weights.
        ShapeError: More than one output or unit.
        InputError: `n` is negative, a row does not fit the circuit, or the condition has probability zero.
        UnsupportedError: A layer has no sampler.
    """
    return ask(circuit, "sample", n, given, seed)


def _term(table: Tracer, rows: Tracer, uniforms: Tracer | None) -> Tracer:
    assert uniforms is not None, "a chooser that draws is given uniform numbers"
    cumulative = xp.cumulative_sum(xp.softmax(table, axis=-1), axis=-1)
    return xp.search_cumulative(cumulative, rows, uniforms)


def _term_of_numbers(table: Tracer, rows: Tracer, uniforms: Tracer | None) -> Tracer:
    assert uniforms is not None, "a chooser that draws is given uniform numbers"
    return xp.search_cumulative(xp.cumulative_sum(table, axis=-1), rows, uniforms)


def _fill(sample: Any, layer: Layer, params: Params, units: Tracer, uniforms: Tracer | None) -> Tracer:
    values: Tracer = sample(xp, layer, params, units, uniforms)
    return values


DRAW = Chooser(_term, _term_of_numbers, _fill, column="sample", draws=True)
SAMPLING = Query(
    sample,
    "sampling",
    Choosing(LSE_SUM, DRAW),
    entries=(
        Entry("sample", "Sampled rows; `n` says how many.", data="none"),
        Entry("conditional-sample", "Each row with NaN drawn, and the log-probability of its other entries."),
    ),
)
