"""The least and largest entries of weights on a device, which nobody waits for.

To ask a device for them would wait for it. Here a look is a copy to the host that goes on by itself; a later call reads
it when it has arrived. It holds for the state that the weight had then: its memory, and how often that was written to.
A training step makes a new state: while gradients are recorded, learned weights that were large a few steps ago are
assumed not to have been divided by 2^30 since. Each look checks that assumption, and warns where it did not hold. It
does not see a weight that became small and large again between two looks.
"""

import math
import warnings
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import Parameter

from plica.backend.torch.sources import counts_versions, pin, place_of, stamps_of

_EVERY = 16  # writes to a learned weight from one look to the next
_OLDEST = 4 * _EVERY  # writes after which nothing is assumed any more
_ROOM = 2.0**30  # what a learned weight may be divided by from a look to the last call that relies on it
_MANY = 1024  # looks that are kept before those at weights that are gone are forgotten


class _State(NamedTuple):
    """How often the memory of a tensor was written to: as torch counts, by optimizers, and perhaps otherwise."""

    version: int
    steps: int
    doubts: int

    def since(self, other: "_State") -> int:
        """At least how many writes there were."""
        return max(self.version - other.version, self.steps - other.steps)


@final
class _Looks:
    """The looks at one tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.pinned: Any = pin(tensor)
        self._least, self._most = 0.0, math.inf  # at the last look that has arrived
        self._looked: _State | None = None  # the state at that look
        self._begun: _State | None = None  # the state at the last look
        self._before: _State | None = None  # the state at the last call
        self._arriving: tuple[_State, Tensor, Any] | None = None
        self._was_assumed = False

    def are_large(self, weight: Tensor, state: _State, wanted: float, limit: float, *, in_training: bool) -> bool:
        """Whether the weights are known to be at least `wanted`, or assumed to be, and thus at least `limit`."""
        self._read(limit)
        if self._arriving is None and self._is_due(state, in_training):
            self._arriving, self._begun = (state, *_begun(weight.detach())), state
        self._before = state
        if self.were_large(state, wanted):
            return True
        looked = self._looked
        if not in_training or looked is None or state.since(looked) > _OLDEST:
            return False
        if not self._allow(max(wanted, limit * _ROOM)):
            return False
        self._was_assumed = True
        return True

    def were_large(self, state: _State, limit: float) -> bool:
        """Whether the last look that has arrived was at this state, and found weights of at least `limit`."""
        return self._looked == state and self._allow(limit)

    def _read(self, limit: float) -> None:
        arriving = self._arriving
        if arriving is None or not _has_arrived(arriving[2]):
            return
        self._looked, self._arriving = arriving[0], None
        self._least, self._most = arriving[1].tolist()
        was_assumed, self._was_assumed = self._was_assumed, False
        if was_assumed and not self._allow(limit):
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
        return not in_training or state == self._before or state.doubts != begun.doubts or state.since(begun) >= _EVERY

    def _allow(self, limit: float) -> bool:
        return self._least >= limit * max(self._most, 1.0) and self._most < math.inf


_LOOKS: dict[Any, _Looks] = {}  # by the place in memory


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
    if is_captured and isinstance(shared, Parameter):  # a replay may find other weights there
        return False
    try:
        looks = _looks_at(shared)
    except (NotImplementedError, RuntimeError):  # its entries lie in other tensors, as those of a sharded one do
        return False
    ((steps, doubts),) = stamps_of([shared])
    state = _State(shared._version if counts_versions(shared) else 0, steps, doubts)
    if is_captured:  # a graph holds no looks
        return looks.were_large(state, wanted)
    in_training = learned is not None and torch.is_grad_enabled()
    return looks.are_large(weight, state, wanted, limit, in_training=in_training)


def _looks_at(tensor: Tensor) -> _Looks:
    place = place_of(tensor)
    looks = _LOOKS.get(place)
    if looks is None:
        if len(_LOOKS) % _MANY == _MANY - 1:
            for other, some in list(_LOOKS.items()):
                if some.pinned.expired():
                    _LOOKS.pop(other, None)
        looks = _LOOKS[place] = _Looks(tensor)
    return looks


def _begun(weight: Tensor) -> tuple[Tensor, Any]:
    """A copy of the least and largest sizes to the host that has begun, and what says when it has arrived."""
    ends = torch.stack(torch.aminmax(weight.abs()))
    if not ends.is_cuda:
        return ends.cpu(), None
    host = torch.empty((2,), dtype=ends.dtype, pin_memory=True)
    host.copy_(ends, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(weight.device))
    return host, event


def _has_arrived(event: Any) -> bool:
    return event is None or bool(event.query())
