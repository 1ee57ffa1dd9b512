"""What folding keeps between calls: values, the constants that they were made of, and what says that these changed.

Programs of one model share what they keep: it is found by the text of the folding, which does not depend on names, and
by the identity and state of its constants. What no function uses any more goes.

>>> import numpy as np
>>> array = np.zeros(3)
>>> before = state_of(array, checksum=False)
>>> array[0] = 1.0
>>> state_of(array, checksum=False) == before
False
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import array_api_compat
import numpy as np

from plica.frontend.arguments import is_array
from plica.frontend.executors import torch_function

SMALL = 2**16
"""An array of fewer bytes is told from another one by its entries; reading these takes microseconds."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Buffers:
    """What one component keeps.

    Args:
        values: The kept values by name.
        sources: What they were made of, which stays alive so that no other array takes its place in memory.
        states: What the sources were then.
    """

    values: Mapping[str, Any]
    sources: tuple[Any, ...]
    states: tuple[Hashable, ...]


_SHARED: WeakValueDictionary[Hashable, Buffers] = WeakValueDictionary()
_SHARED_LOCK = Lock()


def shared(key: Hashable, fold: Callable[[], Buffers]) -> Buffers:
    """What is kept under a key; where there is nothing yet, what `fold` makes."""
    with _SHARED_LOCK:
        found = _SHARED.get(key)
    if found is None:
        found = fold()
        with _SHARED_LOCK:
            found = _SHARED.setdefault(key, found)
    return found


def state_of(array: Any, *, checksum: bool) -> Hashable:
    """What differs once an array has changed; numbers and small arrays are told by what they hold."""
    if array_api_compat.is_torch_array(array):
        state: Hashable = torch_function("state_of")(array, checksum=checksum)
        return state
    if not is_array(array):
        return (type(array), repr(array))
    found = np.asarray(array)
    place = (found.__array_interface__["data"][0], found.shape, found.strides, found.dtype)
    return (*place, hash(found.tobytes())) if checksum or found.nbytes < SMALL else place


def is_same(first: Any, second: Any) -> bool:
    """Whether two constants are one array, or equal numbers."""
    return first is second or (not is_array(first) and type(first) is type(second) and bool(first == second))


def wants_gradient(arrays: Iterable[Any]) -> bool:
    """Whether gradients are recorded now, and one of the arrays asks for them."""
    tensors = [one for one in arrays if array_api_compat.is_torch_array(one)]
    return bool(tensors) and bool(torch_function("wants_gradient")(tensors))


def owned(value: Any, sources: Sequence[Any]) -> Any:
    """An array without gradients that shares memory with no source, and keeps no more memory alive than it has."""
    if array_api_compat.is_torch_array(value):
        return torch_function("owned")(value, sources)
    found = np.asarray(value)
    is_shared = found.base is not None or any(
        np.shares_memory(found, one) for one in sources if isinstance(one, np.ndarray)
    )
    return found.copy(order="K") if is_shared else found
