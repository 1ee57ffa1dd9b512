"""Samples of single input layers with extreme parameters, against SciPy's distributions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from plica.backend.torch.compiler import TorchCompiler
from plica.ir.op import Unsupported
from plica.queries import sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import (
    LAYER_ROWS,
    ConstantValueLayer,
    DiagonalGaussianLayer,
    DiscretizedLogisticLayer,
    EmbeddingLayer,
    EvidenceLayer,
    InputRow,
    IntegratedLayer,
    MarginalLayer,
    ModuleLayer,
    MultivariateGaussianLayer,
)
from plica.symbolic.parameters import ConstantParameter
from tests.harness.layer_cases import LAYER_CASES, InputCase
from tests.harness.spaces import WIDE

COUNT, LEVEL = 4000, 1e-4


def unit(case: InputCase, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """A layer of one unit, and its distribution in SciPy."""
    values = {name: np.asarray(value, float) for name, value in settings.items() if name in case.parameters}
    values = {name: one if case.parameters[name].shared else one[None] for name, one in values.items()}
    given = {name: ConstantParameter(*one.shape, value=one) for name, one in values.items()}
    layer = case.row.layer([0], 1, **{**settings, **given})
    (kind,) = case.distributions(layer, {name: one.astype(WIDE) for name, one in values.items()})
    return layer, kind


CASES = [(case, settings) for case in LAYER_CASES if isinstance(case, InputCase) for settings in case.sampled]
WITHOUT = (  # without variables, or sampled by what they hold
    ConstantValueLayer,
    EvidenceLayer,
    IntegratedLayer,
    MarginalLayer,
    ModuleLayer,
)
DTYPES = ("float32", "float64")
USUAL = [
    pytest.param(place, dtype, marks=() if place % 4 == 0 and dtype == "float32" else pytest.mark.full)
    for place in range(len(CASES))
    for dtype in DTYPES
]


def test_every_layer_that_is_sampled_has_extremes() -> None:
    of_states = (
        DiscretizedLogisticLayer,
        EmbeddingLayer,
    )  # which are sampled as the tables of the categorical layer are
    several = (DiagonalGaussianLayer, MultivariateGaussianLayer)  # whose single variables are Gaussian
    sampled = {case.row.layer for case, _ in CASES}
    for layer, row in LAYER_ROWS.items():
        if isinstance(row, InputRow) and not isinstance(row.sample, Unsupported):
            assert layer in {*sampled, *of_states, *several, *WITHOUT}, layer


def of_cells(drawn: Any, wanted: Any) -> float:
    """The p-value of counts in cells of about equal probability."""
    ends = np.unique(wanted.ppf(np.linspace(0.05, 0.95, 19)))
    expected = COUNT * np.diff([0.0, *wanted.cdf(ends[:-1]), 1.0])  # the last cell has what is above
    found = np.bincount(np.searchsorted(ends[:-1], drawn), minlength=len(ends))
    assert not found[expected < 1e-9].any(), "a state of probability zero was drawn"
    rare = expected < 5
    assert (found[rare] <= expected[rare] + 20).all()
    some = ~rare
    if some.sum() < 2:
        return 1.0
    return float(stats.chi2.sf(((found[some] - expected[some]) ** 2 / expected[some]).sum(), some.sum() - 1))


@pytest.mark.parametrize(("place", "dtype"), USUAL)
def test_samples_follow_their_distribution(place: int, dtype: str) -> None:
    layer, wanted = unit(*CASES[place])
    compiled = TorchCompiler(dtype=dtype).compile(Circuit([layer], {}, [layer]))
    rows = sample(compiled, COUNT, seed=place)
    with torch.no_grad():
        assert compiled(rows).isfinite().all(), "samples lie in the support"
    drawn = rows.numpy().ravel().astype(float)
    found = of_cells(drawn, wanted) if layer.domain.whole else stats.kstest(drawn, wanted.cdf).pvalue
    assert found > LEVEL
