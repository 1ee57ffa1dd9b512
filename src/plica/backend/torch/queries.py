"""Queries on compiled circuits: each runs a Program of its own on the circuit's tensors.

>>> import torch
>>> from plica.backend.torch.compiler import TorchCompiler
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 1, num_categories=3)
>>> circuit = TorchCompiler().compile(Circuit([layer], {}, [layer]))
>>> samples, choices = SamplingQuery(circuit)(5)
>>> samples.shape, choices
(torch.Size([5, 1]), {})
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.emit import emit
from plica.backend.torch.leaves import Leaves
from plica.errors import InputError, StructuralPropertyError
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program
from plica.lower.fold.groups import fold_circuit, single_groups
from plica.lower.leaves import Constant, owners_of
from plica.lower.queries.sample import LoweredSampling, lower_sampling

_UNIFORMS_AT_ONCE = 2**24  # 64 MiB of float32


@final
class SamplingQuery:
    """Draws exact, independent samples from the distribution that a circuit describes (normalised or not).

    Args:
        circuit: Smooth and decomposable, with one output of one unit.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
    """

    def __init__(self, circuit: TorchCircuit) -> None:
        self._circuit = circuit
        self._dtype = circuit.dtype
        self._lower()

    def _lower(self) -> None:
        folded = self._circuit.folded
        described = (fold_circuit if folded.folds else single_groups)(folded.described, rows=folded.rows)
        self._lowered: LoweredSampling = lower_sampling(
            described,
            as_dtype(self._dtype),
            owners_of(leaf for leaf, _ in self._circuit.leaves.items()),
        )
        self._run = emit(self._lowered.program, "sample")

    @property
    def program(self) -> Program:
        """The Program: uniform numbers `(U, N)` in; samples, choices, log-partition and a flag out."""
        return self._lowered.program

    @torch.no_grad()
    def __call__(
        self, num_samples: int = 1, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Samples and the choices that led to them.

        Args:
            num_samples: N, at least 0.
            generator: Where the random numbers come from; torch's own for the device by default.

        Returns:
            Samples `(N, D)`, column v is variable v (int64 if every variable has states), and for each sum layer, by
            topological index, the column of its weight that was picked (`(N,)`; the input for a mixing layer), or -1
            where the sample did not come by.

        Raises:
            InputError: `num_samples` is negative, or the circuit's total is zero or not finite.
            StructuralPropertyError: A weight is negative, so that the circuit describes no distribution.
        """
        if num_samples < 0:
            raise InputError(f"num_samples is {num_samples}, expected at least 0.")
        if self._circuit.dtype != self._dtype:
            self._dtype = self._circuit.dtype
            self._lower()
        leaves = self._leaves()
        chunk = max(1, _UNIFORMS_AT_ONCE // max(1, self._lowered.num_uniforms))
        sizes = [min(chunk, num_samples - start) for start in range(0, num_samples, chunk)] or [0]
        parts = [self._draw(leaves, size, generator) for size in sizes]
        samples, choices = (torch.cat(part, dim=axis) for axis, part in enumerate(zip(*parts, strict=True)))
        return samples, dict(zip(self._lowered.sums, choices, strict=True))

    def _leaves(self) -> Leaves:
        """The circuit's tensors under the names of this Program's variables."""
        own = dict(self._circuit.leaves.items())
        leaves = Leaves()
        leaves.device = self._circuit.leaves.device
        for var, captured in zip(self._lowered.program.consts, self._lowered.captured, strict=True):
            if isinstance(captured, Constant):
                leaves.keep(var.name, captured)
            else:
                leaves.own(var.name, captured, own[captured], {})
        return leaves

    def _draw(self, leaves: Leaves, size: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        shape = (self._lowered.num_uniforms, size)
        uniforms = torch.rand(shape, dtype=self._dtype, device=leaves.device, generator=generator)
        samples, choices, log_partition, negative = self._run(leaves, uniforms)
        if bool(negative):
            raise StructuralPropertyError(
                "sampling needs weights that are not negative, but a sum layer has a negative one; square the circuit "
                "or keep its weights positive (softmax, for instance)."
            )
        if not bool(torch.isfinite(log_partition)):
            raise InputError(
                f"the logarithm of the circuit's total is {float(log_partition)}, so there is nothing to sample from; "
                "check the weights for zeros or NaN."
            )
        return samples, choices
