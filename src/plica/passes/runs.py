"""Runs of an array: neighbours along its first axis, as `split`, `slice` and `concat` show and join them.

>>> merged([("x", 0, 2), ("x", 2, 3), ("y", 5, 1)])
[('x', 0, 5), ('y', 5, 1)]
"""

from collections.abc import Iterable
from typing import Any

from plica.ir.program import Equation, Var


def is_along_first(equation: Equation | None, name: str) -> bool:
    """Whether an equation is the operation `name` along the first axis, and all sizes of that axis are known."""
    if equation is None or equation.op.name != name:
        return False
    shapes = [operand.type.shape for operand in (*equation.inputs, *equation.outputs)]
    return equation.params["axis"] % len(shapes[0]) == 0 and all(isinstance(shape[0], int) for shape in shapes)


def start_of(equation: Equation | None, var: Var) -> int | None:
    """The start of a run in its source, where a split or slice makes it; None otherwise."""
    if equation is not None and is_along_first(equation, "split"):
        start = sum(equation.params["sizes"][: equation.outputs.index(var)])
    elif equation is not None and is_along_first(equation, "slice") and equation.params["step"] == 1:
        start = equation.params["start"]
    else:
        return None
    return start if isinstance(start, int) else None


def merged(runs: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Join each run with the one before, if it starts where that one ends.

    Args:
        runs: Each has one or several pairs of a source and the start there, then its length.
    """
    joined: list[tuple[Any, ...]] = []
    for *starts, length in runs:
        *last, size = joined[-1] if joined else (0,)
        if [start + size if number % 2 else start for number, start in enumerate(last)] == starts:
            joined[-1] = (*last, size + length)
        else:
            joined.append((*starts, length))
    return joined
