"""Tensors as constants: whether one was written to, whether it needs a gradient, and copies that share no memory.

Torch counts most writes to a tensor in `tensor._version`. Writes that it does not count are noticed in two ways. Small
tensors are compared by their entries. For larger ones events are counted. After each step of an optimizer their memory
was *written*. After a call such as `module.eval()` it is in *doubt*: it may have been written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import string_at
from functools import partial, wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.autograd import forward_ad
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import Module, Parameter
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from plica.backend.torch.logs import transforms_active
from plica.constants.changes.tensors import SMALL

F = TypeVar("F", bound=Callable[..., Any])
PLAIN = (Tensor, Parameter)
"""The classes of tensors whose entries lie in one memory."""


class _Stamps:
    """The number of the last event of one kind for each storage, in the order in which events happened.

    Attributes:
        count: How many events there were.
        of_storage: The last event of a storage; at most `MOST` storages are remembered.
        floor: The last event that may have been about any storage.
    """

    MOST = 2**16

    def __init__(self) -> None:
        self.count = self.floor = 0
        self.of_storage: dict[int, int] = {}

    def stamp(self, tensors: Iterable[Any]) -> None:
        """Count an event about the storages of these tensors."""
        self.count += 1
        try:
            self.of_storage.update(
                (tensor.untyped_storage()._cdata, self.count) for tensor in tensors if tensor is not None
            )
        except (NotImplementedError, RuntimeError, ValueError):  # it has no storage of its own, or none yet
            self.floor = self.count
        if len(self.of_storage) > self.MOST:
            self.floor = self.count
            self.of_storage.clear()

    def stamp_all(self) -> None:
        """Count an event about all storages."""
        self.count += 1
        self.floor = self.count

    def of(self, storage: int) -> int:
        """The last event that was, or may have been, about a storage."""
        return max(self.floor, self.of_storage.get(storage, 0))


_WRITES, _DOUBTS = _Stamps(), _Stamps()


def doubt(tensors: Iterable[Any]) -> None:
    """Record that these tensors may have been written to in a way that torch does not count."""
    _DOUBTS.stamp(tensors)


def doubt_all() -> None:
    """Record that any tensor may have been written to in a way that torch does not count."""
    _DOUBTS.stamp_all()


def num_events() -> int:
    """How many events there were. While this number stays the same, so does every stamp."""
    return _WRITES.count + _DOUBTS.count


def stamps_of(tensors: Iterable[Tensor]) -> list[tuple[int, int]]:
    """For each tensor the last event that wrote to its memory uncounted, and the last one that may have."""
    storages = (tensor.untyped_storage()._cdata for tensor in tensors)
    return [(_WRITES.of(storage), _DOUBTS.of(storage)) for storage in storages]


def _stepped(optimizer: Optimizer, *_: object) -> None:
    stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if all(type(parameter) in PLAIN for parameter in stepped):
        _WRITES.stamp(stepped)
    else:  # for example shards: calls read the whole tensor, from other memory
        _WRITES.stamp_all()


register_optimizer_step_post_hook(_stepped)


def _with_doubt(method: Callable[..., Any], is_recursive: bool) -> Callable[..., Any]:
    """A method of modules that afterwards records a doubt about the tensors of the module.

    Args:
        method: The method.
        is_recursive: Whether the doubt is about the modules within it too. `train`, which `eval` calls, and `_apply`
            run for each module of a tree, `load_state_dict` for its root. Torch has no hook for any of them.
    """

    @wraps(method)
    def call(self: Module, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        owners = Module.modules(self) if is_recursive else (self,)  # a subclass may override `parameters`
        doubt(tensor for owner in owners for table in (owner._parameters, owner._buffers) for tensor in table.values())
        return result

    return call


Module.train = _with_doubt(Module.train, is_recursive=False)  # type: ignore[method-assign]
Module._apply = _with_doubt(Module._apply, is_recursive=False)  # type: ignore[method-assign]
Module.load_state_dict = _with_doubt(Module.load_state_dict, is_recursive=True)  # type: ignore[method-assign]


def location_of(tensor: Tensor) -> tuple[Hashable, ...]:
    """The location of a tensor: its storage, its address, and how its entries lie there."""
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def counts_versions(tensor: Tensor) -> bool:
    """Whether torch counts writes to a tensor. It does not for a tensor of inference mode, whatever memory that has."""
    try:
        return tensor._version >= 0
    except RuntimeError:
        return False


def is_compared_by_content(tensor: Tensor, *, checksum: bool) -> bool:
    """Whether only the entries of a tensor say if it changed: for small ones on the CPU, and without a version."""
    is_small = tensor.device.type == "cpu" and tensor.nbytes < SMALL
    return checksum or is_small or not counts_versions(tensor)


def content_hash(tensor: Tensor) -> int:
    """A hash of the entries of a tensor."""
    entries = tensor.data.resolve_conj().resolve_neg().cpu().contiguous()
    start, stop = entries.data_ptr(), entries.data_ptr() + entries.nbytes
    return hash(tuple([hash(string_at(at, min(_CHUNK, stop - at))) for at in range(start, stop, _CHUNK)]))


_CHUNK = 2**20  # a copy of this many bytes stays in the processor's cache


def state_of(tensor: Tensor, *, checksum: bool = False) -> Hashable:
    """A value that differs once a tensor has changed.

    It is a hash of the entries for small tensors on the CPU and for inference tensors. For others it is their location,
    their version, and the last events about their memory: steps of optimizers, `train()`, `eval()`, `.to()` and its
    like, and `load_state_dict()` of modules. Torch does not count writes through `.data`, or through a numpy array of
    the same memory. For large tensors these go unnoticed, unless `checksum` is set.

    Args:
        tensor: The tensor.
        checksum: Whether to hash the entries however large the tensor is.

    Assumes:
        The storage is pinned (`pin`), so that no later one gets its number.
    """
    if is_compared_by_content(tensor, checksum=checksum):
        return location_of(tensor), content_hash(tensor)
    return location_of(tensor), tensor._version, *stamps_of([tensor])


def pin(tensor: Tensor) -> object:
    """An object that reserves the number of a tensor's storage while it lives; the memory itself may be freed."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


