"""Executors of traced Programs: the backends by name, and converters of results to the arguments' library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import array_api_compat
import numpy as np

from plica.eager.packed import PackedArray
from plica.errors import InputError
from plica.forks import cached_property
from plica.ir.interpret import interpret_program
from plica.ir.program import Bound, Program
from plica.ops import OPS
from plica.passes.clean import clean
from plica.passes.results import own_results
from plica.passes.rewriting import Rewriting
from plica.tracing.leaves import PYTHON_NUMBERS, is_array
from plica.tracing.scope import Reference

Runner = Callable[[Sequence[Any]], Any]


class Executor(Protocol):
    """A backend's function of a Program."""

    @property
    def code(self) -> str:
        """The code that it runs, as text."""
        ...

    def specialize(self, leaves: Sequence[Any]) -> Runner:
        """The function that runs leaves of these kinds; its result is one array, or a tuple of them."""
        ...


def require_backend(name: str) -> None:
    """Check that there is a backend.

    Raises:
        InputError: There is no backend with this name.
    """
    if name not in EXECUTORS:
        raise InputError(f"jit: there is no backend {name!r}; there are {', '.join(map(repr, EXECUTORS))}.")


def from_dlpack(array: Any) -> Any:
    """A tensor that shares the memory of an object that has only the DLPack protocol."""
    return _torch("from_dlpack")(array)


def result_converter(leaves: Sequence[Any], backend: str) -> Any:
    """A function that converts a backend's results to arrays of the arguments' library; None if none is needed."""
    arrays = [leaf for leaf in leaves if not isinstance(leaf, PYTHON_NUMBERS) or is_array(leaf)]
    arrays = [leaf.data if isinstance(leaf, PackedArray) else leaf for leaf in arrays]
    numpy = bool(arrays) and all(isinstance(leaf, np.ndarray | np.generic) for leaf in arrays)
    if backend == "interpreter":
        return None if numpy else _torch("from_numpy")
    if numpy:
        return None if backend == "native" else _torch("to_numpy")
    others = dict.fromkeys(map(type, arrays))
    if (
        len(others) != 1
        or array_api_compat.is_torch_array(arrays[0])
        or not array_api_compat.is_array_api_obj(arrays[0])
    ):
        return None
    return array_api_compat.array_namespace(arrays[0]).from_dlpack


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which torch.compile never traces into."""
    wrapped: Callable[..., Any] = _torch("untraced", "sources")(function)
    return wrapped


def _torch(name: str, module: str = "functions") -> Any:
    return getattr(importlib.import_module(f"plica.backend.torch.{module}"), name)


def _torch_executor(bound: Bound, name: str, numbers: frozenset[int], rewriting: Rewriting | None = None) -> Executor:
    executor: Executor = _torch("TorchFunction")(bound, name, numbers, rewriting)
    return executor


def _native_executor(bound: Bound, name: str, numbers: frozenset[int], rewriting: Rewriting | None = None) -> Executor:
    module = importlib.import_module("plica.frontend.native_functions")
    executor: Executor = module.NativeFunction(
        bound, lambda: _torch_executor(bound, name, numbers, rewriting), _torch, rewriting
    )
    return executor


@dataclass(frozen=True)
class _Interpreter:
    """The interpreter as a backend.

    Args:
        bound: The Program with its captured arrays.
        name: The name of the function, which this backend does not need.
        numbers: The indices of arguments that are Python numbers, which this backend does not need.
        rewriting: The rewrite rules; without them, the Program runs unchanged.
    """

    bound: Bound
    name: str
    numbers: frozenset[int]
    rewriting: Rewriting | None = None

    @cached_property
    def program(self) -> Program:
        """The Program as it is run."""
        return self.bound.program if self.rewriting is None else clean(self.bound.program, self.rewriting)

    @property
    def code(self) -> str:
        """The Program as text: the interpreter runs it."""
        return str(self.program)

    def specialize(self, leaves: Sequence[Any]) -> Runner:
        """The function of any leaves."""
        del leaves
        program = own_results(self.program)
        dtypes = [var.type.dtype.numpy for var in program.arguments]

        def run(leaves: Sequence[Any]) -> Any:
            arrays = [_on_host(leaf, dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]
            captured = [leaf.read() if isinstance(leaf, Reference) else leaf for leaf in self.bound.leaves]
            results = interpret_program(program, OPS, arrays, [_on_host(leaf, None) for leaf in captured])
            return results if len(results) != 1 else results[0]

        return run


def _on_host(leaf: Any, dtype: Any) -> Any:
    if isinstance(leaf, PYTHON_NUMBERS) and not is_array(leaf):
        try:
            return np.asarray(leaf, dtype=dtype)
        except OverflowError:
            raise InputError(f"an argument is {leaf}, which does not fit {dtype}; pass a float.") from None
    return _torch("to_numpy")(leaf) if array_api_compat.is_torch_array(leaf) else np.asarray(leaf)


EXECUTORS: Mapping[str, Callable[[Bound, str, frozenset[int], Rewriting | None], Executor]] = {
    "torch": _torch_executor,
    "interpreter": _Interpreter,
    "native": _native_executor,
}
