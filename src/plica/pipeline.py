"""How circuits are compiled, and the circuits that were compiled so: `PipelineContext` and functions for it."""

from plica.frontend.contexts import (
    PipelineContext,
    compile,  # noqa: A004 - the word of the field
    compile_initializer,
    compile_layer,
    compile_parameter,
)

__all__ = ["PipelineContext", "compile", "compile_initializer", "compile_layer", "compile_parameter"]
