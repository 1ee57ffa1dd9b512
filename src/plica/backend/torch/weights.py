"""Learned weights at hand: that none has become negative where the semiring cannot carry negative numbers."""

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
class _Least:
    """The function that computes the least entry of each weight, for tensors of one dtype.

    Args:
        dtype: The dtype of the tensors.
        run: Emitted code.
        read: The tensors that it reads: the attribute of the circuit's leaves for the name of each.
        constants: The arrays that it reads, by name.
    """

    dtype: torch.dtype
    run: Callable[..., Tensor]
    read: Mapping[str, str]
    constants: Mapping[str, Constant]

    def tensors(self, leaves: Leaves) -> list[Tensor]:
        """The tensors that it reads, in order."""
        return [getattr(leaves, name) for name in self.read.values()]


@final
class WeightCheck:
    """The weights of a circuit that may be negative, checked once for each version of them.

    Args:
        folded: The folded circuit.
        semiring: Its number format.
        weights: The weights, by group and name.
        given: The leaves that calls give values to.
        zeros: Learned weights that may be 0; None if other learned numbers, which are not checked, may be.
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
        self._checked = frozenset(weights)
        self._always = zeros is None
        self._zeros = frozenset(zeros or ())
        self._weights = tuple(dict.fromkeys((*weights, *(zeros or ()))))
        self._given: CallParameters = given or {}
        self._least: _Least | None = None
        self._seen: Watch | None = None
        self._some_zero = True
        self._under: ReferenceType[Watch] | None = None  # while which no weight is negative

    def __deepcopy__(self, memo: dict[int, Any]) -> WeightCheck:
        """One for copied tensors: what it was made of is immutable, and what was seen belongs to the original."""
        del memo
        return WeightCheck(*self._settings())

    def __reduce__(self) -> tuple[Any, ...]:
        return WeightCheck, self._settings()  # what is generated is made again

    def _settings(self) -> tuple[Any, ...]:
        weights, zeros = (
            [weight for weight in self._weights if weight in chosen] for chosen in (self._checked, self._zeros)
        )
        return self._folded, self._semiring, weights, self._given, None if self._always else zeros

    @property
    def may_have_zeros(self) -> bool:
        """Whether some learned weight may be 0."""
        return self._always or bool(self._zeros)

    def check(self, leaves: Leaves, watch: Watch | None = None, given: Sequence[Tensor] = ()) -> bool:
        """Raise where a weight is negative. This waits for the device.

        Args:
            leaves: The tensors.
            watch: A watch of all of them as they are now.
            given: The values of the leaves that this call gives, which are not watched.

        Returns:
            If gradients are needed, whether a learned weight is 0; true if weights cannot be read.

        Raises:
            UnsupportedError: A weight is negative; its layer is named.
        """
        zeros = bool(self._zeros) and torch.is_grad_enabled()
        if not (self._checked or zeros):
            return self._always
        if watch is None or self._under is None or self._under() is not watch:
            some_zero = self._look(leaves, given)
            if watch is None or given:
                return self._always or (zeros and some_zero)
            self._under = ref(watch)
        return self._always or (zeros and self._some_zero)

    def _look(self, leaves: Leaves, given: Sequence[Tensor]) -> bool:
        """Refuse negative weights; return whether a weight that may be 0 is 0."""
        seen, least = self._seen, self._least
        if seen is not None and least is not None and seen.is_current(least.tensors(leaves)):
            return self._some_zero
        least = self._function(leaves, given)
        tensors = least.tensors(leaves)
        if any(is_abstract(tensor) or tensor.is_meta for tensor in (*tensors, *given)):
            return True
        seen = Watch(tensors) if not given and all(map(can_watch, tensors)) else None
        with torch.no_grad():
            items = least.constants.items()
            constants = {name: torch.from_numpy(constant.value).to(leaves.device) for name, constant in items}
            named = dict(zip(least.read, tensors, strict=True))
            entries = least.run(SimpleNamespace(device=leaves.device, **constants, **named), *given).tolist()
        weights = [weight for weight in self._weights for _ in weight[0].members]
        for number, (weight, value) in enumerate(zip(weights, entries, strict=True)):
            if weight in self._checked and value < 0:
                self._refuse(number, value)
        some_zero = any(value <= 0 for weight, value in zip(weights, entries, strict=True) if weight in self._zeros)
        self._some_zero, self._seen = some_zero, seen
        return some_zero

    def _function(self, leaves: Leaves, given: Sequence[Tensor]) -> _Least:
        """The function for tensors of the dtype of these; other threads see all of it or nothing."""
        tensors = (*(tensor for _, tensor in leaves.items()), *given)
        floating = (tensor.dtype for tensor in tensors if tensor.is_floating_point())
        real = next(floating, torch.float64)  # of constants alone
        least = self._least
        if least is not None and least.dtype == real:
            return least
        owners = owners_of(leaf for leaf, _ in leaves.items())
        program, captured = lower_least(
            self._folded, self._semiring, as_dtype(real), self._weights, owners, self._given
        )
        names = {leaf: name for name, leaf in leaves.attributes()}
        read: dict[str, str] = {}
        constants: dict[str, Constant] = {}
        for var, source in zip(program.consts, captured, strict=True):
            if isinstance(source, Constant):
                constants[attribute_of(var.name)] = source
            else:
                read[attribute_of(var.name)] = names[source]  # names of variables differ from Program to Program
        least = self._least = _Least(real, emit(program, "least", shares=True), read, constants)
        return least

    def _refuse(self, number: int, value: float) -> None:
        layers = [(layer, name) for group, name in self._weights for layer in group.members]
        layer, name = layers[number]
        refuse_weight(self._folded.circuit, layer, name, self._semiring, value)
