"""Whether a constant of any library has changed since a function was given it, and copies in memory of their own.

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

    The next call of each function and circuit looks at its constants. It folds again what depends on large arrays of
    numpy, on tensors of other devices, and on large tensors of the CPU whose entries differ, which it reads.

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
    """A state that differs once an array has changed; numbers and small arrays are compared by their entries."""
    if array_api_compat.is_torch_array(array):
        return tensors().state_of(array, checksum=checksum)
    if isinstance(array, PackedArray):
        return (array.dtype, array.shape, state_of(array.data, checksum=checksum))
    if not is_array(array):
        return (type(array), repr(array))
    entries = np.asarray(array)
    layout = (entries.__array_interface__["data"][0], entries.shape, entries.strides, entries.dtype)
    is_read = checksum or entries.nbytes < SMALL or not isinstance(array, np.ndarray)  # asarray may have made a copy
    return (*layout[1:], hash(entries.tobytes())) if is_read else (*layout, _last_doubt[0])


class Watched:
    """Constants as they are now, by name: their states, and whether they have changed since.

    Args:
        sources: The constants.
        checksum: Whether the entries of all are compared.
        before: The watch of the snapshot before; entries of tensors that it has read are not read again.
    """

    def __init__(self, sources: Mapping[str, Any], *, checksum: bool, before: Watched | None = None) -> None:
        self.tensors = [source for source in sources.values() if array_api_compat.is_torch_array(source)]
        watched = {id(source): source for source in self.tensors if tensors().can_watch(source)}
        self._watched = list(watched.values())
        self._watch: TensorWatch | None = None
        if watched:
            previous = None if before is None else before._watch
            self._watch = tensors().Watch(self._watched, checksum=checksum, before=previous)
        others = {name: source for name, source in sources.items() if id(source) not in watched}
        self._readers = [_reader(source, checksum=checksum) for source in others.values() if is_array(source)]
        self._entries = [read() for read in self._readers]
        self._others = {
            name: _with_identity(source, state_of(source, checksum=checksum)) for name, source in others.items()
        }
        index = {identity: index for index, identity in enumerate(watched)}
        self._indices = {name: index[id(source)] for name, source in sources.items() if id(source) in watched}

    def is_current(self) -> bool:
        """Whether no constant has changed since."""
        if self._watch is not None and not self._watch.is_current(self._watched):
            return False
        return [read() for read in self._readers] == self._entries

    @property
    def states(self) -> dict[str, Hashable]:
        """The state of each constant, which differs once it has changed, or is another one."""
        tensor_states = () if self._watch is None else self._watch.states
        return {**self._others, **{name: tensor_states[index] for name, index in self._indices.items()}}


def _with_identity(source: Any, state: Hashable) -> Hashable:
    return (id(source), state) if is_array(source) else state


def _reader(array: Any, *, checksum: bool) -> Callable[[], Hashable]:
    """A function that reads the state of an array."""
    if type(array) is np.ndarray and array.nbytes < SMALL and not array.dtype.hasobject:
        return lambda: (array.shape, array.strides, array.dtype, array.tobytes())
    return partial(state_of, array, checksum=checksum)


def pin(source: Any) -> object:
    """An object that keeps a source's memory from being used again; None where the source does so."""
    if isinstance(source, PackedArray):
        return pin(source.data)
    return tensors().pin(source) if array_api_compat.is_torch_array(source) else None


def is_same(first: Any, second: Any) -> bool:
    """Whether two constants are one array, or equal numbers; 0.0 and -0.0 differ, NaN and NaN do not."""
    return first is second or (not is_array(first) and type(first) is type(second) and repr(first) == repr(second))


def wants_gradient(arrays: Iterable[Any]) -> bool:
    """Whether derivatives with respect to one of the arrays are wanted now."""
    watched = [array for array in arrays if array_api_compat.is_torch_array(array)]
    return bool(watched) and tensors().wants_gradient(watched)


def owned(value: Any, sources: Sequence[Any]) -> Any:
    """An array without gradients that shares memory with no source, and keeps no more memory alive than its own.

    Entries of four bits are packed, two to a byte.
    """
    if array_api_compat.is_torch_array(value):
        return tensors().owned(value, sources)
    if isinstance(value, PackedArray):
        return value.with_data(
            owned(value.data, [source.data for source in sources if isinstance(source, PackedArray)])
        )
    array = np.asarray(value)
    if as_dtype(array.dtype).is_storage:
        return PackedArray.of(array)
    return array.copy(order="K") if array.base is not None or _is_shared(array, sources) else array


def _is_shared(array: Any, others: Sequence[Any]) -> bool:
    return any(np.may_share_memory(array, source) for source in others if isinstance(source, np.ndarray))
