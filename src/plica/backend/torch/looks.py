"""The least and largest entries of weights on a device, read without waiting for the device.

To ask a device for them would wait for it. Here a look is a copy to the host that goes on by itself; a later call reads
it when it has arrived. It holds for the state that the weight had then: its memory, and how often that was written to.
Looks are at tensors that compiled circuits hold, and at sealed memory (`sources.seal`). Others may share
their memory with tensors that torch counts apart.

A training step makes a new state: while gradients are recorded, softmax weights that were large a few steps ago are
assumed not to have been divided by 2^30 since. Each look checks that assumption, and warns where it did not hold. It
does not see a weight that became small and large again between two looks.
"""

import math
import warnings
from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol, final
from weakref import ReferenceType, WeakValueDictionary

import torch
from torch import Tensor

from plica.backend.torch.sources import counts_versions, facts_of, location_of, stamps_of

_EVERY = 16  # writes to a learned weight from one look to the next
_OLDEST = 4 * _EVERY  # writes after which nothing is assumed any more
_ROOM = 2.0**30  # what a learned weight may be divided by from a look to the last call that relies on it
_ROOM_OF_SECONDS = 2.0**10  # the same where its second derivatives stay finite
_MANY = 2**12  # tensors whose holders are remembered


class _State(NamedTuple):
    """Where a tensor lies, and how often it was written to: as torch counts, by optimizers, and perhaps otherwise."""

    memory: Hashable
    version: int = 0
    steps: int = 0
    doubts: int = 0

    def since(self, other: "_State") -> float:
        """About how many writes there were; infinite where some may not have been counted."""
        if (self.memory, self.doubts) != (other.memory, other.doubts):
            return math.inf
        return max(self.version - other.version, self.steps - other.steps)


class _Ends(NamedTuple):
    """The least and largest sizes of a weight's entries at a state."""

    state: _State | None = None
    least: float = 0.0
    most: float = math.inf

    def allow(self, weight: Tensor, limit: float) -> bool:
        """Whether no sum loses terms that count, or overflows."""
        return self.least >= limit * max(self.most, 1.0) and self.most * weight.shape[-1] < _largest(weight)


def _largest(weight: Tensor) -> float:
    return torch.finfo(weight.dtype).max


