"""What folding keeps between calls: values, the constants that they were made of, and what says that these changed.

Programs of one model share what they keep in a `FoldCache`: it is found by the text of the folding, which does not
depend on names, and by the identity and state of its constants. What no function uses any more goes.

>>> import numpy as np
>>> array = np.zeros(3)
>>> before = state_of(array, checksum=False)
>>> array[0] = 1.0
>>> state_of(array, checksum=False) == before
False
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

import array_api_compat
import numpy as np

from plica.eager.packed import PackedArray
from plica.errors import InputError
from plica.frontend.arguments import is_array
from plica.frontend.executors import torch_function
from plica.ir.dtypes import as_dtype

SMALL = 2**16
"""An array of fewer bytes is told from another one by its entries; reading these takes microseconds."""


class Buffers:
    """What one component keeps, until it is evicted.

    Args:
        values: The kept values by name.
        sources: What they were made of, or pins it: it stays alive so that nothing else takes its identity.
        work: What it takes to make them.

    Attributes:
        values: The kept values; None once they were evicted.
        num_bytes: Their bytes.
        rank: What is evicted first has the least.
    """

    __slots__ = ("__weakref__", "_sources", "num_bytes", "rank", "values", "work")

    def __init__(self, values: Mapping[str, Any], sources: Sequence[Any], work: int) -> None:
        self.values: Mapping[str, Any] | None = values
        self.num_bytes = sum(one.nbytes for one in values.values() if is_array(one))
        self.work, self.rank = work, 0.0
        self._sources = tuple(sources)


class FoldCache:
    """Folded values that functions share, below a limit.

    Above the limit those go that save the least work for each byte and were not used for the longest; the next call
    that needs them folds them again. By default functions share one cache without a limit; a function that is given a
    cache of its own shares with none.

    Args:
        max_bytes: How many bytes may be kept; None for no limit.

    Attributes:
        num_evictions: How often values were evicted.

    Source:
        GreedyDual-Size: Cao and Irani, Cost-aware WWW proxy caching algorithms, 1997.

    Raises:
        InputError: The limit is negative.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        if max_bytes is not None and max_bytes < 0:
            raise InputError(f"FoldCache: max_bytes is {max_bytes}; give 0 or more, or None for no limit.")
        self.max_bytes = max_bytes
        self.num_evictions = 0
        self._found: WeakValueDictionary[Hashable, Buffers] = WeakValueDictionary()
        self._age = 0.0  # the rank of what was evicted last
        self._lock = RLock()  # collecting garbage may call back while it is held

    def __len__(self) -> int:
        return len(self._kept())

    @property
    def num_bytes(self) -> int:
        """The bytes of all values that are kept."""
        return sum(one.num_bytes for one in self._kept())

    def get(self, key: Hashable, fold: Callable[[], Buffers]) -> tuple[Buffers, Mapping[str, Any]]:
        """What is kept under a key, and its values; where there is nothing, what `fold` makes."""
        with self._lock:
            found = self._found.get(key)
        values = None if found is None else self.take(found)
        if found is None or values is None:
            made = fold()
            values = made.values
            assert values is not None, "nothing evicts what is not in the cache yet"
            with self._lock:
                found = self._found.setdefault(key, made)
                if found.values is None:
                    found.values = values
                values = found.values
                self.take(found)
                self._evict()
        return found, values

    def take(self, one: Buffers) -> Mapping[str, Any] | None:
        """The values of buffers, which count as used now; None where they were evicted."""
        if self.max_bytes is not None:
            one.rank = self._age + one.work / max(1, one.num_bytes)
        return one.values

    def _kept(self) -> list[Buffers]:
        with self._lock:
            return [one for one in list(self._found.values()) if one.values is not None]

    def _evict(self) -> None:
        if self.max_bytes is None:
            return
        kept = sorted(self._kept(), key=lambda one: one.rank, reverse=True)
        total = sum(one.num_bytes for one in kept)
        while total > self.max_bytes:
            last = kept.pop()
            total -= last.num_bytes
            last.values, self._age = None, last.rank
            self.num_evictions += 1


SHARED = FoldCache()
"""The cache of functions that were given none."""


def state_of(array: Any, *, checksum: bool) -> Hashable:
    """What differs once an array has changed; numbers and small arrays are told by what they hold."""
    if array_api_compat.is_torch_array(array):
        state: Hashable = torch_function("state_of")(array, checksum=checksum)
        return state
    if isinstance(array, PackedArray):
        return (array.dtype, array.shape, state_of(array.data, checksum=checksum))
    if not is_array(array):
        return (type(array), repr(array))
    found = np.asarray(array)
    place = (found.__array_interface__["data"][0], found.shape, found.strides, found.dtype)
    is_read = checksum or found.nbytes < SMALL or not isinstance(array, np.ndarray)  # that may be a copy
    return (*place[1:], hash(found.tobytes())) if is_read else place


def pin(source: Any) -> object:
    """What keeps the identity of a source's memory from being given to another one, where the source does not."""
    if isinstance(source, PackedArray):
        return pin(source.data)
    return torch_function("pin")(source) if array_api_compat.is_torch_array(source) else None


def is_same(first: Any, second: Any) -> bool:
    """Whether two constants are one array, or equal numbers; 0.0 and -0.0 differ, NaN and NaN do not."""
    return first is second or (not is_array(first) and type(first) is type(second) and repr(first) == repr(second))


def wants_gradient(arrays: Iterable[Any]) -> bool:
    """Whether derivatives are asked for now of one of the arrays."""
    tensors = [one for one in arrays if array_api_compat.is_torch_array(one)]
    return bool(tensors) and bool(torch_function("wants_gradient")(tensors))


def owned(value: Any, sources: Sequence[Any]) -> Any:
    """An array without gradients that shares memory with no source, and keeps no more memory alive than it has.

    What is stored in four bits is packed, two entries to a byte.
    """
    if array_api_compat.is_torch_array(value):
        return torch_function("owned")(value, sources)
    if isinstance(value, PackedArray):
        return value.with_data(owned(value.data, [one.data for one in sources if isinstance(one, PackedArray)]))
    found = np.asarray(value)
    if as_dtype(found.dtype).is_storage:
        return PackedArray.of(found)
    return found.copy(order="K") if found.base is not None or _is_shared(found, sources) else found


def apart(value: Any, kept: Sequence[Any]) -> Any:
    """An array that shares memory with nothing that is kept, so that whoever has it may write to it."""
    if array_api_compat.is_torch_array(value):
        return torch_function("apart")(value, kept)
    return value.copy() if isinstance(value, np.ndarray) and _is_shared(value, kept) else value


def _is_shared(found: Any, others: Sequence[Any]) -> bool:
    return any(np.may_share_memory(found, one) for one in others if isinstance(one, np.ndarray))
