"""Quantiles of one variable given the rest of a row: see `plica.queries.quantile`.

Numbers are searched by halving among all that their dtype has, in order: as many steps as it has bits, for all rows and
levels at once, after which the answer is the smallest number whose probability suffices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from plica.arguments import shown
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.expected import read_flows
from plica.backend.torch.queries.program import QueryProgram, as_described, parts, query_dtype
from plica.backend.torch.queries.rows import device_of, floating, integer
from plica.backend.torch.queries.values import once
from plica.backend.torch.sources import untraced
from plica.errors import InputError
from plica.lower.leaves import owners_of
from plica.lower.queries.mixture import INPUT_FLOWS, QUANTILE, lower_shares
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.layers.rows import independent
from plica.symbolic.scope import Scope

_INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}


@final
class _Shares:
    """The mixture of the units of one variable, and where its flows are among those of all input layers."""

    def __init__(self, circuit: TorchCircuit, variable: int) -> None:
        folded, dtype = as_described(circuit), query_dtype(circuit)
        owners = owners_of(leaf for leaf, _ in circuit.leaves.items())
        lowered = lower_shares(folded, variable, dtype, owners)
        self._runs = [
            QueryProgram(("shares", variable, number, circuit.dtype), one, "shares")
            for number, one in enumerate(lowered)
        ]
        self._widths = [sum(layer.num_output_units for layer in one.layers) for one in lowered]
        groups = [group for group in reversed(folded.groups) if isinstance(folded.row(group.representative), InputRow)]
        places = {
            layer: (number, fold) for number, group in enumerate(groups) for fold, layer in enumerate(group.members)
        }
        self._places = [places[layer] for one in lowered for layer in one.layers]

    def flows(self, found: list[Tensor]) -> list[Tensor]:
        """The flows of the units of the variable, `(1, B, U)`, among those of all groups."""
        return [torch.cat([found[number][fold] for number, fold in self._places], dim=1)[None]]

    def __call__(self, circuit: TorchCircuit, x: Tensor, flows: Tensor) -> Tensor:
        """Which share of the mixtures of `flows (B, U)` lies up to x `(B, P)`: `(B, P)`."""
        numbers, flows = x.reshape(-1), flows.repeat_interleave(x.shape[1], 0)
        mixed = torch.zeros_like(numbers)
        for run, own in zip(self._runs, torch.split(flows, self._widths, dim=1), strict=True):
            ends = parts(len(numbers), run.rows_at_once())
            mixed += torch.cat([run(circuit, numbers[start:stop], own[start:stop]) for start, stop in ends])
        return mixed.reshape(x.shape)


@untraced
@torch.no_grad()
def quantile(circuit: TorchCircuit, variable: int, p: Any, given: Tensor | None) -> Tensor:
    """See `plica.queries.quantile`."""
    device = device_of(circuit, QUANTILE.name)
    layers = _layers_of(circuit, variable)
    folded = circuit.folded
    QUANTILE.check_layers(folded.described, folded.row, layers)
    dtype = getattr(torch, query_dtype(circuit).value)
    try:
        levels = torch.as_tensor(p, dtype=dtype, device=device)
    except (TypeError, ValueError, RuntimeError):
        levels = torch.full((), torch.nan)
    if levels.ndim > 1 or not bool(((levels > 0) & (levels < 1)).all()):
        raise InputError(f"p is {shown(p)}, expected a number above 0 and below 1, or several of them `(P,)`.")
    width = max(circuit.scope) + 1
    x = torch.full((1, width), torch.nan, dtype=dtype, device=device) if given is None else circuit.taken(given)
    rows = _without(circuit, layers, variable, floating(x))
    shares = once(circuit, ("shares", variable), lambda: _Shares(circuit, variable))
    _, (found,) = read_flows(circuit, INPUT_FLOWS, rows, shares.flows, "nothing to say of the rest")
    told = found[0]

    def suffices(numbers: Tensor) -> Tensor:
        return shares(circuit, numbers, told) >= levels.reshape(1, -1) * told.sum(1, keepdim=True)

    domain = folded.described.domains[variable]
    shape = (len(rows), levels.numel())
    search = _first_integer if domain.whole else _first_number
    answer = search(suffices, domain.least, domain.most, shape, dtype, device)
    return answer.reshape((*(() if given is None else (len(rows),)), *levels.shape))


def _layers_of(circuit: TorchCircuit, variable: int) -> list[InputLayer]:
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
        if isinstance(row, InputRow) and row.conditional is independent:
            continue
        others = list(layer.scope - Scope([variable]))
        known = rows[:, others].isnan().logical_not().any(1).nonzero()
        if len(known):
            raise InputError(
                f"row {int(known[0])}: {QUANTILE.name} of variable {variable} needs all variables {layer.scope!s} of "
                f"{circuit.symbolic.layer_name(layer)} to be missing; make the others missing, too."
            )
    return circuit.readable(rows, QUANTILE.carrier(circuit.semiring))


Suffices = Callable[[Tensor], Tensor]


def _first_integer(
    suffices: Suffices, least: float, most: float, shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """The first integer that suffices, as far as floats count."""
    largest = min(int(most), int(1 / torch.finfo(dtype).eps))
    low = torch.full(shape, int(least) - 1, dtype=torch.int64, device=device)
    steps = (largest - int(least) + 1).bit_length()
    return _halved(lambda found: suffices(found.to(dtype)), low, torch.full_like(low, largest), steps)


def _first_number(
    suffices: Suffices, least: float, most: float, shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """The first float that suffices, among those from `least` to `most`."""
    ends = torch.tensor([least, most], dtype=dtype, device=device)
    low, high = _in_order(ends).expand(*shape, 2).unbind(-1)
    low, steps = low - 1 if least > -math.inf else low, 8 * low.itemsize
    found = _halved(lambda order: suffices(_number_at(order, dtype)), low, high, steps)
    return _number_at(found, dtype)


def _halved(suffices: Suffices, low: Tensor, high: Tensor, steps: int) -> Tensor:
    """The first integer above `low` that suffices, where `high` is taken to."""
    for _ in range(steps):
        middle = (low & high) + ((low ^ high) >> 1)  # rounded down, and never too large
        enough = suffices(middle)
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return high


def _in_order(numbers: Tensor) -> Tensor:
    """The places of floats among all floats, integers in their order."""
    bits = numbers.view(_INTEGERS[numbers.dtype])
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def _number_at(places: Tensor, dtype: torch.dtype) -> Tensor:
    bits = torch.where(places < 0, places ^ torch.iinfo(places.dtype).max, places)
    return bits.view(dtype) + 0.0  # minus zero is zero
