"""Moves entrywise operations through views to their sources, so that rewrite rules see an operation beside its source.

    >>> import plica.tracing.namespace as xp
    >>> from plica.ir.types import spec
    >>> from plica.passes.algebra import simplify
    >>> from plica.passes.dead_code import eliminate_dead_code
    >>> from plica.tracing.trace import trace
    >>> program = trace(lambda x: xp.log(xp.permute_dims(xp.softmax(x), (1, 0))), spec((2, 3)))
    >>> print(eliminate_dead_code(simplify(move_to_sources(program))))
    { lambda ; x:f32[2,3] . let
        d:f32[2,3] = log_softmax[axis=1] x
        e:f32[3,2] = permute_dims[axes=(1,0)] d
      in (e,) }

A view moves, repeats or leaves out entries and changes none (the column `view` of an operation). So an operation on
each entry may as well come before it. The source is the array that a view, or a chain of views, shows.

An operation is moved only where a rule then fires at a source, and where that adds no work for any sizes. Work is the
number of operations that compute or copy, and the number of entries that they write; views and sources that other
equations still read count too. So each move removes an equation or takes it nearer to the arguments, and the pass ends.

At a source where no rule fires the operation is applied as it is. If a view drops entries of that source, nothing
moves: the derivative at a dropped entry may be infinite, and zero times infinity is NaN.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from plica.forks import cached_property
from plica.graph.components import DisjointSets
from plica.graph.optimize import Replacement, Rule, optimize_graph
from plica.graph.order import topological_order
from plica.ir.op import Memory, View
from plica.ir.program import Equation, Literal, Operand, OpRef, Program, Var
from plica.ir.sizes import Dim, is_nonnegative, product, total
from plica.ir.types import SCALAR_SIZE, ShapedArray, array_type
from plica.ops import ELEMENTWISE, OPS
from plica.passes.algebra import ALGEBRA, Fired, program_view
from plica.passes.replacements import names_of

MOVE = "through-views: f(view(x)) -> view(f(x))"
_ENTRYWISE = frozenset(op.name for op in ELEMENTWISE)

Node = Equation | Var  # an equation that is a view; else a source
Producers = Mapping[Hashable, frozenset[Hashable]]  # from an operation to those whose results a rule joins with it


def move_to_sources(
    program: Program, rules: Sequence[Rule] = ALGEBRA, fired: Fired | None = None, context: Any = None
) -> Program | None:
    """The Program with entrywise operations before views wherever `rules` then fire; None if nothing moves.

    Args:
        program: A Program in which no rule fires any more, without dead code.
        rules: The rules.
        fired: Collects the operations that moved.
        context: Rules read it as `match.context`.
    """
    producers, graph = _producers(tuple(rules)), _Graph(program)
    movable = [
        equation for equation in program.equations if equation.op.name in producers and _is_movable(graph, equation)
    ]
    fires = _firing(graph, rules, producers, movable, context)
    chosen = _Search(graph, fires).chosen(movable) if fires else {}
    if not chosen:
        return None
    if fired is not None:
        fired.setdefault(MOVE, []).extend(equation.source for equation in chosen)
    return _Mover(graph).run(chosen)


@lru_cache(maxsize=16)
def _producers(rules: tuple[Rule, ...]) -> Producers:
    """For each entrywise operation, the operations that may make its operand in a match of a rule: `log`, of `exp`."""
    producers: dict[Hashable, frozenset[Hashable]] = {}
    for entries in (rule.pattern.entries for rule in rules):
        if len(entries) > 1 and entries[0].inputs == (entries[1].name,):
            for name in _kinds(entries[0].kind):
                if name in _ENTRYWISE:
                    producers[name] = producers.get(name, frozenset()) | {*_kinds(entries[1].kind)}
    return producers


def _is_movable(graph: "_Graph", equation: Equation) -> bool:
    """Whether an equation reads a view alone, and its result cannot be a size: sizes of other types may refer to it."""
    if len(equation.inputs) != 1 or equation.params or equation.outputs[0].type == SCALAR_SIZE:
        return False
    (operand,) = equation.inputs
    return isinstance(operand, Var) and isinstance(graph.node(operand), Equation)


def _kinds(kind: Hashable) -> tuple[Hashable, ...]:
    """The names of operations that an entry of a pattern matches: one, or a tuple of them."""
    return kind if isinstance(kind, tuple) else (kind,)


@dataclass(frozen=True)
class _Graph:
    """A Program's views and their sources."""

    program: Program

    @cached_property
    def maker(self) -> Mapping[Var, Equation]:
        """The equation of each result."""
        return {var: equation for equation in self.program.equations for var in equation.outputs}

    @cached_property
    def readers(self) -> Mapping[Operand, list[Equation | None]]:
        """The equations that read a variable; None where it is a result."""
        readers: dict[Operand, list[Equation | None]] = {}
        for equation in self.program.equations:
            for operand in equation.inputs:
                readers.setdefault(operand, []).append(equation)
        for operand in self.program.outputs:
            readers.setdefault(operand, []).append(None)
        return readers

    def node(self, var: Var) -> Node:
        """The view that makes a variable; the variable itself, a source, where no view does."""
        equation = self.maker.get(var)
        return var if equation is None or not _is_view(equation) else equation

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """The nodes whose entries a view shows, without literals; none for a source."""
        if isinstance(node, Var):
            return ()
        return tuple(self.node(operand) for operand in _viewed(node) if isinstance(operand, Var))

    def views_and_sources(self, equations: Iterable[Equation]) -> tuple[Node, ...]:
        """The views that entrywise operations read, directly or through views, and their sources, inputs first."""
        return topological_order([self.node(_operand(equation)) for equation in equations], self.inputs)

    def is_read(self, equation: Equation, dead: Mapping[Equation, None]) -> bool:
        """Whether an equation that is not dead reads a result of `equation`, or the Program returns one."""
        return any(reader not in dead for var in equation.outputs for reader in self.readers.get(var, ()))


