"""The parameter of a layer: a small graph of array operations over leaf tensors.

>>> from plica.symbolic.initializers import NormalInitializer
>>> from plica.symbolic.parameters import SoftmaxParameter, TensorParameter
>>> leaf = TensorParameter(2, 3, initializer=NormalInitializer())
>>> weight = Parameter.from_unary(SoftmaxParameter((2, 3)), leaf)
>>> weight.shape, [type(node).__name__ for node in weight.nodes]
((2, 3), ['TensorParameter', 'SoftmaxParameter'])
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, final

from plica.arguments import edges, found, looked_up
from plica.errors import DTypeError, GraphError, ShapeError
from plica.graph.listing import Listing
from plica.graph.order import layerwise_topological_order, topological_order
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters.leaves import ConstantParameter, ReferenceParameter, kind_of
from plica.symbolic.parameters.nodes import ParameterInput, ParameterOp, Shape

Node: TypeAlias = ParameterInput | ParameterOp


@final
class Parameter:
    """A directed acyclic graph of parameter nodes, compared by identity.

    Most parameters have one output, the value that a layer reads; `output`, `shape` and operations need it. A custom
    layer may read a parameter of several outputs: its formulas get the tuple of them. `compile_parameter` takes such a
    parameter too.

    Args:
        nodes: The nodes, in any order.
        in_nodes: The inputs of each operation, in the order of its input shapes; leaves may be left out.
        outputs: The nodes that compute the value of the parameter; with several nodes, it is a tuple.

    Raises:
        GraphError: A cycle, an edge to a node that is not listed, or no output.
        ShapeError: An input of another number or shape than an operation expects.
    """

    __slots__ = ("_in_nodes", "_nodes", "_outputs")

    def __init__(self, nodes: Iterable[Node], in_nodes: Mapping[Node, Sequence[Node]], outputs: Iterable[Node]) -> None:
        self._in_nodes, self._outputs = edges("Parameter", nodes, in_nodes, outputs, "nodes")
        _check_edges(self._in_nodes, in_nodes)
        _check_outputs(self._in_nodes, self._outputs)
        self._nodes: tuple[Node, ...] = topological_order(self._in_nodes, self._in_nodes.__getitem__)
        for node in self._nodes:
            _check_inputs(node, self._in_nodes[node])

    @property
    def nodes(self) -> Listing[Node]:
        """Every node, each after its inputs."""
        return Listing(self._nodes)

    @property
    def inputs(self) -> Listing[ParameterInput]:
        """The leaves, by another name."""
        return self.leaves

    @property
    def leaves(self) -> Listing[ParameterInput]:
        """The nodes without inputs, in the order of `nodes`."""
        return Listing(node for node in self._nodes if isinstance(node, ParameterInput))

    @property
    def output(self) -> Node:
        """The node that computes the value of the parameter.

        Raises:
            GraphError: There are several.
        """
        if len(self._outputs) > 1:
            raise GraphError(
                f"{self!r} has {len(self._outputs)} outputs where one is needed; take one of them by "
                "`parameter.subgraph(parameter.outputs[0])`"
            )
        return self._outputs[0]

    @property
    def outputs(self) -> Listing[Node]:
        """The nodes that compute the value of the parameter, in order."""
        return Listing(self._outputs)

    @property
    def shape(self) -> Shape:
        """The shape of the output; raises as `output` does."""
        return self.output.shape

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of each output."""
        return tuple(output.shape for output in self._outputs)

    @property
    def dtype(self) -> DataType:
        """The widest kind of number among the leaves, real at least."""
        kinds = [kind_of(leaf) for leaf in self.leaves]
        return max([DataType.REAL, *kinds], key=lambda kind: kind.value)

    def topological_ordering(self) -> Listing[Node]:
        """Every node, each after its inputs."""
        return self.nodes

    def layerwise_topological_ordering(self) -> Listing[tuple[Node, ...]]:
        """The nodes by level: a node is one level above its highest input."""
        return Listing(layerwise_topological_order(self._nodes, self._in_nodes.__getitem__))

    def node_inputs(self, node: Node) -> tuple[Node, ...]:
        """The inputs of one node."""
        return looked_up("Parameter.node_inputs", self._in_nodes, node, "node")

    def subgraph(self, output: Node) -> "Parameter":
        """The parameter that ends at another of its nodes; the nodes are shared."""
        nodes = topological_order([output], self._in_nodes.__getitem__)
        return _from_checked({node: self._in_nodes[node] for node in nodes}, output)

    def ref(self) -> "Parameter":
        """A parameter that computes the same from references to the leaves of this one."""
        copies: dict[Node, Node] = {node: _reference(node) for node in self._nodes}
        in_nodes = {copies[node]: tuple([copies[child] for child in self._in_nodes[node]]) for node in self._nodes}
        return _from_checked(in_nodes, *(copies[output] for output in self._outputs))

    def __repr__(self) -> str:
        names = " -> ".join(type(node).__name__ for node in self._nodes[-4:])
        return f"Parameter({', '.join(map(str, self.shapes))}: {'... -> ' if len(self._nodes) > 4 else ''}{names})"

    @staticmethod
    def from_input(parameter: "ParameterLike") -> "Parameter":
        """A leaf as a parameter; a parameter is returned unchanged."""
        if isinstance(parameter, Parameter):
            return parameter
        if not isinstance(parameter, ParameterInput):
            raise DTypeError(
                f"expected a Parameter or a leaf of one, found {type(parameter).__name__}; "
                "wrap fixed values in ConstantParameter(*shape, value=...)"
            )
        return _from_checked({parameter: ()}, parameter)

    @staticmethod
    def from_sequence(parameter: "ParameterLike", *ops: ParameterOp) -> "Parameter":
        """Operations of one input each, applied one after another."""
        chain = Parameter.from_input(parameter)
        for op in ops:
            chain = Parameter.from_nary(op, chain)
        return chain

    @staticmethod
    def from_unary(op: ParameterOp, parameter: "ParameterLike") -> "Parameter":
        """An operation of one input, applied."""
        return Parameter.from_nary(op, parameter)

    @staticmethod
    def from_binary(op: ParameterOp, parameter1: "ParameterLike", parameter2: "ParameterLike") -> "Parameter":
        """An operation of two inputs, applied."""
        return Parameter.from_nary(op, parameter1, parameter2)

    @staticmethod
    def from_nary(op: ParameterOp, *parameters: "ParameterLike") -> "Parameter":
        """An operation applied to parameters; nodes that they share stay shared."""
        _check_operation(op)
        operands = [Parameter.from_input(parameter) for parameter in parameters]
        in_nodes: dict[Node, tuple[Node, ...]] = {}
        for operand in operands:
            for node in operand._nodes:
                inputs = operand._in_nodes[node]
                if in_nodes.setdefault(node, inputs) != inputs:
                    raise GraphError(_reused(node))
        if op in in_nodes:
            raise GraphError(_reused(op))
        in_nodes[op] = inputs = tuple([operand.output for operand in operands])
        _check_inputs(op, inputs)
        return _from_checked(in_nodes, op)


