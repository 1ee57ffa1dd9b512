"""Entrywise operations moved through views to their sources, so that the rules of the algebra see these.

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
each entry may as well come before it. It is moved only where a rule then fires at a source, and where that adds no
work for any sizes: no operations that compute or copy, and no entries that these write. The count includes views and
sources that other equations keep alive. So each move removes an equation or takes it nearer to the arguments, and the
pass ends.

At a source where no rule fires the operation is applied as it is. If a view drops entries of that source, nothing
moves: the derivative at a dropped entry may be infinite, and zero times infinity is NaN.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from plica.forks import cached_property
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
Partners = Mapping[Hashable, frozenset[Hashable]]


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
    partners, graph = _partners(tuple(rules)), _Graph(program)
    movable = [
        equation for equation in program.equations if equation.op.name in partners and _is_movable(graph, equation)
    ]
    fires = _firing(graph, rules, partners, movable, context)
    chosen = _Search(graph, fires).chosen(movable) if fires else {}
    if not chosen:
        return None
    if fired is not None:
        fired.setdefault(MOVE, []).extend(equation.source for equation in chosen)
    return _Mover(graph).run(chosen)


@lru_cache(maxsize=16)
def _partners(rules: tuple[Rule, ...]) -> Partners:
    """For each entrywise operation, the operations that make its operand where a rule may fire."""
    partners: dict[Hashable, frozenset[Hashable]] = {}
    for entries in (rule.pattern.entries for rule in rules):
        if len(entries) > 1 and entries[0].inputs == (entries[1].name,):
            for name in _kinds(entries[0].kind):
                if name in _ENTRYWISE:
                    partners[name] = partners.get(name, frozenset()) | {*_kinds(entries[1].kind)}
    return partners


def _is_movable(graph: "_Graph", equation: Equation) -> bool:
    """Whether an equation reads a view alone; scalars that may be sizes are left alone."""
    if len(equation.inputs) != 1 or equation.params or equation.outputs[0].type == SCALAR_SIZE:
        return False
    (operand,) = equation.inputs
    return isinstance(operand, Var) and isinstance(graph.node(operand), Equation)


def _kinds(kind: Hashable) -> tuple[Hashable, ...]:
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
        """The view that makes a variable; the variable itself where no view does."""
        equation = self.maker.get(var)
        return var if equation is None or not _is_view(equation) else equation

    def read(self, node: Node) -> tuple[Node, ...]:
        """The operands whose entries a view shows, without literals."""
        if isinstance(node, Var):
            return ()
        return tuple(self.node(operand) for operand in _viewed(node) if isinstance(operand, Var))

    def behind(self, equations: Iterable[Equation]) -> tuple[Node, ...]:
        """The views that operations read, and their sources, each after its own operands."""
        return topological_order([self.node(_operand(equation)) for equation in equations], self.read)

    def is_read(self, equation: Equation, dead: Mapping[Equation, None]) -> bool:
        """Whether an equation that is not dead, or a result, reads an equation."""
        return any(reader not in dead for var in equation.outputs for reader in self.readers.get(var, ()))


def _is_view(equation: Equation) -> bool:
    """Whether an equation is a view; scalars that may be sizes are left alone."""
    return OPS[equation.op.name].view is not View.NONE and all(var.type != SCALAR_SIZE for var in equation.outputs)


def _viewed(equation: Equation) -> tuple[Operand, ...]:
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
        fires: The replacement that a rule makes of an operation at a source.
    """

    graph: _Graph
    fires: Mapping[tuple[str, Node], Replacement[Any]]

    def chosen(self, movable: Sequence[Equation]) -> dict[Equation, None]:
        """The operations to move; one at the source of another one waits for a later pass."""
        chosen: dict[Equation, None] = {}
        sources: dict[Equation | None, None] = {}
        for group in self._groups(movable):
            for part in [group] if self._pays(group) else [[equation] for equation in group if self._pays([equation])]:
                read = [self.graph.maker.get(node) for node in self.graph.behind(part) if isinstance(node, Var)]
                if not any(equation in sources for equation in part) and not any(
                    equation in chosen for equation in read
                ):
                    chosen.update(dict.fromkeys(part))
                    sources.update(dict.fromkeys(read))
        return chosen

    def _groups(self, movable: Sequence[Equation]) -> Iterator[list[Equation]]:
        """Groups of operations of one name that share views, and reach a source at which a rule fires."""
        for name in dict.fromkeys(equation.op.name for equation in movable):
            named = [equation for equation in movable if equation.op.name == name]
            leader: dict[Node, Node] = {}
            reaches: dict[Node, bool] = {}
            for node in self.graph.behind(named):
                leader[node] = node
                read = self.graph.read(node)
                reaches[node] = (name, node) in self.fires or any(reaches[node] for node in read)
                for source in read:
                    leader[_leader(source, leader)] = node
            groups: dict[Node, list[Equation]] = {}
            for equation in named:
                node = self.graph.node(_operand(equation))
                if reaches[node]:
                    groups.setdefault(_leader(node, leader), []).append(equation)
            yield from groups.values()

    def _pays(self, group: Sequence[Equation]) -> bool:
        """Whether the Program has no more work if these operations of one name are moved together."""
        name = group[0].op.name
        nodes = self.graph.behind(group)
        views = [node for node in nodes if isinstance(node, Equation)]
        new, dead = list(views), dict.fromkeys(group)
        for view in reversed(views):
            if not self.graph.is_read(view, dead):
                dead[view] = None
        is_whole = all(OPS[view.op.name].view.is_whole for view in views)
        for source in (node for node in nodes if isinstance(node, Var)):
            replacement = self.fires.get((name, source))
            if replacement is None and not is_whole:
                return False
            if replacement is None:
                new.append(_applied(name, source))
                continue
            new += [node for node, _ in replacement.nodes]
            inner = self.graph.maker[source]
            if not _reads(replacement, inner) and not self.graph.is_read(inner, dead):
                dead[inner] = None
        (calls, entries), (calls_before, entries_before) = _work(new), _work(dead)
        return calls <= calls_before and is_nonnegative(entries_before - entries)


