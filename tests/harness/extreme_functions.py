"""Random functions of sizes 0, 1 and large broadcasts, of all dtypes, and of zeros of both signs, infinities and NaN.

Each value is computed by the interpreter as it is drawn. So it is known which values are exact: small multiples of
1/4, infinities and NaN. Only these are compared, sorted, rounded and added with both signs: what a rounding changes
decides nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import plica.numpy as pnp
from plica.errors import PlicaError

Array = np.ndarray[Any, np.dtype[Any]]
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
COMPLEX = ("complex64", "complex128")
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "complex64": 24, "complex128": 53}
_NUMBERS = (
    (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 0.25, np.inf, -np.inf, np.nan, 1.5),
    (0.0, -0.0, 1.0, 0.5, 2.0, -1.5),
    (0.0, 1.0),
)
_OF_ANY = ("negative", "abs", "square", "conj", "real", "imag", "positive", "logical_not", "bitwise_invert")
_OF_EXACT = ("sign", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "signbit")
_ROUNDED = ("exp", "log", "safe_log", "sqrt", "reciprocal", "tanh", "sigmoid", "softplus", "expm1", "log1p", "atan")
_PAIRS = ("add", "subtract", "multiply", "maximum", "minimum", "copysign", "equal", "less", "greater_equal")
_MOST = 20_000  # entries of a value


@dataclass(slots=True)
class Extreme:
    """A function under construction.

    Attributes:
        rng: Where all choices come from.
        arguments: The names of its arguments.
        lines: Its statements.
        values: What each variable is.
        exact: The variables that are exact.
        faults: Statements that failed with an error that is none of Plica's.
    """

    rng: np.random.Generator
    arguments: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    exact: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def one_of(self, options: Any) -> Any:
        return options[self.rng.integers(len(options))]

    def flag(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def pick(self, fits: Callable[[str], bool] = lambda _: True) -> str | None:
        fitting = [name for name in self.values if fits(name)]
        return self.one_of(fitting) if fitting else None

    def like(self, x: str) -> str:
        """A variable of the dtype of `x` that broadcasts with it."""
        return self.pick(lambda y: self.values[y].dtype == self.values[x].dtype and self.meet(x, y)) or x

    def meet(self, *names: str) -> bool:
        try:
            return bool(np.prod(np.broadcast_shapes(*(self.values[name].shape for name in names))) <= _MOST)
        except ValueError:
            return False

    def add(self, text: str, *, exact: bool) -> None:
        """Append a statement, unless Plica refuses it."""
        name = f"v{len(self.lines)}"
        try:
            value = np.asarray(eval(text, {"pnp": pnp, "np": np, **self.values}))
        except PlicaError:
            return
        except Exception as error:
            self.faults.append(f"{text}: {type(error).__name__}: {error}")
            return
        if value.size <= _MOST and value.ndim <= 6:
            self.lines.append(f"{name} = {text}")
            self.values[name] = value
            self.exact |= {name} if exact and _is_exact(value) else set()

    @property
    def source(self) -> str:
        """Its text."""
        body = "".join(f"    {line}\n" for line in self.lines)
        names = ", ".join(f"v{index}" for index in range(len(self.lines)))
        return f"def function({', '.join(self.arguments)}):\n{body}    return [{names}]\n"

    def load(self) -> Callable[..., Any]:
        """The function; it returns all its variables."""
        scope: dict[str, Any] = {"pnp": pnp, "np": np}
        exec(self.source, scope)
        function: Callable[..., Any] = scope["function"]
        return function


def _is_exact(value: Array) -> bool:
    if value.dtype.kind in "biu":
        return True
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    scaled = [4 * part.astype(np.float64)[np.isfinite(part.astype(np.float64))] for part in parts]
    most = 2.0 ** (_DIGITS[value.dtype.name] - 2)
    return all((part == np.round(part)).all() and (np.abs(part) <= most).all() for part in scaled)


def _unary(f: Extreme, x: str) -> None:
    op = f.one_of((*_OF_ANY, *_OF_EXACT) if x in f.exact else _OF_ANY)
    f.add(f"pnp.{op}({x})", exact=x in f.exact)


def _binary(f: Extreme, x: str) -> None:
    y = f.like(x)
    if {x, y} <= f.exact:
        f.add(f"pnp.{f.one_of(_PAIRS)}({x}, {y})", exact=True)
    else:
        f.add(f"pnp.{f.one_of(('multiply', 'maximum', 'minimum'))}({x}, {y})", exact=False)


def _with_number(f: Extreme, x: str) -> None:
    if f.values[x].dtype.kind in "fcV":
        numbers = ("0.0", "1.0", "-0.0", "2.0", "0.5", "-1.0")
        op = f.one_of(("add", "subtract", "multiply", "maximum", "minimum") if x in f.exact else ("multiply", "divide"))
        pair = [x, f.one_of(numbers)]
        f.add(f"pnp.{op}({', '.join(pair if f.flag() else pair[::-1])})", exact=x in f.exact)


def _rounded(f: Extreme, x: str) -> None:
    f.add(f"pnp.{f.one_of(_ROUNDED)}({x})", exact=False)


def _softmax(f: Extreme, x: str) -> None:
    if f.values[x].ndim:
        inner, outer = f.one_of((("softmax", "log"), ("log_softmax", "exp"), ("softmax", "positive")))
        f.add(f"pnp.{outer}(pnp.{inner}({x}, axis={f.rng.integers(f.values[x].ndim)}))", exact=False)


def _reduced(f: Extreme, x: str) -> None:
    axes = tuple(axis for axis in range(f.values[x].ndim) if f.flag())
    if axes and x in f.exact:  # without an axis numpy makes zeros positive
        f.add(f"pnp.{f.one_of(('sum', 'prod', 'max', 'min'))}({x}, axis={axes}, keepdims={f.flag()})", exact=True)


def _along(f: Extreme, x: str) -> None:
    if f.values[x].ndim and x in f.exact:
        axis = f.rng.integers(f.values[x].ndim)
        op = f.one_of(("argmax", "argmin", "sort", "argsort", "cumulative_sum"))
        more = f", descending={f.flag()}" if "sort" in op else ""
        f.add(f"pnp.{op}({x}, axis={axis}{more})", exact=True)


def _moved(f: Extreme, x: str) -> None:
    shape = f.values[x].shape
    rank, large = len(shape), int(f.one_of((0, 1, 4, 1000)))
    other = tuple(int(size) for size in f.rng.permutation(shape))
    texts = [
        f"pnp.reshape({x}, {(*other, 1)})",
        f"pnp.permute_dims({x}, {tuple(int(axis) for axis in f.rng.permutation(rank))})",
        f"pnp.expand_dims({x}, axis={f.rng.integers(rank + 1)})",
        f"pnp.squeeze({x}, axis={tuple(axis for axis, size in enumerate(shape) if size == 1 and f.flag())})",
        f"pnp.flip({x}, axis={tuple(axis for axis in range(rank) if f.flag())})",
    ]
    if f.values[x].size * max(large, 3) <= _MOST:
        texts.append(f"pnp.broadcast_to({x}, {(large, *shape)})")
    if rank:
        axis = f.rng.integers(rank)
        texts += [f"pnp.roll({x}, {f.rng.integers(-7, 8)}, axis={axis})", f"pnp.repeat({x}, 2, axis={axis})"]
        texts.append(f"{x}[{f.rng.integers(-3, 3)}:{f.rng.integers(-3, 4)}:{f.one_of((1, 2, -1))}]")
    f.add(f.one_of(texts), exact=x in f.exact)


def _joined(f: Extreme, x: str) -> None:
    y = f.pick(lambda y: (f.values[y].dtype, f.values[y].shape) == (f.values[x].dtype, f.values[x].shape)) or x
    if f.values[x].ndim:
        op, axis = f.one_of(("concat", "stack")), f.rng.integers(f.values[x].ndim)
        f.add(f"pnp.{op}([{x}, {y}, {x}], axis={axis})", exact={x, y} <= f.exact)


def _chosen(f: Extreme, x: str) -> None:
    y = f.like(x)
    condition = f.pick(lambda c: f.values[c].dtype == bool and f.meet(c, x, y))
    if condition is not None:
        f.add(f"pnp.where({condition}, {x}, {y})", exact={x, y} <= f.exact)


def _converted(f: Extreme, x: str) -> None:
    value = f.values[x]
    if x in f.exact and value.dtype.kind != "c" and np.isfinite(value.astype(np.float64)).all():
        least, most = (value.astype(np.float64).min(initial=0.0), value.astype(np.float64).max(initial=0.0))
        whole = [name for name in INTEGERS if np.iinfo(name).min <= least and most <= np.iinfo(name).max]
        f.add(f"pnp.astype({x}, {f.one_of((*FLOATS, *COMPLEX, *whole, 'bool'))!r})", exact=True)


_STEPS = (
    *(_unary, _binary, _binary, _with_number, _rounded, _softmax, _reduced),
    *(_along, _moved, _moved, _moved, _joined, _chosen, _converted),
)


def draw_extreme(seed: int, most: int = 10) -> Extreme:
    """The function of a seed."""
    f = Extreme(np.random.default_rng(seed))
    sizes = f.rng.choice([0, 1, 1, 2, 3, 5], 3)
    for index in range(f.rng.integers(1, 4)):
        shape = tuple(int(size) for size in f.rng.choice(sizes, f.rng.integers(0, 4)))
        dtype = f.one_of((*FLOATS, *FLOATS, *FLOATS, *INTEGERS, *COMPLEX, "bool"))
        numbers = (0, 1, 2, 3, 5) if dtype in INTEGERS else f.one_of(_NUMBERS)
        f.arguments.append(f"x{index}")
        f.values[f"x{index}"] = np.asarray(f.rng.choice(numbers, shape)).astype(dtype)
    f.exact |= {*f.arguments}
    for _ in range(most):
        x = f.pick()
        assert x is not None, "there is an argument"
        f.one_of(_STEPS)(f, x)
    return f
