"""What `TorchCircuit.explain` tells: sizes, rules that were applied, groups of layers, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plica.lower.fold.explain import explain_folds
from plica.passes.memory import plan_memory

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit
    from plica.lower.optimize import Report

_ROWS = 128


def explain(circuit: TorchCircuit, report: Report | None) -> str:
    """The text for one circuit.

    Args:
        circuit: The compiled circuit.
        report: What optimising did, if it was asked for.
    """
    tensors = [tensor for _, tensor in circuit.leaves.items()]
    numbers = sum(tensor.numel() for tensor in tensors)
    head = (
        f"{circuit.symbolic!r}\n"
        f"semiring {circuit.semiring.name}, {circuit.dtype}, {len(circuit.layers)} groups of "
        f"{len(circuit.symbolic.layers)} layers, {numbers:,} numbers in {len(tensors)} tensors, "
        f"{len(circuit.program.equations)} equations"
    )
    rules = "not optimised" if report is None else report.text()
    plan = plan_memory(circuit.program, _ROWS)
    memory = (
        f"memory for {_ROWS} rows: {plan.peak:,} bytes at the peak without gradients, at most "
        f"{plan.total:,} with them; {plan.copied:,} bytes copied to bring folds together"
    )
    return "\n".join([head, rules, explain_folds(circuit.folded), memory])
