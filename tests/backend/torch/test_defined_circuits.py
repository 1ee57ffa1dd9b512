"""Random compositions of operators, compiled: values, gradients and what eval mode keeps, against their definition."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.pipeline import PipelineContext
from plica.symbolic.parameters import TensorParameter, dereferenced
from tests.harness.defined_circuits import Defined, Rows

SEMIRINGS = {
    "positive": ["lse-sum", "sum-product", "signed-lse-sum", "complex-lse-sum"],
    "signed": ["signed-lse-sum", "sum-product", "complex-lse-sum"],
    "complex": ["complex-lse-sum", "sum-product"],
}
SEEDS = [seed if seed < 10 else pytest.param(seed, marks=pytest.mark.full) for seed in range(200)]


class Run:
    """A composition and its compiled circuit."""

    def __init__(self, seed: int) -> None:
        self.case, self.rng = Defined(seed), np.random.default_rng(seed)
        self.function = self.case.function
        names = SEMIRINGS[self.case.kind]
        self.name = names[seed % len(names)]
        flags: Any = {"fold": bool(self.rng.integers(0, 2)), "optimize": bool(self.rng.integers(0, 2))}
        self.compiled: Any = PipelineContext(semiring=self.name, dtype="float64", **flags).compile(
            self.function.circuit
        )
        self.batches = [self.function.rows(self.rng, count) for count in (5, 1, 0)]

    def tensor(self, rows: Rows) -> Any:
        """Ordinary numbers, with the axis of rows."""
        x = torch.from_numpy(self.function.data(rows, self.rng))
        found = self.compiled(x) if self.function.circuit.scope else self.compiled()[None]
        return found.exp() if self.compiled.semiring.logarithmic else found

    def expected(self, rows: Rows) -> Any:
        with np.errstate(all="ignore"):
            return self.function.values(rows if self.function.circuit.scope else self.function.rows(self.rng, 1))

    def check_values(self) -> None:
        for rows in self.batches:
            found, expected = self.tensor(rows).detach().resolve_conj().numpy(), self.expected(rows)
            assert found.shape == expected.shape, self.function.history
            is_number = np.isfinite(expected)
            assert not np.isfinite(found[~is_number]).any(), self.function.history
            scale = max(np.abs(expected[is_number]).max(initial=0.0), 1e-4)
            error = np.abs(found - expected)[is_number].max(initial=0.0) / scale
            assert error < 1e-9, (self.name, self.function.history)

    def check_gradients(self) -> None:
        """The derivatives along three directions of all tensors."""
        tensors, rows = [one for one in self.compiled.parameters() if one.requires_grad], self.batches[0]
        expected = self.expected(rows)
        if not tensors or not np.isfinite(expected).all() or np.abs(expected).min() <= 1e-9 * np.abs(expected).max():
            return
        weight = self.rng.normal(size=expected.shape)
        found = self.tensor(rows)
        loss = (torch.from_numpy(weight) * (found.real if found.is_complex() else found)).sum()
        if not loss.requires_grad:
            return
        gradients = torch.autograd.grad(loss, tensors, allow_unused=True)
        leaves, step = dict(self.case.leaves), 1e-5
        for power in range(3):
            slope = sum(
                float((gradient.conj() * tensor.detach() ** power).real.sum())
                for tensor, gradient in zip(tensors, gradients, strict=True)
                if gradient is not None
            )
            losses = []
            for factor in (1, -1, 2, -2):
                self.case.leaves.update({leaf: one + factor * step * one**power for leaf, one in leaves.items()})
                losses.append(float((weight * np.real(self.expected(rows))).sum()))
            self.case.leaves.update(leaves)
            difference = (8 * (losses[0] - losses[1]) - (losses[2] - losses[3])) / (12 * step)
            scale = np.abs(expected).max() + abs(difference)
            assert abs(slope - difference) < 1e-6 * scale, (self.name, self.function.history)

    def scale_tensors(self, factor: float) -> None:
        """Multiply the tensors of the circuit in place, and the numbers of the definition."""
        with torch.no_grad():
            for tensor in self.compiled.parameters():
                tensor.mul_(factor)
        parameters = [one for layer in self.function.circuit.layers for one in layer.all_params.values()]
        leaves = [dereferenced(node) for parameter in parameters for node in parameter.inputs]
        for leaf in dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, TensorParameter)):
            self.case.leaves[leaf] = self.case.leaves[leaf] * factor


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_compositions_of_operators_mean_what_they_say(seed: int) -> None:
    run = Run(seed)
    assert list(run.function.circuit.scope) == run.function.variables
    run.check_values()
    run.check_gradients()
    run.compiled.eval()
    with torch.no_grad():
        run.check_values()
        run.scale_tensors(1.25)
        run.check_values()
        run.compiled.train()
        run.check_values()
