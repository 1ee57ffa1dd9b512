"""A traced function on its whole way: verified, printed and read back, interpreted, in generated torch, and eager."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.emit import emit
from plica.frontend.programs import interpret, parse, trace, verify
from plica.ir.program import Program
from plica.passes.clean import clean
from plica.tracing.trace import NUMBERS
from plica.tracing.trees import flatten
from tests.harness.programs import assert_same, to_torch


def checked(fn: Callable[..., Any], specs: Sequence[Any], *calls: Sequence[Any], eager: bool = True) -> Program:
    """The Program of `fn`, once every way to run it gives the same at each of `calls`.

    Args:
        fn: The function; it captures no arrays.
        specs: What it is traced for: specs of arrays, and types of Python numbers.
        calls: Arguments, numpy arrays and Python numbers.
        eager: Whether `fn` runs on torch tensors and Python numbers outside a trace too; Python numbers that it
            returns then have no dtype.
    """
    program = trace(fn, *specs)
    verify(program)
    assert parse(str(program)) == program
    cleaned = clean(program)
    verify(cleaned)
    for arguments in calls:
        arrays = [_array(one, value) for one, value in zip(specs, arguments, strict=True)]
        expected = interpret(program, *arrays)
        for one, operand in zip(expected, program.results, strict=True):
            assert (one.dtype.name, one.ndim) == (operand.type.dtype.value, len(operand.type.shape))
        found: list[Any] = [interpret(cleaned, *arrays), run_torch(program, *arrays), run_torch(cleaned, *arrays)]
        for results in found:
            for one, other in zip(results, expected, strict=True):
                assert_same(one, other, 10.0)
        if eager:
            pairs = zip(specs, arguments, strict=True)
            tensors = [value if one in NUMBERS else to_torch(value) for one, value in pairs]
            for one, other in zip(flatten(fn(*tensors))[0], expected, strict=True):
                assert_same(one if isinstance(one, torch.Tensor) else np.asarray(one, other.dtype), other, 10.0)
    return program


class Cases(list):
    """Functions with what they are traced for and called with: parameters of one test.

    >>> cases = Cases()
    >>> @cases.add([int], (3,), (0,))
    ... def function(n): ...
    >>> pytest.mark.parametrize("case", cases)
    """

    def add(self, specs: Sequence[Any], *calls: Sequence[Any], eager: bool = True) -> Callable[..., Any]:
        """A decorator that adds a function; the arguments are those of `checked`."""

        def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.append(pytest.param(lambda: checked(fn, specs, *calls, eager=eager), id=fn.__name__))
            return fn

        return decorate


def run_torch(program: Program, *arrays: Any, **leaves: Any) -> tuple[torch.Tensor, ...]:
    """The results of generated code that checks its arguments."""
    run = emit(program, is_checked=True)
    results = run(SimpleNamespace(device=torch.device("cpu"), **leaves), *map(to_torch, arrays))
    return results if isinstance(results, tuple) else (results,)


def _array(one: Any, value: Any) -> np.ndarray:
    return np.asarray(value, dtype=NUMBERS[one].numpy if one in NUMBERS else None)


def ones(*shape: int, dtype: str = "float32") -> np.ndarray:
    """An array of ones."""
    return np.ones(shape, dtype)


def ramp(*shape: int, dtype: str = "float32") -> np.ndarray:
    """An array of different numbers near zero."""
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * 0.25 - 1).astype(dtype)
