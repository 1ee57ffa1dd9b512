"""The layers of circuits, and the table of what each computes.

>>> sorted(layer.__name__ for layer in LAYER_ROWS)
['CategoricalLayer', 'GaussianLayer', 'HadamardLayer', 'KroneckerLayer', 'SumLayer']
"""

from plica.symbolic.layers import categorical, gaussian, hadamard, kronecker
from plica.symbolic.layers import sum as sum_
from plica.symbolic.layers.base import InnerLayer, InputLayer, Layer, ProductLayer
from plica.symbolic.layers.categorical import CategoricalLayer
from plica.symbolic.layers.gaussian import GaussianLayer
from plica.symbolic.layers.hadamard import HadamardLayer
from plica.symbolic.layers.kronecker import KroneckerLayer
from plica.symbolic.layers.rows import InputRow, LayerRow, ProductRow, SumRow, layer_table
from plica.symbolic.layers.sum import SumLayer

LAYER_ROWS: dict[type[Layer], LayerRow] = layer_table(
    (
        categorical.ROW,
        gaussian.ROW,
        hadamard.ROW,
        kronecker.ROW,
        sum_.ROW,
    )
)

__all__ = [
    "LAYER_ROWS",
    "CategoricalLayer",
    "GaussianLayer",
    "HadamardLayer",
    "InnerLayer",
    "InputLayer",
    "InputRow",
    "KroneckerLayer",
    "Layer",
    "LayerRow",
    "ProductLayer",
    "ProductRow",
    "SumLayer",
    "SumRow",
    "layer_table",
]
