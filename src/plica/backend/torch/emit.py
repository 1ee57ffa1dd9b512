"""Emission: a Program becomes the source of one Python function over torch calls, and that function.

Values are deleted after their last use. The source is registered with `linecache`, so that tracebacks show its lines.
"""

import linecache
from collections.abc import Callable, Container, Iterator
from itertools import count
from keyword import kwlist
from typing import Any

import torch

from plica.backend.torch import kernels
from plica.backend.torch.rows import ROWS, Call, scalar_source
from plica.errors import UnsupportedError
from plica.ir.program import Equation, Literal, Operand, Program, Var, rename
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
    leaves = [f"leaves.{var.name}" for var in program.consts]
    return "\n".join(_lines(_with_python_names(program), leaves, name)) + "\n"


def load(code: str, name: str) -> Callable[..., Any]:
    """The function called `name` of `code`, which sees `torch` and `kernels`."""
    filename = f"<plica {name} {next(_NUMBERS)}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"torch": torch, "kernels": kernels, "inf": float("inf"), "nan": float("nan")}
    exec(compile(code, filename, "exec"), scope)  # the text above is all that is run
    function: Callable[..., Any] = scope[name]
    return function


def _with_python_names(program: Program) -> Program:
    """`program` with other names for the variables that Python or the generated code calls something else."""
    variables = [*program.consts, *program.inputs, *(var for one in program.equations for var in one.outputs)]
    taken = {var.name for var in variables}
    if taken.isdisjoint(_RESERVED):
        return program

    def name(var: Var) -> str:
        text = var.name
        while text in _RESERVED or (text != var.name and text in taken):
            text += "_"
        taken.add(text)
        return text

    return rename(program, name)


def _lines(program: Program, leaves: list[str], name: str) -> Iterator[str]:
    body = list(_body(program, leaves))
    yield f"def {name}(leaves{''.join(f', {var.name}' for var in program.arguments)}):"
    if any("device=device" in line for line in body):
        yield "    device = leaves.device"
    for var, (index, axis) in size_sources(program).items():
        yield f"    {var.name} = {program.arguments[index].name}.shape[{axis}]"
    yield from body


def _body(program: Program, leaves: list[str]) -> Iterator[str]:
    dying = _last_uses(program)
    consts = dict(zip(program.consts, leaves, strict=True))
    implicit = frozenset(program.inputs[: program.num_implicit_inputs])
    loaded: dict[Var, None] = {}
    place = ""
    for index, equation in enumerate(program.equations):
        if equation.source != place:
            place = equation.source
            yield f"    # {place or 'the whole circuit'}"
        for operand in equation.inputs:
            if isinstance(operand, Var) and operand in consts and operand not in loaded:
                loaded[operand] = None
                yield f"    {operand.name} = {consts[operand]}"
        results = ", ".join(var.name for var in equation.outputs)
        yield f"    {results} = {_expression(equation, implicit)}"
        if dying[index]:
            yield f"    del {', '.join(var.name for var in dying[index])}"
    for operand in program.results:
        if isinstance(operand, Var) and operand in consts and operand not in loaded:
            loaded[operand] = None
            yield f"    {operand.name} = {consts[operand]}"
    results = ", ".join(_tensor(one, implicit) for one in program.results)
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


def _expression(equation: Equation, implicit: Container[Operand]) -> str:
    row = ROWS.get(equation.op.name)
    if row is None:
        raise UnsupportedError(f"the torch backend has no row for the operation {equation.op.name!r}.")
    return row(Call(equation, tuple(_text(one, implicit) for one in equation.inputs)))


def _text(operand: Operand, implicit: Container[Operand]) -> str:
    """An operand: a literal is its Python scalar, a size, which is a Python integer here, becomes a tensor."""
    return repr(operand.value) if isinstance(operand, Literal) else _tensor(operand, implicit)


def _tensor(operand: Operand, implicit: Container[Operand]) -> str:
    if isinstance(operand, Literal):
        return scalar_source(repr(operand.value), operand.type.dtype)
    return scalar_source(operand.name, operand.type.dtype) if operand in implicit else operand.name


_RESERVED = frozenset({*kwlist, "torch", "kernels", "leaves", "device", "inf", "nan", "min", "max"})
