"""Circuits with the arrays of their leaves, from compiled circuits, circuits or model files."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from plica.files.model import load_model
from plica.frontend.contexts import compile, has_context  # noqa: A004 - the word of the field
from plica.ir.dtypes import DType
from plica.lower.arrays import HasArrays, arrays_of, initial_arrays
from plica.lower.compiled import CircuitCompiler
from plica.symbolic.circuit import Circuit


def with_arrays(model: Any) -> Any:
    """A circuit with the arrays of its leaves; anything else is returned unchanged.

    Args:
        model: A compiled circuit; the path of a model file; or a circuit, which the active context compiles. Without a
            context, its arrays are those of its initializers.

    Raises:
        FileFormatError: The file is missing, damaged, of another kind or version.
        UnsupportedError: The semiring cannot carry the circuit's numbers.
    """
    if isinstance(model, HasArrays):
        return model.arrays()
    if isinstance(model, Circuit):
        return compile(model).arrays() if has_context(None) else initial_arrays(CircuitCompiler().compile(model))
    if isinstance(model, str | os.PathLike):
        file = load_model(model)
        dtype = DType(file.options.get("dtype", "float32"))
        compiler = CircuitCompiler(file.options.get("semiring", "lse-sum"))
        arrays = arrays_of(compiler.compile(file.circuit, dtype), dtype, file.tensors)
        return replace(arrays, encoding=file.options.get("encoding"))
    return model
