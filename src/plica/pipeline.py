"""How circuits are compiled, and the circuits that were compiled so: `PipelineContext` and functions for it.

The operators of `plica.symbolic.functional` are functions of compiled circuits here: `integrate(circuit, ctx=None)`.
"""

from typing import Any

from plica.frontend.contexts import (
    PipelineContext,
    compile,  # noqa: A004 - the word of the field
    compile_initializer,
    compile_layer,
    compile_parameter,
)
from plica.frontend.operators import operator_function
from plica.lower.operators import OPERATORS
from plica.public import listing

__all__ = ["PipelineContext", "compile", "compile_initializer", "compile_layer", "compile_parameter", *OPERATORS]


def __getattr__(name: str) -> Any:
    """An operator as a function, made now and kept."""
    if name not in OPERATORS:
        raise AttributeError(f"module 'plica.pipeline' has no attribute {name!r}")
    value = globals()[name] = operator_function(name)
    return value


__dir__ = listing(__name__)