@final
class Looks:
    """The looks at one tensor, or at its softmax.

    Args:
        tensor: The tensor, whose life keeps its identity from being reused; None for sealed memory.
    """

    def __init__(self, tensor: Tensor | None) -> None:
        self.tensor = tensor
        self._ends = _Ends()  # at the last look that has arrived; other threads read it, so it is replaced as one
        self._begun: _State | None = None  # the state at the last look
        self._before: _State | None = None  # the state at the last call
        self._arriving: tuple[_State, Tensor, Any] | None = None
        self._was_assumed = False
        self._answered: tuple[_State, float, bool] | None = None  # what a call was told that may be made again

    def are_large(self, weight: Tensor, state: _State, wanted: float, limit: float, *, in_training: bool) -> bool:
        """Whether the weights are known to be at least `wanted`, or assumed to be, and thus at least `limit`."""
        if not in_training or not _is_made_again():
            return self._are_large(weight, state, wanted, limit, in_training=in_training)
        answered = self._answered
        if answered is None or answered[:2] != (state, wanted):
            large = self._are_large(weight, state, wanted, limit, in_training=in_training)
            self._answered = answered = (state, wanted, large)
        return answered[2]

    def _are_large(self, weight: Tensor, state: _State, wanted: float, limit: float, *, in_training: bool) -> bool:
        self._read(weight, limit)
        if self._arriving is None and self._is_due(state, in_training):
            self._arriving, self._begun = (state, *_begun(weight)), state
        self._before = state
        if self.were_large(weight, state, wanted):
            return True
        ends = self._ends
        if not in_training or ends.state is None or state.since(ends.state) > _OLDEST:
            return False
        if not ends.allow(weight, max(wanted * _ROOM_OF_SECONDS, limit * _ROOM)):
            return False
        self._was_assumed = True
        return True

    def were_large(self, weight: Tensor, state: _State, limit: float) -> bool:
        """Whether the last look that has arrived was at this state, and found weights of at least `limit`."""
        ends = self._ends
        return ends.state == state and ends.allow(weight, limit)

    def _read(self, weight: Tensor, limit: float) -> None:
        arriving = self._arriving
        if arriving is None or not _has_arrived(arriving[2]):
            return
        self._ends = ends = _Ends(arriving[0], *arriving[1].tolist())
        self._arriving = None
        was_assumed, self._was_assumed = self._was_assumed, False
        if was_assumed and not ends.allow(weight, limit):
            warnings.warn(
                f"a softmax weight fell below {limit:.1e} within {_EVERY} training steps; sums computed "
                "in these steps may have lost terms that were not 0. Take smaller steps.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _is_due(self, state: _State, in_training: bool) -> bool:
        """Whether to look now; in training, where each step has another state, now and then."""
        begun = self._begun
        if begun is None or begun == state:
            return begun is None
        return not in_training or state == self._before or state.since(begun) >= _EVERY


class Holder(Protocol):
    """A module that holds tensors of a circuit, in torch's own tables of them, and the looks at them."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    looks: dict[Hashable, Looks]


_HOLDERS: WeakValueDictionary[int, Holder] = WeakValueDictionary()
_HOLDER_OF: dict[int, ReferenceType[Holder]] = {}  # by the identity of a tensor, which another one may have later


def add_holder(holder: Holder) -> None:
    """Look at the tensors that a module holds now or later, where sums depend on them."""
    _HOLDERS[id(holder)] = holder


def are_large(weight: Tensor, wanted: float, learned: Tensor | None = None, limit: float = 0.0) -> bool:
    """Whether all entries of a weight are known to be large enough, without waiting for the device.

    Args:
        weight: The weight, which several calls share, unless `learned` is given.
        wanted: The least entry that is large enough, where the largest is at most 1; else it grows with that.
        learned: The leaf of which the weight is the softmax, computed anew for each call.
        limit: The least entry of such a weight with which no term is lost; where it falls below, that is told.
    """
    shared = weight if learned is None else learned
    if not shared.is_leaf:
        return False
    is_captured = shared.is_cuda and torch.cuda.is_current_stream_capturing()
    try:
        memory, facts = location_of(shared), facts_of(shared)
    except (NotImplementedError, RuntimeError):  # its entries lie in other tensors, as those of a sharded one do
        return False
    key: Hashable
    tensor = None
    if facts is not None:
        key, state = (learned is None, memory), _State(memory)
    elif is_captured or not counts_versions(shared):  # a replay may find other weights there
        return False
    else:
        tensor = shared if shared._base is None else shared._base
        holder = _holder_of(tensor)
        if holder is None:
            return False
        facts, state = holder.looks, _State(memory, shared._version, *stamps_of([shared])[0])
        key = (learned is None, id(tensor), shared.storage_offset(), *memory[2:])
    looks = facts.get(key)
    if is_captured:  # a graph holds no looks
        return looks is not None and looks.were_large(weight, state, wanted)
    if looks is None:
        _forget_replaced(facts)
        looks = facts[key] = Looks(tensor)
    in_training = learned is not None and torch.is_grad_enabled()
    return looks.are_large(weight, state, wanted, limit, in_training=in_training)


def _holder_of(tensor: Tensor) -> Holder | None:
    """The module that holds a tensor."""
    remembered = _HOLDER_OF.get(id(tensor))
    holder = None if remembered is None else remembered()
    if holder is not None and _holds(holder, tensor):
        return holder
    for reference in _HOLDERS.valuerefs():
        holder = reference()
        if holder is not None and _holds(holder, tensor):
            if len(_HOLDER_OF) >= _MANY:
                _HOLDER_OF.clear()
            _HOLDER_OF[id(tensor)] = reference
            return holder
    return None


def _forget_replaced(facts: dict[Hashable, Any]) -> None:
    """Forget the looks at tensors that no module holds any more, which would keep them."""
    for key, looks in list(facts.items()):
        if looks.tensor is not None and _holder_of(looks.tensor) is None:
            facts.pop(key, None)


def _holds(holder: Holder, tensor: Tensor) -> bool:
    """Whether a tensor is one of a module's."""
    tables = (holder._parameters, holder._buffers)
    return any(candidate is tensor for table in tables for candidate in list(table.values()))


def _is_made_again() -> bool:
    """Whether the backward pass may compute operations again (checkpointing): then it must find the same ones."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


def _begun(weight: Tensor) -> tuple[Tensor, Any]:
    """Begin to copy the least and the largest size to the host. Returns the copy, and the event of its arrival."""
    with torch._C._DisableFuncTorch():  # a transform would wrap what is read after it
        ends = torch.stack(torch.aminmax(weight.detach().abs()))
    if not ends.is_cuda:
        return ends.cpu(), None
    host = torch.empty((2,), dtype=ends.dtype, pin_memory=True)
    host.copy_(ends, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(weight.device))
    return host, event


def _has_arrived(event: Any) -> bool:
    return event is None or bool(event.query())
