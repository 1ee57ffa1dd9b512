"""`plica.native.stablehlo`: a question to a circuit, or a Program, as StableHLO text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.backend.native.stablehlo.emit import emit
from plica.errors import InputError
from plica.frontend.circuits import taken_model
from plica.frontend.native import questions_of
from plica.lower.arrays import CircuitArrays


def stablehlo(
    model: Any, query: str | None = None, *, embedded: bool = True, sizes: Mapping[str, int] | None = None
) -> tuple[str, Mapping[str, NDArray[np.generic]]]:
    """One function as StableHLO text, for any number of rows or a given one, and the arrays that it takes first.

    Args:
        model: A circuit, a model file, a Program, or a compiled function, as for `plica.native.compile`.
        query: What is asked of a circuit: "log-likelihood" (the default), "marginal", "sample", "conditional-sample",
            "mpe". Uniforms that are drawn for it are its last arguments.
        embedded: Whether the arrays stand in the text instead.
        sizes: Numbers in the place of symbolic sizes, for example `{"b": 128}`: the batch size of a circuit is `b`.
            XLA and IREE compile a text without symbolic sizes as it is.

    Raises:
        InputError: There is no such query, or no such size.
        ShapeError: The sizes that are given contradict each other.
        UnsupportedError: Something of the model has no form in StableHLO; the message names it.
    """
    if query is not None and not isinstance(query, str):
        raise InputError(f"query: expected the name of one question, found {query!r}; ask for one at a time.")
    taken = taken_model(model)
    usual = ["log-likelihood"] if isinstance(taken, CircuitArrays) else None
    made = questions_of(taken, usual if query is None else [query])[-1].body  # what others ask where they are not sure
    constants = {var.name: made.constants[var] for var in made.program.consts}
    if embedded:
        return emit(made.program, list(constants.values()), sizes=sizes), {}
    return emit(made.program, sizes=sizes), constants
