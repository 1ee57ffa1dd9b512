"""Parameters resolved by rules: custom leaves are expanded to parameters, operations are evaluated by a context's rows.

The rule for the class of a node applies, node by node in topological order.

>>> from plica.symbolic.parameters import softmax_normal
>>> parameter = softmax_normal((2, 3))
>>> Resolver({}).parameter(parameter) is parameter  # built-in nodes need no rule
True
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

from plica.errors import DTypeError, GraphError, ShapeError, UnsupportedError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import (
    Array,
    ComposedParameter,
    ConstantParameter,
    LeafRow,
    Namespace,
    OperationRow,
    Parameter,
    ParameterInput,
    ParameterLike,
    ParameterOp,
    ParameterRow,
    Shape,
    TensorParameter,
    dereferenced,
)

Node = ParameterInput | ParameterOp
AnyLayer = TypeVar("AnyLayer", bound=Layer)
Applied = dict[tuple[Node, tuple[Node, ...] | None], Node]  # by node and inputs; by node and None where it is used


@final
@dataclass(frozen=True, slots=True, eq=False)
class RuledOperation(ParameterOp):
    """An operation that a row evaluates; no built-in table has its class."""

    original: ParameterOp
    row: OperationRow

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self.infer_shape())

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the operation's inputs."""
        return self.original.in_shapes

    @property
    def config(self) -> dict[str, Any]:
        """The config of the operation, with its class and its row."""
        return {**self.original.config, "original": type(self.original), "row": self.row}

    def infer_shape(self) -> Shape:
        """The shape of the operation."""
        return self.original.shape

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The result of the row, checked to have the shape of the operation."""
        result = self.row.evaluate(xp, self.original, *arrays)
        expected = (arrays[0].shape[0], *self.shape)
        if not hasattr(result, "shape") or tuple(result.shape) != expected:
            shape = tuple(result.shape) if hasattr(result, "shape") else repr(result)
            raise ShapeError(
                f"the OperationRow for {type(self.original).__name__}: expected a result of shape {expected}, the "
                f"fold axis first, found {shape}; `evaluate` computes each fold as the operation does"
            )
        return result


@final
class Resolver:
    """Applies rules to parameters; a leaf or operation becomes the same node for all parameters that share it.

    Args:
        rows: The rows of a context by class, looked up anew for each node.
    """

    def __init__(self, rows: Mapping[type, ParameterRow] | Callable[[type], ParameterRow | None]) -> None:
        self._row = rows.get if isinstance(rows, Mapping) else rows
        self._leaves: dict[ParameterInput, Parameter] = {}
        self._operations: dict[ParameterOp, RuledOperation] = {}

    def circuit(self, circuit: Circuit) -> Circuit:
        """The circuit with copies of the layers whose parameters change; the same circuit if none does."""
        applied: Applied = {}
        moved = {layer: self.layer(layer, applied) for layer in circuit.layers}
        if all(moved[layer] is layer for layer in circuit.layers):
            return circuit
        edges = {
            moved[layer]: [moved[input_layer] for input_layer in circuit.layer_inputs(layer)]
            for layer in circuit.layers
        }
        return Circuit(
            moved.values(),
            edges,
            [moved[layer] for layer in circuit.outputs],
            operation=circuit.operation,
            data_scope=circuit.data_scope,
        )

    def layer(self, layer: AnyLayer, applied: Applied | None = None) -> AnyLayer:
        """The layer, or a copy with its parameters resolved.

        Args:
            layer: The layer.
            applied: The operations of the layers of one circuit so far; an operation on other inputs is copied.
        """
        operations = {} if applied is None else applied
        before = layer.all_params
        new = {name: _of_own(self.parameter(parameter), operations) for name, parameter in before.items()}
        changed = any(new[name] is not parameter for name, parameter in before.items())
        return layer.with_params(new) if changed else layer

    def parameter(self, parameter: Parameter) -> Parameter:
        """The parameter of built-in leaves, with operations by their rules; the same one where nothing changes.

        Raises:
            UnsupportedError: A leaf is of a class without a rule.
        """
        return self._resolved(parameter, final=())

    def tensor(self, leaf: ParameterInput) -> ParameterInput:
        """The leaf that a compiled one was expanded to, if that is a single leaf; else the leaf itself."""
        known = self._leaves.get(leaf)
        return known.output if known is not None and isinstance(known.output, ParameterInput) else leaf

    def _resolved(self, parameter: Parameter, final: Sequence[type]) -> Parameter:
        if all(map(self._stays, parameter.nodes)):  # true of most parameters
            return parameter
        new: dict[Node, Node] = {}
        edges: dict[Node, tuple[Node, ...]] = {}
        for node in parameter.nodes:
            if isinstance(node, ParameterOp):
                new[node] = self._operation(node)
                edges[new[node]] = tuple(new[child] for child in parameter.node_inputs(node))
                continue
            part = self._leaf(node, final)
            new[node] = node if part is None else part.output
            edges.update(
                {node: ()} if part is None else {part_node: part.node_inputs(part_node) for part_node in part.nodes}
            )
        if all(new[node] is node for node in parameter.nodes):
            return parameter
        return Parameter(edges, edges, [new[output] for output in parameter.outputs])

    def _stays(self, node: Node) -> bool:
        """Whether a node is an operation or a built-in leaf, and no rule is for it."""
        target = dereferenced(node)
        return isinstance(target, TensorParameter | ConstantParameter | ParameterOp) and self._row(type(target)) is None

    def _operation(self, operation: ParameterOp) -> ParameterOp:
        row = self._row(type(operation))
        if not isinstance(row, OperationRow):
            return operation
        if operation not in self._operations:
            self._operations[operation] = RuledOperation(operation, row)
        return self._operations[operation]

    def _leaf(self, leaf: ParameterInput, final: Sequence[type]) -> Parameter | None:
        """The parameter that a leaf is expanded to; None where it stays."""
        target = dereferenced(leaf)
        if target in self._leaves:
            return self._leaves[target]
        if type(target) in final:
            return None
        row = self._row(type(target))
        if isinstance(row, LeafRow):
            expansion = row.parameter(target)
        elif isinstance(target, ComposedParameter):
            expansion = target.compose()
        elif isinstance(target, TensorParameter | ConstantParameter):
            return None
        else:
            raise UnsupportedError(_unknown(target))
        # A rule for a built-in leaf may expand it to such leaves, which stay as they are.
        is_built_in = isinstance(target, TensorParameter | ConstantParameter)
        resolved = self._resolved(_checked(target, expansion), (*final, type(target)) if is_built_in else final)
        # Operations are copied, since other expansions may share them, and this one becomes part of other parameters.
        resolved = _of_own(resolved, {(node, None): node for node in resolved.nodes if isinstance(node, ParameterOp)})
        self._leaves[target] = resolved
        return resolved


def _of_own(parameter: Parameter, applied: Applied) -> Parameter:
    """The parameter with copies of operations that another parameter applies to other inputs.

    One object may be an operation of several parameters with different inputs. Later steps identify nodes by identity,
    so each needs its own.
    """
    if len(parameter.nodes) == 1:  # a leaf, as most parameters are
        return parameter
    new: dict[Node, Node] = {}
    for node in parameter.nodes:
        inputs = tuple(new[child] for child in parameter.node_inputs(node))
        if (node, inputs) not in applied:
            applied[node, inputs] = copy.copy(node) if (node, None) in applied else node
            applied[node, None] = node
        new[node] = applied[node, inputs]
    if all(new[node] is node for node in parameter.nodes):
        return parameter
    edges = {new[node]: [new[child] for child in parameter.node_inputs(node)] for node in parameter.nodes}
    return Parameter(edges, edges, [new[output] for output in parameter.outputs])


def resolve_circuit(circuit: Circuit, rows: Mapping[type, ParameterRow] | None = None) -> Circuit:
    """A circuit with its parameters resolved."""
    return Resolver(rows or {}).circuit(circuit)


def _checked(leaf: ParameterInput, expansion: ParameterLike) -> Parameter:
    name = type(leaf).__name__
    try:
        parameter = Parameter.from_input(expansion)
    except DTypeError as error:
        raise DTypeError(f"the replacement of {name} must be a parameter: {error}") from error
    if leaf in parameter.nodes:
        raise GraphError(
            f"{name} is replaced by a parameter that has it as a leaf; build that parameter from other leaves"
        )
    if parameter.shapes != (leaf.shape,):
        raise ShapeError(
            f"{name}: expected a parameter of shape {leaf.shape} to replace it, found "
            f"{' and '.join(map(str, parameter.shapes))}; give it the shape of the leaf, and one output"
        )
    return parameter


def _unknown(leaf: ParameterInput) -> str:
    name = type(leaf).__name__
    return (
        f"the context has no rule for a leaf of class {name}; derive the class from ComposedParameter, with a method "
        f"`compose`, or add a rule: add_parameter_compilation_rule(LeafRow({name}, parameter=...))."
    )
