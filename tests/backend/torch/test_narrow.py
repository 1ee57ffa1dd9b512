"""Densities of spreads near the ends of float32: gradients beside those of float64, and beside rows left out."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from plica.backend.torch import circuits as torch_circuits
from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import GaussianLayer, SumLayer
from plica.symbolic.parameters import ExpParameter, Parameter, SoftplusParameter, TensorParameter
from plica.symbolic.parameters.nodes import Shape
from tests.harness.circuits import chain, constant, tensor

LARGEST = torch.finfo(torch.float32).max
PATHS = pytest.mark.parametrize("scaled_first", [True, False])
FOLDS = pytest.mark.parametrize("fold", [True, False])
FORMS: dict[str, Callable[[Shape], ExpParameter | SoftplusParameter]] = {
    "exp": ExpParameter,
    "softplus": SoftplusParameter,
}


def narrow(form: str, logs: list[float], means: list[float]) -> tuple[Circuit, list[TensorParameter]]:
    """A mixture of densities whose spreads are about `exp(logs)`, and its leaves: means and logs."""
    units = len(logs)
    mean, log = (TensorParameter(units, initializer=constant(np.asarray(one))) for one in (means, logs))
    stddev = Parameter.from_sequence(log, FORMS[form]((units,)))
    layer = GaussianLayer([0], units, mean=Parameter.from_input(mean), stddev=stddev)
    return chain(layer, SumLayer(units, 1, weight=tensor(np.full((1, units), 1 / units)))), [mean, log]
