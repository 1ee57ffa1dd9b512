"""The array namespace: names and meaning of the Python Array API standard, and what circuits need beside them.

On tracers a function is recorded; on arrays it runs at once, through `array_api_compat` where the standard has it and
else as a Program of one operation (torch tensors in torch, numpy arrays in the interpreter).

>>> import numpy
>>> import plica.numpy as pnp
>>> pnp.logsumexp(numpy.zeros((2, 4)), axis=1).round(4).tolist()
[1.3863, 1.3863]
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any

import array_api_compat

from plica.errors import TraceError
from plica.ir.interpret import interpret_program
from plica.ir.program import Program
from plica.ir.types import Spec, spec
from plica.ops import OPS
from plica.tracing import namespace as _tracing
from plica.tracing.trace import trace
from plica.tracing.tracer import Tracer, current_trace

_NAMES = frozenset(dir(_tracing))


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _NAMES:
        raise AttributeError(f"plica.numpy has no {name!r}")
    traced = getattr(_tracing, name)
    value = _function(name, traced) if callable(traced) else traced
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_NAMES)


def _function(name: str, traced: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        arrays = _arrays(args)
        if any(isinstance(array, Tracer) for array in arrays) or (not arrays and current_trace() is not None):
            return traced(*args, **kwargs)
        return _eager(name, traced, arrays, args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = traced.__doc__
    return function


def _arrays(args: Sequence[Any]) -> list[Any]:
    found = []
    for arg in args:
        if isinstance(arg, Tracer) or array_api_compat.is_array_api_obj(arg):
            found.append(arg)
        elif isinstance(arg, list | tuple):
            found += [one for one in arg if isinstance(one, Tracer) or array_api_compat.is_array_api_obj(one)]
    return found


def _eager(
    name: str, traced: Callable[..., Any], arrays: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    library = _library(arrays)
    if hasattr(library, name):
        return getattr(library, name)(*args, **{key: _own_dtype(library, value) for key, value in kwargs.items()})
    if not arrays:
        raise TraceError(f"plica.numpy.{name} needs an array among its arguments.")
    specs = tuple(spec(array.shape, array.dtype) for array in arrays)
    program = _program(traced, specs, _Arguments(args, kwargs))
    results = _run(library, program, arrays)
    return results[0] if len(results) == 1 else results


def _library(arrays: list[Any]) -> Any:
    if arrays:
        return array_api_compat.array_namespace(*arrays)
    return importlib.import_module("array_api_compat.torch")


def _own_dtype(library: Any, value: Any) -> Any:
    """A dtype by the library's own object; anything else as it is."""
    return getattr(library, str(value)) if type(value).__name__ == "DType" else value


class _Arguments:
    """The arguments of a call with places for its arrays; equal if everything else is."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._args = args
        self._kwargs = kwargs
        self._key: Hashable = repr([_shown(arg) for arg in args]), repr(sorted(kwargs.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Arguments) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def fill(self, tracers: Sequence[Tracer]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with tracers in the places of the arrays, in order."""
        rest = iter(tracers)

        def place(arg: Any) -> Any:
            if array_api_compat.is_array_api_obj(arg):
                return next(rest)
            return [place(one) for one in arg] if isinstance(arg, list | tuple) and _arrays([arg]) else arg

        return [place(arg) for arg in self._args], self._kwargs


def _shown(arg: Any) -> Any:
    if array_api_compat.is_array_api_obj(arg):
        return "array"
    return [_shown(one) for one in arg] if isinstance(arg, list | tuple) else arg


@cache
def _program(traced: Callable[..., Any], specs: tuple[Spec, ...], arguments: _Arguments) -> Program:
    def call(*tracers: Tracer) -> Any:
        args, kwargs = arguments.fill(tracers)
        return traced(*args, **kwargs)

    return trace(call, *specs)


def _run(library: Any, program: Program, arrays: list[Any]) -> tuple[Any, ...]:
    if array_api_compat.is_torch_namespace(library):
        results = _emitted(program)(None, *arrays)
        return results if isinstance(results, tuple) else (results,)
    return interpret_program(program, OPS, arrays)


@cache
def _emitted(program: Program) -> Callable[..., Any]:
    emit = importlib.import_module("plica.backend.torch.emit").emit
    function: Callable[..., Any] = emit(program)
    return function
