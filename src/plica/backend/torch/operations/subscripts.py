"""Subscripts: the parts of arrays that generated code reads and writes in brackets, as Python writes them.

A subscript has a part for each axis, as the index of an `update` has: None is the whole axis, text one index, and
`(start, stop, step)` a slice. Python clips slices, so their bounds are compared first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from plica.backend.torch.operations.call import size_source
from plica.ir.program import Equation, Operand, Var, size_variables
from plica.ir.sizes import Dim, Opaque, Size, is_nonnegative

Part = str | tuple[Dim, Dim, Dim] | None
WHOLE = "..."


def subscript(parts: Sequence[Part], text: Callable[[Dim], str] = size_source) -> str:
    """The text within the brackets, without whole axes at the end.

    Args:
        parts: An entry for each axis.
        text: The text of a bound.

    >>> subscript([None, "i", (0, 5, 2), None]), subscript([None])
    (':, i, 0:5:2', '...')
    """
    last = max((axis for axis, part in enumerate(parts) if part is not None), default=-1)
    return ", ".join(_part_source(part, text) for part in parts[: last + 1]) or WHOLE


def _part_source(part: Part, text: Callable[[Dim], str]) -> str:
    if not isinstance(part, tuple):
        return part or ":"
    start, stop, step = map(text, part)
    return f"{start}:{stop}" if step == "1" else f"{start}:{stop}:{step}"


def parts_read(equations: Sequence[Equation], text: Callable[[Operand], str]) -> list[Part] | None:
    """The parts of an array that equations read, each from what the one before it reads.

    Args:
        equations: Rows "index", "slice" and "squeeze".
        text: The text of an index.

    Returns:
        An entry for each axis of the first array; None where one subscript does not say it, or its errors would name
        another axis.
    """
    rank = len(equations[0].inputs[0].type.shape)
    parts: list[Part] = [None] * rank
    left = list(range(rank))
    for equation in equations:
        axes = equation.params["axis"]
        for axis in sorted(axes if isinstance(axes, tuple) else [axes % len(left)], reverse=True):
            original, part = left[axis], parts[left[axis]]
            match equation.op.name:
                case "index" if part is None and original == axis:
                    parts[left.pop(axis)] = text(equation.inputs[1])
                case "slice" if part is None and original == axis:
                    parts[original] = tuple(equation.params[name] for name in ("start", "stop", "step"))
                case "squeeze" if isinstance(part, tuple) and part[1] - part[0] == 1:
                    parts[left.pop(axis)] = size_source(part[0])
                case _:
                    return None
    return parts


def parts_written(equation: Equation, text: Iterable[str]) -> list[Part]:
    """The parts of an array that an update writes to, given the text of its indices."""
    indices = iter(text)
    return [next(indices) if isinstance(part, str) else part for part in equation.params["index"]]


def slices(equation: Equation) -> Iterator[tuple[int, Dim, tuple[Dim, Dim, Dim]]]:
    """The slices of an equation that reads or updates an array: the axis, its size and the bounds."""
    match equation.op.name:
        case "slice":
            shape = equation.inputs[0].type.shape
            axis = equation.params["axis"] % len(shape)
            yield axis, shape[axis], tuple(equation.params[name] for name in ("start", "stop", "step"))
        case "update":
            for axis, (size, part) in enumerate(
                zip(equation.inputs[0].type.shape, equation.params["index"], strict=True)
            ):
                if isinstance(part, tuple):
                    yield axis, size, part


def sizes_compared(equation: Equation) -> Iterator[Var]:
    """The variables of sizes that the bounds of slices are compared with; repeats possible."""
    for _, size, bounds in slices(equation):
        if unproven(size, bounds):
            yield from size_variables(size)


def not_negative(size: Dim, start: Dim, stop: Dim, step: Dim) -> tuple[Dim, ...]:
    """The sizes that are not negative if a slice lies within an axis."""
    return (start, stop - start, size - stop, step - 1)


def unproven(
    size: Dim,
    bounds: tuple[Dim, Dim, Dim],
    known: Sequence[Dim] = (),
    text: Callable[[Dim], str] = size_source,
) -> str:
    """The condition under which a slice lies within an axis, without what is known; empty if all is.

    Args:
        size: The size of the axis.
        bounds: The slice.
        known: Sizes that are known not to be negative.
        text: The text of a size.
    """
    start, stop, step = bounds
    texts = ["0", *map(text, (start, stop, size))]
    *between, last = (not is_proven(bound, known) for bound in not_negative(size, *bounds))
    conditions: list[str] = []
    for number, is_open in enumerate(between):
        if is_open and number and between[number - 1]:
            conditions[-1] += f" <= {texts[number + 1]}"
        elif is_open:
            conditions.append(f"{texts[number]} <= {texts[number + 1]}")
    return " and ".join([*conditions, *([f"1 <= {text(step)}"] if last else [])])


def is_proven(size: Dim, known: Sequence[Dim], depth: int = 6) -> bool:
    """Whether `size` is known not to be negative.

    It is if it is not less than something that is not. With `max(p, 0)`, which stands in bounds that were clipped, it
    is if it would be with either of `p` and 0 where the maximum is subtracted, and with one of them where it is added.

    >>> from plica.ir.sizes import opaque
    >>> from plica.ir.types import SCALAR_SIZE
    >>> n = Size.of(Var("n", SCALAR_SIZE, is_size=True))
    >>> is_proven(n - opaque("max", n - 2, 0), ()), is_proven(n - 2, ()), is_proven(n - 2, [n - 3])
    (True, False, True)
    """
    if is_nonnegative(size) or any(is_nonnegative(size - bound) for bound in known):
        return True
    if isinstance(size, int) or not depth:
        return False
    maxima = list(_maxima(size))
    if not maxima:
        return False
    factor, maximum = min(maxima, key=lambda term: term[0])  # those that are subtracted come first
    remaining = size - factor * Size.of(maximum)
    proofs = (is_proven(remaining + factor * argument, known, depth - 1) for argument in maximum.arguments)
    return all(proofs) if factor < 0 else any(proofs)


def _maxima(size: Size) -> Iterator[tuple[int, Opaque]]:
    """The terms that are a number times a maximum, in the order of the text."""
    for powers, factor in size.ordered:
        (atom, power), *factors = powers or ((None, 0),)
        if isinstance(atom, Opaque) and atom.function == "max" and power == 1 and not factors:
            yield factor, atom