_SEALED: WeakKeyDictionary[torch.UntypedStorage, dict[Hashable, Any]] = WeakKeyDictionary()


def seal(tensor: Tensor) -> Tensor:
    """Declare that nobody writes to the memory of a tensor any more."""
    _SEALED.setdefault(tensor.untyped_storage(), {})
    return tensor


def facts_of(tensor: Tensor) -> dict[Hashable, Any] | None:
    """The dictionary in which callers remember facts about sealed memory; None for memory that is not sealed."""
    return _SEALED.get(tensor.untyped_storage())


def wants_gradient(tensors: Sequence[Tensor]) -> bool:
    """Whether a derivative by one of the tensors is needed now, or a transform of torch.func maps over one."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    if transforms_active() and any(map(torch._C._functorch.is_functorch_wrapped_tensor, tensors)):
        return True
    is_forward = getattr(forward_ad, "_current_level", 0) >= 0
    return is_forward and any(
        forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]
        for tensor in tensors
    )


def is_compiling() -> bool:
    """Whether torch.compile is tracing this call."""
    return torch.compiler.is_compiling()


def constant_result(function: F) -> F:
    """Like `torch.compiler.assume_constant_result`, which would import torch._dynamo, for a second, without need."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@_disable_dynamo  # torch.compiler.disable, which would import it too
def _call_untraced(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that torch.compile does not trace: compiled code calls it each time."""
    return function(*args, **keywords)


def untraced(function: F) -> F:
    """A function that torch.compile never traces; it compiles the code before the call and the code after it."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        target = partial(_call_untraced, function) if is_compiling() else function
        return target(*args, **keywords)

    return cast("F", call)


@contextmanager
def folding() -> Iterator[None]:
    """A context for folding constants, whatever the caller's modes are, since later calls use the values too.

    Within it no gradients are recorded. Inference mode is off, since autograd refuses its tensors, and autocast is off,
    since it changes dtypes.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _addresses(arrays: Iterable[object]) -> list[int]:
    """The addresses of the memory of tensors and of numpy arrays."""
    pointers = [array.untyped_storage().data_ptr() for array in arrays if isinstance(array, Tensor)]
    return pointers + [
        array.__array_interface__["data"][0] for array in arrays if hasattr(array, "__array_interface__")
    ]


def owned(tensor: Tensor, sources: Sequence[object]) -> Tensor:
    """The tensor without gradients, in memory that is its own: it is no view of a source or of a larger tensor.

    It is sealed, so callers give users copies of it.
    """
    detached = tensor.detach()
    storage = detached.untyped_storage()
    if storage.nbytes() != detached.nbytes or storage.data_ptr() in _addresses(sources):
        detached = detached.clone()
    return seal(detached)
