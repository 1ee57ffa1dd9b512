"""Runs of an array: neighbours along its first axis, as `split`, `slice` and `concat` show and join them.

>>> merged([("x", 0, 2), ("x", 2, 3), ("y", 5, 1)])
[('x', 0, 5), ('y', 5, 1)]
"""

from collections.abc import Iterable
from typing import Any

from plica.ir.program import Equation, Var


def is_along_first(equation: Equation | None, name: str) -> bool:
    """Whether it is a view or a join of this name along the first axis, all of whose sizes there are known."""
    if equation is None or equation.op.name != name:
        return False
    shapes = [one.type.shape for one in (*equation.inputs, *equation.outputs)]
    return equation.params["axis"] % len(shapes[0]) == 0 and all(isinstance(one[0], int) for one in shapes)


def start_of(equation: Equation | None, var: Var) -> int | None:
    """Where a result of a split or a slice, which is a run, begins in its source; None of anything else."""
    if equation is not None and is_along_first(equation, "split"):
        start = sum(equation.params["sizes"][: equation.outputs.index(var)])
    elif equation is not None and is_along_first(equation, "slice") and equation.params["step"] == 1:
        start = equation.params["start"]
    else:
        return None
    return start if isinstance(start, int) else None


def merged(runs: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The runs, those that go on where the one before ended as one.

    Args:
        runs: Each one or several times a source and where the run begins there, then its length.
    """
    found: list[tuple[Any, ...]] = []
    for *places, length in runs:
        *last, size = found[-1] if found else (0,)
        if [one + size if number % 2 else one for number, one in enumerate(last)] == places:
            found[-1] = (*last, size + length)
        else:
            found.append((*places, length))
    return found
