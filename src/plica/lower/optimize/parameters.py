"""Rules on the graphs of parameters, each under its equation, and common subexpressions.

Entrywise rules come from `plica.rules.entrywise`, those on operations that parameters have. Here are rules on
operations that Programs lack, such as outer products and clamps with bounds as settings, and on constants. A Program
computes in the order that its user wrote, but a parameter's constants are combined before anything runs.

>>> from plica.symbolic.parameters import LogParameter, softmax_normal
>>> slow = Parameter.from_unary(LogParameter((2, 3)), softmax_normal((2, 3)))
>>> result = optimize_graph(parameter_view(slow), PARAMETER_RULES)
>>> [type(node).__name__ for node in result.nodes]
['TensorParameter', 'LogSoftmaxParameter']
"""

import copy
from collections.abc import Hashable, Mapping, Sequence
from math import inf
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import GraphError
from plica.graph.optimize import ORDINARY, Replacement, Rule, optimize_graph
from plica.graph.pattern import Entry, Pattern
from plica.graph.share import alike
from plica.graph.view import derives_from_final, is_a
from plica.ir.dtypes import DType
from plica.ir.ranges import ANYTHING
from plica.ir.types import array_type
from plica.lower.optimize.ranges import numbers
from plica.rules.entrywise import ENTRYWISE
from plica.rules.view import CONSTANT, Match, New, OperationView, is_x, of_graph_with, view_of
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import (
    ClampParameter,
    ConjugateParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    LogAddExpParameter,
    LogEinsumExpParameter,
    LogParameter,
    LogSoftmaxParameter,
    OuterProductParameter,
    OuterSumParameter,
    Parameter,
    ParameterOp,
    ReduceLSEParameter,
    ReduceSumParameter,
    SigmoidParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SquareParameter,
    SumParameter,
    dereferenced,
    setting_key,
)

__all__ = ["PARAMETER_RULES", "fits_parameter", "optimize_graph", "parameter_view", "share_nodes", "with_own_nodes"]

OPERATIONS: Mapping[str, type[ParameterOp]] = {
    str(kind.operation): kind
    for kind in (
        ConjugateParameter,
        ExpParameter,
        HadamardParameter,
        LogAddExpParameter,
        LogParameter,
        LogSoftmaxParameter,
        SigmoidParameter,
        SoftmaxParameter,
        SoftplusParameter,
        SquareParameter,
        SumParameter,
    )
}
"""The parameter of each operation that rules may name, and put in place of another."""


def parameter_view(parameter: Parameter, context: Any = None) -> OperationView:
    """A parameter as rules see it; patterns name classes, or operations."""
    known = numbers(parameter.node_inputs)
    return OperationView(
        parameter.nodes,
        parameter.outputs,
        parameter.node_inputs,
        fits=fits_parameter,
        describe=_describe,
        context=context,
        make=_constructed,
        type=lambda node: array_type(node.shape, _DTYPES[known(node).kind]),
        range=lambda node: known(node).range,
    )


def fits_parameter(kind: type, wanted: type | str) -> bool:
    """Whether a class of nodes is what a pattern wants."""
    if wanted == CONSTANT:
        return is_a(kind, ConstantParameter)
    if isinstance(wanted, type):
        return is_a(kind, wanted)
    return getattr(kind, "operation", None) == wanted and not derives_from_final(kind)


_DTYPES = {DataType.INTEGER: DType.INT64, DataType.REAL: DType.FLOAT64, DataType.COMPLEX: DType.COMPLEX128}


def _constructed(_: Any, operation: str, inputs: Sequence[Any], settings: Mapping[str, Any]) -> ParameterOp:
    if operation not in OPERATIONS:
        shown = ", ".join(OPERATIONS)
        raise GraphError(f"rules cannot make {operation!r} of parameters; they make {shown}, or construct nodes")
    return OPERATIONS[operation](*(node.shape for node in inputs), **settings)


def _describe(node: Any) -> str:
    return f"{type(node).__name__}{node.shape}"


def _einsum_of_outer(match: Match) -> New:
    outer, reduced = match["outer"], match["reduced"]
    axes, at = len(outer.in_shape1), outer.axis % len(outer.in_shape1)
    summed = reduced.axis % axes
    first, second = list(ascii_lowercase[:axes]), list(ascii_lowercase[:axes])
    second[at] = ascii_lowercase[axes]
    inputs = (match["x"], match["y"])
    if summed == at:  # sum over (m, n) of x[m] y[n] = (sum over m of x[m]) (sum over n of y[n])
        result = "".join(letter for position, letter in enumerate(first) if position != at)
        return Replacement.chain(inputs, _einsum(outer, first, second, result))
    pairs = [*first[: at + 1], second[at], *first[at + 1 :]]
    result = "".join(letter for letter in pairs if letter != first[summed])
    start = result.index(first[at])
    einsum = _einsum(outer, first, second, result)
    return Replacement.chain(inputs, einsum, FlattenParameter(einsum.shape, start=start, end=start + 1))