def _is_view(equation: Equation) -> bool:
    """Whether an equation is a view, and no result of it may be a size."""
    return OPS[equation.op.name].view is not View.NONE and all(var.type != SCALAR_SIZE for var in equation.outputs)


def _viewed(equation: Equation) -> tuple[Operand, ...]:
    """The operands whose entries a view shows; the others are indices or a condition."""
    return equation.inputs[OPS[equation.op.name].view.operands]


def _operand(equation: Equation) -> Var:
    """The operand of an entrywise operation."""
    (operand,) = equation.inputs
    assert isinstance(operand, Var), "it is the result of a view"
    return operand


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for operations to move.

    Args:
        graph: The Program.
        fires: For the name of an operation and a source, the replacement by which a rule joins them.
    """

    graph: _Graph
    fires: Mapping[tuple[str, Node], Replacement[Any]]

    def chosen(self, movable: Sequence[Equation]) -> dict[Equation, None]:
        """The operations to move. An operation that makes the source of another one waits for the next pass."""
        chosen: dict[Equation, None] = {}
        sources: dict[Equation | None, None] = {}  # the equations that make sources of chosen operations
        for group in self._groups(movable):
            for part in [group] if self._pays(group) else [[equation] for equation in group if self._pays([equation])]:
                nodes = self.graph.views_and_sources(part)
                makers = [self.graph.maker.get(node) for node in nodes if isinstance(node, Var)]
                if not any(equation in sources for equation in part) and not any(
                    equation in chosen for equation in makers
                ):
                    chosen.update(dict.fromkeys(part))
                    sources.update(dict.fromkeys(makers))
        return chosen

    def _groups(self, movable: Sequence[Equation]) -> Iterator[list[Equation]]:
        """Groups of operations of one name that share views, and reach a source at which a rule fires."""
        for name in dict.fromkeys(equation.op.name for equation in movable):
            named = [equation for equation in movable if equation.op.name == name]
            sets: DisjointSets[Node] = DisjointSets()
            reaches: dict[Node, bool] = {}
            for node in self.graph.views_and_sources(named):
                read = self.graph.inputs(node)
                reaches[node] = (name, node) in self.fires or any(reaches[node] for node in read)
                sets.join(node, *read)
            groups: dict[Node, list[Equation]] = {}
            for equation in named:
                node = self.graph.node(_operand(equation))
                if reaches[node]:
                    groups.setdefault(sets.find(node), []).append(equation)
            yield from groups.values()

    def _pays(self, group: Sequence[Equation]) -> bool:
        """Whether the Program has no more work if these operations of one name are moved together."""
        name = group[0].op.name
        nodes = self.graph.views_and_sources(group)
        views = [node for node in nodes if isinstance(node, Equation)]
        added, dead = list(views), dict.fromkeys(group)
        for view in reversed(views):
            if not self.graph.is_read(view, dead):
                dead[view] = None
        is_whole = all(OPS[view.op.name].view.is_whole for view in views)
        for source in (node for node in nodes if isinstance(node, Var)):
            replacement = self.fires.get((name, source))
            if replacement is None and not is_whole:
                return False
            if replacement is None:
                added.append(_applied(name, source))
                continue
            added += [node for node, _ in replacement.nodes]
            maker = self.graph.maker[source]
            if not _reads(replacement, maker) and not self.graph.is_read(maker, dead):
                dead[maker] = None
        (calls, entries), (calls_before, entries_before) = _work(added), _work(dead)
        return calls <= calls_before and is_nonnegative(entries_before - entries)


def _reads(replacement: Replacement[Any], node: Any) -> bool:
    """Whether a replacement returns or reads a node."""
    return replacement.output is node or any(node in inputs for _, inputs in replacement.nodes)


def _work(equations: Iterable[Equation]) -> tuple[int, Dim]:
    """How many operations compute or copy, and how many entries they write."""
    working = [equation for equation in equations if OPS[equation.op.name].memory is not Memory.VIEW]
    return len(working), total(product(var.type.shape) for equation in working for var in equation.outputs)


def _applied(name: str, operand: Operand, variable: str = "", source: str = "") -> Equation:
    """An equation that applies an entrywise operation to one operand."""
    (type_,) = OPS[name].types([operand.type], {})
    return Equation(OpRef(name), (operand,), (Var(variable, type_),), source=source)


def _firing(
    graph: _Graph, rules: Sequence[Rule], producers: Producers, movable: Sequence[Equation], context: Any
) -> dict[tuple[str, Node], Replacement[Any]]:
    """The replacements that `rules` make of operations at sources, by the operation's name and the source.

    To find them, each operation is applied to each source on trial, at the end of the Program.
    """
    trials: dict[tuple[str, Node], Equation] = {}
    for name in dict.fromkeys(equation.op.name for equation in movable):
        for node in graph.views_and_sources(equation for equation in movable if equation.op.name == name):
            if isinstance(node, Var) and node in graph.maker and graph.maker[node].op.name in producers[name]:
                trials[name, node] = _applied(name, node)
    if not trials:
        return {}
    with_trials = replace(graph.program, equations=(*graph.program.equations, *trials.values()))
    result = optimize_graph(program_view(with_trials, context), rules)
    replaced = (
        {} if result is None else {application.match.root: application.replacement for application in result.applied}
    )
    return {key: replaced[trial] for key, trial in trials.items() if trial in replaced}


class _Mover:
    """Writes the Program with the chosen operations moved.

    Attributes:
        after: New equations, by the equation of the Program that they follow; None for those at its start.
        applied: For the name of an operation and a variable, the variable that has the operation applied to it.
    """

    def __init__(self, graph: _Graph) -> None:
        self.graph = graph
        self.after: dict[Equation | None, list[Equation]] = {}
        self.applied: dict[tuple[str, Operand], Operand] = {}
        self.names = names_of(graph.program)

    def run(self, chosen: Mapping[Equation, None]) -> Program:
        """The Program in which the chosen operations are applied to their sources, and views show the results."""
        for name in dict.fromkeys(equation.op.name for equation in chosen):
            for node in self.graph.views_and_sources(equation for equation in chosen if equation.op.name == name):
                self._apply(name, node)
        moved = {equation.outputs[0]: self.applied[equation.op.name, _operand(equation)] for equation in chosen}

        def renamed(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
            return tuple(moved.get(operand, operand) if isinstance(operand, Var) else operand for operand in operands)

        equations = list(self.after.get(None, ()))
        for equation in self.graph.program.equations:
            equations += [] if equation in chosen else [equation]
            equations += self.after.get(equation, ())
        rewritten = tuple(
            equation if (inputs := renamed(equation.inputs)) == equation.inputs else replace(equation, inputs=inputs)
            for equation in equations
        )
        return replace(self.graph.program, equations=rewritten, outputs=renamed(self.graph.program.outputs))

    def _apply(self, name: str, node: Node) -> None:
        """Apply the operation to a source, or repeat a view on inputs that the operation was applied to."""
        if isinstance(node, Var):
            maker = self.graph.maker.get(node)
            equation = _applied(name, node, self.names.fresh(), "" if maker is None else maker.source)
            self.after.setdefault(maker, []).append(equation)
            self.applied[name, node] = equation.outputs[0]
            return
        viewed = range(len(node.inputs))[OPS[node.op.name].view.operands]
        inputs = tuple(
            self._applied_to(name, operand) if index in viewed else operand for index, operand in enumerate(node.inputs)
        )
        dtype = inputs[viewed[0]].type.dtype
        outputs = tuple(Var(self.names.fresh(), array_type(var.type.shape, dtype)) for var in node.outputs)
        self.after.setdefault(node, []).append(replace(node, inputs=inputs, outputs=outputs))
        self.applied.update(((name, old), new) for old, new in zip(node.outputs, outputs, strict=True))

    def _applied_to(self, name: str, operand: Operand) -> Operand:
        """The operation applied to an operand of a view; a literal gives a literal."""
        if isinstance(operand, Var):
            return self.applied[name, operand]
        (type_,) = OPS[name].types([operand.type], {})
        with np.errstate(all="ignore"):
            value = OPS[name].reference(np.asarray(operand.value, operand.type.dtype.numpy))
        return Literal(np.asarray(value, type_.dtype.numpy).item(), ShapedArray((), type_.dtype))
