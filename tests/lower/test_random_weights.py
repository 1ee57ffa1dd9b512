"""Random graphs of parameters as weights and tables: values and gradients against long double, in float32."""

from typing import Any

import numpy as np
import pytest
import torch

from plica import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter, HadamardParameter, Parameter, TensorParameter
from tests.harness.circuits import chain, constant
from tests.harness.random_weights import Weights, logarithms

SHAPE = (2, 3)
ROWS = torch.arange(3)[:, None]
FEW, MANY = 16, 1200
DRAWS = [
    *range(FEW),
    *(17, 29, 50, 53, 110),  # zeros beside diagonals, clamps around 0, constants that float32 does not have
    *(pytest.param(seed, marks=pytest.mark.full) for seed in range(FEW, MANY) if seed not in (17, 29, 50, 53, 110)),
]


def of_sum(weight: Parameter) -> Circuit:
    """Row `i` of the data reads column `i` of a sum's weight."""
    eye = CategoricalLayer([0], 3, num_categories=3, probs=Parameter.from_input(constant(np.eye(3))))
    return chain(eye, SumLayer(3, 2, weight=weight))


def of_table(weight: Parameter) -> Circuit:
    return chain(CategoricalLayer([0], 2, num_categories=3, probs=weight))


USES = {"sum": of_sum, "table": of_table}


def draw(seed: int) -> Parameter:
    """A weight without negative entries."""
    weight = Weights(seed).draw(SHAPE)
    sign, *_ = logarithms(weight, dict.fromkeys(tensors(weight), 0.0))
    factor = ConstantParameter(*SHAPE, value=np.where(sign < 0, -1.0, 1.0))
    return Parameter.from_binary(HadamardParameter(SHAPE, SHAPE), weight, factor)


def tensors(weight: Parameter) -> list[TensorParameter]:
    return [one for one in weight.nodes if isinstance(one, TensorParameter)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", DRAWS)
def test_values_and_gradients_where_no_float_has_the_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight, use = draw(seed), str(rng.choice(list(USES)))
    context = PipelineContext(fold=bool(rng.random() < 0.5), optimize=bool(rng.random() < 0.5), dtype=torch.float32)
    check(weight, USES[use](weight), context, rng)


def check(weight: Parameter, circuit: Circuit, context: PipelineContext, rng: Any) -> None:
    """Compare what a compiled circuit says of a weight, and of its derivatives, as far as rounding leaves digits."""
    directions = {one: rng.normal(size=one.shape) * _size(one) for one in tensors(weight)}
    signs, logs, slopes = logarithms(weight, directions)
    rounded = [logarithms(weight, directions, 1.2e-7, seed) for seed in range(6)]
    with np.errstate(invalid="ignore"):
        blur = 20 * np.max([np.abs(one[1] - logs) for one in rounded], axis=0).astype(float)
        slope_blur = 20 * np.max([np.abs(one[2] - slopes) for one in rounded], axis=0).astype(float)
    certain = np.all([one[0] == signs for one in rounded], axis=0)
    found = context.compile(circuit)(ROWS)[:, 0].T
    told = found.detach().double().numpy()
    logs, slopes = logs.astype(float), slopes.astype(float)
    assert np.isneginf(told[certain & (signs == 0)]).all()
    seen = certain & (signs > 0) & (np.abs(logs) < 1e4) & (blur < 0.2)
    assert (np.abs(told[seen] - logs[seen]) <= 1e-5 + blur[seen] + 1e-6 * np.abs(logs[seen])).all()
    seen &= np.isfinite(slopes) & np.isfinite(slope_blur) & (blur < 0.05)
    if not (found.requires_grad and seen.any()):
        return
    factors = rng.normal(size=SHAPE) * seen
    found.backward(torch.tensor(factors, dtype=found.dtype))
    terms = [np.zeros(1)]
    for one, direction in directions.items():
        held, fold = context._compiler.tensor_of(one)
        if held.grad is not None:
            assert held.grad.isfinite().all()
            terms.append((held.grad[fold].double().numpy() * direction).ravel())
    joined, expected = np.concatenate(terms), float((factors[seen] * slopes[seen]).sum())
    slack = float((np.abs(factors[seen]) * slope_blur[seen]).sum())
    assert abs(joined.sum() - expected) <= slack + 1e-3 * (1e-2 + np.abs(joined).sum() + abs(expected))


def _size(leaf: TensorParameter) -> Any:
    """A step for each number that is no larger than the number: the logarithm of a factor of 0 has no derivative."""
    return np.minimum(np.abs(np.asarray(leaf.config["initializer"].value)), 1)
