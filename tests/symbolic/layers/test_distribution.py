"""Distributions by name: one row serves templates, data sets and the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.cli.build import build_circuit
from plica.cli.settings import INPUTS, Settings
from plica.cli.train import load_data
from plica.errors import GraphError
from plica.symbolic.domains import COUNTS, REALS, finite
from plica.symbolic.layers import DISTRIBUTIONS, LAYER_ROWS, Distribution, InputRow, distribution_table
from plica.symbolic.parameters import normal
from plica.symbolic.scope import Scope
from plica.templates.data_modalities import image_data
from plica.templates.parameterization import name_to_input_layer_factory
from tests.harness.layers import WaitingLayer, waiting


def test_rows_of_layers_fill_the_table() -> None:
    named = [row.distribution for row in LAYER_ROWS.values() if isinstance(row, InputRow) and row.distribution]
    assert list(DISTRIBUTIONS.values()) == named
    assert list(DISTRIBUTIONS) == list(INPUTS)
    assert DISTRIBUTIONS["categorical"].domain(7) == finite(7)
    assert DISTRIBUTIONS["gaussian"].domain() == REALS


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_parameter_has_a_factory(name: str) -> None:
    distribution = DISTRIBUTIONS[name]
    for parameter in distribution.parameters:
        shapes: list[Any] = []

        def factory(shape, shapes=shapes):
            shapes.append(shape)
            return normal(shape)

        distribution.layer(Scope([0]), 4, **distribution.settings_for(3), **{f"{parameter}_factory": factory})
        assert shapes, parameter


def test_two_of_one_name_are_refused() -> None:
    one, other = (Distribution("coin", layer, ()) for layer in (WaitingLayer, DISTRIBUTIONS["gaussian"].layer))
    with pytest.raises(GraphError, match="two distributions are called 'coin'"):
        distribution_table([one, other])


def settings(path: Path, name: str) -> Settings:
    options: dict[str, Any] = {
        "region_graph": None,
        "layer": "cp",
        "units": 2,
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
        input=name,
        device="cpu",
        dtype="float32",
        columns=None,
        missing=(),
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
    built, _ = build_circuit(chosen, data)
    assert {type(layer) for layer in built.input_layers} == {WaitingLayer}
    assert built.domains == {0: COUNTS, 1: COUNTS}
