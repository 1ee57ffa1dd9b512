"""`plica.native.stablehlo`: a question to a circuit, or a Program, as StableHLO text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.backend.native.stablehlo.emit import emit
from plica.errors import InputError
from plica.frontend.circuits import with_arrays
from plica.frontend.native import entry_programs_of
from plica.lower.arrays import CircuitArrays


def stablehlo(
    model: Any, query: str | None = None, *, embedded: bool = True, sizes: Mapping[str, int] | None = None
) -> tuple[str, Mapping[str, NDArray[np.generic]]]:
    """One function as StableHLO text, for any number of rows or a given one, and the arrays that it takes first.

    Args:
        model: A circuit, a model file, a Program, or a compiled function, as for `plica.native.compile`.
        query: The question to a circuit: "log-likelihood" (the default), "marginal", "sample", "conditional-sample",
            "mpe". Its last arguments are the uniforms that it draws with.
        embedded: Whether the text contains the arrays as constants; else they are the first arguments.
        sizes: Numbers in place of symbolic sizes, for example `{"b": 128}`: the batch size of a circuit is `b`. XLA
            and IREE compile a text without symbolic sizes unchanged.

    Raises:
        InputError: There is no such query, or no such size.
        ShapeError: The sizes that are given contradict each other.
        UnsupportedError: A part of the model, which the message names, has no form in StableHLO.

    >>> import plica
    >>> text, arrays = stablehlo(plica.trace(lambda x: x + x, plica.spec((2,), "float32")))
    >>> print(text)
    // x: f32[2]
    module @plica {
    ...
    """
    if query is not None and not isinstance(query, str):
        raise InputError(f"query: expected the name of one query, found {query!r}; export one at a time.")
    loaded = with_arrays(model)
    default_queries = ["log-likelihood"] if isinstance(loaded, CircuitArrays) else None
    block = entry_programs_of(loaded, default_queries if query is None else [query])[
        -1
    ].body  # the last Program is the exact one, the fallback of those before
    constants = {var.name: block.constants[var] for var in block.program.consts}
    if embedded:
        return emit(block.program, list(constants.values()), sizes=sizes), {}
    return emit(block.program, sizes=sizes), constants
