"""Parameters made of parameters, for the operators on circuits: outer products, weights of products, conjugates.

The results read the operands' own nodes; pass `parameter.ref()` where these belong to another circuit.

>>> from plica.symbolic.parameters.factories import normal
>>> block_kronecker(normal((2, 3)), normal((4, 10)), blocks1=1, blocks2=2)
Parameter((8, 30): TensorParameter -> TensorParameter -> BlockKroneckerParameter)
>>> block_kronecker(normal((2, 3)), normal((4, 10)))
Parameter((8, 30): TensorParameter -> TensorParameter -> KroneckerParameter)
"""

import copy

from plica.graph.order import topological_order
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters.contract import EinsumParameter, FlattenParameter, MatMulParameter
from plica.symbolic.parameters.elementwise import (
    ConjugateParameter,
    ExpParameter,
    HadamardParameter,
    SquareParameter,
    SumParameter,
)
from plica.symbolic.parameters.graph import Node, Parameter, ParameterLike
from plica.symbolic.parameters.leaves import ConstantParameter, TensorParameter, dereferenced, kind_of
from plica.symbolic.parameters.nodes import ParameterOp
from plica.symbolic.parameters.polynomials import PolynomialDifferential, PolynomialProduct
from plica.symbolic.parameters.products import (
    BlockKroneckerParameter,
    BlockKroneckerSumParameter,
    KroneckerParameter,
    KroneckerSumParameter,
    OuterProductParameter,
    OuterSumParameter,
)
from plica.symbolic.parameters.reduce import ReduceProductParameter, ReduceSumParameter
from plica.symbolic.parameters.select import ConcatParameter, IndexParameter, MixingWeightParameter

COMMUTING: tuple[type[ParameterOp], ...] = (
    BlockKroneckerParameter,
    BlockKroneckerSumParameter,
    ConcatParameter,
    EinsumParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    KroneckerSumParameter,
    MatMulParameter,
    MixingWeightParameter,
    OuterProductParameter,
    OuterSumParameter,
    PolynomialDifferential,
    PolynomialProduct,
    ReduceProductParameter,
    ReduceSumParameter,
    SquareParameter,
    SumParameter,
)
"""Operations of which the conjugate is the operation on conjugates."""


def outer_product(first: ParameterLike, second: ParameterLike, axis: int = 0) -> Parameter:
    """The products of all pairs of entries along an axis; the entry of the second changes fastest."""
    operands = [Parameter.from_input(operand) for operand in (first, second)]
    return Parameter.from_nary(OuterProductParameter(*(operand.shape for operand in operands), axis=axis), *operands)


def outer_sum(first: ParameterLike, second: ParameterLike, axis: int = 0) -> Parameter:
    """The sums of all pairs of entries along an axis; the entry of the second changes fastest.

    >>> from plica.pipeline import compile_parameter
    >>> tens, ones = ConstantParameter(2, value=[10.0, 20.0]), ConstantParameter(2, value=[1.0, 2.0])
    >>> compile_parameter(outer_sum(tens, ones))()
    tensor([[11., 12., 21., 22.]])
    """
    operands = [Parameter.from_input(operand) for operand in (first, second)]
    return Parameter.from_nary(OuterSumParameter(*(operand.shape for operand in operands), axis=axis), *operands)


def block_kronecker(first: ParameterLike, second: ParameterLike, blocks1: int = 1, blocks2: int = 1) -> Parameter:
    """The weight of the product of two sum layers, from their weights `(O1, H1*I1)` and `(O2, H2*I2)`.

    Column `(h1*H2 + h2) * I1*I2 + i1*I2 + i2` of the result, `(O1*O2, H1*H2*I1*I2)`, is the Kronecker product of column
    `h1*I1 + i1` of the first and column `h2*I2 + i2` of the second. The result is a `KroneckerParameter` where the
    second layer has one input, or those of the first have one unit. Two mixing weights give a mixing weight.

    Args:
        first: The weight of the first layer.
        second: That of the second.
        blocks1: H1, the number of inputs of the first layer.
        blocks2: H2, that of the second.
    """
    operands = [Parameter.from_input(operand) for operand in (first, second)]
    shapes = [operand.shape for operand in operands]
    op = BlockKroneckerParameter(*shapes, blocks1=blocks1, blocks2=blocks2)  # checks the shapes
    if all(
        isinstance(operand.output, MixingWeightParameter) and operand.output.in_shape[1] == blocks
        for operand, blocks in zip(operands, (blocks1, blocks2), strict=True)
    ):
        # blocks of diagonals: their Kronecker products are diagonals
        weights = [operand.subgraph(*operand.node_inputs(operand.output)) for operand in operands]
        weight = Parameter.from_nary(KroneckerParameter(*(weight.shape for weight in weights)), *weights)
        return Parameter.from_unary(MixingWeightParameter(weight.shape), weight)
    if blocks2 == 1 or shapes[0][1] == blocks1:
        return Parameter.from_nary(KroneckerParameter(*shapes), *operands)
    return Parameter.from_nary(op, *operands)


def is_real(parameter: Parameter) -> bool:
    """Whether all numbers of a parameter are known to be real; a custom leaf may hold complex ones."""
    return not any(_may_be_complex(leaf) for leaf in parameter.leaves)


def conjugated(parameter: ParameterLike) -> Parameter:
    """The complex conjugates of a parameter, from references to its leaves; of real numbers, a reference.

    Conjugates are taken before operations where the result is the same, so that a weight keeps its form: the conjugate
    of a mixing weight is one, and that of a Kronecker product a Kronecker product.
    """
    reference = Parameter.from_input(parameter).ref()
    if is_real(reference):
        return reference
    in_nodes: dict[Node, tuple[Node, ...]] = {node: reference.node_inputs(node) for node in reference.nodes}
    complex_: dict[Node, bool] = {}
    for node in reference.nodes:
        inputs = in_nodes[node]
        complex_[node] = any(map(complex_.__getitem__, inputs)) if inputs else _may_be_complex(node)

    def operands(node: Node) -> tuple[Node, ...]:
        """The nodes whose conjugates give that of a node."""
        return in_nodes[node] if complex_[node] and isinstance(node, COMMUTING) else ()

    conjugates: dict[Node, Node] = {}
    for node in topological_order(reference.outputs, operands):
        if not complex_[node]:
            conjugates[node] = node
        elif isinstance(node, ConjugateParameter):
            (conjugates[node],) = in_nodes[node]
        elif isinstance(node, COMMUTING):
            conjugate: Node = copy.copy(node)
            conjugates[node], in_nodes[conjugate] = conjugate, tuple(conjugates[child] for child in in_nodes[node])
        else:
            conjugate = ConjugateParameter(node.shape)
            conjugates[node], in_nodes[conjugate] = conjugate, (node,)
    outputs = [conjugates[output] for output in reference.outputs]
    nodes = topological_order(outputs, in_nodes.__getitem__)
    return Parameter(nodes, {node: in_nodes[node] for node in nodes}, outputs)


def _may_be_complex(leaf: Node) -> bool:
    target = dereferenced(leaf)
    is_known = isinstance(target, TensorParameter | ConstantParameter)
    return not is_known or kind_of(target) == DataType.COMPLEX
