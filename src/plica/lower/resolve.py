"""Parameters as their rules have them: leaves of one's own by what they stand for, operations by a context's rows.

Each node in topological order is taken by the rule for its class.

>>> from plica.symbolic.parameters import softmax_normal
>>> parameter = softmax_normal((2, 3))
>>> Resolver({}).parameter(parameter) is parameter  # Plica's own nodes need no rule
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
Applied = dict[tuple[Node, tuple[Node, ...] | None], Node]  # by node and inputs; by node alone where it is taken


@final
@dataclass(frozen=True, slots=True, eq=False)
class RuledOperation(ParameterOp):
    """An operation that is evaluated by a row: of a class that no table of Plica knows anything of."""

    original: ParameterOp
    row: OperationRow

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self.infer_shape())

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """Those of the operation."""
        return self.original.in_shapes

    @property
    def config(self) -> dict[str, Any]:
        """That of the operation, and by what it is computed."""
        return {**self.original.config, "original": type(self.original), "row": self.row}

    def infer_shape(self) -> Shape:
        """That of the operation."""
        return self.original.shape

    def evaluate(self, xp: Namespace, *arrays: Array) -> Array:
        """The result of the row, checked to have the shape of the operation."""
        result = self.row.evaluate(xp, self.original, *arrays)
        expected = (arrays[0].shape[0], *self.shape)
        if not hasattr(result, "shape") or tuple(result.shape) != expected:
            found = tuple(result.shape) if hasattr(result, "shape") else repr(result)
            raise ShapeError(
                f"the OperationRow for {type(self.original).__name__}: expected a result of shape {expected}, the "
                f"fold axis first, found {found}; `evaluate` computes each fold as the operation does"
            )
        return result


@final
class Resolver:
    """Applies rules to parameters; what one leaf or operation became stays the same for all that share it.

    Args:
        rows: The rules of a context by class, looked at anew for each node.
    """

    def __init__(self, rows: Mapping[type, ParameterRow] | Callable[[type], ParameterRow | None]) -> None:
        self._row = rows.get if isinstance(rows, Mapping) else rows
        self._leaves: dict[ParameterInput, Parameter] = {}
        self._operations: dict[ParameterOp, RuledOperation] = {}

    def circuit(self, circuit: Circuit) -> Circuit:
        """The circuit with the layers in their places, those whose parameters change as copies; itself if none does."""
        applied: Applied = {}
        moved = {layer: self.layer(layer, applied) for layer in circuit.layers}
        if all(moved[layer] is layer for layer in circuit.layers):
            return circuit
        edges = {moved[layer]: [moved[one] for one in circuit.layer_inputs(layer)] for layer in circuit.layers}
        return Circuit(moved.values(), edges, [moved[layer] for layer in circuit.outputs], operation=circuit.operation)

    def layer(self, layer: AnyLayer, applied: Applied | None = None) -> AnyLayer:
        """The layer, or a copy with its parameters as their rules have them.

        Args:
            layer: The layer.
            applied: The operations of the layers of one circuit so far: no two parameters have one on other inputs.
        """
        found = {} if applied is None else applied
        now = {name: _of_own(self.parameter(parameter), found) for name, parameter in layer.all_params.items()}
        changed = any(now[name] is not parameter for name, parameter in layer.all_params.items())
        return layer.with_params(now) if changed else layer

    def parameter(self, parameter: Parameter) -> Parameter:
        """The parameter of Plica's own leaves, and of operations by their rules; itself where nothing changes.

        Raises:
            UnsupportedError: A leaf is of a class that nothing is known of.
        """
        return self._resolved(parameter, final=())

    def tensor(self, leaf: ParameterInput) -> ParameterInput:
        """The leaf that holds the numbers of one that is compiled already, where that is one leaf alone."""
        known = self._leaves.get(leaf)
        return known.output if known is not None and isinstance(known.output, ParameterInput) else leaf

    def _resolved(self, parameter: Parameter, final: Sequence[type]) -> Parameter:
        if all(map(self._stays, parameter.nodes)):  # most do
            return parameter
        now: dict[Node, Node] = {}
        edges: dict[Node, tuple[Node, ...]] = {}
        for node in parameter.nodes:
            if isinstance(node, ParameterOp):
                now[node] = self._operation(node)
                edges[now[node]] = tuple(now[child] for child in parameter.node_inputs(node))
                continue
            part = self._leaf(node, final)
            now[node] = node if part is None else part.output
            edges.update({node: ()} if part is None else {one: part.node_inputs(one) for one in part.nodes})
        if all(now[node] is node for node in parameter.nodes):
            return parameter
        return Parameter(edges, edges, [now[output] for output in parameter.outputs])

    def _stays(self, node: Node) -> bool:
        """Whether a node is an operation or a leaf of Plica's own, and no rule is for it."""
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
        """What a leaf stands for; None where it stands for itself."""
        target = dereferenced(leaf)
        if target in self._leaves:
            return self._leaves[target]
        if type(target) in final:
            return None
        row = self._row(type(target))
        if isinstance(row, LeafRow):
            given = row.parameter(target)
        elif isinstance(target, ComposedParameter):
            given = target.compose()
        elif isinstance(target, TensorParameter | ConstantParameter):
            return None
        else:
            raise UnsupportedError(_unknown(target))
        # A rule for a leaf of Plica's own may well be made of such leaves; they stand for themselves there.
        own = isinstance(target, TensorParameter | ConstantParameter)
        found = self._resolved(_checked(target, given), (*final, type(target)) if own else final)
        # Operations of its own, whatever other leaves are made of: it becomes a part of other parameters.
        found = _of_own(found, {(node, None): node for node in found.nodes if isinstance(node, ParameterOp)})
        self._leaves[target] = found
        return found


