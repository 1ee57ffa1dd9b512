"""The layers of circuits, and the table of what each computes.

>>> sorted(layer.__name__ for layer in LAYER_ROWS if issubclass(layer, ProductLayer))
['HadamardLayer', 'KroneckerLayer']
"""

from collections.abc import Mapping

from plica.symbolic.layers import (
    categorical,
    constant,
    cpt,
    embedding,
    evidence,
    gaussian,
    hadamard,
    kronecker,
    polynomial,
    tensordot,
    tucker,
)
from plica.symbolic.layers import sum as sum_
from plica.symbolic.layers.base import FusedLayer, InnerLayer, InputLayer, Layer, ProductLayer, held_layers
from plica.symbolic.layers.categorical import CategoricalLayer
from plica.symbolic.layers.constant import ConstantValueLayer
from plica.symbolic.layers.cpt import CPTLayer
from plica.symbolic.layers.distribution import Column, Distribution, distribution_table
from plica.symbolic.layers.embedding import EmbeddingLayer
from plica.symbolic.layers.evidence import EvidenceLayer
from plica.symbolic.layers.gaussian import GaussianLayer
from plica.symbolic.layers.hadamard import HadamardLayer
from plica.symbolic.layers.kronecker import KroneckerLayer
from plica.symbolic.layers.polynomial import PolynomialLayer
from plica.symbolic.layers.rows import (
    Choice,
    FusedRow,
    InputRow,
    LayerRow,
    ProductRow,
    SubLayer,
    SumRow,
    layer_table,
    with_sub_layers,
)
from plica.symbolic.layers.sum import SumLayer
from plica.symbolic.layers.tensordot import TensorDotLayer
from plica.symbolic.layers.tucker import TuckerLayer

LAYER_ROWS: dict[type[Layer], LayerRow] = layer_table(
    (
        categorical.ROW,
        constant.ROW,
        cpt.ROW,
        embedding.ROW,
        evidence.ROW,
        gaussian.ROW,
        hadamard.ROW,
        kronecker.ROW,
        polynomial.ROW,
        sum_.ROW,
        tensordot.ROW,
        tucker.ROW,
    )
)

# What templates, data files and the command line ask for by name.
DISTRIBUTIONS: Mapping[str, Distribution] = distribution_table(
    row.distribution for row in LAYER_ROWS.values() if isinstance(row, InputRow) and row.distribution is not None
)

__all__ = [
    "DISTRIBUTIONS",
    "LAYER_ROWS",
    "CPTLayer",
    "CategoricalLayer",
    "Choice",
    "Column",
    "ConstantValueLayer",
    "Distribution",
    "EmbeddingLayer",
    "EvidenceLayer",
    "FusedLayer",
    "FusedRow",
    "GaussianLayer",
    "HadamardLayer",
    "InnerLayer",
    "InputLayer",
    "InputRow",
    "KroneckerLayer",
    "Layer",
    "LayerRow",
    "PolynomialLayer",
    "ProductLayer",
    "ProductRow",
    "SubLayer",
    "SumLayer",
    "SumRow",
    "TensorDotLayer",
    "TuckerLayer",
    "distribution_table",
    "held_layers",
    "layer_table",
    "with_sub_layers",
]
