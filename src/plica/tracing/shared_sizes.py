"""Checks for loops that run at once, without a trace: they refuse the changes of shared sizes that a trace refuses.

In a trace two arguments share a size if it is one polynomial. At once there are numbers alone, and two of them may be
equal by chance. Only an array that is passed twice surely shares its sizes. Loops and branches hand over another view
of each array, because in a trace it has sizes of its own there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.errors import ShapeError
from plica.tracing.trees import flatten, unflatten


def argument_name(names: Sequence[str | None], position: int) -> str:
    """How messages call an argument of a loop."""
    name = names[position] if position < len(names) else None
    return f"argument {position}" if name is None else f"argument {name!r}"


def resized(location: str, argument: str, axis: int, before: Any, after: Any, why: str) -> ShapeError:
    """The error for an axis that may not change its size alone.

    Args:
        location: `file:line` of the body.
        argument: How messages call the argument.
        axis: The axis.
        before: Its size.
        after: Its new size.
        why: The reason against it, and when it is no mistake.
    """
    return ShapeError(
        f"{location}: axis {axis} of {argument} has size {before} and becomes {after}, but {why}, "
        "use preserve_dimensions=False."
    )


def partner(argument: str, became: str) -> str:
    """The reason to give to `resized` where another argument shares the size."""
    return f"{argument}, which shares that size, {became}. If these sizes are equal only at first"


def handed_over(tree: Any) -> Any:
    """The tree with a view of each array of numpy and torch: another object that shares its memory."""
    leaves, structure = flatten(tree)
    views = [_view(leaf) for leaf in leaves]
    changed = any(view is not leaf for view, leaf in zip(views, leaves, strict=True))
    return unflatten(structure, views) if changed else tree


def _view(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.view()
    return leaf.view_as(leaf) if hasattr(leaf, "view_as") else leaf


class SharedSizes:
    """The arrays that are passed twice to a loop.

    Args:
        location: `file:line` of the body.
        names: Hints for the names of the leaves of its arguments.
        first: The first arguments.
    """

    def __init__(self, location: str, names: Sequence[str | None], first: Any) -> None:
        self._place = location
        self._names = names
        self._first = flatten(first)[0]
        self._pairs: list[tuple[int, int]] = []
        seen: dict[int, int] = {}
        for number, leaf in enumerate(self._first):
            earlier = seen.setdefault(id(leaf), number)
            if earlier != number and hasattr(leaf, "shape"):
                self._pairs.append((earlier, number))

    def check(self, state: Any) -> None:
        """Refuse what the body returned if arguments do not share their sizes any more.

        Raises:
            ShapeError: The body returned arrays whose sizes differ where they must be shared.
        """
        if not self._pairs:
            return
        shapes = [tuple(getattr(leaf, "shape", ())) for leaf in flatten(state)[0]]
        for pair in self._pairs if len(shapes) == len(self._first) else ():
            before = self._first[pair[0]].shape
            for axis, sizes in enumerate(zip(*(shapes[number] for number in pair), before, strict=False)):
                if sizes[0] != sizes[1]:
                    self._refuse(pair, axis, sizes)

    def _refuse(self, pair: tuple[int, int], axis: int, sizes: tuple[int, ...]) -> None:
        *after, before = sizes
        moved = 0 if after[1] == before else 1
        partner_name = argument_name(self._names, pair[1 - moved])
        became = "keeps it" if after[1 - moved] == before else f"becomes {after[1 - moved]}"
        name = argument_name(self._names, pair[moved])
        raise resized(self._place, name, axis, before, after[moved], partner(partner_name, became))
