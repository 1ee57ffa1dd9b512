"""How good the most probable explanation is: see `plica.queries.mpe_bounds`."""

from __future__ import annotations

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.choosing import complete
from plica.backend.torch.queries.program import QueryProgram, as_described, query_dtype
from plica.backend.torch.queries.rows import whole_layers
from plica.backend.torch.queries.values import cached, in_parts, log_values
from plica.ir.dtypes import as_dtype
from plica.lower.queries.answers import Explanations
from plica.lower.queries.determinism import is_deterministic
from plica.lower.queries.mpe import MOST, MPE
from plica.lower.queries.score import lower_score


@torch.no_grad()
def mpe_bounds(circuit: TorchCircuit, x: Tensor) -> Explanations:
    """See `plica.queries.mpe_bounds`."""
    x = whole_layers(circuit, MPE.needs, x)
    rows, values = complete(circuit, MPE, x)
    logs = log_values(circuit, rows)
    is_exact = cached(circuit, ("deterministic",), lambda: is_deterministic(as_described(circuit)))
    return Explanations(rows, values, logs, torch.maximum(logs, values if is_exact else _most(circuit, x)), is_exact)


def _most(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """Upper bounds of the completions of each row, `(B,)`."""

    def program() -> QueryProgram:
        owners, dtypes = circuit.leaves.owners, (query_dtype(circuit), as_dtype(x.dtype))
        lowered = lower_score(as_described(circuit), MOST, *dtypes, owners)
        return QueryProgram((*key, circuit.dtype), lowered, MOST.name)

    key = (MOST.name, x.dtype)
    run = cached(circuit, key, program)
    if not circuit.scope:
        bound: Tensor = run(circuit)
        return bound[0, 0].expand(len(x))
    return in_parts(lambda part: run(circuit, part), run.rows_at_once, x)[:, 0, 0]