def _einsum(outer: Any, first: list[str], second: list[str], result: str) -> ParameterOp:
    equation = f"{''.join(first)},{''.join(second)}->{result}"
    kind = LogEinsumExpParameter if isinstance(outer, OuterSumParameter) else EinsumParameter
    return kind(outer.in_shape1, outer.in_shape2, equation=equation)


def _folded(match: Match) -> New:
    """The constant that an operation on two constants gives; one number stays one number."""
    value = _combined(match["op"], match)
    return Replacement.chain([], ConstantParameter(*match["op"].shape, value=value if value.ndim else value.item()))


def _reassociated(match: Match) -> New:
    """The input `x` with both constants as one."""
    outer = match["outer"]
    value = _combined(outer, match)
    constant = ConstantParameter(*outer.shape, value=value if value.ndim else value.item())
    new = OPERATIONS[outer.operation](*outer.in_shapes)
    return Replacement(((constant, ()), (new, (match["x"], constant))), new)


def _combined(op: ParameterOp, match: Match) -> NDArray[Any]:
    """The sum or the product of the constants `first` and `second`, whichever `op` computes."""
    first, second = (_wide(match[name].value) for name in ("first", "second"))
    with np.errstate(all="ignore"):
        return np.asarray(first + second if op.operation == "add" else first * second)


def _wide(value: Any) -> NDArray[Any]:
    """A constant's numbers with 64 bits for each real part."""
    array = np.asarray(value)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


_NARROW = np.finfo(np.float16)  # the narrowest dtype that circuits compute in


def _rounds_otherwise(match: Match) -> str | None:
    """Why a sum or a product with both constants as one may differ by more than a rounding.

    (x + c) + d loses the digits of x that are small beside c or beside c + d, and x + (c + d) only the latter. These
    differ where |c + d| is much smaller than |c|. (x c) d and x (c d) are rounded twice each, where c d is a normal
    number.
    """
    first, second = (_wide(match[name].value) for name in ("first", "second"))
    value = _combined(match["outer"], match)
    if np.iscomplexobj(value) or not (np.isfinite(first).all() and np.isfinite(second).all()):
        return "a constant is complex, infinite or NaN"
    if (np.abs(value) > _NARROW.max).any():
        return "the constants together may overflow"
    if match["outer"].operation == "add":
        cancels = 2 * np.abs(value) < np.maximum(np.abs(first), np.abs(second))
        return "the constants cancel: digits that the sum loses now would come back" if cancels.any() else None
    underflows = (np.abs(value) < _NARROW.tiny) & (first != 0) & (second != 0)
    return "the constants together may underflow" if underflows.any() else None


def _not_redundant(match: Match) -> str | None:
    clamp = match["clamp"]
    low, high = view_of(match).range(match["x"]) or ANYTHING
    if (clamp.vmin is None or low >= clamp.vmin) and (clamp.vmax is None or high <= clamp.vmax):
        return None
    return f"the clamp may change a number: its argument lies between {low} and {high}"


def _one_clamp(match: Match) -> New:
    inner, outer = match["inner"], match["outer"]
    low = -inf if inner.vmin is None else inner.vmin
    high = inf if inner.vmax is None else inner.vmax
    bounds = [min(max(bound, _bound_or(outer.vmin, -inf)), _bound_or(outer.vmax, inf)) for bound in (low, high)]
    vmin, vmax = (None if abs(bound) == inf else bound for bound in bounds)
    return Replacement.chain([match["x"]], ClampParameter(inner.in_shape, vmin=vmin, vmax=vmax))


def _bound_or(bound: float | None, default: float) -> float:
    return default if bound is None else bound


def _of_constants(op: str) -> Pattern:
    return Pattern(
        Entry("op", op, ("first", "second")),
        Entry("first", CONSTANT, (), preserved=True),
        Entry("second", CONSTANT, (), preserved=True),
    )


def _with_two_constants(op: str) -> Pattern:
    """`(x op c) op d`, in any order."""
    return Pattern(
        Entry("outer", op, ("inner", "second"), commutative=True),
        Entry("inner", op, ("x", "first"), commutative=True),
        Entry("first", CONSTANT, (), preserved=True),
        Entry("second", CONSTANT, (), preserved=True),
    )


