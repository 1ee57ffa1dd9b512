"""Constants in torch: states that tell changes, whether gradients are needed, and buffers of their own."""

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

from plica.constants.changes.tensors import SMALL

F = TypeVar("F", bound=Callable[..., Any])
PLAIN = (Tensor, Parameter)
"""The classes of tensors whose entries lie in one memory."""


class _Stamps:
    """When something of one kind happened to a memory last.

    Attributes:
        count: How many events there were.
        of_storage: The number of the last event that stamped a storage.
        floor: That of the last event that may have been about any.
    """

    MOST = 2**16

    def __init__(self) -> None:
        self.count = self.floor = 0
        self.of_storage: dict[int, int] = {}

    def stamp(self, tensors: Iterable[Any]) -> None:
        """Stamp the memory of tensors."""
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
        """Stamp all memory."""
        self.count += 1
        self.floor = self.count

    def of(self, storage: int) -> int:
        """The number of the last event about a storage."""
        return max(self.floor, self.of_storage.get(storage, 0))


_WRITES, _DOUBTS = _Stamps(), _Stamps()


def doubt(tensors: Iterable[Any]) -> None:
    """Say that tensors may have been written to in a way that torch does not count."""
    _DOUBTS.stamp(tensors)


def doubt_all() -> None:
    """Say that any tensor may have been written to in a way that torch does not count."""
    _DOUBTS.stamp_all()


def events() -> int:
    """How many events there were: where there was none, no stamp is another one."""
    return _WRITES.count + _DOUBTS.count


def stamps_of(tensors: Iterable[Tensor]) -> list[tuple[int, int]]:
    """When the memory of tensors was written to uncounted last, and when it may have been."""
    storages = (tensor.untyped_storage()._cdata for tensor in tensors)
    return [(_WRITES.of(storage), _DOUBTS.of(storage)) for storage in storages]


def _stepped(optimizer: Optimizer, *_: object) -> None:
    stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if all(type(parameter) in PLAIN for parameter in stepped):
        _WRITES.stamp(stepped)
    else:  # parts of tensors that calls read, whole, from memory of their own
        _WRITES.stamp_all()


register_optimizer_step_post_hook(_stepped)


def _told(method: Callable[..., Any], is_whole: bool) -> Callable[..., Any]:
    """A method after which the tensors of a module, or of all modules in it, may have been written to.

    `train`, which `eval` calls too, and `_apply` run for each module in a tree; torch has no hook for any of them.
    """

    @wraps(method)
    def told(self: Module, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        owners = Module.modules(self) if is_whole else (self,)  # `parameters` may be a user's own
        doubt(tensor for owner in owners for table in (owner._parameters, owner._buffers) for tensor in table.values())
        return result

    return told


Module.train = _told(Module.train, is_whole=False)  # type: ignore[method-assign]
Module._apply = _told(Module._apply, is_whole=False)  # type: ignore[method-assign]
Module.load_state_dict = _told(Module.load_state_dict, is_whole=True)  # type: ignore[method-assign]


def place_of(tensor: Tensor) -> tuple[Hashable, ...]:
    """Where a tensor is, storage and address, and how it lies there."""
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def counts_versions(tensor: Tensor) -> bool:
    """Whether torch counts writes to a tensor: not to those of inference mode, even with other memory."""
    try:
        return tensor._version >= 0
    except RuntimeError:
        return False


def is_read(tensor: Tensor, *, checksum: bool) -> bool:
    """Whether a tensor is told from another one by its entries alone.

    Small tensors on the CPU are, and those of inference mode, which count no versions.
    """
    is_small = tensor.device.type == "cpu" and tensor.nbytes < SMALL
    return checksum or is_small or not counts_versions(tensor)


def content_of(tensor: Tensor) -> int:
    """A number that stands for the entries of a tensor."""
    entries = tensor.data.resolve_conj().resolve_neg().cpu().contiguous()
    start, stop = entries.data_ptr(), entries.data_ptr() + entries.nbytes
    return hash(tuple([hash(string_at(at, min(_CHUNK, stop - at))) for at in range(start, stop, _CHUNK)]))


_CHUNK = 2**20  # a copy of this many bytes stays in the processor's cache


def state_of(tensor: Tensor, *, checksum: bool = False) -> Hashable:
    """A value that differs once a tensor has changed.

    Small tensors on the CPU, and inference tensors, are told by their entries; others by their memory, its version, and
    stamps of it: of steps of any optimizer for its parameters, and, for the tensors of a module, of changes between
    training and evaluation, `.to` and what is like it, and `load_state_dict`. Other writes to a large tensor that torch
    does not count (through `.data`, or through a numpy array of its memory) are not seen, unless all tensors are told
    by their entries.

    Args:
        tensor: The tensor.
        checksum: Whether it is told by its entries however large it is.

    Assumes:
        The memory is pinned, so that no other one has its number later.
    """
    if is_read(tensor, checksum=checksum):
        return place_of(tensor), content_of(tensor)
    return place_of(tensor), tensor._version, *stamps_of([tensor])


def pin(tensor: Tensor) -> object:
    """An object whose life keeps the number of a tensor's storage from being reused; its memory may go."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


_SEALED: WeakKeyDictionary[torch.UntypedStorage, dict[Hashable, Any]] = WeakKeyDictionary()


def seal(tensor: Tensor) -> Tensor:
    """Declare that the memory of a tensor is not written to any more."""
    _SEALED.setdefault(tensor.untyped_storage(), {})
    return tensor


def facts_of(tensor: Tensor) -> dict[Hashable, Any] | None:
    """Facts that callers store about sealed memory; None of other memory."""
    return _SEALED.get(tensor.untyped_storage())


_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def wants_gradient(tensors: Sequence[Tensor]) -> bool:
    """Whether derivatives of one of the tensors are asked for now, or a transform maps over it."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    if _transforms_active() and any(map(torch._C._functorch.is_functorch_wrapped_tensor, tensors)):
        return True
    is_forward = getattr(forward_ad, "_current_level", 0) >= 0
    return is_forward and any(
        forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]
        for tensor in tensors
    )


def is_compiling() -> bool:
    """Whether torch.compile looks at this call."""
    return torch.compiler.is_compiling()


def constant_result(function: F) -> F:
    """`torch.compiler.assume_constant_result`, which would import torch._dynamo: a second for all who never compile."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@_disable_dynamo  # torch.compiler.disable, likewise
def outside(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """The result of a function that torch.compile does not look into, and which runs anew at each call."""
    return function(*args, **keywords)


def untraced(function: F) -> F:
    """A function that torch.compile never looks into: what it traces runs before and after it."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        ask = partial(outside, function) if is_compiling() else function
        return ask(*args, **keywords)

    return cast("F", call)


@contextmanager
def folding() -> Iterator[None]:
    """Where constants are folded: later callers may train where the first does not, and none asked for other dtypes."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _storages(arrays: Iterable[object]) -> list[int]:
    pointers = [array.untyped_storage().data_ptr() for array in arrays if isinstance(array, Tensor)]
    return pointers + [
        array.__array_interface__["data"][0] for array in arrays if hasattr(array, "__array_interface__")
    ]


def owned(tensor: Tensor, sources: Sequence[object]) -> Tensor:
    """A tensor without gradients that shares memory with no source, and keeps no more memory alive than it has.

    It is sealed: callers hand copies to users.
    """
    alone = tensor.detach()
    storage = alone.untyped_storage()
    if storage.nbytes() != alone.nbytes or storage.data_ptr() in _storages(sources):
        alone = alone.clone()
    return seal(alone)
