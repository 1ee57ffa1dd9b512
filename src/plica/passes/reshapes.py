"""Which reshapes copy: a reshape is no view where entries do not lie in memory in the order of the axes.

>>> import plica.tracing.namespace as xp
>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> def both(x):
...     return xp.reshape(x, (8,)), xp.reshape(xp.permute_dims(x, (1, 0)), (8,))
>>> program = trace(both, spec((2, 4)))
>>> [equation in copying_reshapes(program) for equation in program.equations if equation.op.name == "reshape"]
[False, True]
"""

from enum import IntEnum

from plica.ir.op import Memory
from plica.ir.program import Equation, Operand, Program
from plica.ir.sizes import Dim
from plica.ops import ELEMENTWISE, OPS


class _Layout(IntEnum):
    """How the entries of a value lie in memory."""

    DENSE = 0
    """Contiguous, in the order of the axes."""
    SPARSE = 1
    """In the order of the axes, with gaps between entries, or with one entry at several indices."""
    OTHER = 2
    """In another order."""


_ENTRYWISE = frozenset(row.name for row in ELEMENTWISE)
_KEEPING = frozenset(("expand_dims", "squeeze", "reshape", "stop_gradient"))


def copying_reshapes(program: Program) -> dict[Equation, None]:
    """The reshapes that make an array of their own.

    Assumes:
        The entries of arguments, also of those of nested Programs, lie in the order of the axes.
    """
    layouts: dict[Operand, _Layout] = {}
    copying: dict[Equation, None] = {}
    for equation in program.equations:
        before = max((layouts.get(operand, _Layout.DENSE) for operand in equation.inputs), default=_Layout.DENSE)
        after = _after(equation, before)
        if equation.op.name == "reshape" and before and not _is_cut(equation):
            copying[equation] = None
            after = _Layout.DENSE
        if after:
            layouts.update(dict.fromkeys(equation.outputs, after))
    return copying


def _after(equation: Equation, before: _Layout) -> _Layout:
    """The layout of the results of an equation; `before` is the least orderly layout of its operands."""
    memory, name = OPS[equation.op.name].memory, equation.op.name
    if memory is Memory.EITHER or name == "permute_dims":
        return _Layout.OTHER
    if memory is not Memory.VIEW:  # entry by entry, libraries keep the order of an operand, and leave no gaps
        return before if name in _ENTRYWISE and before is _Layout.OTHER else _Layout.DENSE
    is_run = equation.params.get("axis") == 0 and equation.params.get("step", 1) == 1
    return before if name in _KEEPING or is_run else max(before, _Layout.SPARSE)


def _is_cut(equation: Equation) -> bool:
    """Whether a reshape joins no axes of several entries: then it is a view of any layout."""
    new: list[Dim] = [dim for dim in equation.params["shape"] if dim != 1]
    index = 0
    for dim in equation.inputs[0].type.shape:
        joined: Dim = 1
        while joined != dim and index < len(new):
            joined, index = joined * new[index], index + 1
        if joined != dim:
            return False
    return index == len(new)