PARAMETER_RULES: tuple[Rule, ...] = (
    *of_graph_with(ENTRYWISE, OPERATIONS),
    # sum_r outer(x, y) -> einsum(x, y)
    Rule(
        "einsum",
        "reduce_sum(outer_product(x, y)) -> flatten(einsum(x, y))",
        Pattern(Entry("reduced", ReduceSumParameter, ("outer",)), Entry("outer", OuterProductParameter, ("x", "y"))),
        _einsum_of_outer,
        source="distributivity: the outer product is never made",
        laws=ORDINARY,
    ),
    # lse_r outer(x, y) -> log einsum(exp(x), exp(y))
    Rule(
        "log-einsum",
        "reduce_lse(outer_sum(x, y)) -> flatten(log_einsum_exp(x, y))",
        Pattern(Entry("reduced", ReduceLSEParameter, ("outer",)), Entry("outer", OuterSumParameter, ("x", "y"))),
        _einsum_of_outer,
        source="distributivity: the outer sum is never made",
        laws=ORDINARY,
    ),
    # clamp(clamp(x, a, b), c, d) -> clamp(x, clamp(a, c, d), clamp(b, c, d))
    Rule(
        "clamp-clamp",
        "clamp(clamp(x, a, b), c, d) -> clamp(x, clamp(a, c, d), clamp(b, c, d))",
        Pattern(Entry("outer", ClampParameter, ("inner",)), Entry("inner", ClampParameter, ("x",), preserved=True)),
        _one_clamp,
        source="clamp(., c, d) is monotone",
        laws=ORDINARY,
    ),
    # clamp(x, a, b) -> x   where a <= x <= b
    Rule(
        "clamp",
        "clamp(x, a, b) -> x, a <= x <= b",
        Pattern(Entry("clamp", ClampParameter, ("x",))),
        is_x,
        _not_redundant,
        source="the range of the operation under the clamp",
        laws=ORDINARY,
    ),
    # c * d -> (c * d), computed now
    Rule(
        "constant-product",
        "constant * constant -> constant",
        _of_constants("multiply"),
        _folded,
        source="both are known",
        laws=ORDINARY,
    ),
    # c + d -> (c + d), computed now
    Rule(
        "constant-sum",
        "constant + constant -> constant",
        _of_constants("add"),
        _folded,
        source="both are known",
        laws=ORDINARY,
    ),
    # (x + c) + d -> x + (c + d)
    Rule(
        "plus-plus",
        "(x + constant) + constant -> x + constant",
        _with_two_constants("add"),
        _reassociated,
        _rounds_otherwise,
        source="associativity, to a rounding",
        laws=ORDINARY,
    ),
    # (x c) d -> x (c d)
    Rule(
        "times-times",
        "(x * constant) * constant -> x * constant",
        _with_two_constants("multiply"),
        _reassociated,
        _rounds_otherwise,
        source="associativity, to a rounding; finite where x times one constant overflows",
        laws=ORDINARY,
    ),
)


def share_nodes(parameter: Parameter) -> Parameter:
    """The parameter with one node for equal operations on equal inputs; `parameter` itself if no two are equal."""
    if len(parameter.nodes) < 3:
        return parameter  # no two operations
    first = alike(parameter.nodes, parameter.node_inputs, lambda node: (node,), _key)
    if not first:
        return parameter
    remaining = [node for node in parameter.nodes if node not in first]
    in_nodes = {node: [first.get(child, child) for child in parameter.node_inputs(node)] for node in remaining}
    return Parameter(remaining, in_nodes, [first.get(output, output) for output in parameter.outputs])


def with_own_nodes(parameter: Parameter, before: Parameter) -> Parameter:
    """The parameter with copies of the nodes of `before` whose inputs changed: other parameters may share them."""
    known = dict.fromkeys(before.nodes)
    copies: dict[Any, Any] = {}
    edges: dict[Any, list[Any]] = {}
    for node in parameter.nodes:
        inputs = [copies[child] for child in parameter.node_inputs(node)]
        copies[node] = copy.copy(node) if node in known and tuple(inputs) != before.node_inputs(node) else node
        edges[copies[node]] = inputs
    if all(copies[node] is node for node in parameter.nodes):
        return parameter
    return Parameter(edges, edges, [copies[output] for output in parameter.outputs])


def _key(node: Any) -> Hashable:
    """The key of nodes that compute the same from equal inputs; custom operations are compared by type and config."""
    target: Hashable = dereferenced(node)
    if isinstance(target, ConstantParameter):
        return (ConstantParameter, target.shape, setting_key(target.value))
    if not isinstance(target, ParameterOp):
        return target  # a leaf is like no other
    return (type(target), target.in_shapes, tuple((k, setting_key(v)) for k, v in sorted(target.config.items())))
