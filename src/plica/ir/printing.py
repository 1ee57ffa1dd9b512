"""Writing Programs as text; the form is in `docs/ir.md`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from plica.ir.dtypes import DType
from plica.ir.sizes import Size

if TYPE_CHECKING:
    from plica.ir.program import Equation, Operand, Program, Var

Note = Callable[[Sequence["Var"]], str]
_PLAIN = (bool, int, float, complex, str, NoneType)


def print_program(program: Program, indent: str = "", note: Note | None = None) -> str:
    """The text of `program`; `note` gives the comment behind each line that defines variables."""
    consts = " ".join(map(_binder, program.consts))
    inputs = _group((f"{var.name}:{var.type}" for var in program.inputs), program.num_implicit_inputs, " ")
    lines = [f"{{ lambda {consts + ' ' if consts else ''}; {inputs + ' ' if inputs else ''}. let"]
    lines[0] += _comment(note, (*program.consts, *program.inputs))
    for equation in program.equations:
        lines.append(f"{indent}    {print_equation(equation, indent, note)}" + _comment(note, equation.outputs))
    results = _group(map(_operand, program.outputs), program.num_implicit_outputs, ", ")
    if len(program.outputs) == 1:
        results += ","
    return "\n".join(lines) + f"\n{indent}  in ({results}) }}"


def print_equation(equation: Equation, indent: str = "", note: Note | None = None) -> str:
    """The text of one equation."""
    outputs = " ".join(map(_binder, equation.outputs))
    inputs = "".join(f" {_operand(operand)}" for operand in equation.inputs)
    return f"{outputs} = {equation.op.name}{_params(equation.params, indent, note)}{inputs}"


def _comment(note: Note | None, variables: Sequence[Var]) -> str:
    return f"  # {note(variables)}" if note is not None and variables else ""


def _group(items: Iterable[str], implicit: int, separator: str) -> str:
    texts = list(items)
    return separator.join([f"{{{text}}}" for text in texts[:implicit]] + texts[implicit:])


def _binder(var: Var) -> str:
    return f"{{{var.name}:{var.type}}}" if var.is_size else f"{var.name}:{var.type}"


def _operand(operand: Operand) -> str:
    return f"{operand.value!r}:{operand.type}" if hasattr(operand, "value") else operand.name


def _params(params: Any, indent: str, note: Note | None) -> str:
    if not params:
        return ""
    return f"[{' '.join(f'{name}={_value(value, indent + chr(32) * 6, note)}' for name, value in params.items())}]"


def _value(value: Any, indent: str, note: Note | None) -> str:
    if isinstance(value, DType):
        return value.short
    if isinstance(value, tuple):
        inner = ",".join(_value(entry, indent, note) for entry in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Size):
        return str(value)
    return repr(value) if isinstance(value, _PLAIN) else print_program(value, indent, note)  # of a Program within
