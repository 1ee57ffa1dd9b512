"""Tensors that a call gives for leaves of a circuit, checked against it: `circuit(x, parameters={"3.weight": tensor})`.

A tensor of the shape of its leaf is for all rows of data. One with an axis more in front, `(B, *shape)`, has a set of
numbers for each row; the number of axes alone tells which of them it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from plica.backend.torch.leaves import torch_dtype
from plica.backend.torch.logs import is_abstract
from plica.errors import DTypeError, InputError, ShapeError
from plica.lower.call_parameters import CallParameters
from plica.lower.compiled import CompiledCircuit
from plica.symbolic.parameters import TensorParameter
from plica.tracing.tracer import Tracer

GivenNames: TypeAlias = tuple[tuple[str, bool], ...]
"""The names of leaves that are given, in the order of a circuit's keys, and whether each is for each row."""

_FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


@final
@dataclass(frozen=True, slots=True)
class GivenTensors:
    """The parameters of one call.

    Args:
        names: Their names.
        tensors: The tensors, in their order and in the dtypes of the circuit.
    """

    names: GivenNames = ()
    tensors: tuple[Tensor, ...] = ()

    @property
    def is_abstract(self) -> bool:
        """Whether numbers are not known yet, as under a transform such as vmap."""
        return any(map(is_abstract, self.tensors))

    @property
    def num_rows(self) -> int | None:
        """The number of rows that there are sets of numbers for; None where all are for all rows."""
        return next((len(tensor) for tensor, (_, by_row) in zip(self.tensors, self.names, strict=True) if by_row), None)

    def rows(self, index: slice | Tensor) -> GivenTensors:
        """Those of some rows."""
        pairs = zip(self.tensors, self.names, strict=True)
        return GivenTensors(self.names, tuple(tensor[index] if by_row else tensor for tensor, (_, by_row) in pairs))

    def check_rows(self, count: int) -> None:
        """Raise where there are sets of numbers for other rows than the `count` of the data.

        Raises:
            InputError: There are.
        """
        rows = self.num_rows
        if rows is not None and rows != count:
            name = next(name for name, by_row in self.names if by_row)
            raise InputError(
                f"parameters[{name!r}] has sets of numbers for {rows} rows, and the data has {count}; give as many, "
                "or one tensor of the leaf's own shape for all rows."
            )


NOTHING_GIVEN = GivenTensors()


