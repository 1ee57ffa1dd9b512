"""A Program as a function of numpy arrays and numbers, compiled once for all sizes.

>>> import numpy as np
>>> from plica.ir.text import parse_program
>>> from plica.ops import OPS
>>> program = parse_program("{ lambda ; {n:i64[]} x:f64[n] . let y:f64[n] = add x x in (y,) }", OPS)
>>> run = compile_jit(program)
>>> run(np.ones(2)), run(np.ones(3))
((array([2., 2.]),), (array([2., 2., 2.]),))
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.compile import Code, compile_nest
from plica.backend.native.loops.nest import Nest
from plica.backend.native.loops.support import HEADER_BYTES, NOT_CONTIGUOUS
from plica.errors import InputError
from plica.ir.program import Program
from plica.ir.signature import bind_sizes, size_sources
from plica.ir.sizes import Dim, Size, evaluate, single_atom
from plica.ir.types import SCALAR_SIZE
from plica.runtime.shared_library import NO_MEMORY, Release, array_at


class NativeCall:
    """Machine code of a Program, called with arrays.

    Args:
        program: The Program, all of whose operations have loop nests.

    Attributes:
        nest: The loop nest.

    Raises:
        UnsupportedError: An operation or a dtype has no loop nest, or llvmlite is not installed.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nest: Nest = build_nest(program)
        self._code: Code = compile_nest(self.nest)
        self.run: Callable[..., tuple[Any, ...]] = _caller(self)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """The results for captured constants and arguments: arrays, and Python numbers for scalars.

        Raises:
            InputError: A size does not fit, or a check of the Program fails.
            MemoryError: There is no more memory.
        """
        return self.run(*arrays)

    def recover(self, status: int, arguments: Sequence[Any], results: Sequence[Any], info: Any) -> None:
        """Handle a run that failed: call it again with copies of arrays with gaps, or raise its error."""
        if status == NOT_CONTIGUOUS:
            arrays = [np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value for value in arguments]
            arrays = [
                array if not isinstance(array, np.ndarray) or array.flags.aligned else array.copy() for array in arrays
            ]
            status = self._code.function(*arrays, *results, info)
        if status == NO_MEMORY:
            raise _too_large()
        if status:
            site = self.nest.sites[status - 1]
            error = site.error(info[: site.count].tolist())
            raise type(error)(f"{site.source}: {error}" if site.source else str(error)) from None

    def refuse(self, arguments: Sequence[Any]) -> None:
        """Raise the error of an argument that does not fit.

        Raises:
            InputError: Always.
        """
        count = len(self.program.consts)
        captured = {
            var: int(value)
            for var, value in zip(self.program.consts, arguments, strict=False)
            if var.type == SCALAR_SIZE
        }
        shapes = [
            (np.shape(value), var.type.dtype.value)
            for var, value in zip(self.program.arguments, arguments[count:], strict=True)
        ]
        bind_sizes(self.program, shapes, captured)
        for var, value in zip(self.program.consts, arguments, strict=False):
            if len(var.type.shape) != np.ndim(value):
                raise InputError(f"the captured array {var.name} has shape {np.shape(value)} now, expected {var.type}.")
        raise InputError(
            "captured arrays have other shapes now than the function was compiled for; compile the function anew."
        )


def compile_jit(program: Program) -> NativeCall:
    """The function of a Program."""
    return NativeCall(program)


def _too_large() -> MemoryError:
    return MemoryError("an array of a native function is too large for this computer's memory; take smaller sizes.")


def _caller(call: NativeCall) -> Callable[..., tuple[Any, ...]]:
    """A Python function, generated without loops for cheap calls, that allocates results and calls the machine code."""
    program, nest = call.program, call.nest
    variables = (*program.consts, *program.arguments)
    names = [f"a{index}" for index in range(len(variables))]
    sources = size_sources(program)
    count = len(program.consts)
    sizes = {var: f"n{index}" for index, var in enumerate(sources)}
    texts: dict[Any, str] = dict(sizes)
    for name, var in zip(names, variables, strict=True):
        if var.type == SCALAR_SIZE:
            texts[var] = name
    scope: dict[str, Any] = {
        "entry": call._code.function,
        "empty": np.empty,
        "recover": call.recover,
        "refuse": call.refuse,
        "i64": np.dtype(np.int64),
        "array_at": _array_at,
        "number": np.asarray,
        "too_large": _too_large,
    }
    texts_of_arguments = f"({', '.join(names)}{',' if names else ''})"
    body = []
    for var, (number, axis) in sources.items():
        body.append(f"{texts[var]} = a{count + number}.shape[{axis}]")
    for name, var in zip(names, variables, strict=True):
        if var.type.shape:
            shape = _shape(var.type.shape, texts, scope)
            body.append(f"if {name}.shape != {shape}: refuse({texts_of_arguments})")
        elif var.type.dtype.kind == "complex":
            body.append(f"{name} = number({name}, t{name})")
            scope[f"t{name}"] = var.type.dtype.numpy
    results, allocations = [], []
    for number, (result, written) in enumerate(zip(program.results, nest.results, strict=True)):
        scope[f"d{number}"] = result.type.dtype.numpy
        if written.is_caller_allocated:
            allocations.append(f"r{number} = empty({_shape(result.type.shape, texts, scope)}, d{number})")
            results.append(f"r{number}")
    if allocations:
        body += [
            "try:",
            *(f"    {line}" for line in allocations),
            "except ValueError:",
            "    raise too_large() from None",
        ]
    numbers = nest.num_reported
    texts_of_results = f"({', '.join(results)}{',' if results else ''})"
    body.append(f"info = empty({numbers}, i64)")
    body.append(f"status = entry({', '.join([*names, *results, 'info'])})")
    body.append(f"if status: recover(status, {texts_of_arguments}, {texts_of_results}, info)")
    number = 0
    for index, written in enumerate(nest.results):
        if not written.is_caller_allocated:
            body.append(f"r{index} = array_at(info, {number}, {len(written.dims)}, d{index})")
            number += 1 + len(written.dims)
    returned = "".join(f"r{index}, " for index in range(len(nest.results)))
    lines = [f"def run({', '.join(names)}):", *(f"    {line}" for line in body), f"    return ({returned})"]
    exec(compile("\n".join(lines), "<plica native call>", "exec"), scope)  # runs only the text above
    function: Callable[..., tuple[Any, ...]] = scope["run"]
    return function


def _shape(shape: Sequence[Dim], texts: dict[Any, str], scope: dict[str, Any]) -> str:
    """A shape as Python text."""
    parts = [_size(dim, texts, scope) for dim in shape]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _size(dim: Dim, texts: dict[Any, str], scope: dict[str, Any]) -> str:
    if not isinstance(dim, Size):
        return str(dim)
    atom = single_atom(dim)
    if atom in texts:
        return texts[atom]
    name = f"size{len(scope)}"
    order = list(texts)
    # the run itself checks for negative sizes
    scope[name] = lambda *values: max(evaluate(dim, dict(zip(order, values, strict=True)).__getitem__), 0)
    return f"{name}({', '.join(texts.values())})"


# Results whose sizes the run computes


@cache
def _release() -> Release:
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = [ctypes.c_void_p], None
    return lambda address: free(address - HEADER_BYTES)


def _array_at(info: Any, position: int, rank: int, dtype: Any) -> Any:
    """The array that a nest left at an address."""
    address, *shape = info[position : position + 1 + rank].tolist()
    return array_at(address, tuple(shape), dtype, _release())
