"""The fold cache: values that folding keeps between calls, where functions and circuits find them.

>>> cache = FoldCache(max_bytes=100)
>>> entry = CacheEntry((1.0,), (), work=5)
>>> cache.get("key", lambda: entry)[0] is cache.get("key", lambda: None)[0]
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
from plica.logger import LOGGER

_INDICES = count()


@dataclass(frozen=True, slots=True)
class CachedBuffer:
    """One kept array with its shape, strides and dtype; numbers have no axes.

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
        """Describe an array of numpy or torch, a packed one, or a number."""
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
        return tuple(stride // value.itemsize for stride in value.strides)
    return tuple(accumulate(shape[:0:-1], mul, initial=1))[::-1] if shape else ()


class CacheEntry:
    """Values that are kept together, until they are evicted.

    Args:
        values: The values, in order.
        sources: The constants that they were made of, or pins of these. They stay alive, so that no other object takes
            their identity.
        work: The work of making them.

    Attributes:
        values: The values; None once they were evicted.
        keepers: The identities of the `KeptValues` that hold the values.
        index: Its index among all entries that were made.
        is_pinned: Whether they could not be made again, so that they are never evicted.
        num_bytes: Their bytes.
        rank: The entry with the least rank is evicted first.
    """

    __slots__ = ("__weakref__", "_sources", "index", "is_pinned", "keepers", "num_bytes", "rank", "values", "work")

    def __init__(self, values: Sequence[Any], sources: Sequence[Any], work: int) -> None:
        self.values: Sequence[Any] | None = tuple(values)
        self.num_bytes = sum(getattr(value, "nbytes", 0) for value in values)
        self.index, self.work, self.rank = next(_INDICES), work, 0.0
        self.is_pinned = False
        self.keepers: set[int] = set()
        self._sources = tuple(sources)


class FoldCache:
    """Folded values that functions and circuits share, below a limit.

    Above the limit the cache first evicts values that save little work for each byte, or were not used for long. The
    next call that needs them folds them again. Only the cache and running calls hold them. Values that could not be
    made again count towards the limit, and stay. By default functions and circuits share one cache without a limit.

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
        self._entries: WeakValueDictionary[Hashable, CacheEntry] = WeakValueDictionary()
        self._age = 0.0  # the rank of the entry that was evicted last
        self._lock = ForkSafeLock()  # collecting garbage may call back while it is held

    def __reduce__(self) -> tuple[Any, ...]:
        return FoldCache, (self.max_bytes,)  # a copy keeps nothing yet

    def __len__(self) -> int:
        return len(self._kept())

    @property
    def num_bytes(self) -> int:
        """The bytes of all values that are kept."""
        return sum(entry.num_bytes for entry in self._kept())

    @property
    def buffers(self) -> dict[int, tuple[CachedBuffer, ...]]:
        """Descriptions of the arrays that are kept, by the index of their entry, in ascending order."""
        entries = sorted(self._kept(), key=lambda entry: entry.index)
        return {entry.index: tuple(map(CachedBuffer.of, entry.values or ())) for entry in entries}

    def get(
        self, key: Hashable | None, fold: Callable[[], CacheEntry], is_current: Callable[[], bool] = lambda: True
    ) -> tuple[CacheEntry, Sequence[Any], bool]:
        """Find the entry of a key, or make one.

        Args:
            key: The key; None for values that could not be made again: no other call gets them, and they stay.
            fold: Makes the entry where there is none.
            is_current: Called after `fold`: whether the new values are still those of the key.

        Returns:
            The entry, its values, and whether these are those of the key.
        """
        with self._lock:
            entry = None if key is None else self._entries.get(key)
        values = None if entry is None else self.take(entry)
        if entry is None or values is None:
            new = fold()
            LOGGER.debug("folded constants of %d bytes", new.num_bytes)
            values = new.values
            assert values is not None, "only entries in the cache are evicted"
            if not is_current():
                return new, values, False
            new.is_pinned = key is None
            with self._lock:
                entry = self._entries.setdefault(new.index if key is None else key, new)
                if entry.values is None:
                    entry.values = values
                values = entry.values
                self.take(entry)
                self._evict()
        return entry, values, True

    def take(self, entry: CacheEntry) -> Sequence[Any] | None:
        """The values of an entry, which count as used now; None where they were evicted."""
        if self.max_bytes is not None:
            entry.rank = self._age + entry.work / max(1, entry.num_bytes)
        return entry.values

    def _kept(self) -> list[CacheEntry]:
        with self._lock:
            entries = [reference() for reference in self._entries.valuerefs()]
            return [entry for entry in entries if entry is not None and entry.values is not None]

    def _evict(self) -> None:
        if self.max_bytes is None:
            return
        entries = sorted(self._kept(), key=lambda entry: entry.rank, reverse=True)
        total = sum(entry.num_bytes for entry in entries)
        entries = [entry for entry in entries if not entry.is_pinned]
        while entries and total > self.max_bytes:
            victim = entries.pop()
            total -= victim.num_bytes
            victim.values, self._age = None, victim.rank
            self.num_evictions += 1
            LOGGER.info("evicted constants of %d bytes: max_bytes is %d", victim.num_bytes, self.max_bytes)


def checked_cache(where: str, cache: Any) -> FoldCache | None:
    """Check the cache that a function or a compiler is given, and return it; None passes.

    Raises:
        InputError: `cache` is no `FoldCache`.
    """
    if cache is None or isinstance(cache, FoldCache):
        return cache
    raise InputError(f"{where}: the cache is {cache!r}; give a plica.FoldCache(max_bytes=...).")


SHARED = FoldCache()
"""The cache of circuits, and of functions that were given none."""
