"""Algebra on Programs: rules on equations, each under its own, for what appears only after lowering.

    >>> from plica.ir.types import spec
    >>> from plica.tracing.trace import trace
    >>> import plica.tracing.namespace as xp
    >>> print(simplify(trace(lambda x: xp.log(xp.softmax(x)) * 1.0, spec(("n", 3)))))
    { lambda ; {n:i64[]} x:f32[n,3] . let
        b:f32[n,3] = log_softmax[axis=1] x
      in (b,) }

A rule that holds for some numbers alone fires where the operation that made them says so: no NaN is lost, no sign of a
zero, and no infinity but where a logarithm and an exponential had left the range of floats. Scalars of sizes (`i64[]`)
are left alone: types may refer to them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import copysign
from operator import is_
from typing import Any

from plica.graph.match import GraphOptMatch, GraphView
from plica.graph.optimize import ORDINARY, Replacement, Rule, optimize_graph
from plica.graph.pattern import Entry, Pattern
from plica.ir.program import Equation, Literal, Operand, OpRef, Program, Var
from plica.ir.types import SCALAR_SIZE, ArrayType
from plica.ops.rules import normal_axes, normal_axis

Node = Equation | Var | Literal
Match = GraphOptMatch[Any]
New = Replacement[Any]

# Operations whose results are never below zero, nor the zero of negative sign, for real numbers.
_NEVER_NEGATIVE = frozenset({"exp", "softmax", "sigmoid", "softplus", "abs", "square"})


Fired = dict[str, list[str]]
"""Rules by name and equation, and for each place where one fired what the equation there came from."""


def simplify(program: Program, rules: "Sequence[Rule] | None" = None, fired: Fired | None = None) -> Program:
    """The Program after `rules`, until none fires; what they leave unread stays for dead code elimination.

    Args:
        program: The Program.
        rules: By default `ALGEBRA`.
        fired: Where to note what was done.
    """
    table = ALGEBRA if rules is None else rules
    while (rewritten := _pass(program, table, fired)) is not None:
        program = rewritten
    return program


def _pass(program: Program, rules: Sequence[Rule], fired: Fired | None) -> Program | None:
    """One pass; None where no rule fired."""
    result = optimize_graph(program_view(program), rules)
    if result is None:
        return None
    if fired is not None:
        for done in result.applied:
            name, equation = done.rule.name, done.rule.equation
            text = equation if name == equation else f"{name}: {equation}"
            fired.setdefault(text, []).append(done.match.root.source)
    names: dict[Any, Operand] = {}
    equations: list[Equation] = []
    for node in result.nodes:
        if isinstance(node, Equation):
            names[node] = node.outputs[0]
            inputs = tuple(_operand(one, names) for one in result.inputs[node])
            same = len(inputs) == len(node.inputs) and all(map(is_, inputs, node.inputs))
            equations.append(node if same else replace(node, inputs=inputs))
    return replace(program, equations=tuple(equations), outputs=tuple(_operand(one, names) for one in result.outputs))


def _operand(node: Node, names: dict[Any, Operand]) -> Operand:
    return names[node] if isinstance(node, Equation) else node


def program_view(program: Program) -> GraphView[Any]:
    """A Program as the engine sees it: equations of one result, and the variables and literals that they start from."""
    maker: dict[Var, Equation] = {}
    for equation in program.equations:
        if len(equation.outputs) == 1:  # a result among several stands for itself, like an argument
            maker[equation.outputs[0]] = equation

    def node(operand: Operand) -> Node:
        return maker.get(operand, operand) if isinstance(operand, Var) else operand

    sources = {equation: tuple(map(node, equation.inputs)) for equation in program.equations}
    outputs = tuple(map(node, program.outputs))
    read = (one for nodes in (*sources.values(), outputs) for one in nodes)
    leaves = dict.fromkeys(one for one in read if not isinstance(one, Equation))
    return GraphView(
        (*leaves, *program.equations),
        outputs,
        lambda one: sources[one] if isinstance(one, Equation) else (),
        kind=_kind_of,
        fits=_same_name,
        setting=lambda one, name: one.params.get(name) if isinstance(one, Equation) else getattr(one, name),
        describe=lambda one: f"{one.op.name} {one.outputs[0]}" if isinstance(one, Equation) else str(one),
    )


def _same_name(kind: str, wanted: str) -> bool:
    return kind == wanted


def _kind_of(node: Node) -> str:
    """The operation of an equation that rules may look at: one result, which is no size; else the class."""
    if type(node) is not Equation or len(node.outputs) != 1:
        return type(node).__name__
    type_ = node.outputs[0].type
    return "Equation" if not type_.shape and type_ == SCALAR_SIZE else node.op.name


# What rules are made of


def _type(node: Node) -> ArrayType:
    return node.outputs[0].type if isinstance(node, Equation) else node.type


def _kind(node: Node) -> str:
    return _type(node).dtype.kind


def _made(match: Match, op: str, *names: str, **params: Any) -> New:
    """One equation in place of the root, with the root's own variable as its result."""
    root = match.root
    equation = Equation(OpRef(op), (), root.outputs, params, root.source)
    return Replacement.chain([match[name] for name in names], equation)