def _of_own(parameter: Parameter, applied: Applied) -> Parameter:
    """The parameter with copies of those operations that another one applies to other inputs.

    One object may be an operation of several parameters, which is no sharing where the inputs differ; from here on
    nodes are known by their identity.
    """
    if len(parameter.nodes) == 1:  # a leaf: most are
        return parameter
    now: dict[Node, Node] = {}
    for node in parameter.nodes:
        inputs = tuple(now[child] for child in parameter.node_inputs(node))
        if (node, inputs) not in applied:
            applied[node, inputs] = copy.copy(node) if (node, None) in applied else node
            applied[node, None] = node
        now[node] = applied[node, inputs]
    if all(now[node] is node for node in parameter.nodes):
        return parameter
    edges = {now[node]: [now[child] for child in parameter.node_inputs(node)] for node in parameter.nodes}
    return Parameter(edges, edges, [now[output] for output in parameter.outputs])


def resolve_circuit(circuit: Circuit, rows: Mapping[type, ParameterRow] | None = None) -> Circuit:
    """A circuit with its parameters as their rules have them."""
    return Resolver(rows or {}).circuit(circuit)


def _checked(leaf: ParameterInput, given: ParameterLike) -> Parameter:
    name = type(leaf).__name__
    try:
        found = Parameter.from_input(given)
    except DTypeError as error:
        raise DTypeError(f"what {name} stands for is no parameter: {error}") from error
    if leaf in found.nodes:
        raise GraphError(f"{name} stands for a parameter that it is itself a leaf of; make it of other leaves")
    if found.shapes != (leaf.shape,):
        raise ShapeError(
            f"{name}: expected a parameter of shape {leaf.shape} to stand for it, found "
            f"{' and '.join(map(str, found.shapes))}; give it the shape of the leaf, and one output"
        )
    return found


def _unknown(leaf: ParameterInput) -> str:
    name = type(leaf).__name__
    return (
        f"nothing says which tensors a leaf of class {name} has; put the class under ComposedParameter, with a method "
        f"`compose`, or give the context a rule: add_parameter_compilation_rule(LeafRow({name}, parameter=...))."
    )
