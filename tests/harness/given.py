"""Tensors for the leaves of circuits around layers of conformance cases, and what the oracle makes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.lower.leaves import leaf_keys
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import TensorParameter
from tests.harness.case_circuits import circuit_of, data_of
from tests.harness.layer_cases import LAYER_CASES, LayerCase, references
from tests.harness.oracle import Oracle, numbers

ROWS = 3


def compiled_case(case: LayerCase, semiring: str, fold: bool, optimize: bool) -> tuple[TorchCircuit, Tensor]:
    """A circuit around a case in float64, and rows of data for it, some of whose entries are missing."""
    own = [] if case.row.layer in LAYER_ROWS else [case]
    compiler = TorchCompiler(semiring, fold, optimize, dtype="float64")
    for one in own:
        compiler.add_layer_rule(one.row)
    compiled = compiler.compile(circuit_of(case))
    return compiled, torch.from_numpy(data_of(compiled.symbolic, [*LAYER_CASES, *own], ROWS, 0.2))


def own_values(compiled: TorchCircuit) -> dict[str, Tensor]:
    """The numbers of a circuit's leaves, by name."""
    names = dict.fromkeys(leaf_keys(compiled.symbolic).values())
    return {key: value.detach() for key, value in compiled.state_dict().items() if key in names}


def other_values(compiled: TorchCircuit, seed: int) -> dict[str, Tensor]:
    """Numbers near those of a circuit, of their signs, for each row: `(ROWS, *shape)`."""
    generator = torch.Generator().manual_seed(seed)
    state = own_values(compiled)

    def near(value: Tensor) -> Tensor:
        return value * (0.5 + torch.rand((ROWS, *value.shape), dtype=value.dtype, generator=generator))

    return {key: near(value) for key, value in state.items() if value.is_floating_point()}


def of_row(parameters: Mapping[str, Tensor], by_row: Sequence[str], row: int) -> dict[str, Tensor]:
    """What is given for one row, of its own shape."""
    return {name: tensor[row] if name in by_row else tensor for name, tensor in parameters.items()}


def expected(case: LayerCase, compiled: TorchCircuit, x: Tensor, parameters: Mapping[str, Tensor]) -> Any:
    """The oracle's numbers, as the circuit carries them, for rows of data with numbers of their own for all of them."""
    values = {**numbers(compiled), **{name: one.detach().numpy() for name, one in parameters.items()}}
    oracle = Oracle(compiled.symbolic, values, references([case]))
    return (oracle.log if compiled.semiring.logarithmic else oracle.linear)(x.numpy()).astype(float)


def close(found: Tensor, wanted: Any) -> bool:
    """Whether numbers are near to 1e-9."""
    return np.allclose(found.detach().numpy(), np.asarray(wanted), rtol=1e-9, atol=1e-9, equal_nan=True)


def conditional(mean: TensorParameter | None = None) -> Circuit:
    """A product of two densities, of which the means of one are given, below a sum."""
    mean = mean or TensorParameter(2, initializer=None, name="mean")
    inputs = [GaussianLayer([0], 2, mean=mean), GaussianLayer([1], 2)]
    product, total = HadamardLayer(2), SumLayer(2, 1)
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


X = torch.tensor([[0.1, -0.3], [1.0, 0.2], [float("nan"), 0.0]], dtype=torch.float64)
MEANS = torch.tensor([[0.0, 1.0], [0.5, -1.0], [2.0, 0.3]], dtype=torch.float64)


def compiled_conditional(**how: Any) -> TorchCircuit:
    """The same compiled, whose means "mean" calls give."""
    return TorchCompiler(dtype="float64", **how).compile(conditional())
