"""`emit`: a Program as StableHLO text, a module of one function, `main`.

An equation is written by the first of these that its operation has: a row (`rows/`), scalar code (`scalars.py`), a
decomposition. An operation without any of them is an error. The Programs of loops and branches become regions of
`while` and `if`; that of a call is written in place of the call.

>>> from plica.tracing.trace import trace
>>> from plica.ir.types import spec
>>> text = emit(trace(lambda x: -x, spec(("n", 3), "float32")))
>>> print(text.splitlines()[5].strip())
%3 = "stablehlo.negate"(%arg0) : (tensor<?x3xf32>) -> tensor<?x3xf32>
"""

from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from plica.backend.native.stablehlo.code import Code, Tensor
from plica.backend.native.stablehlo.control import CONTROL
from plica.backend.native.stablehlo.emitter import Emitter
from plica.backend.native.stablehlo.values import Value
from plica.errors import InputError
from plica.ir.op import Array
from plica.ir.program import Program, Var
from plica.ir.sizes import Dim, Size


def emit(
    program: Program,
    leaves: Sequence[Any] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    name: str = "plica",
) -> str:
    """A Program as the text of a module.

    Args:
        program: The Program.
        leaves: The arrays for `program.consts`, which become constants of the text. Without `leaves` the consts are the
            first arguments of `main`.
        sizes: Numbers for symbolic sizes of the arguments, by name: `{"n": 3}`. Other sizes stay symbolic (`?`).
        name: The name of the module.

    Raises:
        InputError: A name in `sizes` is no symbolic size of the Program, or its number is negative or too large.
        ShapeError: The numbers contradict each other.
        UnsupportedError: An operation has no form in StableHLO, or a size of the Program depends on data.
    """
    implicit = program.inputs[: program.num_implicit_inputs]
    numbers = _numbers(implicit, {} if sizes is None else sizes)
    emitter = Emitter(Code(), CONTROL, numbers)
    if leaves is None:
        parameters = (*program.consts, *program.arguments)
        values = emitter.arguments(parameters)
        arguments = values[len(program.consts) :]
        emitter.bind(program.consts, values[: len(program.consts)])
    else:
        parameters = program.arguments
        values = arguments = emitter.arguments(parameters)
        arrays = [np.asarray(leaf) for leaf in leaves]
        emitter.bind(program.consts, list(map(emitter.constant, arrays)), list(map(_as_size, arrays)))
    dims = [numbers.get(var, Size.of(var)) for var in implicit]
    emitter.bind(implicit, list(map(emitter.size, dims)), dims)
    emitter.bind(program.arguments, arguments)
    results = [result.tensor for result in emitter.run(program)[program.num_implicit_outputs :]]
    return _module(name, parameters, values, emitter.code, results)


def _module(
    name: str, parameters: Sequence[Var], values: Sequence[Value], code: Code, results: Sequence[Tensor]
) -> str:
    """The text of a module: `main` with its parameters, and a comment with the Plica type of each."""
    types = ", ".join(result.type for result in results)
    signature = ", ".join(f"{value.tensor.text}: {value.tensor.type}" for value in values)
    returned = f"return {', '.join(result.text for result in results)} : {types}".strip(" :")  # `return` of nothing
    body = [*code.first, *code.lines, returned]
    lines = [
        *(f"// {var.name}: {var.type}" for var in parameters),
        f"module @{name} {{",
        f"  func.func public @main({signature}) -> ({types}) {{",
        *(f"    {line}" for line in body),
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _numbers(implicit: Sequence[Var], sizes: Mapping[str, int]) -> dict[Hashable, Dim]:
    """The numbers of `sizes` by variable, checked."""
    if not isinstance(sizes, Mapping):
        raise InputError(f'sizes: expected numbers by name, as {{"n": 3}}, found {sizes!r:.60}')
    names = [var.name for var in implicit]
    for name, number in sizes.items():
        if name not in names:
            expected = f"one of {', '.join(names)}" if names else "none: all sizes of the arguments are known"
            raise InputError(f"sizes: expected {expected}, found {name!r}")
        if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number < 2**31:
            raise InputError(f"sizes: expected {name} from 0 to 2147483647, found {number!r:.60}")
    return {var: int(sizes[var.name]) for var in implicit if var.name in sizes}


def _as_size(leaf: Array) -> Dim | None:
    """The number of a leaf that may be a size: a scalar of int64. None for others."""
    return int(leaf) if leaf.dtype == np.int64 and not leaf.shape else None
