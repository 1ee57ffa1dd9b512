"""Quantiles of one variable given the rest of a row: see `plica.queries.quantile`.

Numbers are searched by halving, for all rows and levels at once, until the smallest one whose probability suffices is
left: real numbers among all floats of the circuit's dtype, in order, and whole numbers up to an end that suffices.
The mixture is evaluated in float64, whatever the dtype of the circuit: there tails differ that float32 takes for 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, final

import torch
from torch import Tensor

from plica.arguments import shown
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.expected import read_flows
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype
from plica.backend.torch.queries.rows import device_of, floating, integer
from plica.backend.torch.queries.values import cached
from plica.errors import InputError
from plica.ir.dtypes import DType
from plica.lower.queries.quantile import INPUT_FLOWS, NORMAL_UNITS, QUANTILE, lower_shares, normal_of
from plica.symbolic.domains import Domain
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.rows import independent
from plica.symbolic.scope import Scope

_ROUNDINGS = 4  # of parameters and their logarithms
_USUAL, _GROWTH = 2**8, 2**4  # the first end of a search among integers, and how it grows until it suffices
Suffices = Callable[[Tensor], Tensor]

_INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}


@final
class _Shares:
    """The mixture of the units of one variable, and where its flows are among those of all input layers."""

    def __init__(self, circuit: TorchCircuit, variable: int) -> None:
        folded = as_described(circuit)
        lowered = lower_shares(folded, variable, DType.FLOAT64, circuit.leaves.owners)
        self._runs = [
            QueryProgram(("shares", variable, number, circuit.dtype), program, "shares")
            for number, program in enumerate(lowered)
        ]
        self._widths = [sum(layer.num_output_units for layer in program.layers) for program in lowered]
        groups = [group for group in reversed(folded.groups) if isinstance(folded.row(group.representative), InputRow)]
        fold_of = {
            layer: (number, fold) for number, group in enumerate(groups) for fold, layer in enumerate(group.members)
        }
        self._folds = [fold_of[layer] for program in lowered for layer in program.layers]

    def flows(self, groups: list[Tensor]) -> list[Tensor]:
        """The flows of the units of the variable, `(1, B, U)`, among those of all groups."""
        return [torch.cat([groups[number][fold] for number, fold in self._folds], dim=1)[None]]

    def __call__(self, circuit: TorchCircuit, x: Tensor, flows: Tensor) -> Tensor:
        """Which share of the mixtures of `flows (B, U)` lies up to x `(B, P)`: `(B, P)`, float64 as the flows."""
        numbers, flows = x.reshape(-1), flows.repeat_interleave(x.shape[1], 0)
        mixed = flows.new_zeros(len(numbers))
        for run, own in zip(self._runs, torch.split(flows, self._widths, dim=1), strict=True):
            ends = parts(len(numbers), run.rows_at_once())
            mixed += torch.cat([run(circuit, numbers[start:stop], own[start:stop]) for start, stop in ends])
        return mixed.reshape(x.shape)


@final
class _NormalUnits:
    """The mixture of units of one variable, normal or log-normal, and where they are among those of all layers."""

    def __init__(self, circuit: TorchCircuit, variable: int) -> None:
        folded = as_described(circuit)
        self._places: list[tuple[int, int, int]] = []
        self._are_logs: list[bool] = []
        start = 0
        for group in reversed(folded.groups):
            layer, normal = group.representative, normal_of(folded, group.representative)
            if normal is None:
                continue
            for fold, scope in enumerate(group.scope_idx):
                if variable in scope:
                    index = scope.index(variable)
                    self._places.append((start, fold, index))
                    self._are_logs += [normal.are_logs(layer)[index]] * layer.num_output_units
            start += 3

    def units(self, results: list[Tensor]) -> list[Tensor]:
        """Flows, means and variances of its units, `(1, B, U)` each."""
        flows = torch.cat([results[start][fold] for start, fold, _ in self._places], dim=1)
        means, variances = (
            torch.cat([results[start + shift][fold, :, :, index] for start, fold, index in self._places], dim=1)
            for shift in (1, 2)
        )
        return [flows[None], means[None], variances[None]]

    def are_logs(self, device: torch.device) -> Tensor | None:
        """The units `(U,)` that are log-normal; None if none is."""
        return torch.tensor(self._are_logs, device=device) if any(self._are_logs) else None


def _normal_shares(flows: Tensor, means: Tensor, stddevs: Tensor, are_logs: Tensor | None, x: Tensor) -> Tensor:
    """Which share of mixtures of normal units `(B, U)` lies up to x `(B, P)`: `(B, P)`.

    Of units of `are_logs (U,)` the logarithm of x is normal, which is -inf for all x up to 0.
    """
    numbers = x[:, :, None]
    if are_logs is not None:
        numbers = torch.where(are_logs, numbers.clamp(min=0.0).log(), numbers)
    distances = (numbers - means[:, None]) / stddevs[:, None]
    up_to = 0.5 * torch.special.erfc(distances * -math.sqrt(0.5))  # `ndtr` loses the digits of tails
    shares: Tensor = (flows[:, None] * up_to).sum(-1)
    return shares


def _distribution(
    circuit: TorchCircuit, variable: int, layers: list[InputLayer], rows: Tensor
) -> Callable[[Tensor], Tensor]:
    """A function from numbers `(B, P)` in float64 to the probabilities that the variable is at most these."""
    folded = circuit.folded
    if all(normal_of(folded, layer) is not None for layer in layers):
        normal = cached(circuit, ("normal units", variable), lambda: _NormalUnits(circuit, variable))
        _, units = read_flows(circuit, NORMAL_UNITS, rows, normal.units, "nothing to say of the rest")
        flows, means, variances = (array[0] for array in units)
        limits = torch.finfo(variances.dtype)
        if not bool(((variances >= limits.tiny) & (variances <= limits.max)).all()):
            raise InputError(
                f"the quantile: variances of variable {variable} are from {float(variances.min()):g} to "
                f"{float(variances.max()):g}, which {shown(variances.dtype)} does not hold; compute in float64, or "
                "rescale the variable"
            )
        return partial(
            _normal_shares, flows.double(), means.double(), variances.double().sqrt(), normal.are_logs(flows.device)
        )
    shares = cached(circuit, ("shares", variable), lambda: _Shares(circuit, variable))
    _, (flows,) = read_flows(circuit, INPUT_FLOWS, rows, shares.flows, "nothing to say of the rest")
    told = flows[0].double()
    return lambda numbers: shares(circuit, numbers, told)


@torch.no_grad()
def quantile(circuit: TorchCircuit, variable: int, p: Any, given: Tensor | None) -> Tensor:
    """See `plica.queries.quantile`."""
    device = device_of(circuit, QUANTILE.name)
    layers = layers_of(circuit, variable)
    folded = circuit.folded
    if any(normal_of(folded, layer) is None for layer in layers):
        replace(QUANTILE.needs, instead="").check_layers(folded.described, folded.row, layers)
    dtype = getattr(torch, query_dtype(circuit).value)
    levels = checked_levels(p, device)
    width = max(circuit.scope) + 1
    x = torch.full((1, width), torch.nan, dtype=dtype, device=device) if given is None else circuit.converted(given)
    rows = _without(circuit, layers, variable, floating(x))
    share_up_to, domain = _distribution(circuit, variable, layers, rows), folded.described.domains[variable]
    # both sides are sums in one order: the last state suffices, however they are rounded
    last = math.inf if domain.num_states is None else domain.most
    total = share_up_to(torch.full((len(rows), 1), last, dtype=torch.float64, device=device))
    needed = rounded_down(levels.reshape(1, -1), torch.finfo(dtype).eps) * total
    search = partial(first_integer, domain) if domain.whole else partial(first_number, domain, dtype)
    answer = search(lambda numbers: share_up_to(numbers.double()) >= needed, torch.empty_like(needed))
    return answer.reshape((*(() if given is None else (len(rows),)), *levels.shape))


def checked_levels(p: Any, device: torch.device) -> Tensor:
    """Levels, `()` or `(P,)`, float64.

    Raises:
        InputError: One is no number above 0 and below 1.
    """
    try:
        levels = torch.as_tensor(p, dtype=torch.float64, device=device)
    except (TypeError, ValueError, RuntimeError):
        levels = torch.full((), torch.nan)
    if levels.ndim > 1 or not bool(((levels > 0) & (levels < 1)).all()):
        raise InputError(f"p is {shown(p)}, expected a number above 0 and below 1, or several of them `(P,)`.")
    return levels


def rounded_down(levels: Tensor, eps: float) -> Tensor:
    """Levels less the rounding of parameters, so that a number whose probability is a level suffices for it."""
    return levels - _ROUNDINGS * eps * torch.minimum(1.0 - levels, levels * (1.0 - levels.log()))


def layers_of(circuit: TorchCircuit, variable: int) -> list[InputLayer]:
    """The input layers of a variable.

    Raises:
        InputError: It is none of the circuit's.
    """
    if integer("variable", variable) not in circuit.scope:
        raise InputError(f"{shown(variable)} is not among the variables of the circuit, {circuit.scope!s}.")
    return [layer for layer in circuit.symbolic.live.input_layers if variable in layer.scope]


def _without(circuit: TorchCircuit, layers: list[InputLayer], variable: int, rows: Tensor) -> Tensor:
    """Rows that say nothing of a variable, checked.

    Raises:
        InputError: A row does not fit, or knows another variable of one of its layers, which tells something of it.
    """
    rows = rows.clone()
    rows[:, variable] = torch.nan
    for layer in layers:
        row = circuit.folded.row(layer)
        if isinstance(row, InputRow) and (row.conditional is independent or row.normal is not None):
            continue
        beside = list(layer.scope - Scope([variable]))
        known = rows[:, beside].isnan().logical_not().any(1).nonzero()
        if len(known):
            raise InputError(
                f"row {int(known[0])}: {QUANTILE.name} of variable {variable} needs all variables {layer.scope!s} of "
                f"{circuit.symbolic.layer_name(layer)} to be missing; make the others missing, too."
            )
    return circuit.checked(rows, QUANTILE.needs.carrier(circuit.semiring))


def first_integer(domain: Domain, suffices: Suffices, like: Tensor) -> Tensor:
    """The first integer of a domain that suffices, for each entry of `like`; the largest one where none does."""
    least, most = int(domain.least), int(domain.most)
    high = min(most, least + _USUAL)
    while high < most and not bool(suffices(torch.full_like(like, high)).all()):
        high = min(most, least + _GROWTH * (high - least))
    return _halved(suffices, torch.full_like(like, least - 1, dtype=torch.int64), high)


def first_number(domain: Domain, dtype: torch.dtype, suffices: Suffices, like: Tensor) -> Tensor:
    """The first float that suffices, among those of a dtype in a domain."""
    ends = torch.tensor([domain.least, domain.most], dtype=dtype)
    low, high = _in_order(ends).tolist()
    low -= math.isfinite(domain.least)  # the least number is an answer; without one, -inf is none
    lows = torch.full_like(like, low, dtype=_INTEGERS[dtype])
    return _number_at(_halved(lambda numbers: suffices(_number_at(numbers, dtype)), lows, high), dtype)


def _halved(suffices: Suffices, low: Tensor, high: int) -> Tensor:
    """The first integers above `low`, all of whose entries are equal, that suffice; `high` is taken to."""
    steps, highs = (high - int(low.min()) - 1).bit_length() if low.numel() else 0, torch.full_like(low, high)
    for _ in range(steps):
        middle = (low & highs) + ((low ^ highs) >> 1)  # rounded down, and never too large
        enough = suffices(middle)
        low, highs = torch.where(enough, low, middle), torch.where(enough, middle, highs)
    return highs


def _in_order(numbers: Tensor) -> Tensor:
    """The ordinals of floats: integers in the order of all floats."""
    bits = numbers.view(_INTEGERS[numbers.dtype])
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def _number_at(ordinals: Tensor, dtype: torch.dtype) -> Tensor:
    bits = torch.where(ordinals < 0, ordinals ^ torch.iinfo(ordinals.dtype).max, ordinals)
    return bits.view(dtype) + 0.0  # minus zero is zero
