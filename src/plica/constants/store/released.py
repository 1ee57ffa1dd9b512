"""Constants that were let go once they were folded: what still tells whether one has changed, and what it was like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import array_api_compat

from plica.constants.changes.states import is_same
from plica.eager.packed import PackedArray
from plica.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """A constant that is kept no longer.

    Args:
        source: The constant, as long as somebody else has it.
        like: An array of its kind, shape and dtype with one entry in memory.
    """

    source: ref[Any]
    like: Any


def resolved(one: Any) -> Any:
    """A constant that was released, where something else still holds it; else what is given, unchanged."""
    found = one.source() if isinstance(one, Released) else one
    return one if found is None else found


def is_same_constant(first: Any, second: Any) -> bool:
    """Whether two constants are one, released or not."""
    if isinstance(first, Released) and isinstance(second, Released):
        return first.source is second.source
    return is_same(first, second)


def placeholder(one: Any) -> Any:
    """An array of the kind, shape and dtype of a released constant; what is given, if it was not released."""
    return one.like if isinstance(one, Released) else one


def released(array: Any) -> Any:
    """What is left of an array that is let go; the array where its library has no weak references."""
    try:
        source = ref(array)
    except TypeError:
        return array
    if isinstance(array, PackedArray):
        return Released(source, array.with_data(array.data[:0]))
    xp = array_api_compat.array_namespace(array)
    return Released(source, xp.broadcast_to(xp.zeros((), dtype=array.dtype, device=array.device), array.shape))


def released_error(names: Sequence[str], what: str) -> InputError:
    """The error of something that is needed again, for which constants are missing."""
    given = ", ".join(f"{name}=..." for name in names)
    return InputError(
        f"{what} is needed again, but {', '.join(names)} was released once folded; give it again ({given}), or "
        "compile without release_sources."
    )
