"""A rounded logistic density far from 0 is that around 0, moved: also where a float holds no half beside a number."""

import numpy as np
import pytest
import torch
from scipy.special import expit

import plica
from plica.queries import mean, mpe, probability, quantile, sample, variance
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import RoundedLogisticLayer
from plica.symbolic.parameters import ConstantParameter
from plica.symbolic.scope import Scope

SCALES = (0.1, 0.3, 1.0, 5.0)
SHIFTS = (2**20, 2**22, 2**23, 2**23 + 1, -(2**24) + 5, 2**29)
NO_DATA = torch.tensor([[float("nan")]])


def _compiled(loc: float, scale: float, dtype: torch.dtype) -> torch.nn.Module:
    layer = RoundedLogisticLayer(
        Scope([0]), 1, loc=ConstantParameter(1, value=loc), scale=ConstantParameter(1, value=scale)
    )
    return plica.compile(Circuit([layer], {}, [layer]), dtype=dtype)


@pytest.mark.parametrize(
    ("shift", "scale"),
    [
        pytest.param(shift, scale, marks=pytest.mark.full if (place + turn) % 6 or place % 2 else [])
        for place, shift in enumerate(SHIFTS)
        for turn, scale in enumerate(SCALES)
    ],
)
def test_a_density_that_is_moved(shift, scale) -> None:
    """Numbers that float32 holds, so that nothing of the data or the centre is rounded."""
    step = 64 if abs(shift) > 2**24 else 1
    away = np.asarray([-4, -1, 0, 1, 2, 5]) * step
    circuit = _compiled(shift, scale, torch.float32)
    z = np.stack([away - 0.5, away + 0.5]) / scale
    less, more = expit(z), expit(-z)
    masses = np.where(away < 0, less[1] - less[0], more[0] - more[1])
    rows = torch.from_numpy(away + shift)[:, None]
    kept = masses > 1e-30
    found = circuit(rows)[:, 0, 0].detach().double().numpy()
    np.testing.assert_allclose(found[kept], np.log(masses[kept]), rtol=3e-6, atol=3e-6)

    box = probability(circuit, rows[:1].double(), rows[-1:].double()).item()
    assert box == pytest.approx(less[1, -1] - less[0, 0], rel=3e-6)
    assert mpe(circuit, NO_DATA)[0].item() == shift
    assert mean(circuit, NO_DATA).item() == shift
    around_zero = _compiled(0.0, scale, torch.float32)
    assert variance(circuit, NO_DATA).item() == pytest.approx(variance(around_zero, NO_DATA).item(), rel=1e-6)
    assert quantile(circuit, 0, 0.3).item() - shift == quantile(around_zero, 0, 0.3).item()
    drawn = [sample(one, 200, seed=0) for one in (circuit, around_zero)]
    assert torch.equal(drawn[0] - shift, drawn[1])
