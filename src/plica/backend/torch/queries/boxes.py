"""Probabilities of boxes: see `plica.queries.cdf` and `plica.queries.probability`."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.rows import device_of, floating
from plica.backend.torch.queries.values import (
    carried,
    check_needs,
    in_parts,
    is_square,
    log_total,
    real_logs,
    squared_logs,
)
from plica.errors import InputError
from plica.ir.dtypes import DType, as_dtype
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.leaves import Owners
from plica.lower.queries.boxes import CDF, PROBABILITY, lower_boxes
from plica.lower.queries.needs import Needs
from plica.lower.queries.score import Lowered
from plica.symbolic.semirings import Semiring


def cdf(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """See `plica.queries.cdf`."""
    high = floating(circuit.converted(x))
    return _inside(circuit, CDF.needs, torch.full_like(high, -math.inf), high)


def probability(circuit: TorchCircuit, low: Tensor, high: Tensor) -> Tensor:
    """See `plica.queries.probability`."""
    low, high = (floating(circuit.converted(bound)) for bound in (low, high))
    if len(low) != len(high):
        raise InputError(
            f"low has {len(low)} rows and high has {len(high)}; give each row of one a row of the other: "
            "low.expand(high.shape), for instance."
        )
    dtype = torch.promote_types(low.dtype, high.dtype)
    return _inside(circuit, PROBABILITY.needs, low.to(dtype), high.to(dtype))


@torch.no_grad()
def _inside(circuit: TorchCircuit, needs: Needs, low: Tensor, high: Tensor) -> Tensor:
    """The probabilities of boxes, `(B,)`."""
    device_of(circuit, needs.name)
    _check_bounded(circuit, needs, low, high)
    check_needs(circuit, replace(needs, inputs=("marginal",)))  # of layers whose variables have no ends

    def lower(folded: FoldedCircuit, semiring: Semiring, dtype: DType, leaves: Owners) -> Lowered:
        return lower_boxes(folded, semiring, dtype, as_dtype(low.dtype), leaves)

    program = carried(circuit, ("boxes", low.dtype), lower)
    logs = in_parts(lambda *ends: program(circuit, *ends), program.rows_at_once, low, high)[:, 0, 0]
    logs = squared_logs(logs) if is_square(circuit) else real_logs(logs)
    return (logs - log_total(circuit)).exp().clamp(max=1)  # where the box holds everything it is 1 but for rounding


def _check_bounded(circuit: TorchCircuit, needs: Needs, low: Tensor, high: Tensor) -> None:
    """Raise where a variable has an end whose layer does not say what lies in an interval."""
    folded = circuit.folded
    live = folded.described.live
    lacking = [layer for layer in live.input_layers if needs.lacking(folded.row(layer)) is not None]
    if lacking:
        bounded = ((low > -math.inf) | (high < math.inf)).any(0).tolist()  # NaN is none
        layers = [layer for layer in lacking if any(bounded[variable] for variable in layer.scope)]
        needs.check_layers(folded.described, folded.row, layers)
