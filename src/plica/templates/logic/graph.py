"""Logical circuits: constants, literals, conjunctions and disjunctions as a directed acyclic graph.

>>> from plica.templates.logic.nodes import DisjunctionNode, LiteralNode, NegatedLiteralNode
>>> x, not_x, either = LiteralNode(0), NegatedLiteralNode(0), DisjunctionNode()
>>> formula = LogicalCircuit([x, not_x, either], {either: [x, not_x]}, [either])
>>> formula.node_scope(either), formula.is_smooth, formula.is_deterministic
(Scope({0}), True, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import and_
from typing import final, get_args

from plica.arguments import edges, flag, function, looked_up
from plica.errors import DTypeError, GraphError
from plica.forks import cached_property
from plica.graph.listing import Listing
from plica.graph.order import topological_order
from plica.symbolic.circuit import Circuit
from plica.symbolic.parameters import ParameterFactory
from plica.symbolic.scope import Scope
from plica.templates.logic import build, simplify
from plica.templates.logic.nodes import (
    ConjunctionNode,
    DisjunctionNode,
    Gate,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
)
from plica.templates.parameterization import InputFactory


@final
class LogicalCircuit:
    """A formula in negation normal form as a graph, checked when it is made and compared by identity.

    Args:
        nodes: Every node, in any order.
        in_nodes: The inputs of each conjunction and disjunction, at least one; other nodes may be left out.
        outputs: The roots of the formula.
        is_deterministic: Whether the caller knows that no two inputs of a disjunction are true at once. If not, the
            graph finds it where inputs imply opposite literals.

    Raises:
        GraphError: There is a cycle, a node is not listed, a gate has no inputs, or a constant or a literal has some.
        DTypeError: An item is no node.
    """

    def __init__(
        self,
        nodes: Iterable[LogicalNode],
        in_nodes: Mapping[LogicalNode, Sequence[LogicalNode]],
        outputs: Iterable[LogicalNode],
        *,
        is_deterministic: bool = False,
    ) -> None:
        self._in_nodes, self._outputs = edges("LogicalCircuit", nodes, in_nodes, outputs, "nodes")
        self._is_known_deterministic = is_deterministic
        _check(self._in_nodes, in_nodes, self._outputs)
        self._nodes: tuple[LogicalNode, ...] = topological_order(self._in_nodes, self._in_nodes.__getitem__)
        self._scopes = _scopes(self._nodes, self._in_nodes)

    @property
    def nodes(self) -> Listing[LogicalNode]:
        """Every node, each after its inputs."""
        return Listing(self._nodes)

    @property
    def outputs(self) -> Listing[LogicalNode]:
        """The output nodes."""
        return Listing(self._outputs)

    def node_inputs(self, node: LogicalNode) -> tuple[LogicalNode, ...]:
        """The inputs of a node, in order."""
        return looked_up("LogicalCircuit.node_inputs", self._in_nodes, node, "node")

    def node_scope(self, node: LogicalNode) -> Scope:
        """The variables that a node depends on."""
        return looked_up("LogicalCircuit.node_scope", self._scopes, node, "node")

    @cached_property
    def scope(self) -> Scope:
        """The variables of the outputs."""
        return Scope.union(*(self._scopes[node] for node in self._outputs))

    @property
    def num_variables(self) -> int:
        """The number of variables of the outputs."""
        return len(self.scope)

    @cached_property
    def is_smooth(self) -> bool:
        """Whether the inputs of every disjunction have one scope."""
        return all(
            self._scopes[child] == self._scopes[node]
            for node in self._of(DisjunctionNode)
            for child in self._in_nodes[node]
        )

    @cached_property
    def is_decomposable(self) -> bool:
        """Whether the inputs of every conjunction have no variable in common."""
        return all(
            sum(len(self._scopes[child]) for child in self._in_nodes[node]) == len(self._scopes[node])
            for node in self._of(ConjunctionNode)
        )

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether no two inputs of a disjunction are true at once, by the caller's word or by opposite literals."""
        return self._is_known_deterministic or self._excludes()

    def _excludes(self) -> bool:
        """Whether any two inputs of every disjunction imply opposite literals."""
        implied: dict[LogicalNode, tuple[Scope, Scope]] = {}  # the variables that must be true, and false
        for node in self._nodes:
            true, false = ([implied[child][value] for child in self._in_nodes[node]] for value in range(2))
            match node:
                case LiteralNode():
                    implied[node] = (self._scopes[node], Scope())
                case NegatedLiteralNode():
                    implied[node] = (Scope(), self._scopes[node])
                case DisjunctionNode():
                    pairs = combinations(range(len(true)), 2)
                    if not all(true[i] & false[j] or false[i] & true[j] for i, j in pairs):
                        return False
                    implied[node] = (reduce(and_, true), reduce(and_, false))
                case _:
                    implied[node] = (Scope.union(*true), Scope.union(*false))
        return True

    def _of(self, kind: type[Gate]) -> list[LogicalNode]:
        return [node for node in self._nodes if isinstance(node, kind)]

    def prune(self) -> LogicalCircuit:
        """The same formula without nodes that do not change it.

        Constants are removed, except outputs that are constant; so are gates of one input, and nodes that no output
        depends on.
        """
        return self._rebuilt(simplify.pruned(self._nodes, self._in_nodes, self._outputs))

    def smooth(self) -> LogicalCircuit:
        """The same formula with `v or not v` beside the inputs of disjunctions that lack a variable v of the others."""
        return self._rebuilt(simplify.smoothed(self._nodes, self._in_nodes, self._outputs, self._scopes))

    def _rebuilt(self, parts: simplify.Parts) -> LogicalCircuit:
        in_nodes, outputs = parts
        return LogicalCircuit(in_nodes, in_nodes, outputs, is_deterministic=self.is_deterministic)

    def build_circuit(
        self,
        literal_input_factory: InputFactory | None = None,
        negated_literal_input_factory: InputFactory | None = None,
        weight_factory: ParameterFactory | None = None,
        enforce_smoothness: bool = True,
        *,
        scope: Iterable[int] | None = None,
        literal_weights: build.LiteralWeights | None = None,
    ) -> Circuit:
        """The circuit whose value is 1 at a model and 0 elsewhere, and whose sum over all states counts the models.

        This holds for a deterministic formula. In others a model counts once for each way to derive it, and only the
        semiring `boolean` says whether a row is a model. Data is 0 or 1; queries that sum a variable out need a
        decomposable formula. With weights, the value of a model is the product of the weights of its literals, and
        the sum over all states is the weighted model count.

        Args:
            literal_input_factory: Makes the input layer of a literal from its scope and a number of units, one. It
                excludes `literal_weights` and needs `negated_literal_input_factory`.
            negated_literal_input_factory: Makes the input layer of a negative literal.
            weight_factory: Makes the weights of disjunctions, `(1, number of inputs)`, including those of `v or not v`;
                by default all are one.
            enforce_smoothness: Whether an input of a disjunction gets `v or not v` for each variable v that it lacks
                and another input has. Queries that sum a variable out refuse a circuit that is not smooth.
            scope: The variables of the circuit, which may be more than the formula's; by default those of the formula.
            literal_weights: For some variables, the weights of its negative and its positive literal, such as
                `{0: (0.3, 0.7)}`; or a parameter factory, called with the shape `(1, 2)` for each variable. By default
                all are one.

        Raises:
            InputError: There is no variable, the scope lacks a variable of the formula, or a factory of literals is
                given alone or beside weights.
        """
        smooth = flag("build_circuit", "enforce_smoothness", enforce_smoothness)
        literals = build.literal_factories(literal_input_factory, negated_literal_input_factory, literal_weights)
        if weight_factory is not None:
            function("build_circuit", "weight_factory", weight_factory)
        variables = build.circuit_scope(self.scope, scope, literal_weights)
        simple = self.prune().smooth() if smooth else self.prune()
        outputs = [(node, simple.node_scope(node)) for node in simple.outputs]
        options = build.Options(literals, literal_weights, weight_factory)
        in_nodes = {node: simple.node_inputs(node) for node in simple.nodes}
        return build.build_circuit(in_nodes, outputs, variables, options)

    def __repr__(self) -> str:
        return f"LogicalCircuit({len(self._nodes)} nodes, {self.num_variables} variables)"


