"""Emission: a Program becomes the source of one Python function over torch calls, and that function.

Values are deleted after their last use. The source is registered with `linecache`, so that tracebacks show its lines.
"""

import linecache
from collections.abc import Callable, Iterator
from itertools import count
from keyword import kwlist
from typing import Any

import torch

from plica.backend.torch import kernels
from plica.backend.torch.rows import ROWS, Call
from plica.errors import UnsupportedError
from plica.ir.program import Equation, Literal, Operand, Program, Var
from plica.ir.signature import size_sources

_NUMBERS = count()


def emit(program: Program, name: str = "forward") -> Callable[..., Any]:
    """The Python function of `program`: `run(leaves, *arguments)`, leaves by attribute.

    It returns the result, or a tuple where there are several.

    Raises:
        UnsupportedError: An operation has no row here.
    """
    return load(source(program, name), name)


def source(program: Program, name: str = "forward") -> str:
    """The text of the function of `program`."""
    return "\n".join(_lines(program, name)) + "\n"


def load(code: str, name: str) -> Callable[..., Any]:
    """The function called `name` of `code`, which sees `torch` and `kernels`."""
    filename = f"<plica {name} {next(_NUMBERS)}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"torch": torch, "kernels": kernels, "inf": float("inf"), "nan": float("nan")}
    exec(compile(code, filename, "exec"), scope)  # the text above is all that is run
    function: Callable[..., Any] = scope[name]
    return function


def _lines(program: Program, name: str) -> Iterator[str]:
    body = list(_body(program))
    yield f"def {name}(leaves{''.join(f', {_name(var)}' for var in program.arguments)}):"
    if any("device=device" in line for line in body):
        yield "    device = leaves.device"
    for var, (index, axis) in size_sources(program).items():
        yield f"    {_name(var)} = {_name(program.arguments[index])}.shape[{axis}]"
    yield from body


def _body(program: Program) -> Iterator[str]:
    dying = _last_uses(program)
    consts = {var: f"leaves.{var.name}" for var in program.consts}
    loaded: dict[Var, None] = {}
    place = ""
    for index, equation in enumerate(program.equations):
        if equation.source != place:
            place = equation.source
            yield f"    # {place or 'the whole circuit'}"
        for operand in equation.inputs:
            if isinstance(operand, Var) and operand in consts and operand not in loaded:
                loaded[operand] = None
                yield f"    {_name(operand)} = {consts[operand]}"
        yield f"    {_name(equation.outputs[0])} = {_expression(equation)}"
        if dying[index]:
            yield f"    del {', '.join(map(_name, dying[index]))}"
    for operand in program.results:
        if isinstance(operand, Var) and operand in consts and operand not in loaded:
            loaded[operand] = None
            yield f"    {_name(operand)} = {consts[operand]}"
    results = ", ".join(map(_text, program.results))
    yield f"    return {results}" if len(program.results) == 1 else f"    return ({results})"


def _last_uses(program: Program) -> list[list[Var]]:
    """For each equation, the variables that nothing after it reads; arguments are the caller's."""
    last: dict[Var, int] = {}
    for index, equation in enumerate(program.equations):
        for operand in (*equation.inputs, *equation.outputs):
            if isinstance(operand, Var):
                last[operand] = index
    kept = {operand for operand in program.outputs if isinstance(operand, Var)} | set(program.inputs)
    dying: list[list[Var]] = [[] for _ in program.equations]
    for var, index in last.items():
        if var not in kept:
            dying[index].append(var)
    return dying


def _expression(equation: Equation) -> str:
    row = ROWS.get(equation.op.name)
    if row is None:
        raise UnsupportedError(f"the torch backend has no row for the operation {equation.op.name!r}.")
    return row(Call(equation, tuple(map(_text, equation.inputs))))


def _text(operand: Operand) -> str:
    return repr(operand.value) if isinstance(operand, Literal) else _name(operand)


def _name(var: Var) -> str:
    return f"{var.name}__" if var.name in _RESERVED else var.name


_RESERVED = frozenset({*kwlist, "torch", "kernels", "leaves", "device", "inf", "nan", "min", "max"})
