"""A Program that answers a question to a circuit, run on the circuit's tensors as they are at each call."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.constants import LoweredProgram, Ready
from plica.backend.torch.emit import emit
from plica.backend.torch.leaves import attribute_of
from plica.backend.torch.reals import real_dtype
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.fold.groups import FoldedCircuit, fold_circuit, single_groups
from plica.lower.leaves import Constant, refuse_without_value
from plica.passes.memory import plan_memory

BYTES_AT_ONCE = 2**27
"""The memory budget: bytes of intermediate results of one part; more rows are computed in parts."""
_PLANNED_ROWS = 64
_ROOM = 2  # a table that is looked up on the way up and multiplied on the way down is kept in both orders


@final
class QueryProgram:
    """Runs a Program that was lowered for a circuit.

    In eval mode, where no gradients of its tensors are needed, values that depend on these alone are computed once.

    Args:
        key: Identifies the Program among those of the circuit.
        lowered: The Program.
        name: The name of the generated function.
    """

    def __init__(self, key: Hashable, lowered: LoweredProgram, name: str) -> None:
        self.program, self._lowered, self._key = lowered.program, lowered, key
        self.run = emit(lowered.program, name, reuses=True)
        self._rows: int | None = None
        self._constants: dict[tuple[str, torch.device], Tensor] = {}

    def rows_at_once(self) -> int:
        """How many rows the memory budget is enough for."""
        if self._rows is None:
            self._rows = rows_within_budget(self.program)
        return self._rows

    def __call__(self, circuit: TorchCircuit, *arguments: Tensor) -> Any:
        """The results of the Program, computed in its own dtypes: under autocast too."""
        if circuit.leaves.is_autocast:
            with torch.autocast(circuit.leaves.device.type, enabled=False):
                return self(circuit, *arguments)
        ready = None if circuit.training else self._ready(circuit)
        return self.run(self.leaves(circuit), *arguments) if ready is None else ready(*arguments)

    def _ready(self, circuit: TorchCircuit) -> Ready | None:
        """The folded Program; None if it has to run unfolded."""
        constants, leaves = circuit.constants, circuit.leaves
        watch = constants.watching(leaves, training=False)
        if watch is None:
            return None
        return constants.of(self._key, lambda: self._lowered, leaves, watch, partial(self.leaves, circuit), room=_ROOM)

    def leaves(self, circuit: TorchCircuit) -> SimpleNamespace:
        """The circuit's tensors as they are now, under the names and in the dtypes of this Program's variables."""
        own, device = dict(circuit.leaves.items()), circuit.leaves.device
        namespace = SimpleNamespace(device=device, **dict(circuit.leaves.named_children()))
        for var, captured in zip(self.program.consts, self._lowered.captured, strict=True):
            if isinstance(captured, Constant):
                tensor = self._constant(captured, device)
            else:
                if captured not in own:
                    refuse_without_value(circuit.compiled.keys[captured.members[0]])
                tensor = own[captured].to(getattr(torch, var.type.dtype.value)).to(device)
            setattr(namespace, attribute_of(var.name), tensor)
        return namespace

    def _constant(self, constant: Constant, device: torch.device) -> Tensor:
        """A constant array, brought to a device once."""
        key = (constant.digest, device)
        if key not in self._constants:
            with torch.inference_mode(False):
                self._constants[key] = torch.from_numpy(constant.value).to(device)
        return self._constants[key]


def rows_within_budget(program: Program) -> int:
    """For how many rows what a Program needs beside its results fits the memory budget; one at least."""
    more, less = (plan_memory(program, rows).working for rows in (2 * _PLANNED_ROWS, _PLANNED_ROWS))
    return max(1, BYTES_AT_ONCE * _PLANNED_ROWS // max(1, more - less))


def as_described(circuit: TorchCircuit) -> FoldedCircuit:
    """The circuit as it was described, folded like the compiled one: what goes top-down knows no fused layers.

    It is folded once: a query of each variable would take a time that is quadratic in their number.
    """
    described: FoldedCircuit | None = circuit.queries.get(_DESCRIBED)
    if described is None:
        folded = circuit.folded
        described = (fold_circuit if folded.folds else single_groups)(folded.described, rows=folded.rows)
        circuit.queries[_DESCRIBED] = described = replace(described, rewriting=folded.rewriting)
    return described


_DESCRIBED = "as described"


def query_dtype(circuit: TorchCircuit) -> DType:
    """The dtype of queries: float32 at least, as logarithms of float16 do not tell apart the terms of a sum."""
    real = real_dtype(circuit.dtype)
    return DType.FLOAT32 if real == DType.FLOAT16 else real


def parts(size: int, at_once: int) -> Iterator[tuple[int, int]]:
    """The ends of runs of at most `at_once` of `size` rows; of one without rows where there are none."""
    yield from ((start, min(start + at_once, size)) for start in range(0, max(size, 1), at_once))