def _is_x(match: Match) -> New:
    return Replacement.by(match["x"])


def _same_type(match: Match) -> str | None:
    """For rules that put x in place of the root: its shape was not broadcast, its dtype not promoted."""
    return None if _type(match["x"]) == _type(match.root) else "the result has another type than x"


def _not_complex(match: Match) -> str | None:
    """Infinite complex numbers times one are NaN."""
    return "x is complex" if _kind(match["x"]) == "complex" else _same_type(match)


def _real(match: Match) -> str | None:
    """For rules that hold for real numbers."""
    if _kind(match["x"]) != "float":
        return "x is not real"
    return _same_type(match)


def _real_not_negative(match: Match) -> str | None:
    x = match["x"]
    if not isinstance(x, Equation) or x.op.name not in _NEVER_NEGATIVE:
        return "x may be negative"
    return _real(match)


def _no_negative_zero(match: Match) -> str | None:
    """-0.0 + 0.0 is 0.0: for floats, x must come from an operation that gives no -0.0."""
    if _kind(match["x"]) == "int" or all(copysign(1.0, part) < 0 for part in _parts(match["zero"].value)):
        return _same_type(match)
    return _real_not_negative(match)


def _chain(outer: str | tuple[str, ...], inner: str | tuple[str, ...]) -> Pattern:
    """`outer(inner(x))`; others may read the inner equation."""
    return Pattern(Entry("outer", outer, ("inner",)), Entry("inner", inner, ("x",), kept=True))


def _with_literal(op: str, name: str, value: float, *, commutative: bool) -> Pattern:
    """`x op value`, where the value is written in the Program."""
    literal = Entry(name, "Literal", (), config={"value": value}, kept=True)
    return Pattern(Entry("op", op, ("x", name), commutative=commutative), literal)


def _axes(match: Match, name: str) -> tuple[int, ...]:
    node = match[name]
    axis = node.params["axis"]
    rank = len(_type(node).shape) if node.op.name == "expand_dims" else len(node.inputs[0].type.shape)
    return (normal_axis(axis, rank),) if isinstance(axis, int) else normal_axes(axis, rank)


def _opposite_axes(match: Match) -> str | None:
    return None if _axes(match, "outer") == _axes(match, "inner") else "the two axes differ"


def _permuted_twice(match: Match) -> New:
    inner, outer = match["inner"].params["axes"], match["outer"].params["axes"]
    return _made(match, "permute_dims", "x", axes=tuple(inner[axis] for axis in outer))


def _is_positive_zero(value: complex) -> bool:
    return value == 0 and all(copysign(1.0, part) > 0 for part in _parts(value))


def _parts(value: complex) -> tuple[float, ...]:
    return (value.real, value.imag) if isinstance(value, complex) else (value,)


def _in_place(axes: tuple[int, ...]) -> bool:
    return axes == tuple(range(len(axes)))


def _rule(
    equation: str,
    pattern: Pattern,
    replacement: Callable[[Match], New] = _is_x,
    condition: Callable[[Match], str | None] | None = _same_type,
    *,
    source: str,
) -> Rule:
    """A rule that is called by its equation."""
    return Rule(equation, equation, pattern, replacement, condition, source, ORDINARY)


_INVERSE = "inverse functions"
_NEUTRAL = "neutral element, exact for every float"
_LOG = ("log", "safe_log")

