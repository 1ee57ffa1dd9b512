"""Logical circuits: constants, literals, conjunctions and disjunctions as a directed acyclic graph.

>>> from plica.templates.logic.nodes import DisjunctionNode, LiteralNode, NegatedLiteralNode
>>> x, not_x, either = LiteralNode(0), NegatedLiteralNode(0), DisjunctionNode()
>>> formula = LogicalCircuit([x, not_x, either], {either: [x, not_x]}, [either])
>>> formula.node_scope(either), formula.is_smooth, formula.is_deterministic
(Scope({0}), True, True)
>>> formula.model_count(), formula.model_count(range(3)), list(formula.models())
(2, 8, [{0: 1}, {0: 0}])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, final

from plica.arguments import edges, elements, flag, found, function, integer, looked_up
from plica.errors import DTypeError
from plica.forks import cached_property
from plica.graph.listing import Listing
from plica.graph.order import topological_order
from plica.symbolic.circuit import Circuit
from plica.symbolic.parameters import ParameterFactory
from plica.symbolic.scope import Scope
from plica.templates.logic import build, count, simplify
from plica.templates.logic.checks import check_graph, circuit_scope, excludes, free_variables, only_output, scopes_of
from plica.templates.logic.clauses import compiled, from_node
from plica.templates.logic.conjoin import conjoined
from plica.templates.logic.dimacs import CNF
from plica.templates.logic.formula import Formula
from plica.templates.logic.negate import negated
from plica.templates.logic.nnf import read_nnf
from plica.templates.logic.nodes import (
    ConjunctionNode,
    DisjunctionNode,
    Gate,
    LogicalNode,
)
from plica.templates.logic.smooth import places_in, smoothed, smoothed_by_vtree
from plica.templates.logic.vtree import Vtree
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
        scope: The variables, over which models are counted; by default those of the vtree, or of the outputs.
        vtree: The tree by which every conjunction splits its variables; `smooth` follows it.

    Raises:
        GraphError: There is a cycle, a node is not listed, a gate has no inputs, or a constant or a literal has some;
            or a conjunction does not split its variables as the vtree does.
        DTypeError: An item is no node, the vtree is none, or `is_deterministic` is neither true nor false.
        InputError: The scope lacks a variable, or has others than the vtree.
    """

    def __init__(
        self,
        nodes: Iterable[LogicalNode],
        in_nodes: Mapping[LogicalNode, Sequence[LogicalNode]],
        outputs: Iterable[LogicalNode],
        *,
        is_deterministic: bool = False,
        scope: Iterable[int] | None = None,
        vtree: Vtree | None = None,
    ) -> None:
        listed, self._outputs = edges("LogicalCircuit", nodes, in_nodes, outputs, "nodes")
        self._is_known_deterministic = flag("LogicalCircuit", "is_deterministic", is_deterministic)
        check_graph(listed, in_nodes, self._outputs)
        if vtree is not None and not isinstance(vtree, Vtree):
            raise DTypeError(f"LogicalCircuit: expected a Vtree, {found(vtree)}")
        self._nodes: tuple[LogicalNode, ...] = topological_order(listed, listed.__getitem__)
        self._in_nodes = {node: listed[node] for node in self._nodes}
        self._scopes = scopes_of(self._in_nodes)
        used = Scope.union(*(self._scopes[node] for node in self._outputs))
        wanted = None if scope is None else Scope(scope)
        self._scope = circuit_scope(used, wanted, None if vtree is None else vtree.scope)
        self._vtree = vtree
        if vtree is not None:
            places_in(vtree, self._in_nodes, self._scopes)  # raises where the circuit does not follow it

    @staticmethod
    def from_cnf(
        clauses: CNF | Iterable[Iterable[int]], *, num_variables: int | None = None, vtree: Vtree | None = None
    ) -> LogicalCircuit:
        """The diagram of clauses, compiled by the library `pysdd`, with its vtree.

        Args:
            clauses: The literals of each clause: v + 1 says that variable v is true, -(v + 1) that it is false.
            num_variables: The number of variables, from 0 on; by default the variables are those of the clauses, or
                of the `CNF`.
            vtree: The vtree that the diagram follows, for example that of a formula to conjoin it with. By default a
                balanced one over an order in which variables of one clause are near each other.

        Raises:
            MissingExtraError: The library is not installed; `pip install '.[logic]'` in a checkout does so.
            InputError: A literal is 0, or of a variable that there is not; or the vtree has other variables.
            DTypeError: The vtree is none.
        """
        if isinstance(clauses, CNF):
            cnf = clauses if num_variables is None else CNF(clauses.clauses, num_variables)
        else:
            cnf = CNF(clauses, num_variables)
        if vtree is not None and not isinstance(vtree, Vtree):
            raise DTypeError(f"LogicalCircuit.from_cnf: expected a Vtree, {found(vtree)}")
        return circuit_of(compiled(cnf, vtree))

    @staticmethod
    def from_dimacs(path: str | Path) -> LogicalCircuit:
        """The diagram of the clauses of a DIMACS file, as `from_cnf` makes it; `CNF.load` reads its weights too.

        Raises:
            FileFormatError: The file is missing, empty, damaged, or of another format.
            MissingExtraError: The library `pysdd` is not installed.
        """
        return LogicalCircuit.from_cnf(CNF.load(path))

    @staticmethod
    def from_nnf(path: str | Path, *, is_deterministic: bool = False) -> LogicalCircuit:
        """The formula of a `.nnf` file of c2d or d4; variable v is the file's variable v + 1.

        Files of d4 do not say how many nodes, edges and variables there are: pass the variables to `model_count`, and
        know that the loss of whole lines may stay unseen.

        Args:
            path: The file.
            is_deterministic: As for the constructor.

        Raises:
            FileFormatError: The file is missing, empty, damaged, or of another format.
        """
        formula = read_nnf(path)
        nodes = formula.in_nodes
        return LogicalCircuit(nodes, nodes, formula.outputs, is_deterministic=is_deterministic, scope=formula.scope)

    @staticmethod
    def from_pysdd(node: Any) -> LogicalCircuit:
        """The diagram of an `SddNode` of the library `pysdd`, over all variables of its manager, with its vtree.

        Raises:
            DTypeError: The argument is no such node.
            MissingExtraError: The library is not installed.
        """
        return circuit_of(from_node(node))

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

    @property
    def scope(self) -> Scope:
        """The variables, over which models are counted."""
        return self._scope

    @property
    def num_variables(self) -> int:
        """The number of variables."""
        return len(self._scope)

    @property
    def vtree(self) -> Vtree | None:
        """The tree by which every conjunction splits its variables, if it is known."""
        return self._vtree

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
        return self._is_known_deterministic or excludes(self._in_nodes, self._scopes)

    def _of(self, kind: type[Gate]) -> list[LogicalNode]:
        return [node for node in self._nodes if isinstance(node, kind)]

    def prune(self) -> LogicalCircuit:
        """The same formula without nodes that do not change it.

        Constants are removed, except outputs that are constant; so are gates of one input, and nodes that no output
        depends on.
        """
        return self._rebuilt(simplify.pruned(self._in_nodes, self._outputs))

    def smooth(self) -> LogicalCircuit:
        """The same formula, such that all inputs of a disjunction and all outputs mention the same variables.

        Where a variable v lacks, `v or not v` is added in a conjunction. The size stays linear, up to a logarithm, as
        `plica.templates.logic.smooth` says. With a vtree the formula is pruned and then structured decomposable.
        """
        if self._vtree is None:
            return self._rebuilt(smoothed(self._in_nodes, self._outputs, self._scope))
        pruned = self.prune()
        return self._rebuilt(smoothed_by_vtree(pruned._in_nodes, pruned._outputs, self._vtree))

    def _rebuilt(self, parts: simplify.Parts) -> LogicalCircuit:
        in_nodes, outputs = parts
        return LogicalCircuit(
            in_nodes,
            in_nodes,
            outputs,
            is_deterministic=self.is_deterministic,
            scope=self._scope,
            vtree=self._vtree,
        )

    @cached_property
    def _smooth(self) -> LogicalCircuit:
        """The formula without constants, and smooth."""
        return self.prune().smooth()

    def _root(self, query: str, *, deterministic: bool = True) -> LogicalNode:
        """The output; raises unless the circuit has what a query needs."""
        lacks = "" if self.is_decomposable else "decomposable"
        if not lacks and deterministic and not self.is_deterministic:
            lacks = "deterministic"
        return only_output(query, self._outputs, lacks)

    def model_count(self, scope: Iterable[int] | None = None) -> int:
        """The number of models, exactly.

        Args:
            scope: The variables over which models are counted; by default those of the circuit.

        Raises:
            StructuralPropertyError: The formula is not decomposable, or not known to be deterministic.
            InputError: The scope lacks a variable of the circuit, or there are several outputs.
        """
        self._root("model_count")
        free = free_variables("model_count", self._scope, scope)
        models: int = self._total(lambda variable, value: 1)  # noqa: ARG005
        return models << len(free)

    def weighted_model_count(self, weights: Any, scope: Iterable[int] | None = None) -> Any:
        """The sum over all models of the product of the weights of their literals: exact for integers and fractions.

        Args:
            weights: For some variables, the weights of the negative and of the positive literal, such as
                `{0: (0.3, 0.7)}`; weights are 1 elsewhere. A weight may be an array, for example of the weights in
                each row. Or an array `(..., D, 2)` of the weights of variables 0 to D - 1. Of arrays of
                integers the sum is one of Python's integers, which do not overflow.
            scope: The variables over which models are summed; by default those of the circuit.

        Raises:
            StructuralPropertyError: The formula is not decomposable, or not known to be deterministic.
            InputError: The scope lacks a variable of the circuit, a variable outside it has weights, or there are
                several outputs.
            ShapeError: A variable does not have two weights, or the array has another shape.
            DTypeError: The weights are neither a mapping nor an array.
        """
        self._root("weighted_model_count")
        free = free_variables("weighted_model_count", self._scope, scope)
        numbers = count.literal_numbers(weights, self._scope | free)
        result = self._total(numbers)
        for variable in free:
            result = result * (numbers(variable, 0) + numbers(variable, 1))
        return result * 1 if hasattr(result, "shape") else result  # of one literal, else a view of the caller's array

    def _total(self, numbers: count.LiteralNumbers) -> Any:
        return count.total(self._smooth._in_nodes, self._smooth._outputs[0], numbers)

    def models(self, limit: int | None = None) -> Iterator[dict[int, int]]:
        """The models, each once, as values 0 and 1 of all variables of the circuit, in a fixed order.

        Args:
            limit: The number of models after which to stop; by default all are listed.

        Raises:
            StructuralPropertyError: The formula is not decomposable, or not known to be deterministic.
            InputError: There are several outputs.
        """
        self._root("models")
        stop = None if limit is None else integer("models", "limit", limit, least=0)
        return islice(count.models(self._smooth._in_nodes, self._smooth._outputs[0]), stop)

    def entails(self, clause: int | Iterable[int]) -> bool:
        """Whether every model makes a literal of a clause true; literals are those of `from_cnf`.

        Args:
            clause: A literal, or several. No literal at all asks whether there is no model.

        Raises:
            StructuralPropertyError: The formula is not decomposable.
            InputError: A literal is 0, or there are several outputs.
        """
        root = self._root("entails", deterministic=False)
        literals = elements("entails", "clause", clause) if isinstance(clause, Iterable) else (clause,)
        (checked,) = CNF([literals]).clauses
        if any(-literal in checked for literal in checked):
            return True
        return not count.is_satisfiable(self._in_nodes, root, {abs(one) - 1: int(one < 0) for one in checked})

    def condition(self, assignment: Mapping[int, int]) -> LogicalCircuit:
        """The formula where some variables have these values, over the other variables.

        Args:
            assignment: A value, 0 or 1, for each of these variables.

        Raises:
            DTypeError: The assignment is no mapping.
            InputError: A value is neither 0 nor 1, or the circuit lacks a variable.
        """
        known = count.assignment_of("condition", assignment, self._scope)
        in_nodes = simplify.conditioned(self._in_nodes, known)
        new = dict(zip(self._nodes, in_nodes, strict=True))
        scope = self._scope - Scope(known)
        return LogicalCircuit(
            in_nodes,
            in_nodes,
            [new[output] for output in self._outputs],
            is_deterministic=self.is_deterministic,
            scope=scope,
            vtree=None if self._vtree is None else self._vtree.restricted(scope),
        )

    def conjoin(self, other: LogicalCircuit) -> LogicalCircuit:
        """The formula that is true where both are, over the variables of both; deterministic if they are.

        Its circuit is the product of their circuits. The size is at most the product of the two sizes. If both have
        the same vtree, the result has it too. For example, diagrams of `from_cnf` over one list of variables, or of one
        manager of `pysdd`, may have the same.

        Args:
            other: The other formula.

        Raises:
            DTypeError: The other one is no logical circuit.
            StructuralPropertyError: A formula is not decomposable, or conjunctions split their variables differently.
            InputError: A formula has several outputs.
        """
        if not isinstance(other, LogicalCircuit):
            raise DTypeError(f"conjoin: expected a LogicalCircuit, {found(other)}")
        vtree = self._vtree if self._vtree is not None and self._vtree.is_same(other._vtree) else None
        formulas = (self.prune(), other.prune())
        roots = [formula._root("conjoin", deterministic=False) for formula in formulas]
        in_nodes, outputs = conjoined(formulas[0]._in_nodes, formulas[1]._in_nodes, roots[0], roots[1], vtree)
        return LogicalCircuit(
            in_nodes,
            in_nodes,
            outputs,
            is_deterministic=self.is_deterministic and other.is_deterministic,
            scope=self._scope | other._scope,
            vtree=vtree,
        )

    def negate(self) -> LogicalCircuit:
        """The formula that is true where this one is false, in linear time; deterministic, with the same vtree.

        Raises:
            StructuralPropertyError: The formula is not decomposable, not known to be deterministic, or a disjunction is
                no decision: of the first conjuncts of its inputs, or of literals of two inputs, exactly one must be
                true. Diagrams of `SDD.load` and `from_cnf` are such, before `prune`.
            InputError: There are several outputs.
        """
        self._root("negate")
        in_nodes, outputs = negated(self._in_nodes, self._outputs)
        return LogicalCircuit(in_nodes, in_nodes, outputs, is_deterministic=True, scope=self._scope, vtree=self._vtree)

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
                `{0: (0.3, 0.7)}`, or a parameter `(1, 2)`; or a parameter factory, called with the shape `(1, 2)` for
                each variable; or one parameter `(D, 2)` of variables 0 to D - 1. By default all are one.
                `TensorParameter(D, 2, initializer=None, name="w")` is given by each call, for all rows or for each.

        Raises:
            InputError: There is no variable, the scope lacks a variable of the formula, or a factory of literals is
                given alone or beside weights; or a weight is not finite.
        """
        smooth = flag("build_circuit", "enforce_smoothness", enforce_smoothness)
        literals = build.literal_factories(literal_input_factory, negated_literal_input_factory, literal_weights)
        if weight_factory is not None:
            function("build_circuit", "weight_factory", weight_factory)
        variables = build.circuit_scope(self.scope, scope, literal_weights)
        simple = self._smooth if smooth else self.prune()
        outputs = [(node, simple.node_scope(node)) for node in simple.outputs]
        options = build.Options(literals, literal_weights, weight_factory)
        in_nodes = {node: simple.node_inputs(node) for node in simple.nodes}
        return build.build_circuit(in_nodes, outputs, variables, options)

    def __repr__(self) -> str:
        return f"LogicalCircuit({len(self._nodes)} nodes, {self.num_variables} variables)"


def circuit_of(formula: Formula) -> LogicalCircuit:
    """The checked circuit of a formula."""
    return LogicalCircuit(
        formula.in_nodes,
        formula.in_nodes,
        formula.outputs,
        is_deterministic=formula.is_deterministic,
        scope=formula.scope,
        vtree=formula.vtree,
    )
