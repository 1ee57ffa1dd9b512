"""`WeightCheck`: refuses learned weights that have become negative, if the semiring has no negative numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, final
from weakref import ReferenceType, ref

import torch
from torch import Tensor

from plica.backend.torch.emit import emit
from plica.backend.torch.leaves import Leaves, attribute_of
from plica.backend.torch.logs import is_abstract
from plica.backend.torch.watch import Watch, can_watch
from plica.ir.dtypes import as_dtype
from plica.lower.call_parameters import CallParameters
from plica.lower.checks import lower_least, refuse_weight
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, owners_of
from plica.symbolic.semirings import Semiring


@dataclass(frozen=True, slots=True, eq=False)
class _Minima:
    """The function that computes the least entry of each weight, for tensors of one dtype.

    Args:
        dtype: The dtype of the tensors.
        run: The generated function.
        attributes: For each tensor that it reads, by the name that it has there, its attribute of the circuit's leaves.
        constants: The constant arrays that it reads, by name.
    """

    dtype: torch.dtype
    run: Callable[..., Tensor]
    attributes: Mapping[str, str]
    constants: Mapping[str, Constant]

    def tensors(self, leaves: Leaves) -> list[Tensor]:
        """The tensors that it reads, in order."""
        return [getattr(leaves, name) for name in self.attributes.values()]


@final
class WeightCheck:
    """Checks the weights of a circuit that may be negative, anew only when one of them has changed.

    Args:
        folded: The folded circuit.
        semiring: Its number format.
        weights: The weights that may not be negative, by group and name.
        given: The parameters passed at call time.
        zeros: The learned weights that may be 0, by group and name. None if learned numbers that are no weights, and so
            are not checked, may be 0.
    """

    def __init__(
        self,
        folded: FoldedCircuit,
        semiring: Semiring,
        weights: Sequence[tuple[FoldedLayer, str]],
        given: CallParameters | None = None,
        zeros: Sequence[tuple[FoldedLayer, str]] | None = (),
    ) -> None:
        self._folded = folded
        self._semiring = semiring
        self._not_negative = frozenset(weights)
        self._always_zeros = zeros is None
        self._zeros = frozenset(zeros or ())
        self._weights = tuple(dict.fromkeys((*weights, *(zeros or ()))))
        self._given: CallParameters = given or {}
        self._minima: _Minima | None = None
        self._read: Watch | None = None  # the tensors of the weights, when they were read last
        self._some_zero = True  # whether a weight was 0 then
        self._checked: ReferenceType[Watch] | None = None  # the caller's watch of all tensors, when they were checked

    def __deepcopy__(self, memo: dict[int, Any]) -> WeightCheck:
        """A check for copied tensors: it shares the settings, which are immutable, and has checked nothing yet."""
        del memo
        return WeightCheck(*self._settings())

    def __reduce__(self) -> tuple[Any, ...]:
        return WeightCheck, self._settings()  # its function is generated again

    def _settings(self) -> tuple[Any, ...]:
        weights, zeros = (
            [weight for weight in self._weights if weight in chosen] for chosen in (self._not_negative, self._zeros)
        )
        return self._folded, self._semiring, weights, self._given, None if self._always_zeros else zeros

    @property
    def may_have_zeros(self) -> bool:
        """Whether some learned weight may be 0."""
        return self._always_zeros or bool(self._zeros)

    def check(self, leaves: Leaves, watch: Watch | None = None, given: Sequence[Tensor] = ()) -> bool:
        """Raise if a weight is negative. This waits for the device.

        Args:
            leaves: The tensors.
            watch: A watch of all tensors in their current state, if there is one: for one watch they are read once.
            given: The tensors that this call passes for leaves. They are not watched.

        Returns:
            Whether a learned weight is 0, if gradients are needed; true if weights cannot be read.

        Raises:
            UnsupportedError: A weight is negative; its layer is named.
        """
        asks_zeros = bool(self._zeros) and torch.is_grad_enabled()
        if not (self._not_negative or asks_zeros):
            return self._always_zeros
        if watch is None or self._checked is None or self._checked() is not watch:
            some_zero = self._check_values(leaves, given)
            if watch is None or given:
                return self._always_zeros or (asks_zeros and some_zero)
            self._checked = ref(watch)
        return self._always_zeros or (asks_zeros and self._some_zero)

    def _check_values(self, leaves: Leaves, given: Sequence[Tensor]) -> bool:
        """Refuse negative weights, and return whether one of `zeros` is 0; weights that are unchanged are not read."""
        read, minima = self._read, self._minima
        if read is not None and minima is not None and read.is_current(minima.tensors(leaves)):
            return self._some_zero
        if leaves.is_sharded:
            return True
        minima = self._function(leaves, given)
        tensors = minima.tensors(leaves)
        if any(is_abstract(tensor) or tensor.is_meta for tensor in (*tensors, *given)):
            return True
        read = Watch(tensors) if not given and all(map(can_watch, tensors)) else None
        with torch.no_grad():
            items = minima.constants.items()
            constants = {name: torch.from_numpy(constant.value).to(leaves.device) for name, constant in items}
            named = dict(zip(minima.attributes, tensors, strict=True))
            entries = minima.run(SimpleNamespace(device=leaves.device, **constants, **named), *given).tolist()
        weights = [weight for weight in self._weights for _ in weight[0].members]
        for number, (weight, value) in enumerate(zip(weights, entries, strict=True)):
            if weight in self._not_negative and value < 0:
                self._refuse(number, value)
        some_zero = any(value <= 0 for weight, value in zip(weights, entries, strict=True) if weight in self._zeros)
        self._some_zero, self._read = some_zero, read
        return some_zero

    def _function(self, leaves: Leaves, given: Sequence[Tensor]) -> _Minima:
        """The function for tensors of this dtype. It is one object, so that other threads see no half of it."""
        tensors = (*(tensor for _, tensor in leaves.items()), *given)
        floating = (tensor.dtype for tensor in tensors if tensor.is_floating_point())
        real = next(floating, torch.float64)  # there may be constants alone
        minima = self._minima
        if minima is not None and minima.dtype == real:
            return minima
        owners = owners_of(leaf for leaf, _ in leaves.items())
        program, captured = lower_least(
            self._folded, self._semiring, as_dtype(real), self._weights, owners, self._given
        )
        names = {leaf: name for name, leaf in leaves.attributes()}
        attributes: dict[str, str] = {}
        constants: dict[str, Constant] = {}
        for var, source in zip(program.consts, captured, strict=True):
            if isinstance(source, Constant):
                constants[attribute_of(var.name)] = source
            else:
                attributes[attribute_of(var.name)] = names[source]  # names of variables differ from Program to Program
        minima = self._minima = _Minima(real, emit(program, "least", shares=True), attributes, constants)
        return minima

    def _refuse(self, number: int, value: float) -> None:
        layers = [(layer, name) for group, name in self._weights for layer in group.members]
        layer, name = layers[number]
        refuse_weight(self._folded.circuit, layer, name, self._semiring, value)