def _leader(node: Node, leader: dict[Node, Node]) -> Node:
    while leader[node] is not node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


def _reads(replacement: Replacement[Any], node: Any) -> bool:
    return replacement.output is node or any(node in inputs for _, inputs in replacement.nodes)


def _work(equations: Iterable[Equation]) -> tuple[int, Dim]:
    """How many operations compute or copy, and how many entries they write."""
    busy = [equation for equation in equations if OPS[equation.op.name].memory is not Memory.VIEW]
    return len(busy), total(product(var.type.shape) for equation in busy for var in equation.outputs)


def _applied(name: str, operand: Operand, variable: str = "", source: str = "") -> Equation:
    """An entrywise operation on one operand."""
    (type_,) = OPS[name].types([operand.type], {})
    return Equation(OpRef(name), (operand,), (Var(variable, type_),), source=source)


def _firing(
    graph: _Graph, rules: Sequence[Rule], partners: Partners, movable: Sequence[Equation], context: Any
) -> dict[tuple[str, Node], Replacement[Any]]:
    """The replacements that `rules` make of operations at sources, by their names and the sources."""
    trials: dict[tuple[str, Node], Equation] = {}
    for name in dict.fromkeys(equation.op.name for equation in movable):
        for node in graph.behind(equation for equation in movable if equation.op.name == name):
            if isinstance(node, Var) and node in graph.maker and graph.maker[node].op.name in partners[name]:
                trials[name, node] = _applied(name, node)
    if not trials:
        return {}
    tried = replace(graph.program, equations=(*graph.program.equations, *trials.values()))
    result = optimize_graph(program_view(tried, context), rules)
    replaced = (
        {} if result is None else {application.match.root: application.replacement for application in result.applied}
    )
    return {key: replaced[trial] for key, trial in trials.items() if trial in replaced}


class _Mover:
    """The Program under construction."""

    def __init__(self, graph: _Graph) -> None:
        self.graph = graph
        self.after: dict[Equation | None, list[Equation]] = {}
        self.now: dict[tuple[str, Operand], Operand] = {}
        self.names = names_of(graph.program)

    def run(self, chosen: Mapping[Equation, None]) -> Program:
        """Apply the chosen operations to their sources, and repeat the views behind them."""
        for name in dict.fromkeys(equation.op.name for equation in chosen):
            for node in self.graph.behind(equation for equation in chosen if equation.op.name == name):
                self._apply(name, node)
        moved = {equation.outputs[0]: self.now[equation.op.name, _operand(equation)] for equation in chosen}

        def use(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
            return tuple(moved.get(operand, operand) if isinstance(operand, Var) else operand for operand in operands)

        equations = list(self.after.get(None, ()))
        for equation in self.graph.program.equations:
            equations += [] if equation in chosen else [equation]
            equations += self.after.get(equation, ())
        rewritten = tuple(
            equation if (inputs := use(equation.inputs)) == equation.inputs else replace(equation, inputs=inputs)
            for equation in equations
        )
        return replace(self.graph.program, equations=rewritten, outputs=use(self.graph.program.outputs))

    def _apply(self, name: str, node: Node) -> None:
        """Apply the operation at a source, or repeat a view of operands that the operation was applied to."""
        if isinstance(node, Var):
            maker = self.graph.maker.get(node)
            equation = _applied(name, node, self.names.fresh(), "" if maker is None else maker.source)
            self.after.setdefault(maker, []).append(equation)
            self.now[name, node] = equation.outputs[0]
            return
        viewed = range(len(node.inputs))[OPS[node.op.name].view.operands]
        inputs = tuple(
            self._moved(name, operand) if index in viewed else operand for index, operand in enumerate(node.inputs)
        )
        dtype = inputs[viewed[0]].type.dtype
        outputs = tuple(Var(self.names.fresh(), array_type(var.type.shape, dtype)) for var in node.outputs)
        self.after.setdefault(node, []).append(replace(node, inputs=inputs, outputs=outputs))
        self.now.update(((name, old), new) for old, new in zip(node.outputs, outputs, strict=True))

    def _moved(self, name: str, operand: Operand) -> Operand:
        """The operation applied to an operand of a view; a literal gives a literal."""
        if isinstance(operand, Var):
            return self.now[name, operand]
        (type_,) = OPS[name].types([operand.type], {})
        with np.errstate(all="ignore"):
            value = OPS[name].reference(np.asarray(operand.value, operand.type.dtype.numpy))
        return Literal(np.asarray(value, type_.dtype.numpy).item(), ShapedArray((), type_.dtype))
