"""Which reshapes copy: where entries do not lie in memory in the order of their axes, no view has the new shape.

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


class _Order(IntEnum):
    """How the entries of a value lie in memory."""

    DENSE = 0
    """One behind the other, in the order of the axes."""
    SPARSE = 1
    """In the order of the axes, with gaps between them, or one for several places."""
    OTHER = 2
    """In another order."""


_EACH = frozenset(row.name for row in ELEMENTWISE)
_KEEPING = frozenset(("expand_dims", "squeeze", "reshape", "stop_gradient"))


def copying_reshapes(program: Program) -> dict[Equation, None]:
    """The reshapes that make an array of their own.

    Assumes:
        Arguments, and what nested Programs are given, lie in the order of their axes.
    """
    order: dict[Operand, _Order] = {}
    found: dict[Equation, None] = {}
    for equation in program.equations:
        before = max((order.get(one, _Order.DENSE) for one in equation.inputs), default=_Order.DENSE)
        after = _after(equation, before)
        if equation.op.name == "reshape" and before and not _is_cut(equation):
            found[equation] = None
            after = _Order.DENSE
        if after:
            order.update(dict.fromkeys(equation.outputs, after))
    return found


def _after(equation: Equation, before: _Order) -> _Order:
    """How the results of an equation lie, where the least orderly of its operands lies as `before`."""
    memory, name = OPS[equation.op.name].memory, equation.op.name
    if memory is Memory.EITHER or name == "permute_dims":
        return _Order.OTHER
    if memory is not Memory.VIEW:  # entry by entry, libraries keep the order of an operand, and leave no gaps
        return before if name in _EACH and before is _Order.OTHER else _Order.DENSE
    is_run = equation.params.get("axis") == 0 and equation.params.get("step", 1) == 1
    return before if name in _KEEPING or is_run else max(before, _Order.SPARSE)


def _is_cut(equation: Equation) -> bool:
    """Whether a reshape joins no axes, but for those of one entry: it is a view then, however entries lie."""
    new: list[Dim] = [dim for dim in equation.params["shape"] if dim != 1]
    place = 0
    for dim in equation.inputs[0].type.shape:
        made: Dim = 1
        while made != dim and place < len(new):
            made, place = made * new[place], place + 1
        if made != dim:
            return False
    return place == len(new)
