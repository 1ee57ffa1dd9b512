from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.files.encoding import Encoding
from plica.files.kinds import TableColumn
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, PoissonLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter
from plica.tables import TableModel, fit
from plica.tables.frame_of import as_frame
from plica.tables.model import Model

WEIGHT = np.array([0.3, 0.7])
MEAN, STDDEV = np.array([-1.0, 2.5]), np.array([0.5, 1.5])
PROBS = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
RATE = np.array([0.8, 4.0])
PETS = ("bird", "cat", "dog")


@pytest.fixture(scope="session")
def mixture() -> TableModel:
    """A mixture of two products of a Gaussian `x`, three categories `pet` and a Poisson count `n`."""
    layers: list[Any] = [
        GaussianLayer([0], 2, mean=ConstantParameter(2, value=MEAN), stddev=ConstantParameter(2, value=STDDEV)),
        CategoricalLayer([1], 2, num_categories=3, probs=ConstantParameter(2, 3, value=PROBS)),
        PoissonLayer([2], 2, rate=ConstantParameter(2, value=RATE)),
    ]
    product, total = HadamardLayer(2, arity=3), SumLayer(2, 1, weight=ConstantParameter(1, 2, value=WEIGHT[None]))
    circuit = Circuit([*layers, product, total], {product: layers, total: [product]}, [total])
    columns = (TableColumn("x", "real"), TableColumn("pet", "categorical", PETS), TableColumn("n", "count"))
    compiled = plica.compile(circuit, dtype=torch.float64).eval()
    template = as_frame({"x": np.zeros(1), "pet": np.array(["cat"]), "n": np.zeros(1)})
    return TableModel(Model(compiled, Encoding(columns), None), template)


def pets_table() -> dict[str, Any]:
    """Sixty rows with holes: text, whole numbers, reals, truth values; `name` is ignored."""
    rng = np.random.default_rng(0)
    pet = rng.choice(["cat", "dog", "bird"], 60)
    weight = np.array([{"cat": 4.0, "dog": 20.0, "bird": 0.5}[name] for name in pet]) * rng.uniform(0.8, 1.2, 60)
    table: dict[str, Any] = {
        "name": [f"n{number}" for number in range(60)],
        "pet": [None if rng.random() < 0.2 else str(name) for name in pet],
        "legs": np.where(rng.random(60) < 0.2, np.nan, np.where(pet == "bird", 2.0, 4.0)),
        "weight": np.where(rng.random(60) < 0.2, np.nan, np.round(weight, 2)),
        "tame": [bool(rng.random() < 0.5) for _ in range(60)],
    }
    return table


@pytest.fixture(scope="session")
def pets() -> TableModel:
    """A model fitted to `pets_table`."""
    return fit(pets_table(), units=3, epochs=2)
