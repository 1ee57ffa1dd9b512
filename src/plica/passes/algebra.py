"""Algebra on Programs, for patterns that appear only after lowering: the entrywise rules, and rules on shapes.

    >>> from plica.ir.types import spec
    >>> from plica.tracing.trace import trace
    >>> import plica.tracing.namespace as xp
    >>> print(simplify(trace(lambda x: xp.log(xp.softmax(x)) * 1.0, spec(("n", 3)))))
    { lambda ; {n:i64[]} x:f32[n,3] . let
        b:f32[n,3] = log_softmax[axis=1] x
      in (b,) }

Scalars of sizes (`i64[]`) are left alone: types may refer to them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from operator import is_
from typing import Any

from plica.graph.limits import MAX_STEPS, limit_reached, warn_of_limit
from plica.graph.optimize import Applied, OptimizedGraph, Rule, optimize_graph
from plica.graph.order import from_inputs
from plica.graph.pattern import Entry, Pattern
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.ir.program import Equation, Literal, Operand, OpRef, Program, Var
from plica.ir.ranges import ANYTHING, Range
from plica.ir.types import SCALAR_SIZE
from plica.ops import OPS
from plica.ops.rules import normal_axes, normal_axis
from plica.passes.replacements import Node, inner_variables, type_of
from plica.rules.entrywise import ENTRYWISE, rule
from plica.rules.view import CONSTANT, Match, New, OperationView, chain, every, made, not_complex

Fired = dict[str, list[str]]
"""Rules by name and equation, each with the source lines of the equations where it fired."""


def simplify(
    program: Program,
    rules: "Sequence[Rule] | None" = None,
    *,
    strategy: Strategy = OptMatchStrategy.LARGEST_MATCH,
    max_steps: int = MAX_STEPS,
    context: Any = None,
    fired: Fired | None = None,
) -> Program:
    """Apply rules to a Program until none fires. Equations that become unread stay, for dead code elimination.

    Args:
        program: The Program.
        rules: By default `ALGEBRA`.
        strategy: Which of the matches that overlap is applied.
        max_steps: How many passes are made at most.
        context: Rules read it as `match.context`.
        fired: Collects the rules that fired.

    Raises:
        GraphError: A rule replaces a match by a value of another type, or by no operation.
    """
    table = ALGEBRA if rules is None else rules
    before = len(program.equations)
    for step in range(1, max_steps + 1):
        result = optimize_graph(program_view(program, context), table, strategy)
        if result is None:
            break
        program = _rewritten(program, result)
        if fired is not None:
            _note(result.applied, fired)
        names = (applied.rule.name for applied in result.applied)
        reason = limit_reached(step, max_steps, before=before, now=len(program.equations), fired=names)
        if reason is not None:
            warn_of_limit(reason)
            break
    return program


def _note(applied: Iterable[Applied[Any]], fired: Fired) -> None:
    """Note which rules fired, and at which source lines."""
    for application in applied:
        fired.setdefault(f"{application.rule.name}: {application.rule.equation}", []).append(
            application.match.root.source
        )


def _rewritten(program: Program, result: OptimizedGraph[Any]) -> Program:
    """The Program after one pass."""
    inner = inner_variables(program, result.applied)
    names: dict[Any, Operand] = {}
    equations: list[Equation] = []
    for node in result.nodes:
        if isinstance(node, Equation):
            if node.outputs:  # a loop without results stays for its checks
                names[node] = inner.get(node, node.outputs[0])
            inputs = tuple(_operand(node, names) for node in result.inputs[node])
            same = len(inputs) == len(node.inputs) and all(map(is_, inputs, node.inputs)) and node not in inner
            outputs = (inner[node],) if node in inner else node.outputs
            equations.append(node if same else replace(node, inputs=inputs, outputs=outputs))
    return replace(program, equations=tuple(equations), outputs=tuple(_operand(node, names) for node in result.outputs))


def _operand(node: Node, names: dict[Any, Operand]) -> Operand:
    return names[node] if isinstance(node, Equation) else node


def _described(node: Node) -> str:
    return " ".join([node.op.name, *map(str, node.outputs[:1])]) if isinstance(node, Equation) else str(node)


def program_view(program: Program, context: Any = None) -> OperationView:
    """A Program as rules see it: equations of one result, and the variables and literals that these read."""
    maker: dict[Var, Equation] = {}
    for equation in program.equations:
        if len(equation.outputs) == 1:  # one result of several is a leaf, like an argument
            maker[equation.outputs[0]] = equation

    def node(operand: Operand) -> Node:
        return maker.get(operand, operand) if isinstance(operand, Var) else operand

    sources = {equation: tuple(map(node, equation.inputs)) for equation in program.equations}
    outputs = tuple(map(node, program.outputs))
    read = (node for nodes in (*sources.values(), outputs) for node in nodes)
    leaves = dict.fromkeys(node for node in read if not isinstance(node, Equation))

    def inputs(node: Node) -> tuple[Node, ...]:
        return sources[node] if isinstance(node, Equation) else ()

    return OperationView(
        (*leaves, *program.equations),
        outputs,
        inputs,
        kind=_kind_of,
        fits=_fits,
        config=_config,
        describe=_described,
        context=context,
        is_value=lambda node: not isinstance(node, Equation),
        make=_made,
        type=type_of,
        range=from_inputs(inputs, _range),
    )


def _config(node: Node) -> Mapping[str, Any]:
    """The parameters of an equation, the value of a literal."""
    return node.params if isinstance(node, Equation) else {"value": node.value} if isinstance(node, Literal) else {}


def _fits(kind: str, wanted: str) -> bool:
    return kind == wanted or (wanted == CONSTANT and kind == "Literal")


def _kind_of(node: Node) -> str:
    """The kind of a node: the operation of an equation with one result that is no size; else the class."""
    if type(node) is not Equation or len(node.outputs) != 1:
        return type(node).__name__
    type_ = node.outputs[0].type
    return "Equation" if not type_.shape and type_ == SCALAR_SIZE else node.op.name


def _made(root: Equation, operation: str, _: Sequence[Node], settings: Mapping[str, Any]) -> Equation:
    """An equation in place of another, with its variable as the result."""
    return Equation(OpRef(operation), (), root.outputs, settings, root.source)


def _range(node: Node, inputs: Sequence[Range | None]) -> Range | None:
    kind = type_of(node).dtype.kind
    if kind == "complex":
        return None
    if isinstance(node, Literal):
        number = float(node.value.real)
        return ANYTHING if isnan(number) else (number, number)
    return (
        OPS[node.op.name].range_of(inputs, node.params) if isinstance(node, Equation) and kind == "float" else ANYTHING
    )


# Rules on shapes


def _axes(match: Match, name: str) -> tuple[int, ...]:
    node = match[name]
    axis = node.params["axis"]
    rank = len(type_of(node).shape) if node.op.name == "expand_dims" else len(node.inputs[0].type.shape)
    return (normal_axis(axis, rank),) if isinstance(axis, int) else normal_axes(axis, rank)


def _opposite_axes(match: Match) -> str | None:
    return None if _axes(match, "outer") == _axes(match, "inner") else "the two axes differ"


def _permuted_twice(match: Match) -> New:
    inner, outer = match["inner"].params["axes"], match["outer"].params["axes"]
    return made(match, "permute_dims", "x", axes=tuple(inner[axis] for axis in outer))


def _in_place(axes: tuple[int, ...]) -> bool:
    return axes == tuple(range(len(axes)))


def _by_ones(operation: str, *, commutative: bool) -> Pattern:
    """`x op full(1)`."""
    return Pattern(
        Entry("op", operation, ("x", "ones"), commutative=commutative),
        Entry("ones", "full", ("one",), preserved=True),
        Entry("one", CONSTANT, (), config={"value": every(1)}, preserved=True),
    )


ALGEBRA: tuple[Rule, ...] = (
    *ENTRYWISE,
    # squeeze(expand_dims(x, a), a) -> x
    rule(
        "squeeze-expand",
        "squeeze(expand_dims(x, a), a) -> x",
        chain("squeeze", "expand_dims"),
        condition=_opposite_axes,
        source="inverse functions",
    ),
    # expand_dims(squeeze(x, a), a) -> x
    rule(
        "expand-squeeze",
        "expand_dims(squeeze(x, a), a) -> x",
        chain("expand_dims", "squeeze"),
        condition=_opposite_axes,
        source="inverse functions",
    ),
    # permute(permute(x, p), q) -> permute(x, p[q])
    rule(
        "permute-permute",
        "permute(permute(x, p), q) -> permute(x, p[q])",
        chain("permute_dims", "permute_dims"),
        _permuted_twice,
        None,
        source="composition of permutations",
    ),
    # permute(x, (0, 1, ...)) -> x
    rule(
        "permute-identity",
        "permute(x, identity) -> x",
        Pattern(Entry("op", "permute_dims", ("x",), config={"axes": _in_place})),
        source="identity",
    ),
    # reshape(reshape(x, s), t) -> reshape(x, t)
    rule(
        "reshape-reshape",
        "reshape(reshape(x, s), t) -> reshape(x, t)",
        chain("reshape", "reshape"),
        lambda match: made(match, "reshape", "x", shape=match["outer"].params["shape"]),
        None,
        source="entries keep their order",
    ),
    # x * full(1) -> x
    rule(
        "times-ones",
        "x * full(1) -> x",
        _by_ones("multiply", commutative=True),
        condition=not_complex,
        source="neutral element, exact for every float",
    ),
    # x / full(1) -> x
    rule(
        "divided-by-ones",
        "x / full(1) -> x",
        _by_ones("divide", commutative=False),
        condition=not_complex,
        source="neutral element, exact for every float",
    ),
    # reshape, broadcast or cast to the type that x has -> x
    rule(
        "same-type",
        "change(x) to its own type -> x",
        Pattern(Entry("op", ("reshape", "broadcast_to", "astype", "concat"), ("x",))),
        source="nothing changes",
    ),
)
