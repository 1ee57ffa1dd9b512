"""The module layer: normal densities of several variables, as a torch module computes them."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plica.errors import InputError
from plica.symbolic.layers import LAYER_ROWS, ModuleLayer
from tests.harness.layer_cases.case import InputCase, Params, Refused
from tests.harness.layer_cases.numbers import REALS, column
from tests.harness.spaces import WIDE, Space

Array = Any
ROW: Any = LAYER_ROWS[ModuleLayer]
ANSWERS = ("log_partition", "sample", "mode")


class Normals(nn.Module):
    """Products of normal densities, times a factor for each unit."""

    def __init__(self, variables: int, units: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(variables)

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=generator))

        self.mean, self.log_scale, self.factor = drawn(units, variables), drawn(units, variables), drawn(units)

    def forward(self, x: Tensor) -> Tensor:
        """`(B, V)` to `(B, K)`."""
        distances = (x[:, None] - self.mean) * (-self.log_scale).exp()
        densities = -0.5 * distances**2 - self.log_scale - 0.5 * math.log(2 * math.pi)
        return densities.sum(-1) + self.factor

    def log_partition(self) -> Tensor:
        """`(K,)`."""
        return self.factor

    def sample(self, units: Tensor, uniforms: Tensor) -> Tensor:
        """`(B,)` and `(B, V)` to `(B, V)`."""
        return self.mean[units] + self.log_scale[units].exp() * torch.special.ndtri(uniforms)

    def mode(self) -> Tensor:
        """`(K, V)`."""
        return self.mean


class Distances(nn.Module):
    """What has no answers beside its values."""

    def forward(self, x: Tensor) -> Tensor:
        """`(B, V)` to `(B, 1)`."""
        return -(x**2).sum(1, keepdim=True)


def reference(space: Space, layer: Any, params: Params, x: Array) -> Array:
    """exp(factor) N(x | mean, exp(log_scale)); the factor alone where the variables are missing."""
    columns = x[:, list(layer.scope)]
    distances = (columns[:, None] - params["module.mean"]) / np.exp(params["module.log_scale"])
    densities = -distances * distances / 2 - params["module.log_scale"] - np.log(2 * WIDE(math.pi)) / 2
    values = params["module.factor"] + densities.sum(axis=-1)
    return space.from_log(np.where(np.isnan(columns).all(axis=1)[:, None], params["module.factor"], values))


def totals(layer: Any, params: Params) -> Array:  # noqa: ARG001
    """The factors."""
    return np.exp(params["module.factor"])


def distributions(layer: Any, params: Params) -> list[Any]:  # noqa: ARG001
    """Normal distributions of one variable."""
    from scipy import stats  # where distributions are compared alone: a machine with a GPU may lack it

    means, scales = (params[name][:, 0].astype(float) for name in ("module.mean", "module.log_scale"))
    return [stats.norm(mean, np.exp(scale)) for mean, scale in zip(means, scales, strict=True)]


def _build(scope: Any, units: int) -> ModuleLayer:
    return ModuleLayer(scope, units, module=Normals(len(scope), units), answers=ANSWERS)


CASES = (
    InputCase(
        "module",
        ROW,
        _build,
        reference,
        distributions,
        totals,
        draw=lambda _, rng, rows: rng.normal(size=(rows, 1)),
        parameters={},
        points=column(REALS),
        wrong=(),
        sampled=(),
        starts=(),
        refused=(
            Refused(
                lambda: ModuleLayer([0], 1, module=Distances(), answers=("mean",)),
                InputError,
                "a module answers some of log_partition, sample, mode, found 'mean'",
            ),
            Refused(
                lambda: ModuleLayer([0], 1, module=Distances(), answers=("sample",)),
                InputError,
                "Distances has no method 'sample'; write it",
            ),
            Refused(lambda: ModuleLayer([0], 1, module=object()), InputError, "object has no method 'forward'"),
            Refused(
                lambda: ModuleLayer([0], 1, module=Normals(1, 1), normalized=True, answers=ANSWERS),
                InputError,
                "normalized and log_partition exclude each other",
            ),
        ),
    ),
)
