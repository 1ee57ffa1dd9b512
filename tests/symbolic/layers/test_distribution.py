"""Distributions by name: one row serves templates, data sets and the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.cli.settings import INPUTS, Settings
from plica.cli.train import load_data
from plica.errors import GraphError
from plica.queries import sample
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import COUNTS, REALS, finite, outside
from plica.symbolic.layers import (
    DISTRIBUTIONS,
    LAYER_ROWS,
    Column,
    Distribution,
    InputRow,
    SumLayer,
    distribution_table,
)
from plica.symbolic.parameters import softmax_normal
from plica.symbolic.scope import Scope
from plica.tables.build import build_circuit
from plica.tables.recipe import SMOOTH_CATEGORICAL
from plica.tables.rules import choose
from plica.templates.data_modalities import image_data
from plica.templates.parameterization import name_to_input_layer_factory
from tests.harness.layers import WaitingLayer, waiting


def test_rows_of_layers_fill_the_table() -> None:
    named = [row.distribution for row in LAYER_ROWS.values() if isinstance(row, InputRow) and row.distribution]
    assert list(DISTRIBUTIONS.values()) == named
    assert [*DISTRIBUTIONS, SMOOTH_CATEGORICAL] == list(INPUTS)
    assert DISTRIBUTIONS["categorical"].domain(7) == finite(7)
    assert DISTRIBUTIONS["gaussian"].domain() == REALS


def column_of(name: str) -> Any:
    """Values of a distribution's domain, far from 0 where it has no bound."""
    domain, rng = DISTRIBUTIONS[name].domain(3), np.random.default_rng(0)
    if domain.most < 100:
        return rng.integers(0, int(domain.most) + 1, 60) if domain.whole else rng.uniform(0.2, 0.7, 60)
    return rng.poisson(1e3, 60) if domain.whole else rng.normal(1e3, 50, 60)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_layer_that_is_fitted_to_a_column_scores_and_draws_it(name: str) -> None:
    """Data of any dtype reads alike; draws are of the domain, in float32 too."""
    distribution, x = DISTRIBUTIONS[name], column_of(name)
    fitted = {} if distribution.fitted is None else distribution.fitted(Column.of(x))
    if "weight" in distribution.parameters:  # which has any sign if nothing is said
        fitted["weight_factory"] = softmax_normal
    layer = distribution.layer(Scope([0]), 4, **distribution.settings_for(3), **fitted)
    torch.manual_seed(0)
    compiled = TorchCompiler(dtype="float32").compile(
        Circuit([layer, total := SumLayer(4, 1)], {total: [layer]}, [total])
    )
    with torch.no_grad():
        scores = [compiled(torch.tensor(x[:, None]).to(dtype)) for dtype in (torch.float32, torch.float64)]
        if layer.domain.whole:
            scores.append(compiled(torch.tensor(x[:, None])))
    assert scores[0].isfinite().all()
    assert scores[0].mean() > -50
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0], rtol=1e-4, atol=1e-4)
    drawn = sample(compiled, 500, seed=0).numpy()[:, 0]
    assert not np.isnan(drawn).any()
    wrong = outside(np, drawn[None], [layer.domain])
    assert wrong is None or not wrong.any()
    assert drawn.mean() == pytest.approx(x.mean(), rel=2, abs=2)


def test_two_of_one_name_are_refused() -> None:
    one, other = (Distribution("coin", layer, ()) for layer in (WaitingLayer, DISTRIBUTIONS["gaussian"].layer))
    with pytest.raises(GraphError, match="two distributions are called 'coin'"):
        distribution_table([one, other])


def settings(path: Path, name: str) -> Settings:
    options: dict[str, Any] = {
        "region_graph": None,
        "layer": "cp",
        "units": 2,
        "trees": None,
        "start": None,
        "epochs": 1,
        "batch": 10,
        "lr": 0.1,
        "seed": 0,
    }
    return Settings(
        data=str(path),
        out=path.parent / "out",
        key=None,
        image_shape=None,
        num_values=None,
        columns=None,
        missing=(),
        input=name,
        device="cpu",
        dtype="float32",
        **options,
    )


def test_a_new_distribution_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, which no code of Plica names: image data, factories, files and the command line know them."""
    monkeypatch.setitem(DISTRIBUTIONS, "waiting", Distribution("waiting", waiting, ("rate",)))
    circuit = image_data((1, 2, 2), input_layer="waiting", num_input_units=2, sum_product_layer="cp", num_sum_units=2)
    assert set(circuit.domains.values()) == {COUNTS}
    assert name_to_input_layer_factory("waiting")(Scope([3]), 2).domain == COUNTS
    np.save(tmp_path / "counts.npy", np.array([[0.0, 5000.0], [7.0, 2.0], [1.0, 1.0], [0.0, 3.0]]))
    chosen = settings(tmp_path / "counts.npy", "waiting")
    data = load_data(chosen)
    assert (data.num_values, data.train.dtype) == (None, np.int64)
    built = build_circuit(choose(data, units=2, input="waiting"), data, seed=0, dtype="float32")
    assert {type(layer) for layer in built.input_layers} == {WaitingLayer}
    assert built.domains == {0: COUNTS, 1: COUNTS}
