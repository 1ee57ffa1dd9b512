"""The array namespace: names and meaning of the Python Array API standard, and what circuits need beside them.

On tracers a function is recorded; on arrays what it would record runs at once (torch tensors in torch, numpy arrays in
the interpreter), so that a function means the same whether it is traced or not.

>>> import numpy
>>> import plica.numpy as pnp
>>> pnp.logsumexp(numpy.zeros((2, 4)), axis=1).round(4).tolist()
[1.3863, 1.3863]
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import array_api_compat

from plica.ir.interpret import interpret_program
from plica.ir.program import Program
from plica.ir.types import Spec, spec
from plica.ops import OPS
from plica.tracing import namespace as _tracing
from plica.tracing.trace import trace
from plica.tracing.tracer import Tracer, current_trace

_NAMES = frozenset(dir(_tracing))


@cache
def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _NAMES:
        raise AttributeError(f"plica.numpy has no {name!r}")
    traced = getattr(_tracing, name)
    return _function(name, traced) if callable(traced) else traced


def __dir__() -> list[str]:
    return sorted(_NAMES)


def _function(name: str, traced: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        arrays = _arrays((*args, *kwargs.values()))
        tracing = [one for one in arrays if isinstance(one, Tracer)] if arrays else current_trace()
        return traced(*args, **kwargs) if tracing else _eager(traced, arrays, args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = traced.__doc__
    return function


def _is_array(arg: object) -> bool:
    return isinstance(arg, Tracer) or array_api_compat.is_array_api_obj(arg)


def _arrays(args: Sequence[Any]) -> list[Any]:
    """The arrays among arguments and within lists and tuples of them, in order."""
    groups = (arg if isinstance(arg, list | tuple) else (arg,) for arg in args)
    return [one for group in groups for one in group if _is_array(one)]


def _eager(traced: Callable[..., Any], arrays: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    specs = tuple(spec(array.shape, array.dtype) for array in arrays)
    results = _run(_program(traced, specs, _Arguments(args, kwargs)), arrays)
    return results[0] if len(results) == 1 else results


class _Arguments:
    """The arguments of a call with places for its arrays; equal if everything else is."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._args = args
        self._kwargs = kwargs
        self._key: Hashable = repr([_shown(arg) for arg in args]), repr([(k, _shown(v)) for k, v in kwargs.items()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Arguments) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def fill(self, tracers: Sequence[Tracer]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with tracers in the places of the arrays, in order."""
        rest = iter(tracers)

        def place(arg: Any) -> Any:
            if _is_array(arg):
                return next(rest)
            return [place(one) for one in arg] if isinstance(arg, list | tuple) and _arrays(arg) else arg

        return [place(arg) for arg in self._args], {key: place(value) for key, value in self._kwargs.items()}


def _shown(arg: Any) -> Any:
    if _is_array(arg):
        return "array"
    return [_shown(one) for one in arg] if isinstance(arg, list | tuple) else arg


@lru_cache(maxsize=1024)
def _program(traced: Callable[..., Any], specs: tuple[Spec, ...], arguments: _Arguments) -> Program:
    def call(*tracers: Tracer) -> Any:
        args, kwargs = arguments.fill(tracers)
        return traced(*args, **kwargs)

    return trace(call, *specs)


def _run(program: Program, arrays: list[Any]) -> tuple[Any, ...]:
    if not arrays:
        device = None  # torch's default
    elif array_api_compat.is_torch_namespace(array_api_compat.array_namespace(*arrays)):
        device = arrays[0].device
    else:
        return interpret_program(program, OPS, arrays)
    results = _emitted(program)(SimpleNamespace(device=device), *arrays)
    return results if isinstance(results, tuple) else (results,)


@lru_cache(maxsize=1024)
def _emitted(program: Program) -> Callable[..., Any]:
    emit = importlib.import_module("plica.backend.torch.emit").emit
    function: Callable[..., Any] = emit(program)
    return function