ALGEBRA: tuple[Rule, ...] = (
    # log(softmax(x)) -> log_softmax(x)
    _rule(
        "log(softmax(x)) -> log_softmax(x)",
        _chain(_LOG, "softmax"),
        lambda match: _made(match, "log_softmax", "x", axis=match["inner"].params["axis"]),
        None,
        source="definition of the softmax; finite where the softmax underflows",
    ),
    # exp(log_softmax(x)) -> softmax(x)
    _rule(
        "exp(log_softmax(x)) -> softmax(x)",
        _chain("exp", "log_softmax"),
        lambda match: _made(match, "softmax", "x", axis=match["inner"].params["axis"]),
        None,
        source="definition of the softmax",
    ),
    # log(exp(x)) -> x
    _rule(
        "log(exp(x)) -> x", _chain(_LOG, "exp"), condition=_real, source=f"{_INVERSE}; right where exp overflows too"
    ),
    # exp(log(x)) -> x   where x >= 0
    _rule("exp(log(x)) -> x, x >= 0", _chain("exp", _LOG), condition=_real_not_negative, source=_INVERSE),
    # abs(x) -> x   where x >= 0
    _rule(
        "abs(x) -> x, x >= 0",
        Pattern(Entry("op", "abs", ("x",))),
        condition=_real_not_negative,
        source="definition of the absolute value",
    ),
    # -(-x) -> x
    _rule("-(-x) -> x", _chain("negative", "negative"), source=_INVERSE),
    # not not x -> x
    _rule("not not x -> x", _chain("logical_not", "logical_not"), source=_INVERSE),
    # x * 1 -> x
    _rule("x * 1 -> x", _with_literal("multiply", "one", 1, commutative=True), condition=_not_complex, source=_NEUTRAL),
    # x / 1 -> x
    _rule("x / 1 -> x", _with_literal("divide", "one", 1, commutative=False), condition=_not_complex, source=_NEUTRAL),
    # x + 0 -> x   where x is not -0.0
    _rule(
        "x + 0 -> x",
        _with_literal("add", "zero", 0, commutative=True),
        condition=_no_negative_zero,
        source="neutral element; -0.0 + 0.0 is 0.0, so x must not be -0.0",
    ),
    # x - 0 -> x
    _rule(
        "x - 0 -> x",
        Pattern(
            Entry("op", "subtract", ("x", "zero")),
            Entry(
                "zero",
                "Literal",
                (),
                config={"value": _is_positive_zero},
                kept=True,
            ),
        ),
        source=_NEUTRAL,
    ),
    # where(c, x, x) -> x
    _rule(
        "where(c, x, x) -> x",
        Pattern(Entry("op", "where", ("c", "x", "x"))),
        source="both choices are one",
    ),
    # squeeze(expand_dims(x, a), a) -> x
    _rule(
        "squeeze(expand_dims(x, a), a) -> x",
        _chain("squeeze", "expand_dims"),
        condition=_opposite_axes,
        source=_INVERSE,
    ),
    # expand_dims(squeeze(x, a), a) -> x
    _rule(
        "expand_dims(squeeze(x, a), a) -> x",
        _chain("expand_dims", "squeeze"),
        condition=_opposite_axes,
        source=_INVERSE,
    ),
    # permute(permute(x, p), q) -> permute(x, p[q])
    _rule(
        "permute(permute(x, p), q) -> permute(x, p[q])",
        _chain("permute_dims", "permute_dims"),
        _permuted_twice,
        None,
        source="composition of permutations",
    ),
    # permute(x, (0, 1, ...)) -> x
    _rule(
        "permute(x, identity) -> x",
        Pattern(Entry("op", "permute_dims", ("x",), config={"axes": _in_place})),
        source="identity",
    ),
    # reshape(reshape(x, s), t) -> reshape(x, t)
    _rule(
        "reshape(reshape(x, s), t) -> reshape(x, t)",
        _chain("reshape", "reshape"),
        lambda match: _made(match, "reshape", "x", shape=match["outer"].params["shape"]),
        None,
        source="entries keep their order",
    ),
    # reshape, broadcast or cast to the type that x has -> x
    _rule(
        "change(x) to its own type -> x",
        Pattern(Entry("op", ("reshape", "broadcast_to", "astype", "concat"), ("x",))),
        source="nothing changes",
    ),
)
