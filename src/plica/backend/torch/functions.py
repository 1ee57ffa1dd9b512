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
        name: The name of the generated function.
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
        self._placed: dict[torch.device | None, SimpleNamespace] = {}

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
        arrays = [
            (index, converter) for index, leaf in enumerate(leaves) if (converter := _from_array(leaf)) is not None
        ]
        numbers = [
            (index, dtype) for index, leaf in enumerate(leaves) if (dtype := self._number(index, leaf)) is not None
        ]
        tensors = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        first = next(iter([*tensors, *(index for index, _ in arrays)]), None)
        integers = [index for index in self._numbers if type(leaves[index]) is int]
        run, captured = self._run, self._captured

        def call(arguments: Sequence[Any]) -> Any:
            if arrays or numbers:
                arguments = list(arguments)
                for index, convert in arrays:
                    arguments[index] = convert(arguments[index])
            device = None if first is None else arguments[first].device
            for index, dtype in numbers:
                try:
                    arguments[index] = torch.full((), arguments[index], dtype=dtype, device=device)  # type: ignore[index]
                except (OverflowError, RuntimeError):
                    self._refuse_number(index, arguments[index])
                    raise
            for index in integers:
                if not -_WORD <= arguments[index] < _WORD:
                    self._refuse_number(index, arguments[index])
            if tensors and arrays:
                arguments = [_moved(argument, device) for argument in arguments]
            return run(captured(device), *arguments)

        return call

    def _refuse_number(self, index: int, value: Any) -> None:
        """Say that an integer does not fit the dtype of its argument, if that is so.

        Raises:
            InputError: The integer does not fit.
        """
        var = self.program.arguments[index]
        if var.type.dtype.kind == "int":
            raise InputError(
                f"argument {var.name} is {value}, which does not fit {var.type.dtype.value}; pass a float, or an array "
                "of a dtype that holds it."
            )

    def _captured(self, device: torch.device | None) -> SimpleNamespace:
        leaves = self._leaves(device)
        for key, var, shape, dtype in self._types:
            array = getattr(leaves, key)
            if array.shape != shape or array.dtype != dtype:
                now = f"shape {tuple(array.shape)}" if array.shape != shape else f"dtype {array.dtype}"
                what = now.partition(" ")[0]
                raise InputError(
                    f"the captured array {var.name} has {now} now, but was compiled as {var!r}; give it that {what} "
                    "again, or compile the function anew."
                )
        return leaves

    def _leaves(self, device: torch.device | None) -> SimpleNamespace:
        tensors = self._placed.get(device)
        if tensors is None:
            tensors = self._placed[device] = SimpleNamespace(device=device, **self._tensors)
        if not self._read:
            return tensors
        return SimpleNamespace(**vars(tensors), **{key: _now(leaf, device) for key, leaf in self._read.items()})

    def _number(self, index: int, leaf: Any) -> torch.dtype | None:
        """The dtype of the tensor that a Python number becomes; None where it stays, or is none."""
        if not isinstance(leaf, bool | int | float | complex) or isinstance(leaf, np.generic) or index in self._numbers:
            return None
        var = self.program.arguments[index]
        if var.type.dtype.is_storage:
            raise InputError(f"argument {var.name} is the number {leaf}; give an array of {var.type.dtype.value}.")
        dtype: torch.dtype = getattr(torch, var.type.dtype.value)
        return dtype


def _from_array(leaf: Any) -> Converter | None:
    """The function that makes a tensor of an array of another library; None for tensors and numbers."""
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
    plain = np.asarray(array)
    if not plain.dtype.isnative:
        plain = plain.astype(plain.dtype.newbyteorder("="))
    if not plain.flags.writeable or any(step < 0 or step % plain.itemsize for step in plain.strides):
        plain = plain.copy()
    if plain.dtype == DType.BFLOAT16.numpy:  # torch has it, but does not know numpy's
        return torch.from_numpy(plain.view(np.uint16)).view(torch.bfloat16)
    if as_dtype(plain.dtype).is_storage:
        return from_numpy(PackedArray.of(plain))
    return torch.from_numpy(plain)


def _in_bytes(array: Any) -> Tensor:
    """Integers of four bits in a byte each, as numpy has them and generated code reads them."""
    tensor: Tensor = from_numpy(array.astype(as_dtype(array.dtype).carrier.numpy))
    return tensor


def is_plain(*tensors: Tensor) -> bool:
    """Whether tensors lie in the CPU's memory, need no gradients, and are not traced."""
    return may_write(*tensors) and not is_traced(*tensors) and all(tensor.is_cpu for tensor in tensors)


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
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.uint16).numpy().view(DType.BFLOAT16.numpy)
    return plain.numpy()


def _now(leaf: Any, device: torch.device | None) -> Any:
    """A captured leaf as it is at this call; arrays of other libraries may have changed in place."""
    if isinstance(leaf, Reference):
        tensor: Tensor = leaf.read()
        return tensor
    is_known = isinstance(leaf, np.ndarray | np.generic | PackedArray)
    return _moved(from_numpy(leaf) if is_known else from_dlpack(leaf), device)


def _moved(argument: Any, device: torch.device | None) -> Any:
    """A tensor, or a packed array, on a device; a number as it is."""
    if isinstance(argument, PackedArray):
        return argument.with_data(_moved(argument.data, device))
    return argument.to(device) if isinstance(argument, Tensor) and device is not None else argument


def _outside(dtype: DType) -> Any:
    """The dtype of arrays outside of generated code."""
    return dtype if dtype.is_storage else getattr(torch, dtype.value)
