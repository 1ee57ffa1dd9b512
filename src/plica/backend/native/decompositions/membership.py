"""Whether elements of an array occur in another one."""

from typing import Any


def isin(xp: Any, x: Any, elements: Any) -> Any:
    """Whether each element of `x` equals an element of `elements`; compares each with each."""
    return xp.any(xp.expand_dims(x, axis=-1) == xp.reshape(elements, (-1,)), axis=-1)
