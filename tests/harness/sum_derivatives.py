"""First and second derivatives of inner layers, whose weights and inputs are exactly 0 here and there.

check_sums(case)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import plica.numpy as pnp
from plica.symbolic.layers import LAYER_ROWS
from plica.symbolic.layers.rows import with_sub_layers
from plica.symbolic.semirings import SEMIRINGS, Params
from tests.harness.derivatives import (
    NARROW_EXACT,
    WIDE_EXACT,
    Derivatives,
    differences,
    disagreements,
    rounded,
    torch_derivatives,
)
from tests.harness.layer_cases import InnerCase
from tests.harness.oracle import OPERATIONS
from tests.harness.spaces import LINEAR

Array = Any


_ROWS = 4
_LOGS = (-1e4, -30.0, 0.0, -np.inf, 3.0)  # of inputs, in turn
_NUMBERS = (0.5, 0.0, 1.0, 1e-6, 3.0)


def check_sums(case: InnerCase) -> None:
    """Values of inner layers, of weights of which some are exactly 0, in ordinary numbers and as logarithms."""
    for name in ("sum-product", "signed-lse-sum", "lse-sum"):
        logarithmic = name == "lse-sum"
        for turn in range(2):
            _check_sum(case, SEMIRINGS[name], turn, _LOGS if logarithmic else _NUMBERS, logarithmic)


def _check_sum(case: InnerCase, semiring: Any, turn: int, numbers: Sequence[float], logarithmic: bool) -> None:
    layer, rng = case.build(), np.random.default_rng(turn)
    point: dict[str, Array] = {}
    for name, one in case.parameters.items():
        choices = [
            one.extremes[(turn + row) % len(one.extremes)] for row in range(layer.all_evaluated_params[name].shape[0])
        ]
        point[name] = rounded(choices)
        if logarithmic and case.multiplies_logs:
            point[name][point[name] == 0] = 1.0
    for place, width in enumerate(layer.input_widths):
        point[f"input {place}"] = rounded(rng.permuted(np.resize(numbers, (_ROWS, width)), axis=1))
    inputs = [name for name in point if name not in case.parameters]
    steps = {name: np.where(np.isfinite(one) & (one != 0), np.abs(one), 1.0) for name, one in point.items()}
    steps |= {name: np.where(np.isfinite(point[name]), steps[name], 0.0) for name in inputs}

    def some(names: Sequence[str]) -> dict[str, Array]:
        return {name: steps[name] * rng.choice([-0.5, 0.5], steps[name].shape) for name in names}

    directions = [*([some(list(case.parameters))] if case.parameters else []), some(inputs), some(list(point))]
    for name in case.parameters:
        for entry in np.argwhere(point[name] == 0)[:2]:
            direction = np.zeros_like(point[name])
            direction[tuple(entry)] = 1.0
            directions.append({name: direction})
    outputs = layer.num_output_units

    def reference(moved: Mapping[str, Array]) -> Array:
        given = [np.exp(moved[name]) if logarithmic else moved[name] for name in inputs]
        params = {name: moved[name] for name in case.parameters}
        if getattr(layer, "mixing", False):
            params["weight"] = OPERATIONS["MixingWeightParameter"](None, params["weight"])
        value = case.reference(LINEAR, layer, params, given)
        return np.log(value) if logarithmic else value

    def values(moved: Mapping[str, Tensor]) -> Tensor:
        params = Params.of(pnp, {name: moved[name] for name in case.parameters})
        given = [(semiring.from_log if logarithmic else semiring.from_linear)(pnp, moved[name]) for name in inputs]
        whole = with_sub_layers(params, layer, lambda one: LAYER_ROWS[type(one)])
        value = case.row.body(pnp, semiring, layer, whole, given)
        found: Tensor = (semiring.to_log if logarithmic else semiring.to_linear)(pnp, value)
        return found[:, 0].reshape(_ROWS, outputs, outputs).diagonal(dim1=1, dim2=2).reshape(-1)

    def laid_out(arrays: Mapping[str, Array], dtype: torch.dtype) -> dict[str, Tensor]:
        """Everything for each row and output unit."""
        found = {}
        for name, value in arrays.items():
            every = np.broadcast_to(
                value[:, None, None] if name in inputs else value,
                (_ROWS, outputs, *((1, value.shape[1]) if name in inputs else value.shape)),
            )
            found[name] = torch.tensor(every.reshape(_ROWS * outputs, *every.shape[2:]), dtype=dtype)
        return found

    def by_torch(dtype: torch.dtype) -> Derivatives:
        found = torch_derivatives(values, laid_out(point, dtype), [laid_out(one, dtype) for one in directions])
        value, first, second = (one.double().numpy().reshape(*one.shape[:-1], _ROWS, outputs) for one in found)
        return Derivatives(value, first, second, np.zeros((2, *first.shape)))

    wanted = differences(lambda points: [reference(one) for one in points], point, directions)
    sizes = np.ones((len(directions), _ROWS, outputs))
    wide, narrow = by_torch(torch.float64), by_torch(torch.float32)
    own = 0.0 if logarithmic else 1.0
    for dtype, found, expected, exact in (
        (torch.float64, wide, wanted, WIDE_EXACT),
        (torch.float32, narrow, wide, NARROW_EXACT),
    ):
        faults = disagreements(found, expected, sizes, len(directions), exact, torch.finfo(dtype), own, 2)
        shown = [f"{what} along {sorted(directions[at[0]])} at {at}: {told}" for what, at, told in faults[:3]]
        assert not faults, f"{case} in {semiring.name} of {dtype}, {len(faults)} faults:\n" + "\n".join(shown)
