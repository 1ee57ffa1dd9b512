"""`TorchFunction`: a traced function compiled to generated code, called with the leaves of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack
from torch import Tensor

from plica.backend.torch.emit import emit, number_arguments, source
from plica.backend.torch.indexing import is_traced, may_write
from plica.backend.torch.leaves import attribute_of
from plica.backend.torch.names import RESERVED
from plica.eager.packed import PackedArray
from plica.errors import InputError
from plica.forks import cached_property
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Bound
from plica.ir.types import ShapedArray
from plica.passes.clean import clean
from plica.passes.rewriting import Rewriting
from plica.tracing.scope import Reference

Converter = Callable[[Any], Any]
_WORD = 2**63


class TorchFunction:
    """Generated code with the arrays that it captures.

    Args:
        bound: The Program and what it captures; references are read at each call.
        name: What the generated function is called.
        numbers: The places of arguments that are described as Python numbers.
        rewriting: How the Program is rewritten, where that is not as by default.
    """

    def __init__(
        self, bound: Bound, name: str, numbers: frozenset[int] = frozenset(), rewriting: Rewriting | None = None
    ) -> None:
        self.program = clean(bound.program, rewriting or Rewriting())
        self._name = name if name.isidentifier() and name not in RESERVED else "function"  # a lambda has no name
        self._run = emit(self.program, self._name, is_checked=True, numbers=numbers)
        self._described = numbers
        named = zip((attribute_of(var.name) for var in self.program.consts), bound.leaves, strict=True)
        leaves = dict(named)
        self._tensors = {key: leaf for key, leaf in leaves.items() if isinstance(leaf, Tensor)}
        self._read = {key: leaf for key, leaf in leaves.items() if not isinstance(leaf, Tensor)}
        self._types = [
            (attribute_of(var.name), var, var.type.shape, _outside(var.type.dtype))
            for var in self.program.consts
            if isinstance(var.type, ShapedArray)
        ]
        self._kept: dict[torch.device | None, SimpleNamespace] = {}

    @cached_property
    def _numbers(self) -> frozenset[int]:
        return number_arguments(self.program, self._described)  # asked for where an argument is a number

    @property
    def code(self) -> str:
        """The generated Python."""
        return source(self.program, self._name, is_checked=True, numbers=self._described)

    def specialize(self, leaves: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        """The function of leaves of these kinds: torch tensors, numpy arrays, DLPack objects, Python numbers.

        Everything runs on the device of the first tensor; without one, on that of the first array.
        """
        arrays = [(place, one) for place, leaf in enumerate(leaves) if (one := _from_array(leaf)) is not None]
        numbers = [
            (place, dtype) for place, leaf in enumerate(leaves) if (dtype := self._number(place, leaf)) is not None
        ]
        tensors = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        first = next(iter([*tensors, *(place for place, _ in arrays)]), None)
        whole = [place for place in self._numbers if type(leaves[place]) is int]
        run, captured = self._run, self._captured

        def call(found: Sequence[Any]) -> Any:
            if arrays or numbers:
                found = list(found)
                for place, convert in arrays:
                    found[place] = convert(found[place])
            device = None if first is None else found[first].device
            for place, dtype in numbers:
                try:
                    found[place] = torch.full((), found[place], dtype=dtype, device=device)  # type: ignore[index]
                except (OverflowError, RuntimeError):
                    self._refuse_number(place, found[place])
                    raise
            for place in whole:
                if not -_WORD <= found[place] < _WORD:
                    self._refuse_number(place, found[place])
            if tensors and arrays:
                found = [_moved(one, device) for one in found]
            return run(captured(device), *found)

        return call

    def _refuse_number(self, place: int, value: Any) -> None:
        """Say that an integer does not fit the dtype of its argument, if that is so.

        Raises:
            InputError: It does not.
        """
        var = self.program.arguments[place]
        if var.type.dtype.kind == "int":
            raise InputError(
                f"argument {var.name} is {value}, which does not fit {var.type.dtype.value}; pass a float, or an array "
                "of a dtype that holds it."
            )

    def _captured(self, device: torch.device | None) -> SimpleNamespace:
        leaves = self._leaves(device)
        for key, var, shape, dtype in self._types:
            found = getattr(leaves, key)
            if found.shape != shape or found.dtype != dtype:
                now = f"shape {tuple(found.shape)}" if found.shape != shape else f"dtype {found.dtype}"
                what = now.partition(" ")[0]
                raise InputError(
                    f"the captured array {var.name} has {now} now, but was compiled as {var!r}; give it that {what} "
                    "again, or compile the function anew."
                )
        return leaves

    def _leaves(self, device: torch.device | None) -> SimpleNamespace:
        kept = self._kept.get(device)
        if kept is None:
            kept = self._kept[device] = SimpleNamespace(device=device, **self._tensors)
        if not self._read:
            return kept
        return SimpleNamespace(**vars(kept), **{key: _now(leaf, device) for key, leaf in self._read.items()})

    def _number(self, place: int, leaf: Any) -> torch.dtype | None:
        """The dtype of the tensor that a Python number becomes; None where it stays, or is none."""
        if not isinstance(leaf, bool | int | float | complex) or isinstance(leaf, np.generic) or place in self._numbers:
            return None
        var = self.program.arguments[place]
        if var.type.dtype.is_storage:
            raise InputError(f"argument {var.name} is the number {leaf}; give an array of {var.type.dtype.value}.")
        dtype: torch.dtype = getattr(torch, var.type.dtype.value)
        return dtype


def _from_array(leaf: Any) -> Converter | None:
    """What makes a tensor of an array of another library; None for tensors and numbers."""
    if isinstance(leaf, np.ndarray | np.generic) and as_dtype(leaf.dtype).is_storage:
        return _in_bytes
    if isinstance(leaf, np.ndarray | np.generic | PackedArray):
        return from_numpy
    if isinstance(leaf, Tensor | bool | int | float | complex):
        return None
    return from_dlpack


def from_dlpack(array: Any) -> Tensor:
    """A tensor of the memory of an object with the exchange protocol."""
    tensor: Tensor = torch.utils.dlpack.from_dlpack(array)
    return tensor


def from_numpy(array: Any) -> Any:
    """A tensor of the memory of a numpy array, or of a copy where torch cannot have it; a packed array stays packed."""
    if isinstance(array, PackedArray):
        return array if isinstance(array.data, Tensor) else array.with_data(from_numpy(array.data))
    found = np.asarray(array)
    if not found.dtype.isnative:
        found = found.astype(found.dtype.newbyteorder("="))
    if not found.flags.writeable or any(step < 0 or step % found.itemsize for step in found.strides):
        found = found.copy()
    if found.dtype == DType.BFLOAT16.numpy:  # torch has it, but does not know numpy's
        return torch.from_numpy(found.view(np.uint16)).view(torch.bfloat16)
    if as_dtype(found.dtype).is_storage:
        return from_numpy(PackedArray.of(found))
    return torch.from_numpy(found)


def _in_bytes(array: Any) -> Tensor:
    """Integers of four bits in a byte each, as numpy has them and generated code reads them."""
    found: Tensor = from_numpy(array.astype(as_dtype(array.dtype).carrier.numpy))
    return found


def is_plain(*tensors: Tensor) -> bool:
    """Whether tensors are numbers in the CPU's memory, whose gradients nobody asks for and which nobody follows."""
    return may_write(*tensors) and not is_traced(*tensors) and all(one.is_cpu for one in tensors)


