"""The layers of circuits, and the table of what each computes: the rows of what is imported here.

>>> sorted(layer.__name__ for layer in LAYER_ROWS if issubclass(layer, ProductLayer))
['HadamardLayer', 'KroneckerLayer', 'OuterProductLayer', 'TransposeLayer']
"""

from collections.abc import Mapping

from plica.symbolic.layers import (  # noqa: F401 - their rows
    any_input,
    families,
    histogram_products,
    observed_values,
    table_products,
)
from plica.symbolic.layers.base import FusedLayer as FusedLayer
from plica.symbolic.layers.base import InnerLayer as InnerLayer
from plica.symbolic.layers.base import InputLayer as InputLayer
from plica.symbolic.layers.base import Layer as Layer
from plica.symbolic.layers.base import ProductLayer as ProductLayer
from plica.symbolic.layers.base import held_layers as held_layers
from plica.symbolic.layers.bernoulli import BernoulliLayer as BernoulliLayer
from plica.symbolic.layers.beta import BetaLayer as BetaLayer
from plica.symbolic.layers.binomial import BinomialLayer as BinomialLayer
from plica.symbolic.layers.categorical import CategoricalLayer as CategoricalLayer
from plica.symbolic.layers.constant import ConstantValueLayer as ConstantValueLayer
from plica.symbolic.layers.cpt import CPTLayer as CPTLayer
from plica.symbolic.layers.declared import UnivariateLayer as UnivariateLayer
from plica.symbolic.layers.declared import setting as setting
from plica.symbolic.layers.declared import unit_parameter as unit_parameter
from plica.symbolic.layers.diagonal_gaussian import DiagonalGaussianLayer as DiagonalGaussianLayer
from plica.symbolic.layers.discretized_logistic import DiscretizedLogisticLayer as DiscretizedLogisticLayer
from plica.symbolic.layers.distribution import Column as Column
from plica.symbolic.layers.distribution import Distribution as Distribution
from plica.symbolic.layers.distribution import distribution_table as distribution_table
from plica.symbolic.layers.embedding import EmbeddingLayer as EmbeddingLayer
from plica.symbolic.layers.evidence import EvidenceLayer as EvidenceLayer
from plica.symbolic.layers.exponential import ExponentialLayer as ExponentialLayer
from plica.symbolic.layers.gamma import GammaLayer as GammaLayer
from plica.symbolic.layers.gaussian import GaussianLayer as GaussianLayer
from plica.symbolic.layers.geometric import GeometricLayer as GeometricLayer
from plica.symbolic.layers.hadamard import HadamardLayer as HadamardLayer
from plica.symbolic.layers.histogram import HistogramLayer as HistogramLayer
from plica.symbolic.layers.histogram import histogram_edges as histogram_edges
from plica.symbolic.layers.integrated import IntegratedLayer as IntegratedLayer
from plica.symbolic.layers.kronecker import KroneckerLayer as KroneckerLayer
from plica.symbolic.layers.laplace import LaplaceLayer as LaplaceLayer
from plica.symbolic.layers.log_normal import LogNormalLayer as LogNormalLayer
from plica.symbolic.layers.marginal import MarginalLayer as MarginalLayer
from plica.symbolic.layers.module import ModuleLayer as ModuleLayer
from plica.symbolic.layers.multivariate_gaussian import MultivariateGaussianLayer as MultivariateGaussianLayer
from plica.symbolic.layers.negative_binomial import NegativeBinomialLayer as NegativeBinomialLayer
from plica.symbolic.layers.operator_rows import CircuitBlock as CircuitBlock
from plica.symbolic.layers.operator_rows import OperatorKey as OperatorKey
from plica.symbolic.layers.operator_rows import OperatorRegistry as OperatorRegistry
from plica.symbolic.layers.operator_rows import OperatorRow as OperatorRow
from plica.symbolic.layers.operator_rows import operator_table, operators_of
from plica.symbolic.layers.operator_rows import rule_of as rule_of
from plica.symbolic.layers.outer_product import OuterProductLayer as OuterProductLayer
from plica.symbolic.layers.poisson import PoissonLayer as PoissonLayer
from plica.symbolic.layers.polynomial import PolynomialLayer as PolynomialLayer
from plica.symbolic.layers.rounded_logistic import RoundedLogisticLayer as RoundedLogisticLayer
from plica.symbolic.layers.rows import Choice as Choice
from plica.symbolic.layers.rows import FusedRow as FusedRow
from plica.symbolic.layers.rows import InputRow as InputRow
from plica.symbolic.layers.rows import LayerRow as LayerRow
from plica.symbolic.layers.rows import ProductRow as ProductRow
from plica.symbolic.layers.rows import SubLayer as SubLayer
from plica.symbolic.layers.rows import SumRow as SumRow
from plica.symbolic.layers.rows import layer_table as layer_table
from plica.symbolic.layers.rows import rows_of
from plica.symbolic.layers.rows import with_sub_layers as with_sub_layers
from plica.symbolic.layers.sparse_sum import SparseSumLayer as SparseSumLayer
from plica.symbolic.layers.sparse_sum import Term as Term
from plica.symbolic.layers.states import StateTable as StateTable
from plica.symbolic.layers.states import TabulatedLayer as TabulatedLayer
from plica.symbolic.layers.student_t import StudentTLayer as StudentTLayer
from plica.symbolic.layers.sum import SumLayer as SumLayer
from plica.symbolic.layers.tensordot import TensorDotLayer as TensorDotLayer
from plica.symbolic.layers.transpose import TransposeLayer as TransposeLayer
from plica.symbolic.layers.tucker import TuckerLayer as TuckerLayer
from plica.symbolic.layers.uniform import UniformLayer as UniformLayer
from plica.symbolic.layers.von_mises import VonMisesLayer as VonMisesLayer

_OF_PLICA = {  # for this module and other packages alone
    "distribution_table",
    "held_layers",
    "layer_table",
    "operator_table",
    "operators_of",
    "rows_of",
    "rule_of",
    "with_sub_layers",
}

__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith("plica.")]
__all__ = [name for name in __all__ if name not in _OF_PLICA]
__all__ += ["DISTRIBUTIONS", "LAYER_ROWS", "OPERATOR_ROWS", "LayerRow", "OperatorKey"]

from plica.public import listing  # noqa: E402 - after the names of `__all__` are read

__dir__ = listing(__name__)

LAYER_ROWS: Mapping[type[Layer], LayerRow] = layer_table(rows_of(globals().values()))

OPERATOR_ROWS: Mapping[OperatorKey, OperatorRow] = operator_table(operators_of(globals().values()))

# Templates, data files and the command line choose these by name.
DISTRIBUTIONS: Mapping[str, Distribution] = distribution_table(
    row.distribution for row in LAYER_ROWS.values() if isinstance(row, InputRow) and row.distribution is not None
)