@final
class Givable:
    """The leaves of a circuit by the keys of its state dict.

    Args:
        compiled: The circuit.

    Attributes:
        needed: The keys of those without a value of their own.
    """

    def __init__(self, compiled: CompiledCircuit) -> None:
        self._leaves = {key: leaf for leaf, key in compiled.keys.items()}
        self.needed = tuple(compiled.keys[leaf] for leaf in compiled.leaves_alone)

    def __deepcopy__(self, memo: dict[int, Any]) -> Givable:
        """Itself: it is immutable, and leaves are known by identity."""
        return self

    def with_all(self) -> Givable:
        """The same where every leaf has a value."""
        copied = copy(self)
        copied.needed = ()
        return copied

    def folds(self, given: GivenTensors) -> dict[TensorParameter, Tensor]:
        """The tensors of a call, by leaf."""
        return {self._leaves[name]: tensor for (name, _), tensor in zip(given.names, given.tensors, strict=True)}

    @property
    def usual(self) -> GivenNames:
        """The parameters that every call gives: leaves without a value of their own."""
        return tuple((name, False) for name in self.needed)

    def leaves(self, names: GivenNames) -> CallParameters:
        """The leaves of names."""
        return {self._leaves[name]: by_row for name, by_row in names}

    def take(self, parameters: Mapping[str, Tensor], real: torch.dtype, device: torch.device) -> GivenTensors:
        """The parameters of a call, checked.

        Args:
            parameters: Tensors by the keys of the state dict.
            real: The dtype of real leaves.
            device: Where the circuit is.

        Raises:
            InputError: There is no such leaf, one without a value of its own is not given, tensors are for different
                numbers of rows, or one is on another device.
            ShapeError: A tensor has another shape than its leaf.
            DTypeError: A tensor has numbers of another kind, or of more digits than the circuit.
        """
        if not isinstance(parameters, Mapping):
            raise DTypeError(
                f"parameters is {type(parameters).__name__}, expected a dict of tensors by the keys of the state dict."
            )
        for name in parameters:
            if name not in self._leaves:
                raise InputError(self._unknown(name))
        for name in self.needed:
            if name not in parameters:
                raise InputError(
                    f"the leaf {name!r} has no value of its own: give it at each call, as "
                    f"parameters={{{name!r}: tensor}}, a tensor of shape {self._shapes(name)}; queries are asked of "
                    "circuit.with_parameters(parameters)."
                )
        names = tuple((name, self._is_by_row(name, parameters[name])) for name in self._leaves if name in parameters)
        given = GivenTensors(names, tuple(self._converted(name, parameters[name], real, device) for name, _ in names))
        self._check_counts(given)
        return given

    def _unknown(self, name: Any) -> str:
        near = get_close_matches(str(name), self._leaves, 3) or list(self._leaves)[:5]
        more = f"did you mean {' or '.join(map(repr, near))}?" if near else "it has none at all."
        return (
            f"the circuit has no leaf {name!r} that a call could give; {more} Leaves are named as circuit.state_dict() "
            "names them, or by their own `name`."
        )

    def _is_by_row(self, name: str, tensor: Any) -> bool:
        if isinstance(tensor, Tracer) or not isinstance(tensor, Tensor):
            raise DTypeError(
                f"parameters[{name!r}] is {type(tensor).__name__}, expected a torch tensor; a function that plica.jit "
                "traces cannot give parameters: give them where it is called."
            )
        if tensor.layout is not torch.strided or tensor.is_nested:
            raise DTypeError(
                f"parameters[{name!r}] is {'nested' if tensor.is_nested else tensor.layout}, expected a dense tensor; "
                "try .to_dense()."
            )
        shape, actual = self._leaves[name].shape, tuple(tensor.shape)
        if actual == shape:
            return False
        if actual[1:] == shape and len(actual) == len(shape) + 1:
            return True
        raise ShapeError(f"parameters[{name!r}] has shape {actual}; expected {self._shapes(name)}.")

    def _shapes(self, name: str) -> str:
        shape = self._leaves[name].shape
        by_row = f"({', '.join(['B', *map(str, shape)])}{'' if shape else ','})"
        return f"{shape} for all rows of data, or {by_row} with a set of numbers for each row"

    def _converted(self, name: str, tensor: Tensor, real: torch.dtype, device: torch.device) -> Tensor:
        wanted = torch_dtype(self._leaves[name].dtype, real)
        if tensor.device != device:
            raise InputError(
                f"parameters[{name!r}] is on {tensor.device}, and the circuit on {device}; move one of them."
            )
        if tensor.dtype == wanted:
            return tensor
        if not _widens(tensor.dtype, wanted):
            raise DTypeError(
                f"parameters[{name!r}] has numbers of {tensor.dtype}, and the circuit takes {wanted}, which does not "
                f"hold them all; convert them by .to({wanted}), or the circuit by .to(...)."
            )
        return tensor.to(wanted)

    def _check_counts(self, given: GivenTensors) -> None:
        counts = {
            name: len(tensor) for tensor, (name, by_row) in zip(given.tensors, given.names, strict=True) if by_row
        }
        if any(count != given.num_rows for count in counts.values()):  # no set of them: torch.compile counts in symbols
            listed = ", ".join(f"{count} for {name!r}" for name, count in counts.items())
            raise InputError(f"parameters are for different numbers of rows: {listed}; give as many as the data has.")


def _widens(dtype: torch.dtype, wanted: torch.dtype) -> bool:
    """Whether every number of one dtype is one of the other, of the kinds that leaves have."""
    if wanted.is_complex:
        return _widens(dtype.to_real() if dtype.is_complex else dtype, wanted.to_real())
    if wanted.is_floating_point:
        return dtype in _FLOATS and torch.promote_types(dtype, wanted) == wanted
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool
