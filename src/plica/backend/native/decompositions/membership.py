"""Whether elements are among others."""

from typing import Any


def isin(xp: Any, x: Any, elements: Any) -> Any:
    """Whether each element of `x` is one of `elements`: each is compared with each."""
    return xp.any(xp.expand_dims(x, axis=-1) == xp.reshape(elements, (-1,)), axis=-1)
