"""`plica.native.stablehlo`: a question to a circuit, or a Program, as StableHLO text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.backend.native.stablehlo.emit import emit
from plica.frontend.native import questions_of


def stablehlo(
    model: Any, query: str | None = None, *, embedded: bool = True
) -> tuple[str, Mapping[str, NDArray[np.generic]]]:
    """One function as StableHLO text, for any number of rows, and the arrays that are its first arguments.

    Args:
        model: A compiled circuit, a Program, or a compiled function, as for `plica.native.compile`.
        query: What is asked of a circuit: "log-likelihood" (the default), "marginal", "sample", "conditional-sample",
            "mpe". Uniforms that are drawn for it are its last arguments.
        embedded: Whether the arrays stand in the text instead.

    Raises:
        InputError: There is no such query.
        UnsupportedError: Something of the model has no form in StableHLO; the message names it.
    """
    is_circuit = hasattr(model, "folded")
    queries = [query] if query is not None else (["log-likelihood"] if is_circuit else None)
    made = questions_of(model, queries)[-1].closed  # what others ask where they are not sure
    constants = {var.name: made.constants[var] for var in made.program.consts}
    if embedded:
        return emit(made.program, list(constants.values())), {}
    return emit(made.program), constants
