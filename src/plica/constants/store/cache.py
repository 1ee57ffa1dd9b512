"""What folding keeps between calls, and the cache in which functions and circuits find it.

>>> cache = FoldCache(max_bytes=100)
>>> made = CacheEntry((1.0,), (), work=5)
>>> cache.get("key", lambda: made)[0] is cache.get("key", lambda: None)[0]
True
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import accumulate, count
from operator import mul
from typing import Any
from weakref import WeakValueDictionary

from plica.constants.policy import check_limit
from plica.errors import InputError
from plica.forks import ForkSafeLock

_INDICES = count()


@dataclass(frozen=True, slots=True)
class CachedBuffer:
    """One kept array, and what is said of it; numbers have no axes.

    Args:
        shape: Its sizes.
        strides: Steps from one entry to the next along each axis, in entries.
        dtype: The name of its dtype.
        num_bytes: Its bytes.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    num_bytes: int
    _value: Any = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(value: Any) -> CachedBuffer:
        """What is said of an array of numpy or torch, of one that is packed, or of a number."""
        shape = tuple(map(int, getattr(value, "shape", ())))
        dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
        return CachedBuffer(shape, _strides(value, shape), dtype, getattr(value, "nbytes", 0), value)

    @property
    def buffer(self) -> Any:
        """A copy of the array, which belongs to the caller: calls read the array itself."""
        return deepcopy(self._value)


def _strides(value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if callable(getattr(value, "stride", None)):  # torch
        return tuple(value.stride())
    if hasattr(value, "strides"):
        return tuple(one // value.itemsize for one in value.strides)
    return tuple(accumulate(shape[:0:-1], mul, initial=1))[::-1] if shape else ()


class CacheEntry:
    """Values that are kept together, until they are evicted.

    Args:
        values: The values, in order.
        sources: What they were made of, or pins it: it stays alive so that nothing else takes its identity.
        work: What it takes to make them.

    Attributes:
        values: The values; None once they were evicted.
        index: Its place among all that were made.
        is_pinned: Whether they could not be made again, so that they are never evicted.
        num_bytes: Their bytes.
        rank: What is evicted first has the least.
    """

    __slots__ = ("__weakref__", "_sources", "index", "is_pinned", "num_bytes", "rank", "values", "work")

    def __init__(self, values: Sequence[Any], sources: Sequence[Any], work: int) -> None:
        self.values: Sequence[Any] | None = tuple(values)
        self.num_bytes = sum(getattr(one, "nbytes", 0) for one in values)
        self.index, self.work, self.rank = next(_INDICES), work, 0.0
        self.is_pinned = False
        self._sources = tuple(sources)


class FoldCache:
    """Folded values that functions and circuits share, below a limit.

    Above the limit those go that save the least work for each byte and were not used for the longest; the next call
    that needs them folds them again. Nothing but the cache and calls that run holds them. What could not be made again
    counts, and stays. By default functions and circuits share one cache without a limit.

    Args:
        max_bytes: How many bytes may be kept; None for no limit.

    Attributes:
        num_evictions: How often values were evicted.

    Source:
        GreedyDual-Size: Cao and Irani, Cost-aware WWW proxy caching algorithms, 1997.

    Raises:
        InputError: The limit is negative, or no number.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        check_limit("FoldCache: max_bytes", max_bytes)
        self.max_bytes = max_bytes
        self.num_evictions = 0
        self._found: WeakValueDictionary[Hashable, CacheEntry] = WeakValueDictionary()
        self._age = 0.0  # the rank of what was evicted last
        self._lock = ForkSafeLock()  # collecting garbage may call back while it is held

    def __reduce__(self) -> tuple[Any, ...]:
        return FoldCache, (self.max_bytes,)  # a copy keeps nothing yet

    def __len__(self) -> int:
        return len(self._kept())

    @property
    def num_bytes(self) -> int:
        """The bytes of all values that are kept."""
        return sum(one.num_bytes for one in self._kept())

    @property
    def buffers(self) -> dict[int, tuple[CachedBuffer, ...]]:
        """The arrays that are kept, and what is said of them, by the index of what they were made as; in that order."""
        kept = sorted(self._kept(), key=lambda one: one.index)
        return {one.index: tuple(map(CachedBuffer.of, one.values or ())) for one in kept}

    def get(
        self, key: Hashable | None, fold: Callable[[], CacheEntry], is_current: Callable[[], bool] = lambda: True
    ) -> tuple[CacheEntry, Sequence[Any], bool]:
        """What is kept under a key, and its values; where there is nothing, what `fold` makes.

        Args:
            key: The key; None for what could not be made again, which nothing else finds and nothing evicts.
            fold: Makes the values.
            is_current: Asked after it: whether they are those of the key.

        Returns:
            The entry, its values, and whether these are those of the key.
        """
        with self._lock:
            found = None if key is None else self._found.get(key)
        values = None if found is None else self.take(found)
        if found is None or values is None:
            made = fold()
            values = made.values
            assert values is not None, "nothing evicts what is not in the cache yet"
            if not is_current():
                return made, values, False
            made.is_pinned = key is None
            with self._lock:
                found = self._found.setdefault(made.index if key is None else key, made)
                if found.values is None:
                    found.values = values
                values = found.values
                self.take(found)
                self._evict()
        return found, values, True

    def take(self, entry: CacheEntry) -> Sequence[Any] | None:
        """The values of an entry, which count as used now; None where they were evicted."""
        if self.max_bytes is not None:
            entry.rank = self._age + entry.work / max(1, entry.num_bytes)
        return entry.values

    def _kept(self) -> list[CacheEntry]:
        with self._lock:
            found = [reference() for reference in self._found.valuerefs()]
            return [one for one in found if one is not None and one.values is not None]

    def _evict(self) -> None:
        if self.max_bytes is None:
            return
        kept = sorted(self._kept(), key=lambda one: one.rank, reverse=True)
        total = sum(one.num_bytes for one in kept)
        kept = [one for one in kept if not one.is_pinned]
        while kept and total > self.max_bytes:
            last = kept.pop()
            total -= last.num_bytes
            last.values, self._age = None, last.rank
            self.num_evictions += 1


def checked_cache(where: str, cache: Any) -> FoldCache | None:
    """A cache that was given to a function or a compiler, or None.

    Raises:
        InputError: It is something else.
    """
    if cache is None or isinstance(cache, FoldCache):
        return cache
    raise InputError(f"{where}: the cache is {cache!r}; give a plica.FoldCache(max_bytes=...).")


SHARED = FoldCache()
"""The cache of circuits, and of functions that were given none."""
