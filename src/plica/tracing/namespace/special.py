"""Special functions: the rows of `ops/special.py`, of floats, promoted and broadcast; integers become float64."""

from __future__ import annotations

import inspect
from typing import Any

from plica.ops.special import ABOUT, OPERANDS
from plica.tracing.namespace.operands import Function, as_floats, elementwise, named
from plica.tracing.tracer import Tracer


def _of_row(name: str) -> Function:
    """The function that records one row, under its name."""

    def function(*operands: Any) -> Tracer:
        return elementwise(name, *as_floats(name, operands))  # type: ignore[no-any-return]

    only = inspect.Parameter.POSITIONAL_ONLY
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(operand, only) for operand in OPERANDS[name]]
    )
    return named(name, ABOUT[name], function)


FUNCTIONS: dict[str, Function] = {name: _of_row(name) for name in OPERANDS}