def array_of(tensor: Tensor) -> Any:
    """`to_numpy` of a tensor on the CPU of a dtype that numpy has, in a fifth of the time."""
    try:
        return tensor.detach().numpy()
    except RuntimeError:  # one that stands for its conjugate or its negative
        return to_numpy(tensor)


def tensor_of(array: Any) -> Tensor:
    """`from_numpy` of a new array of a dtype that torch has, in a tenth of the time."""
    return torch.from_numpy(array)


def to_numpy(tensor: Any) -> Any:
    """A numpy array of the memory of a tensor on the CPU, or of the numbers of a packed array."""
    if isinstance(tensor, PackedArray):
        return np.asarray(tensor)
    found = tensor.detach().resolve_conj().resolve_neg().cpu()
    if found.dtype == torch.bfloat16:
        return found.view(torch.uint16).numpy().view(DType.BFLOAT16.numpy)
    return found.numpy()


def _now(leaf: Any, device: torch.device | None) -> Any:
    """What a captured leaf is at this call; arrays of other libraries may have changed in place."""
    if isinstance(leaf, Reference):
        found: Tensor = leaf.read()
        return found
    is_known = isinstance(leaf, np.ndarray | np.generic | PackedArray)
    return _moved(from_numpy(leaf) if is_known else from_dlpack(leaf), device)


def _moved(one: Any, device: torch.device | None) -> Any:
    """A tensor, or a packed array, on a device; a number as it is."""
    if isinstance(one, PackedArray):
        return one.with_data(_moved(one.data, device))
    return one.to(device) if isinstance(one, Tensor) and device is not None else one


def _outside(dtype: DType) -> Any:
    """The dtype of arrays outside of generated code."""
    return dtype if dtype.is_storage else getattr(torch, dtype.value)