ParameterLike: TypeAlias = Parameter | ParameterInput
ParameterFactory: TypeAlias = Callable[[Shape], ParameterLike]


def _from_checked(in_nodes: dict[Node, tuple[Node, ...]], *outputs: Node) -> Parameter:
    """A parameter from nodes that were checked, each after its inputs."""
    parameter = object.__new__(Parameter)
    parameter._in_nodes, parameter._nodes, parameter._outputs = in_nodes, tuple(in_nodes), outputs
    return parameter


def _check_edges(listed: Mapping[Node, object], in_nodes: Mapping[Node, Sequence[Node]]) -> None:
    for node in listed:
        if not isinstance(node, ParameterInput | ParameterOp):
            raise DTypeError(f"Parameter: expected leaves and operations as nodes, {found(node)}")
    for node, inputs in in_nodes.items():
        for unknown in (node, *inputs):
            if unknown not in listed:
                raise GraphError(
                    f"Parameter: the inputs of {type(node).__name__} name a {type(unknown).__name__} that is not among "
                    "the nodes; add it to `nodes`"
                )


def _check_operation(op: ParameterOp) -> None:
    if not isinstance(op, ParameterOp):
        raise DTypeError(f"expected an operation on parameters, such as ExpParameter((2, 3)), {found(op)}")


def _check_outputs(listed: Mapping[Node, object], outputs: tuple[Node, ...]) -> None:
    if not outputs:
        raise GraphError("Parameter: expected at least one output, found none; name the last node among `outputs`")
    for output in outputs:
        if output not in listed:
            raise GraphError(f"Parameter: the output {type(output).__name__} is not among the nodes; add it to `nodes`")


def _check_inputs(node: Node, inputs: tuple[Node, ...]) -> None:
    expected = node.in_shapes if isinstance(node, ParameterOp) else ()
    shapes = tuple(child.shape for child in inputs)
    if shapes != expected:
        raise ShapeError(
            f"{type(node).__name__}: expected {_shapes(expected)}, found {_shapes(shapes)}; "
            "construct the operation with the shapes of its inputs"
        )


def _shapes(shapes: tuple[Shape, ...]) -> str:
    return "inputs of shape " + " and ".join(map(str, shapes)) if shapes else "no inputs"


def _reference(node: Node) -> Node:
    """A copy of an operation, or a leaf that shares the tensor of a leaf."""
    if isinstance(node, ParameterOp):
        return copy.copy(node)
    return node if isinstance(node, ConstantParameter) else ReferenceParameter(node)


def _reused(node: Node) -> str:
    return (
        f"Parameter: one {type(node).__name__} object is used in two places with different inputs; "
        "construct a new operation for each place"
    )