def _scopes(
    nodes: Iterable[LogicalNode], in_nodes: Mapping[LogicalNode, Sequence[LogicalNode]]
) -> dict[LogicalNode, Scope]:
    scopes: dict[LogicalNode, Scope] = {}
    for node in nodes:
        if isinstance(node, LiteralNode | NegatedLiteralNode):
            scopes[node] = Scope([node.variable])
        else:
            scopes[node] = Scope.union(*(scopes[child] for child in in_nodes[node]))
    return scopes


def _check(
    listed: Mapping[LogicalNode, object],
    in_nodes: Mapping[LogicalNode, Sequence[LogicalNode]],
    outputs: tuple[LogicalNode, ...],
) -> None:
    for node in listed:
        if not isinstance(node, get_args(LogicalNode)):
            raise DTypeError(f"LogicalCircuit: expected nodes such as LiteralNode(0), found {node!r}")
        if isinstance(node, Gate) and not in_nodes.get(node):
            raise GraphError(
                f"LogicalCircuit: a {type(node).__name__} has no inputs; name them in in_nodes, or use a TopNode or a "
                "BottomNode"
            )
    for node, inputs in in_nodes.items():
        if inputs and not isinstance(node, Gate):
            raise GraphError(f"LogicalCircuit: {node} has inputs; put a ConjunctionNode or a DisjunctionNode there")
        for unknown in (node, *inputs):
            if unknown not in listed:
                raise GraphError(f"LogicalCircuit: in_nodes names {unknown}, which is not listed; add it to `nodes`")
    if not outputs:
        raise GraphError("LogicalCircuit: there are no outputs; pass the root")
    for node in outputs:
        if node not in listed:
            raise GraphError(f"LogicalCircuit: the output {node} is not listed; add it to `nodes`")
