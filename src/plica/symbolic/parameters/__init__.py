"""Parameters of layers: leaves, operations, and the graphs that join them.

>>> from plica.symbolic.initializers import UniformInitializer
>>> Parameter.from_sequence(TensorParameter(3, initializer=UniformInitializer()), SquareParameter((3,)))
Parameter((3,): TensorParameter -> SquareParameter)
"""

from plica.symbolic.parameters.combined import block_kronecker as block_kronecker
from plica.symbolic.parameters.combined import conjugated as conjugated
from plica.symbolic.parameters.combined import is_real as is_real
from plica.symbolic.parameters.combined import outer_product as outer_product
from plica.symbolic.parameters.combined import outer_sum as outer_sum
from plica.symbolic.parameters.contract import EinsumParameter as EinsumParameter
from plica.symbolic.parameters.contract import FlattenParameter as FlattenParameter
from plica.symbolic.parameters.contract import LogEinsumExpParameter as LogEinsumExpParameter
from plica.symbolic.parameters.contract import LogMatMulExpParameter as LogMatMulExpParameter
from plica.symbolic.parameters.contract import MatMulParameter as MatMulParameter
from plica.symbolic.parameters.elementwise import ClampParameter as ClampParameter
from plica.symbolic.parameters.elementwise import ConjugateParameter as ConjugateParameter
from plica.symbolic.parameters.elementwise import ExpParameter as ExpParameter
from plica.symbolic.parameters.elementwise import HadamardParameter as HadamardParameter
from plica.symbolic.parameters.elementwise import LogAddExpParameter as LogAddExpParameter
from plica.symbolic.parameters.elementwise import LogParameter as LogParameter
from plica.symbolic.parameters.elementwise import LogSigmoidParameter as LogSigmoidParameter
from plica.symbolic.parameters.elementwise import LogSoftplusParameter as LogSoftplusParameter
from plica.symbolic.parameters.elementwise import ScaledSigmoidParameter as ScaledSigmoidParameter
from plica.symbolic.parameters.elementwise import SigmoidParameter as SigmoidParameter
from plica.symbolic.parameters.elementwise import SoftplusParameter as SoftplusParameter
from plica.symbolic.parameters.elementwise import SquareParameter as SquareParameter
from plica.symbolic.parameters.elementwise import SumParameter as SumParameter
from plica.symbolic.parameters.elementwise import exponential as exponential
from plica.symbolic.parameters.factories import log_softmax_normal as log_softmax_normal
from plica.symbolic.parameters.factories import mixing_weight_factory as mixing_weight_factory
from plica.symbolic.parameters.factories import normal as normal
from plica.symbolic.parameters.factories import softmax_normal as softmax_normal
from plica.symbolic.parameters.gaussians import GaussianExpectedLog as GaussianExpectedLog
from plica.symbolic.parameters.gaussians import GaussianMoments as GaussianMoments
from plica.symbolic.parameters.gaussians import GaussianProductLogPartition as GaussianProductLogPartition
from plica.symbolic.parameters.gaussians import GaussianProductMean as GaussianProductMean
from plica.symbolic.parameters.gaussians import GaussianProductStddev as GaussianProductStddev
from plica.symbolic.parameters.gaussians import LogGaussianProductStddev as LogGaussianProductStddev
from plica.symbolic.parameters.graph import Parameter as Parameter
from plica.symbolic.parameters.graph import ParameterFactory as ParameterFactory
from plica.symbolic.parameters.graph import ParameterLike as ParameterLike
from plica.symbolic.parameters.leaves import ConstantParameter as ConstantParameter
from plica.symbolic.parameters.leaves import ReferenceParameter as ReferenceParameter
from plica.symbolic.parameters.leaves import TensorParameter as TensorParameter
from plica.symbolic.parameters.leaves import dereferenced as dereferenced
from plica.symbolic.parameters.multivariate import MultivariateProductFactor as MultivariateProductFactor
from plica.symbolic.parameters.multivariate import MultivariateProductLogPartition as MultivariateProductLogPartition
from plica.symbolic.parameters.multivariate import MultivariateProductMean as MultivariateProductMean
from plica.symbolic.parameters.nodes import Array as Array
from plica.symbolic.parameters.nodes import BinaryOp as BinaryOp
from plica.symbolic.parameters.nodes import Namespace as Namespace
from plica.symbolic.parameters.nodes import ParameterInput as ParameterInput
from plica.symbolic.parameters.nodes import ParameterNode as ParameterNode
from plica.symbolic.parameters.nodes import ParameterOp as ParameterOp
from plica.symbolic.parameters.nodes import Shape as Shape
from plica.symbolic.parameters.nodes import UnaryOp as UnaryOp
from plica.symbolic.parameters.nodes import setting_key as setting_key
from plica.symbolic.parameters.polynomials import PolynomialDifferential as PolynomialDifferential
from plica.symbolic.parameters.polynomials import PolynomialProduct as PolynomialProduct
from plica.symbolic.parameters.products import BlockKroneckerParameter as BlockKroneckerParameter
from plica.symbolic.parameters.products import BlockKroneckerSumParameter as BlockKroneckerSumParameter
from plica.symbolic.parameters.products import KroneckerParameter as KroneckerParameter
from plica.symbolic.parameters.products import KroneckerSumParameter as KroneckerSumParameter
from plica.symbolic.parameters.products import OuterProductParameter as OuterProductParameter
from plica.symbolic.parameters.products import OuterSumParameter as OuterSumParameter
from plica.symbolic.parameters.reduce import CountedLogSoftmaxParameter as CountedLogSoftmaxParameter
from plica.symbolic.parameters.reduce import CountedSoftmaxParameter as CountedSoftmaxParameter
from plica.symbolic.parameters.reduce import LogSoftmaxParameter as LogSoftmaxParameter
from plica.symbolic.parameters.reduce import ReduceLSEParameter as ReduceLSEParameter
from plica.symbolic.parameters.reduce import ReduceProductParameter as ReduceProductParameter
from plica.symbolic.parameters.reduce import ReduceSumParameter as ReduceSumParameter
from plica.symbolic.parameters.reduce import SoftmaxParameter as SoftmaxParameter
from plica.symbolic.parameters.rules import ComposedParameter as ComposedParameter
from plica.symbolic.parameters.rules import LeafRow as LeafRow
from plica.symbolic.parameters.rules import OperationRow as OperationRow
from plica.symbolic.parameters.rules import ParameterRow as ParameterRow
from plica.symbolic.parameters.select import ConcatParameter as ConcatParameter
from plica.symbolic.parameters.select import IndexParameter as IndexParameter
from plica.symbolic.parameters.select import MixingWeightParameter as MixingWeightParameter
from plica.symbolic.parameters.signed import ClampSignParameter as ClampSignParameter
from plica.symbolic.parameters.signed import ClampSizeParameter as ClampSizeParameter
from plica.symbolic.parameters.signed import LogSizeParameter as LogSizeParameter
from plica.symbolic.parameters.signed import SignedLogParameter as SignedLogParameter
from plica.symbolic.parameters.signed import SignParameter as SignParameter
from plica.symbolic.parameters.signed import StackParameter as StackParameter
from plica.symbolic.parameters.signed import SumSignParameter as SumSignParameter
from plica.symbolic.parameters.signed import SumSizeParameter as SumSizeParameter
from plica.symbolic.parameters.supports import LogOnSupportParameter as LogOnSupportParameter
from plica.symbolic.parameters.supports import PowerOnSupportParameter as PowerOnSupportParameter

_OF_PLICA = {"dereferenced", "exponential", "is_real", "setting_key"}  # for other packages alone

__all__ = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith("plica.")]
__all__ = [name for name in __all__ if name not in _OF_PLICA]
__all__ += ["ParameterFactory", "ParameterLike", "ParameterRow", "Shape"]

from plica.public import listing  # noqa: E402 - after the names of `__all__` are read

__dir__ = listing(__name__)
