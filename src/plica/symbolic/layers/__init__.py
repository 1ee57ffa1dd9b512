"""The layers of circuits, and the table of what each computes.

>>> sorted(layer.__name__ for layer in LAYER_ROWS if issubclass(layer, ProductLayer))
['HadamardLayer', 'KroneckerLayer']
"""

from collections.abc import Mapping

from plica.symbolic.layers import (
    categorical,
    constant,
    cpt,
    diagonal_gaussian,
    embedding,
    evidence,
    hadamard,
    histogram,
    kronecker,
    module,
    multivariate_gaussian,
    polynomial,
    tensordot,
    tucker,
)
from plica.symbolic.layers import sum as sum_
from plica.symbolic.layers.base import FusedLayer, InnerLayer, InputLayer, Layer, ProductLayer, held_layers
from plica.symbolic.layers.bernoulli import BernoulliLayer
from plica.symbolic.layers.beta import BetaLayer
from plica.symbolic.layers.binomial import BinomialLayer
from plica.symbolic.layers.categorical import CategoricalLayer
from plica.symbolic.layers.constant import ConstantValueLayer
from plica.symbolic.layers.cpt import CPTLayer
from plica.symbolic.layers.declared import UnivariateLayer, setting, unit_parameter
from plica.symbolic.layers.diagonal_gaussian import DiagonalGaussianLayer
from plica.symbolic.layers.discretized_logistic import DiscretizedLogisticLayer
from plica.symbolic.layers.distribution import Column, Distribution, distribution_table
from plica.symbolic.layers.embedding import EmbeddingLayer
from plica.symbolic.layers.evidence import EvidenceLayer
from plica.symbolic.layers.exponential import ExponentialLayer
from plica.symbolic.layers.gamma import GammaLayer
from plica.symbolic.layers.gaussian import GaussianLayer
from plica.symbolic.layers.geometric import GeometricLayer
from plica.symbolic.layers.hadamard import HadamardLayer
from plica.symbolic.layers.histogram import HistogramLayer, histogram_edges
from plica.symbolic.layers.kronecker import KroneckerLayer
from plica.symbolic.layers.laplace import LaplaceLayer
from plica.symbolic.layers.log_normal import LogNormalLayer
from plica.symbolic.layers.module import ModuleLayer
from plica.symbolic.layers.multivariate_gaussian import MultivariateGaussianLayer
from plica.symbolic.layers.negative_binomial import NegativeBinomialLayer
from plica.symbolic.layers.poisson import PoissonLayer
from plica.symbolic.layers.polynomial import PolynomialLayer
from plica.symbolic.layers.rounded_logistic import RoundedLogisticLayer
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
from plica.symbolic.layers.student_t import StudentTLayer
from plica.symbolic.layers.sum import SumLayer
from plica.symbolic.layers.tensordot import TensorDotLayer
from plica.symbolic.layers.tucker import TuckerLayer
from plica.symbolic.layers.uniform import UniformLayer
from plica.symbolic.layers.von_mises import VonMisesLayer

LAYER_ROWS: dict[type[Layer], LayerRow] = layer_table(
    (
        BernoulliLayer.row,
        BetaLayer.row,
        BinomialLayer.row,
        categorical.ROW,
        constant.ROW,
        cpt.ROW,
        diagonal_gaussian.ROW,
        DiscretizedLogisticLayer.row,
        embedding.ROW,
        evidence.ROW,
        ExponentialLayer.row,
        GammaLayer.row,
        GaussianLayer.row,
        GeometricLayer.row,
        hadamard.ROW,
        histogram.ROW,
        kronecker.ROW,
        LaplaceLayer.row,
        LogNormalLayer.row,
        module.ROW,
        multivariate_gaussian.ROW,
        NegativeBinomialLayer.row,
        PoissonLayer.row,
        polynomial.ROW,
        RoundedLogisticLayer.row,
        StudentTLayer.row,
        sum_.ROW,
        tensordot.ROW,
        tucker.ROW,
        UniformLayer.row,
        VonMisesLayer.row,
    )
)

# Templates, data files and the command line choose these by name.
DISTRIBUTIONS: Mapping[str, Distribution] = distribution_table(
    row.distribution for row in LAYER_ROWS.values() if isinstance(row, InputRow) and row.distribution is not None
)

__all__ = [
    "DISTRIBUTIONS",
    "LAYER_ROWS",
    "BernoulliLayer",
    "BetaLayer",
    "BinomialLayer",
    "CPTLayer",
    "CategoricalLayer",
    "Choice",
    "Column",
    "ConstantValueLayer",
    "DiagonalGaussianLayer",
    "DiscretizedLogisticLayer",
    "Distribution",
    "EmbeddingLayer",
    "EvidenceLayer",
    "ExponentialLayer",
    "FusedLayer",
    "FusedRow",
    "GammaLayer",
    "GaussianLayer",
    "GeometricLayer",
    "HadamardLayer",
    "HistogramLayer",
    "InnerLayer",
    "InputLayer",
    "InputRow",
    "KroneckerLayer",
    "LaplaceLayer",
    "Layer",
    "LayerRow",
    "LogNormalLayer",
    "ModuleLayer",
    "MultivariateGaussianLayer",
    "NegativeBinomialLayer",
    "PoissonLayer",
    "PolynomialLayer",
    "ProductLayer",
    "ProductRow",
    "RoundedLogisticLayer",
    "StudentTLayer",
    "SubLayer",
    "SumLayer",
    "SumRow",
    "TensorDotLayer",
    "TuckerLayer",
    "UniformLayer",
    "UnivariateLayer",
    "VonMisesLayer",
    "distribution_table",
    "held_layers",
    "histogram_edges",
    "layer_table",
    "setting",
    "unit_parameter",
    "with_sub_layers",
]
