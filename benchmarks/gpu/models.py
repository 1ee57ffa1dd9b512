"""The circuits that are measured: images of the other benchmarks up to 256 units, and a hidden Markov model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.agreement import described, rows
from benchmarks.circuits import CircuitSpec


@dataclass(frozen=True, slots=True)
class Images:
    """A named circuit over images.

    Args:
        spec: The circuit.
        share: Its part of the time, beside those of the others.
    """

    spec: CircuitSpec
    share: float = 1.0

    @property
    def name(self) -> str:
        """What it is called."""
        return self.spec.name

    def describe(self, package: str) -> Any:
        """The circuit with its usual initial parameters."""
        if package == "plica":
            return self.spec.build()
        from benchmarks.contenders import CONTENDERS

        return CONTENDERS[package].describe(self.spec)

    def data(self, batch: int) -> Tensor:
        """Random images."""
        return self.spec.data(batch)

    def equal(self, package: str) -> Any:
        """A circuit with equal parameters in every library, of few units: making it costs time too."""
        return described(self._small, package)

    def equal_rows(self) -> Tensor:
        """The rows on which libraries are compared."""
        return rows(self._small)

    @property
    def _small(self) -> CircuitSpec:
        return replace(self.spec, num_units=min(self.spec.num_units, 16))


@dataclass(frozen=True, slots=True)
class HiddenMarkov:
    """A homogeneous hidden Markov model: one table of transitions, one of emissions, both shared by all steps.

    Args:
        length: The number of steps.
        num_states: The number of hidden states.
        num_values: The number of values that a step may show.
        share: Its part of the time, beside those of the others.
    """

    length: int
    num_states: int
    num_values: int
    share: float = 1.0

    @property
    def name(self) -> str:
        """What it is called."""
        return f"hmm-{self.length}x{self.num_values}-{self.num_states}"

    def describe(self, package: str) -> Any:
        """The circuit, the last step innermost: a sum over the next state, times what the step shows."""
        symbolic = {
            name: import_module(f"{package}.symbolic.{name}")
            for name in ("circuit", "initializers", "layers", "parameters")
        }
        layers, parameters = symbolic["layers"], symbolic["parameters"]
        scope = import_module("plica" if package == "plica" else f"{package}.utils.scope").Scope

        def tensor(array: Any) -> Any:
            initializer = symbolic["initializers"].ConstantTensorInitializer(np.log(array))
            leaf = parameters.TensorParameter(*array.shape, initializer=initializer)
            return parameters.Parameter.from_unary(parameters.SoftmaxParameter(array.shape), leaf)

        states, values = self.num_states, self.num_values
        shown, moves = tensor(self.emissions()), tensor(self.transitions())
        steps = [
            layers.CategoricalLayer(
                scope([step]), states, num_categories=values, probs=shown if step == 0 else shown.ref()
            )
            for step in range(self.length)
        ]
        nodes, last = [*steps], steps[-1]
        edges: dict[Any, list[Any]] = {}
        for step in reversed(range(self.length - 1)):
            weight = moves if step == self.length - 2 else moves.ref()
            future, now = layers.SumLayer(states, states, weight=weight), layers.HadamardLayer(states, 2)
            edges |= {future: [last], now: [steps[step], future]}
            nodes += [future, now]
            last = now
        root = layers.SumLayer(states, 1, weight=tensor(self.initial()))
        return symbolic["circuit"].Circuit([*nodes, root], edges | {root: [last]}, [root])

    def data(self, batch: int) -> Tensor:
        """Random sequences, `(batch, length)`."""
        return torch.randint(self.num_values, (batch, self.length), generator=torch.Generator().manual_seed(0))

    def equal(self, package: str) -> Any:
        """The parameters are given, so the circuit itself is the same in every library."""
        return self.describe(package)

    def equal_rows(self) -> Tensor:
        """The rows on which libraries are compared."""
        return self.data(8)

    def transitions(self) -> Any:
        """`(S, S)`, symmetric, so that it does not matter which axis a library takes for the next state."""
        near = np.cos(2 * np.pi * np.arange(self.num_states) / self.num_states)
        first, second = np.indices((self.num_states, self.num_states))
        return (np.exp(3 * near) / np.exp(3 * near).sum())[(first - second) % self.num_states]

    def emissions(self) -> Any:
        """`(S, V)`."""
        states, values = np.indices((self.num_states, self.num_values))
        weights = np.exp(np.sin(1.0 + 3 * states + 5 * values))
        return weights / weights.sum(1, keepdims=True)

    def initial(self) -> Any:
        """`(1, S)`."""
        return np.full((1, self.num_states), 1 / self.num_states)


Model = Images | HiddenMarkov

FULL: tuple[Model, ...] = (
    Images(CircuitSpec("quad-tree-2", "cp", 28, 256, 32), 3),
    HiddenMarkov(32, 4096, 256, 6),
    Images(CircuitSpec("quad-graph", "cp", 28, 256, 256), 9),
    Images(CircuitSpec("quad-graph", "cp-t", 28, 256, 64), 4),
    Images(CircuitSpec("quad-tree-2", "tucker", 28, 256, 16), 3),
    Images(CircuitSpec("quad-graph", "cp", 28, 256, 64), 3),
)
TINY: tuple[Model, ...] = (
    Images(CircuitSpec("quad-graph", "cp", 4, 5, 3)),
    Images(CircuitSpec("quad-tree-2", "tucker", 4, 5, 3)),
    HiddenMarkov(5, 8, 4),
)


def models(is_rehearsal: bool) -> dict[str, Model]:
    """The circuits by name; those of a rehearsal are tiny."""
    return {one.name: one for one in (TINY if is_rehearsal else FULL)}


def batches(is_rehearsal: bool) -> tuple[int, ...]:
    """How many rows a call has, in the order in which they are measured."""
    return (4, 8) if is_rehearsal else (1024, 128, 4096)
