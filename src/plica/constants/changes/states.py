"""Constants as functions are given them, of any library: what says that one has changed, and memory of their own.

>>> import numpy as np
>>> array = np.zeros(3)
>>> before = state_of(array, checksum=False)
>>> array[0] = 1.0
>>> state_of(array, checksum=False) == before
False
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import array_api_compat
import numpy as np

from plica.constants.changes.tensors import SMALL, TensorWatch, tensors
from plica.eager.packed import PackedArray
from plica.ir.dtypes import as_dtype
from plica.tracing.leaves import is_array

_doubts = count(1)
_last_doubt = [0]  # the number of the last call of `invalidate`


def invalidate() -> None:
    """Say that constants may have been written to in a way that nothing notices.

    The next call of each function and circuit looks at its constants. It reads large tensors on the CPU, and folds
    again what depends on those that have other entries, on large arrays of numpy, and on tensors of other devices.

    >>> import plica, plica.numpy as pnp
    >>> program = plica.trace(lambda x, w: x @ pnp.exp(w), plica.spec((1, 200)), plica.spec((200, 200)))
    >>> run = plica.fold_constants(program, run_time=("w",)).compile()
    >>> x, w = np.ones((1, 200), "float32"), np.zeros((200, 200), "float32")
    >>> before = run(x, w=w)
    >>> w += 1.0  # a large array of numpy counts no writes
    >>> plica.invalidate()
    >>> bool((run(x) == before).any())
    False
    """
    _last_doubt[0] = next(_doubts)
    if "plica.backend.torch.sources" in sys.modules:  # else no tensor was folded yet
        tensors().doubt_all()


def state_of(array: Any, *, checksum: bool) -> Hashable:
    """What differs once an array has changed; numbers and small arrays are told by what they hold."""
    if array_api_compat.is_torch_array(array):
        return tensors().state_of(array, checksum=checksum)
    if isinstance(array, PackedArray):
        return (array.dtype, array.shape, state_of(array.data, checksum=checksum))
    if not is_array(array):
        return (type(array), repr(array))
    found = np.asarray(array)
    place = (found.__array_interface__["data"][0], found.shape, found.strides, found.dtype)
    is_read = checksum or found.nbytes < SMALL or not isinstance(array, np.ndarray)  # that may be a copy
    return (*place[1:], hash(found.tobytes())) if is_read else (*place, _last_doubt[0])


class Watched:
    """Constants as they are now, by name: what their states are, and whether they still are so.

    Args:
        sources: The constants.
        checksum: Whether all are told by their entries.
        before: What watched them until something happened.
    """

    def __init__(self, sources: Mapping[str, Any], *, checksum: bool, before: Watched | None = None) -> None:
        self.tensors = [one for one in sources.values() if array_api_compat.is_torch_array(one)]
        watched = {id(one): one for one in self.tensors if tensors().can_watch(one)}
        self._watched = list(watched.values())
        self._watch: TensorWatch | None = None
        if watched:
            seen = None if before is None else before._watch
            self._watch = tensors().Watch(self._watched, checksum=checksum, before=seen)
        others = {name: one for name, one in sources.items() if id(one) not in watched}
        self._readers = [_reader(one, checksum=checksum) for one in others.values() if is_array(one)]
        self._entries = [read() for read in self._readers]
        self._others = {name: _named(one, state_of(one, checksum=checksum)) for name, one in others.items()}
        place = {number: place for place, number in enumerate(watched)}
        self._places = {name: place[id(one)] for name, one in sources.items() if id(one) in watched}

    def is_current(self) -> bool:
        """Whether they are as they were."""
        if self._watch is not None and not self._watch.is_current(self._watched):
            return False
        return [read() for read in self._readers] == self._entries

    @property
    def states(self) -> dict[str, Hashable]:
        """What differs once a constant has changed, or is another one."""
        told = () if self._watch is None else self._watch.states
        return {**self._others, **{name: told[place] for name, place in self._places.items()}}


def _named(source: Any, state: Hashable) -> Hashable:
    return (id(source), state) if is_array(source) else state


def _reader(array: Any, *, checksum: bool) -> Callable[[], Hashable]:
    """What reads what differs once an array has changed."""
    if type(array) is np.ndarray and array.nbytes < SMALL and not array.dtype.hasobject:
        return lambda: (array.shape, array.strides, array.dtype, array.tobytes())
    return partial(state_of, array, checksum=checksum)


def pin(source: Any) -> object:
    """What keeps the identity of a source's memory from being given to another one, where the source does not."""
    if isinstance(source, PackedArray):
        return pin(source.data)
    return tensors().pin(source) if array_api_compat.is_torch_array(source) else None


def is_same(first: Any, second: Any) -> bool:
    """Whether two constants are one array, or equal numbers; 0.0 and -0.0 differ, NaN and NaN do not."""
    return first is second or (not is_array(first) and type(first) is type(second) and repr(first) == repr(second))


def wants_gradient(arrays: Iterable[Any]) -> bool:
    """Whether derivatives are asked for now of one of the arrays."""
    found = [one for one in arrays if array_api_compat.is_torch_array(one)]
    return bool(found) and tensors().wants_gradient(found)


def owned(value: Any, sources: Sequence[Any]) -> Any:
    """An array without gradients that shares memory with no source, and keeps no more memory alive than it has.

    What is stored in four bits is packed, two entries to a byte.
    """
    if array_api_compat.is_torch_array(value):
        return tensors().owned(value, sources)
    if isinstance(value, PackedArray):
        return value.with_data(owned(value.data, [one.data for one in sources if isinstance(one, PackedArray)]))
    found = np.asarray(value)
    if as_dtype(found.dtype).is_storage:
        return PackedArray.of(found)
    return found.copy(order="K") if found.base is not None or _is_shared(found, sources) else found


def _is_shared(found: Any, others: Sequence[Any]) -> bool:
    return any(np.may_share_memory(found, one) for one in others if isinstance(one, np.ndarray))
