"""The layers of circuits, and the table of what each computes.

>>> sorted(layer.__name__ for layer in LAYER_ROWS if issubclass(layer, ProductLayer))
['HadamardLayer', 'KroneckerLayer']
"""

from collections.abc import Mapping

from plica.symbolic.layers import (
    bernoulli,
    categorical,
    constant,
    cpt,
    discretized_logistic,
    embedding,
    evidence,
    gaussian,
    geometric,
    hadamard,
    histogram,
    kronecker,
    module,
    polynomial,
    tensordot,
    tucker,
    uniform,
)
from plica.symbolic.layers import sum as sum_
from plica.symbolic.layers.base import FusedLayer, InnerLayer, InputLayer, Layer, ProductLayer, held_layers
from plica.symbolic.layers.bernoulli import BernoulliLayer
from plica.symbolic.layers.categorical import CategoricalLayer
from plica.symbolic.layers.constant import ConstantValueLayer
from plica.symbolic.layers.cpt import CPTLayer
from plica.symbolic.layers.discretized_logistic import DiscretizedLogisticLayer
from plica.symbolic.layers.distribution import Column, Distribution, distribution_table
from plica.symbolic.layers.embedding import EmbeddingLayer
from plica.symbolic.layers.evidence import EvidenceLayer
from plica.symbolic.layers.gaussian import GaussianLayer
from plica.symbolic.layers.geometric import GeometricLayer
from plica.symbolic.layers.hadamard import HadamardLayer
from plica.symbolic.layers.histogram import HistogramLayer, histogram_edges
from plica.symbolic.layers.kronecker import KroneckerLayer
from plica.symbolic.layers.module import ModuleLayer
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
from plica.symbolic.layers.uniform import UniformLayer

LAYER_ROWS: dict[type[Layer], LayerRow] = layer_table(
    (
        bernoulli.ROW,
        categorical.ROW,
        constant.ROW,
        cpt.ROW,
        discretized_logistic.ROW,
        embedding.ROW,
        evidence.ROW,
        gaussian.ROW,
        geometric.ROW,
        hadamard.ROW,
        histogram.ROW,
        kronecker.ROW,
        module.ROW,
        polynomial.ROW,
        sum_.ROW,
        tensordot.ROW,
        tucker.ROW,
        uniform.ROW,
    )
)

# What templates, data files and the command line ask for by name.
DISTRIBUTIONS: Mapping[str, Distribution] = distribution_table(
    row.distribution for row in LAYER_ROWS.values() if isinstance(row, InputRow) and row.distribution is not None
)

__all__ = [
    "DISTRIBUTIONS",
    "LAYER_ROWS",
    "BernoulliLayer",
    "CPTLayer",
    "CategoricalLayer",
    "Choice",
    "Column",
    "ConstantValueLayer",
    "DiscretizedLogisticLayer",
    "Distribution",
    "EmbeddingLayer",
    "EvidenceLayer",
    "FusedLayer",
    "FusedRow",
    "GaussianLayer",
    "GeometricLayer",
    "HadamardLayer",
    "HistogramLayer",
    "InnerLayer",
    "InputLayer",
    "InputRow",
    "KroneckerLayer",
    "Layer",
    "LayerRow",
    "ModuleLayer",
    "PolynomialLayer",
    "ProductLayer",
    "ProductRow",
    "SubLayer",
    "SumLayer",
    "SumRow",
    "TensorDotLayer",
    "TuckerLayer",
    "UniformLayer",
    "distribution_table",
    "held_layers",
    "histogram_edges",
    "layer_table",
    "with_sub_layers",
]
