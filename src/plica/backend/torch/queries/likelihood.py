"""Log-likelihoods of rows with anything missing: see `plica.queries.log_likelihood` and its conditional neighbour."""

from __future__ import annotations

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.rows import device_of, floating, mask_of
from plica.backend.torch.queries.values import carrier_of, check_needs, log_total, log_values
from plica.lower.queries.likelihood import CONDITIONAL, LOG_LIKELIHOOD


def log_likelihood(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """See `plica.queries.log_likelihood`."""
    device_of(circuit, LOG_LIKELIHOOD.name)
    check_needs(circuit, LOG_LIKELIHOOD.needs)
    return log_values(circuit, circuit.converted(x)) - log_total(circuit)


def conditional_log_likelihood(circuit: TorchCircuit, x: Tensor, given: Tensor) -> Tensor:
    """See `plica.queries.conditional_log_likelihood`."""
    device_of(circuit, CONDITIONAL.name)
    check_needs(circuit, CONDITIONAL.needs)
    rows = floating(circuit.converted(x))
    evidence = torch.where(mask_of("given", given, rows), rows, torch.nan)
    if any(layer.num_variables > 1 for layer in circuit.symbolic.live.input_layers):
        circuit.checked(evidence, carrier_of(circuit))  # here, where a message counts the rows as the caller does
    if not torch.is_grad_enabled():
        return log_values(circuit, rows) - log_values(circuit, evidence)
    logs = log_values(circuit, torch.cat([rows, evidence]))  # what depends on weights alone is computed once
    return logs[: len(rows)] - logs[len(rows) :]
