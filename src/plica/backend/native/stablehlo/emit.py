"""`emit`: a Program as StableHLO text, a module of one function, `main`.

The row of its operation (`rows/`) writes an equation, else its scalar code (`scalars.py`), else its decomposition. An
operation that has none of these is an error. Nested Programs are written in place.

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
        leaves: The arrays that it captures, which become constants; without `leaves` they are the first arguments.
        sizes: Numbers that replace symbolic sizes of the arguments, by name; the others stay symbolic (`?`).
        name: The name of the module.

    Raises:
        InputError: There is no symbolic size of such a name, or the number is no size.
        ShapeError: The numbers contradict each other.
        UnsupportedError: An operation has no form in StableHLO, or a size of the Program depends on data.
    """
    implicit = program.inputs[: program.num_implicit_inputs]
    numbers = _numbers(implicit, {} if sizes is None else sizes)
    emitter = Emitter(Code(), CONTROL, numbers)
    captured = [] if leaves is None else [np.asarray(leaf) for leaf in leaves]
    variables = [*([] if leaves is not None else program.consts), *program.arguments]
    arguments = emitter.arguments(variables)
    consts = [emitter.constant(leaf) for leaf in captured] if leaves is not None else arguments[: len(program.consts)]
    emitter.bind(program.consts, consts, [_size(leaf) for leaf in captured] or None)
    dims = [numbers.get(var, Size.of(var)) for var in implicit]
    emitter.bind(implicit, list(map(emitter.size, dims)), dims)
    emitter.bind(program.arguments, arguments[len(arguments) - len(program.arguments) :])
    results = [result.tensor for result in emitter.run(program)[program.num_implicit_outputs :]]
    return _module(name, variables, arguments, emitter.code, results)


def _module(
    name: str, variables: Sequence[Var], arguments: Sequence[Value], code: Code, results: Sequence[Tensor]
) -> str:
    types = ", ".join(result.type for result in results)
    shown = ", ".join(f"{argument.tensor.text}: {argument.tensor.type}" for argument in arguments)
    body = [*code.first, *code.lines, f"return {', '.join(result.text for result in results)} : {types}".strip(" :")]
    lines = [
        *(f"// {var.name}: {var.type}" for var in variables),
        f"module @{name} {{",
        f"  func.func public @main({shown}) -> ({types}) {{",
        *(f"    {line}" for line in body),
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _numbers(implicit: Sequence[Var], sizes: Mapping[str, int]) -> dict[Hashable, Dim]:
    """The numbers that replace symbolic sizes, by variable."""
    if not isinstance(sizes, Mapping):
        raise InputError(f'sizes: expected numbers by name, as {{"n": 3}}, found {sizes!r:.60}')
    names = [var.name for var in implicit]
    for name, number in sizes.items():
        if name not in names:
            expected = f"one of {', '.join(names)}" if names else "none: no size of the arguments is open"
            raise InputError(f"sizes: expected {expected}, found {name!r}")
        if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number < 2**31:
            raise InputError(f"sizes: expected {name} from 0 to 2147483647, found {number!r:.60}")
    return {var: int(sizes[var.name]) for var in implicit if var.name in sizes}


def _size(leaf: Array) -> Dim | None:
    return int(leaf) if leaf.dtype == np.int64 and not leaf.shape else None
