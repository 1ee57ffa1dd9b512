"""Parameters of layers: leaves, operations, and the graphs that join them.

>>> from plica.symbolic.initializers import UniformInitializer
>>> Parameter.from_sequence(TensorParameter(3, initializer=UniformInitializer()), SquareParameter((3,)))
Parameter((3,): TensorParameter -> SquareParameter)
"""

from plica.symbolic.parameters.contract import (
    EinsumParameter,
    FlattenParameter,
    LogEinsumExpParameter,
    LogMatMulExpParameter,
    MatMulParameter,
)
from plica.symbolic.parameters.elementwise import (
    ClampParameter,
    ConjugateParameter,
    ExpParameter,
    HadamardParameter,
    LogAddExpParameter,
    LogParameter,
    LogSigmoidParameter,
    LogSoftplusParameter,
    ScaledSigmoidParameter,
    SigmoidParameter,
    SoftplusParameter,
    SquareParameter,
    SumParameter,
    exponential,
)
from plica.symbolic.parameters.factories import log_softmax_normal, mixing_weight_factory, normal, softmax_normal
from plica.symbolic.parameters.gaussians import (
    GaussianProductLogPartition,
    GaussianProductMean,
    GaussianProductStddev,
    LogGaussianProductStddev,
)
from plica.symbolic.parameters.graph import Parameter, ParameterFactory, ParameterLike
from plica.symbolic.parameters.leaves import ConstantParameter, ReferenceParameter, TensorParameter, dereferenced
from plica.symbolic.parameters.nodes import (
    Array,
    BinaryOp,
    Namespace,
    ParameterInput,
    ParameterNode,
    ParameterOp,
    Shape,
    UnaryOp,
    setting_key,
)
from plica.symbolic.parameters.polynomials import PolynomialDifferential, PolynomialProduct
from plica.symbolic.parameters.products import (
    KroneckerParameter,
    KroneckerSumParameter,
    OuterProductParameter,
    OuterSumParameter,
)
from plica.symbolic.parameters.reduce import (
    LogSoftmaxParameter,
    ReduceLSEParameter,
    ReduceProductParameter,
    ReduceSumParameter,
    SoftmaxParameter,
)
from plica.symbolic.parameters.rules import ComposedParameter, LeafRow, OperationRow, ParameterRow
from plica.symbolic.parameters.select import ConcatParameter, IndexParameter, MixingWeightParameter
from plica.symbolic.parameters.signed import (
    ClampSignParameter,
    ClampSizeParameter,
    LogSizeParameter,
    SignedLogParameter,
    SignParameter,
    StackParameter,
    SumSignParameter,
    SumSizeParameter,
)

__all__ = [
    "Array",
    "BinaryOp",
    "ClampParameter",
    "ClampSignParameter",
    "ClampSizeParameter",
    "ComposedParameter",
    "ConcatParameter",
    "ConjugateParameter",
    "ConstantParameter",
    "EinsumParameter",
    "ExpParameter",
    "FlattenParameter",
    "GaussianProductLogPartition",
    "GaussianProductMean",
    "GaussianProductStddev",
    "HadamardParameter",
    "IndexParameter",
    "KroneckerParameter",
    "KroneckerSumParameter",
    "LeafRow",
    "LogAddExpParameter",
    "LogEinsumExpParameter",
    "LogGaussianProductStddev",
    "LogMatMulExpParameter",
    "LogParameter",
    "LogSigmoidParameter",
    "LogSizeParameter",
    "LogSoftmaxParameter",
    "LogSoftplusParameter",
    "MatMulParameter",
    "MixingWeightParameter",
    "Namespace",
    "OperationRow",
    "OuterProductParameter",
    "OuterSumParameter",
    "Parameter",
    "ParameterFactory",
    "ParameterInput",
    "ParameterLike",
    "ParameterNode",
    "ParameterOp",
    "ParameterRow",
    "PolynomialDifferential",
    "PolynomialProduct",
    "ReduceLSEParameter",
    "ReduceProductParameter",
    "ReduceSumParameter",
    "ReferenceParameter",
    "ScaledSigmoidParameter",
    "Shape",
    "SigmoidParameter",
    "SignParameter",
    "SignedLogParameter",
    "SoftmaxParameter",
    "SoftplusParameter",
    "SquareParameter",
    "StackParameter",
    "SumParameter",
    "SumSignParameter",
    "SumSizeParameter",
    "TensorParameter",
    "UnaryOp",
    "dereferenced",
    "exponential",
    "log_softmax_normal",
    "mixing_weight_factory",
    "normal",
    "setting_key",
    "softmax_normal",
]
