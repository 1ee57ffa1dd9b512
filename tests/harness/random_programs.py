"""Random well-typed Programs with symbolic sizes, one equation after another."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import numpy as np

from plica.ir.builder import Builder
from plica.ir.dtypes import DType
from plica.ir.program import Operand, Program, Var
from plica.ir.sizes import Dim, evaluate, floor_divide, same
from plica.ops import OPS
from tests.harness.programs import Array, literal

SIZES = ({"n": 1, "m": 1}, {"n": 2, "m": 3}, {"n": 5, "m": 2})
MOST_ELEMENTS = 400  # of one value, at the largest of SIZES
_SMOOTH = ("tanh", "sigmoid", "sin", "negative", "abs", "softplus")
_FLOAT_PAIRS = ("add", "subtract", "multiply", "maximum", "minimum")
_INT_PAIRS = ("add", "subtract", "multiply", "maximum", "bitwise_xor")


@dataclass(slots=True)
class _Growing:
    """A Program under construction and the values that the next equation may use."""

    draw: st.DrawFn
    builder: Builder = field(default_factory=lambda: Builder(OPS))
    values: list[Var] = field(default_factory=list)

    def pick(self, fits: Callable[[Var], bool] = lambda _: True) -> Any:
        """One of the values that fit; None where there is none."""
        fitting = [var for var in self.values if fits(var)]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def one_of(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def axes(self, var: Var) -> tuple[int, ...]:
        flags = self.draw(st.lists(st.booleans(), min_size=len(var.type.shape), max_size=len(var.type.shape)))
        return tuple(axis for axis, flag in enumerate(flags) if flag)

    def add(self, op: str, *inputs: Operand, **params: Any) -> None:
        (var,) = self.builder.add(op, *inputs, **params)
        if _elements(var) <= MOST_ELEMENTS and len(var.type.shape) <= 4:
            self.values.append(var)


def _name(atom: Any) -> str:
    name: str = atom.name
    return name


def _elements(var: Var) -> int:
    return math.prod(evaluate(dim, lambda atom: SIZES[-1][_name(atom)]) for dim in var.type.shape)


def _of(kind: str) -> Callable[[Var], bool]:
    return lambda var: var.type.dtype.kind == kind


def _broadcasts(one: Var) -> Callable[[Var], bool]:
    return lambda other: other.type.dtype == one.type.dtype and _meets(one, other)


def _unary(grow: _Growing) -> None:
    if (x := grow.pick(_of("float"))) is not None:
        grow.add(grow.one_of(_SMOOTH), x)


def _binary(grow: _Growing) -> None:
    x = grow.pick(lambda var: var.type.dtype.kind in ("float", "int"))
    y = grow.pick(_broadcasts(x))
    grow.add(grow.one_of(_FLOAT_PAIRS if _of("float")(x) else _INT_PAIRS), x, y)


def _with_scalar(grow: _Growing) -> None:
    x = grow.pick(lambda var: var.type.dtype.kind in ("float", "int"))
    scalar = literal(np.asarray(grow.one_of([-2, 0, 1, 3])).astype(x.type.dtype.value))
    operands = (x, scalar) if grow.draw(st.booleans()) else (scalar, x)
    grow.add(grow.one_of(("add", "subtract", "multiply", "maximum")), *operands)


def _choose(grow: _Growing) -> None:
    first, second = grow.pick(_of("int")), grow.pick()
    (condition,) = grow.builder.add(
        grow.one_of(("less", "equal", "greater_equal")), first, grow.pick(_broadcasts(first))
    )
    if _meets(condition, second):
        grow.add("where", condition, second, grow.one_of([second, literal(np.zeros((), second.type.dtype.value))]))


def _meets(first: Var, second: Var) -> bool:
    pairs = zip(reversed(first.type.shape), reversed(second.type.shape), strict=False)
    return all(same(a, b) or 1 in (a, b) for a, b in pairs)


def _reduction(grow: _Growing) -> None:
    x = grow.pick(lambda var: var.type.dtype.kind in ("float", "int"))
    names = ("sum", "mean", "max", "min", "logsumexp") if _of("float")(x) else ("sum", "max", "min")
    grow.add(grow.one_of(names), x, axis=grow.axes(x), keepdims=grow.draw(st.booleans()))


def _along(grow: _Growing) -> None:
    x = grow.pick(lambda var: _of("float")(var) and len(var.type.shape) > 0)
    if x is not None:
        axis = grow.one_of(range(len(x.type.shape)))
        grow.add(grow.one_of(("softmax", "log_softmax", "cumulative_sum")), x, axis=axis)


def _reshape(grow: _Growing) -> None:
    x = grow.pick()
    elements: Dim = 1
    for dim in x.type.shape:
        elements = elements * dim
    grow.add("reshape", x, shape=grow.one_of([(elements,), (1, *x.type.shape), (elements, 1), x.type.shape[::-1]]))


def _move(grow: _Growing) -> None:
    x = grow.pick()
    rank = len(x.type.shape)
    match grow.one_of(("permute_dims", "flip", "expand_dims", "broadcast_to", "squeeze", "astype")):
        case "permute_dims":
            grow.add("permute_dims", x, axes=tuple(grow.draw(st.permutations(range(rank)))))
        case "flip":
            grow.add("flip", x, axis=grow.axes(x))
        case "expand_dims":
            grow.add("expand_dims", x, axis=grow.one_of(range(rank + 1)))
        case "broadcast_to":
            grow.add("broadcast_to", x, shape=(grow.one_of([2, grow.builder.size("n")]), *x.type.shape))
        case "squeeze":
            grow.add("squeeze", x, axis=tuple(axis for axis in grow.axes(x) if x.type.shape[axis] == 1))
        case "astype":
            grow.add("astype", x, dtype=DType.FLOAT64 if x.type.dtype.kind != "bool" else DType.INT64)


def _join(grow: _Growing) -> None:
    x = grow.pick(lambda var: len(var.type.shape) > 0)
    axis = grow.one_of(range(len(x.type.shape)))
    others = [dim for place, dim in enumerate(x.type.shape) if place != axis]

    def fits(var: Var) -> bool:
        shape = var.type.shape
        same_rank = var.type.dtype == x.type.dtype and len(shape) == len(x.type.shape)
        return same_rank and [dim for place, dim in enumerate(shape) if place != axis] == others

    y = grow.pick(fits)
    if x.type.shape == y.type.shape and grow.draw(st.booleans()):
        grow.add("stack", x, y, x, axis=axis)
    else:
        grow.add("concat", x, y, axis=axis)


def _cut(grow: _Growing) -> None:
    x = grow.pick(lambda var: any(isinstance(dim, int) and dim > 1 for dim in var.type.shape))
    if x is not None:
        axis = grow.one_of([place for place, dim in enumerate(x.type.shape) if isinstance(dim, int) and dim > 1])
        grow.add("slice", x, axis=axis, start=grow.one_of((0, 1)), stop=x.type.shape[axis], step=grow.one_of((1, 2)))


def _matrices(grow: _Growing) -> None:
    x = grow.pick(lambda var: _of("float")(var) and len(var.type.shape) == 2)
    y = grow.pick(lambda var: var.type.dtype == x.type.dtype and var.type.shape[1:] == x.type.shape[1:] != ())
    if grow.draw(st.booleans()):
        grow.add("einsum", x, y, equation="ab,cb->ac")
    else:
        (turned,) = grow.builder.add("permute_dims", y, axes=(1, 0))
        grow.add("matmul", x, turned)


def _make(grow: _Growing) -> None:
    n, m = grow.builder.size("n"), grow.builder.size("m")
    size: Dim = grow.one_of([n, m, n + m, n * m, 2 * n + 1, floor_divide(n, 2) + 1])
    if grow.draw(st.booleans()):
        grow.add("arange", size=size, dtype=grow.one_of((DType.INT64, DType.FLOAT64)))
    else:
        grow.add("full", literal(np.asarray(0.25)), shape=(size, grow.one_of([1, 3, m])))


STEPS = (
    _unary,
    _binary,
    _binary,
    _with_scalar,
    _choose,
    _reduction,
    _along,
    _reshape,
    _move,
    _move,
    _join,
    _cut,
    _matrices,
    _make,
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A well-typed straight-line Program over sizes n and m; every value stays small and is far from any kink."""
    grow = _Growing(draw)
    for name, shape, dtype in (
        ("x", ("n", "m"), DType.FLOAT64),
        ("y", ("m",), DType.FLOAT64),
        ("z", ("n", 3), DType.FLOAT32),
        ("k", ("n", "m"), DType.INT64),
    ):
        grow.values.append(grow.builder.argument(name, shape, dtype))
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=12)):
        step(grow)
    return grow.builder.build(draw(st.lists(st.sampled_from(grow.values), min_size=1, max_size=3)))


def arguments(program: Program, sizes: Mapping[str, int]) -> list[Array]:
    """Arguments of a random Program at `sizes`."""
    found = []
    for place, var in enumerate(program.arguments):
        shape = [evaluate(dim, lambda atom: sizes[_name(atom)]) for dim in var.type.shape]
        values = np.sin(np.arange(np.prod(shape)) * 1.7 + place).reshape(shape)
        found.append((values * 3 if var.type.dtype.kind == "int" else values).astype(var.type.dtype.value))
    return found
