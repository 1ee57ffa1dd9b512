"""Constants that were let go once they were folded: weak references that notice a change, and placeholders."""

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
        source: A weak reference to the constant.
        like: An array of its kind, shape and dtype with one entry in memory.
    """

    source: ref[Any]
    like: Any


def resolved(constant: Any) -> Any:
    """The array of a released constant, where something else still holds it; any other constant unchanged."""
    source = constant.source() if isinstance(constant, Released) else constant
    return constant if source is None else source


def is_same_constant(first: Any, second: Any) -> bool:
    """Whether two constants are the same, released or not."""
    if isinstance(first, Released) and isinstance(second, Released):
        return first.source is second.source
    return is_same(first, second)


def placeholder(constant: Any) -> Any:
    """An array of the kind, shape and dtype of a released constant; any other constant unchanged."""
    return constant.like if isinstance(constant, Released) else constant


def released(array: Any) -> Any:
    """Let an array go, keeping a weak reference; returns the array where its library has no weak references."""
    try:
        source = ref(array)
    except TypeError:
        return array
    if isinstance(array, PackedArray):
        return Released(source, array.with_data(array.data[:0]))
    xp = array_api_compat.array_namespace(array)
    return Released(source, xp.broadcast_to(xp.zeros((), dtype=array.dtype, device=array.device), array.shape))


def released_error(names: Sequence[str], what: str) -> InputError:
    """The error of a computation that runs again without its released constants."""
    given = ", ".join(f"{name}=..." for name in names)
    return InputError(
        f"{what} is needed again, but {', '.join(names)} was released once folded; give it again ({given}), or "
        "compile without release_sources."
    )
