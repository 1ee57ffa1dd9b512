"""Random functions of arrays of every dtype, with NaN, infinities, ends of integers, and axes of 0, 1 and odd sizes.

A line of a function is kept if it runs over numpy: nothing here knows the rules of types. So shapes, dtypes and values
may be anything, and what one backend refuses is for the others to refuse.

    made = swept_function(np.random.default_rng(0))
    made.source, made.arguments({"n": 5, "m": 0})
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

import plica
import plica.numpy as pnp
from tests.harness.texts import loaded

Array = Any
_SIZES = {"n": 5, "m": 7}
DTYPES = (
    "float64", "float64", "float64", "float32", "float16", "int64", "int64", "int32", "int8", "uint8", "uint64", "bool",
    "complex128", "complex64",
)  # fmt: skip
_SHAPES: tuple[tuple[str | int, ...], ...] = (("n",), ("n",), ("n", "m"), ("n", 3), (), ("m",), ("n", "n"), (3, 3))
_UNARY = (
    "abs", "negative", "sign", "square", "exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "round",
    "trunc", "reciprocal", "isnan", "isinf", "isfinite", "signbit", "expm1", "log1p", "exp2", "log2", "log10",
    "asinh", "atan", "sinh", "cosh", "tan", "acos", "conj", "real", "imag", "angle", "logical_not",
    "bitwise_invert", "positive", "sigmoid", "softplus", "safe_log", "lgamma", "erf",
)  # fmt: skip
_BINARY = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "maximum", "minimum",
    "copysign", "hypot", "atan2", "less", "less_equal", "greater", "equal", "not_equal", "logaddexp",
    "nextafter", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "add", "subtract",
    "multiply",
)  # fmt: skip
_REDUCE = (
    "sum", "prod", "max", "min", "mean", "any", "all", "argmax", "argmin", "count_nonzero", "std", "var",
    "logsumexp",
)  # fmt: skip
_ALONG = ["cumulative_sum", "cumulative_prod", "sort", "argsort", "softmax", "log_softmax", "flip"]
_FOURIER = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftshift", "ifftshift"]


@dataclass(frozen=True, slots=True)
class SweptFunction:
    """A function.

    Args:
        source: Its text.
        shapes: Of each argument.
        dtypes: Of each argument.
        seed: Of their numbers.
    """

    source: str
    shapes: Sequence[tuple[str | int, ...]]
    dtypes: Sequence[str]
    seed: int

    def load(self) -> Callable[..., Any]:
        """The function."""
        return loaded(self.source, {"plica": plica, "pnp": pnp})

    @property
    def axes(self) -> tuple[Any, ...]:
        """What `jit` is told of the sizes that are not known yet."""
        return tuple({axis: one for axis, one in enumerate(shape) if isinstance(one, str)} for shape in self.shapes)

    def arguments(self, sizes: Mapping[str, int]) -> list[Array]:
        """Arguments of these sizes."""
        rng = np.random.default_rng(self.seed)
        return [
            special_numbers(rng, dtype, [sizes[one] if isinstance(one, str) else one for one in shape])
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]


def special_numbers(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    """Small whole numbers, some fractions, and the ends of the dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        found = rng.integers(-4 if kind.kind == "i" else 0, 9, shape).astype(kind)
        ends = rng.choice(np.array([info.min, info.max, info.max - 1, info.min + 1, 0], kind), shape)
        return np.asarray(np.where(rng.random(shape) < rng.choice([0.0, 0.3]), ends, found))
    if kind.kind == "c":
        part = "float32" if kind.itemsize == 8 else "float64"
        real, imaginary = (special_numbers(rng, part, shape) for _ in range(2))
        return np.asarray(real + 1j * imaginary).astype(kind)
    found = np.where(rng.random(shape) < 0.6, rng.integers(-4, 5, shape), rng.normal(size=shape) * 2)
    ends = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e4, 6e4, 1e30, -1e-30], shape)
    with np.errstate(over="ignore"):
        return np.asarray(np.where(rng.random(shape) < rng.choice([0.0, 0.0, 0.25]), ends, found)).astype(kind)


class _Writer:
    """Writes the lines of one function, each tried over numpy."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.names = rng, count()
        self.scope: dict[str, Any] = {"plica": plica, "pnp": pnp}
        self.values: list[str] = []

    def new(self) -> str:
        return f"v{next(self.names)}"

    def one_of(self, values: Sequence[Any]) -> Any:
        if not values:
            raise LookupError
        return values[int(self.rng.integers(len(values)))]

    def value(self, *kinds: str, ndim: int = 0) -> str:
        """A variable, late ones more often; of these kinds where there is one."""
        fit = [
            one
            for one in self.values
            if np.ndim(self.scope[one]) >= ndim and (not kinds or self.dtype(one).kind in "".join(kinds))
        ]
        if not fit:
            raise LookupError
        return fit[-1 - min(int(self.rng.exponential(2.0)), len(fit) - 1)]

    def dtype(self, name: str) -> Any:
        return np.asarray(self.scope[name]).dtype

    def shape(self, name: str) -> tuple[int, ...]:
        return np.shape(self.scope[name])

    def try_lines(self, lines: Sequence[str], names: Sequence[str]) -> bool:
        """Whether lines run and give arrays that are not large."""
        try:
            with np.errstate(all="ignore"):
                exec("\n".join(lines), self.scope)
        except Exception:
            return False
        found = [self.scope[name] for name in names]
        if not all(isinstance(one, (np.ndarray, np.generic)) and one.size <= 400 for one in found):
            return False
        self.values += names
        return True

    # expressions

    def expression(self) -> str:
        return str(self.one_of(_KINDS)(self))

    def unary(self) -> str:
        return f"pnp.{self.one_of(_UNARY)}({self.value()})"

    def binary(self) -> str:
        first = self.value()
        same = [one for one in self.values if self.shape(one) in (self.shape(first), ())]
        other = self.one_of(same) if self.rng.random() < 0.8 else str(self.one_of([0, 1, 2, -3, 0.5, "pnp.inf", 7]))
        pair = [first, other] if self.rng.random() < 0.7 or not other.startswith("v") else [other, first]
        return f"pnp.{self.one_of(_BINARY)}({', '.join(pair)})"

    def shifted(self) -> str:
        first, amount = self.value("iu"), self.value("iu")
        name = self.one_of(["bitwise_left_shift", "bitwise_right_shift"])
        return f"pnp.{name}({first}, pnp.astype(pnp.bitwise_and({amount}, 63), {first}.dtype))"

    def cast(self) -> str:
        name = self.value()
        to = self.one_of(DTYPES)
        if self.dtype(name).kind in "fc" and np.dtype(to).kind in "iu":
            return f"pnp.astype(pnp.clip(pnp.where(pnp.isnan({name}), 1.0, {name}), 0, 100), pnp.{to})"
        return f"pnp.astype({name}, pnp.{to})"

    def reduced(self) -> str:
        name = self.value(ndim=1)
        axis = self.axis(name)
        keep = self.one_of(["", ", keepdims=True"])
        return f"pnp.{self.one_of(_REDUCE)}({name}{self.one_of(['', f', axis={axis}', f', axis={axis}'])}{keep})"

    def along(self) -> str:
        name = self.value(ndim=1)
        return f"pnp.{self.one_of(_ALONG)}({name}, axis={self.axis(name)})"

    def axis(self, name: str) -> int:
        dims = len(self.shape(name))
        return int(self.rng.integers(-dims, dims))

    def moved(self) -> str:
        name = self.value(ndim=1)
        axis = self.axis(name)
        return str(
            self.one_of(
                [
                    f"pnp.roll({name}, {self.rng.integers(-9, 9)}, axis={axis})",
                    f"pnp.concat([{name}, {self.value(ndim=1)}], axis={axis})",
                    f"pnp.stack([{name}, {name}], axis={axis})",
                    f"pnp.tril({name}, k={self.rng.integers(-2, 3)})",
                    f"pnp.triu({name}, k={self.rng.integers(-2, 3)})",
                    f"pnp.diff({name}, axis={axis})",
                    f"pnp.repeat({name}, {self.rng.integers(0, 4)}, axis={axis})",
                    f"pnp.tile({name}, (2,))",
                    f"pnp.expand_dims({name}, axis={axis})",
                    f"pnp.reshape({name}, (-1,))",
                    f"pnp.matrix_transpose({name})",
                    f"pnp.moveaxis({name}, 0, -1)",
                    f"pnp.broadcast_to({name}, (2, *{name}.shape))",
                ]
            )
        )

    def indices(self, name: str) -> tuple[list[str], list[str]]:
        """The last integers that may index an array, and the last masks of its shape."""
        whole = [one for one in self.values if self.dtype(one).kind in "iu" and len(self.shape(one)) < 2]
        masks = [one for one in self.values if self.dtype(one).kind == "b" and self.shape(one) == self.shape(name)]
        return whole[-2:], masks[-2:]

    def read(self) -> str:
        name = self.value(ndim=1)
        i = int(self.rng.integers(-3, 3))
        whole, masks = self.indices(name)
        choices = [
            f"{name}[{i}]",
            f"{name}[::-1]",
            f"{name}[1:]",
            f"{name}[::2]",
            f"{name}[-2:]",
            f"{name}[..., ::-2]",
            f"{name}[..., None]",
        ]
        for one in whole:
            choices += [f"{name}[pnp.remainder({one}, {name}.shape[0])]", f"{name}[{one}]"]
        choices += [f"{name}[{one}]" for one in masks]
        return str(self.one_of(choices))

    def written(self) -> str:
        name = self.value(ndim=1)
        i = int(self.rng.integers(-3, 3))
        mode = self.one_of(["set", "set", "add", "multiply", "min", "max"])
        whole, masks = self.indices(name)
        keys = [f"{i}", "::2", "1:", "::-1"]
        for one in whole:
            keys += [f"pnp.remainder({one}, {name}.shape[0])", one]
        keys += masks
        given = self.one_of([self.value(), f"{name}[0]", "1", "2"])
        return f"{name}.at[{self.one_of(keys)}].{mode}(pnp.astype(pnp.asarray({given}), {name}.dtype))"

    def chosen(self) -> str:
        mask = self.value("b")
        return f"pnp.where({mask}, {self.value()}, {self.one_of([self.value(), '0', '1.5'])})"

    def contracted(self) -> str:
        first = self.value(ndim=1)
        second = self.value(ndim=1)
        return str(
            self.one_of(
                [
                    f"pnp.matmul({first}, pnp.matrix_transpose({first}))",
                    f"pnp.matmul({first}, {second})",
                    f"pnp.tensordot({first}, {second}, axes=1)",
                    f"pnp.linalg.outer({first}, {second})",
                    f"pnp.vecdot({first}, {first})",
                    f"pnp.einsum('i,j->ij', {first}, {second})",
                    f"pnp.einsum('ij,kj->ik', {first}, {second})",
                ]
            )
        )

    def fourier(self) -> str:
        name = self.value("fc", ndim=1)
        # what is infinite may be any of infinite and NaN, and beside huge numbers all results are as near as to these
        number = f"pnp.where(pnp.abs({name}) < 1e4, {name}, 1.0)"
        return f"pnp.fft.{self.one_of(_FOURIER)}({number})"

    def searched(self) -> str:
        name, other = self.value("iuf", ndim=1), self.value("iuf", ndim=1)
        return str(
            self.one_of(
                [
                    f"pnp.searchsorted(pnp.sort({name}), {other})",
                    f"pnp.searchsorted(pnp.sort({name}), {other}, side='right')",
                    f"pnp.isin({name}, {other})",
                    f"pnp.unique_values({name})",
                    f"pnp.unique_counts({name}).counts",
                    f"pnp.nonzero({name})[0]",
                    f"pnp.take({name}, pnp.argsort({name}, axis=-1)[..., 0] * 0, axis=0)",
                ]
            )
        )

    def made(self) -> str:
        name = self.value(ndim=1)
        to = self.one_of(DTYPES)
        return str(
            self.one_of(
                [
                    f"pnp.zeros({name}.shape, dtype=pnp.{to})",
                    f"pnp.arange({name}.shape[0], dtype=pnp.{to})",
                    f"pnp.eye({name}.shape[0], dtype=pnp.{to})",
                    f"pnp.linspace(-1, 2, {name}.shape[0])",
                    f"pnp.full({name}.shape[-1], 3, dtype=pnp.{to})",
                    f"pnp.asarray({name}.shape[0])",
                ]
            )
        )

    # statements

    def lines(self, most: int, depth: int = 0) -> list[str]:
        """Up to `most` statements."""
        found: list[str] = []
        for _ in range(int(self.rng.integers(1, most + 1))):
            for _ in range(12):
                try:
                    if depth < 3 and self.rng.random() < 0.25:
                        made = self.one_of([self.for_loop, self.while_loop, self.cond, self.scan])(depth)
                    else:
                        name = self.new()
                        made = [f"{name} = {self.expression()}"], [name]
                except (LookupError, IndexError):
                    continue
                if made is not None and self.try_lines(*made):
                    found += made[0]
                    break
        return found

    def body(self, depth: int, arguments: Mapping[str, Any], numbers: Sequence[str] = ()) -> list[str]:
        """The lines of a nested function, its arguments being these."""
        before, values = dict(self.scope), list(self.values)
        self.scope.update(arguments)
        self.values += [one for one in arguments if one not in numbers]
        try:
            lines = self.lines(3, depth + 1)
            self._after = {name: self.scope[name] for name in self.values}
            self._names = list(self.values)
        finally:
            self.scope, self.values = before, values
        return lines

    def back(self, to: str, first: Array) -> str:
        """Something of the body with the dtype and the shape of what is carried."""
        dtype = np.asarray(first).dtype
        fit = [
            name
            for name in self._names
            if np.shape(self._after[name]) == np.shape(first)
            and np.can_cast(np.asarray(self._after[name]).dtype, dtype)
        ]
        last = [name for name in fit if name not in self.values] or [to]
        name = self.one_of([*last[-2:], last[-1]])
        text = name if np.asarray(self._after[name]).dtype == dtype else f"pnp.astype({name}, pnp.{dtype})"
        if self.rng.random() < 0.3 and self._after[name].dtype == dtype:
            return str(self.one_of([f"pnp.maximum({text}, {to})" if dtype.kind in "iuf" else text, f"({text})", to]))
        return text

    def carried(self) -> list[str]:
        return list(dict.fromkeys(self.value() for _ in range(int(self.rng.integers(1, 4)))))

    def indented(self, lines: Sequence[str]) -> list[str]:
        return [f"    {one}" for one in lines]

    def for_loop(self, depth: int) -> tuple[list[str], list[str]]:
        first = self.carried()
        inner = [self.new() for _ in first]
        i, name, outs = self.new(), self.new(), [self.new() for _ in first]
        numbers = [one for one in self.values if self.dtype(one) == np.int64 and self.shape(one) == ()]
        stop = self.one_of(["3", "0", "1", "2", f"{self.value(ndim=1)}.shape[0]"])
        if numbers and self.rng.random() < 0.3:
            stop = f"pnp.remainder({self.one_of(numbers)}, 4)"
        start, step = self.one_of([("0", "1"), ("0", "1"), ("1", "1"), ("1", "2"), ("4", "-1")])
        given = {one: self.scope[old] for one, old in zip(inner, first, strict=True)}
        lines = self.body(depth, {**given, i: np.int64(0)}, [i])
        if self.rng.random() < 0.7 and lines:
            arrays = [one for one in inner if np.ndim(given[one])]
            if arrays:
                one, made = self.one_of(arrays), self.new()
                lines.append(f"{made} = {one}.at[{i} % {one}.shape[0]].set({one}[-{i} % {one}.shape[0]])")
                self._after[made] = given[one]
                self._names.append(made)
        grown = [one for one in inner if np.ndim(given[one]) == 1] if self.rng.random() < 0.3 else []
        returned = [self.back(one, given[one]) for one in inner]
        for place, one in enumerate(inner):
            if one in grown:
                returned[place] = f"pnp.concat([{one}, {one}[:1]])"
        body = [f"def {name}({', '.join([i, *inner])}):", *self.indented([*lines, f"return {_tuple(returned)}"])]
        keep = ", preserve_dimensions=False" if grown else ""
        return [
            f"@plica.for_loop({start}, {stop}, {step}{keep})",
            *body,
            f"{', '.join(outs)}{',' if len(outs) > 1 else ''} = {name}({', '.join(first)})",
        ], outs

    def while_loop(self, depth: int) -> tuple[list[str], list[str]]:
        first = self.carried()
        inner = [self.new() for _ in first]
        k, name, outs, left = self.new(), self.new(), [self.new() for _ in first], self.new()
        given = {one: self.scope[old] for one, old in zip(inner, first, strict=True)}
        lines = self.body(depth, given)
        returned = [self.back(one, given[one]) for one in inner]
        limit = int(self.rng.integers(0, 5))
        floats = [one for one in inner if np.asarray(given[one]).dtype.kind in "fiu"]
        more = f" & (pnp.sum({floats[0]}) < 1000)" if floats and self.rng.random() < 0.5 else ""
        names = ", ".join([k, *inner])
        return [
            f"@plica.while_loop(lambda {names}: ({k} < {limit}){more})",
            f"def {name}({names}):",
            *self.indented([*lines, f"return {_tuple([f'{k} + 1', *returned])}"]),
            f"{', '.join([left, *outs])} = {name}({', '.join(['pnp.asarray(np_zero)', *first])})".replace(
                "pnp.asarray(np_zero)", f"pnp.sum(pnp.astype({first[0]}, pnp.bool), dtype=pnp.int64) * 0"
            ),
        ], outs

    def cond(self, depth: int) -> tuple[list[str], list[str]]:
        mask = self.value("b")
        name, out = self.new(), self.new()
        lines = self.body(depth, {})
        found = [one for one in self._names if one not in self.values] or self._names
        result = self.one_of(found)
        first = self._after[result]
        other = self.body(depth, {})
        back = self.back(result, first) if result in self._names else None
        if back is None or (result not in self.values and back.find(result) >= 0):
            same = [one for one in self.values if self.shape(one) == np.shape(first) and self.dtype(one) == first.dtype]
            back = self.one_of(same)
        return [
            f"@plica.cond(pnp.any({mask}))",
            f"def {name}():",
            *self.indented([*lines, f"return {result}"]),
            f"@{name}.otherwise",
            f"def {name}():",
            *self.indented([*other, f"return {back}"]),
            f"{out} = {name}()",
        ], [out]

    def scan(self, depth: int) -> tuple[list[str], list[str]]:
        first, rows = self.value(), self.value(ndim=1)
        carry, row, name, outs = self.new(), self.new(), self.new(), [self.new(), self.new()]
        lines = self.body(depth, {carry: self.scope[first], row: self.scope[rows][0]})
        stacked = self.one_of([one for one in self._names if one not in self.values] or [row])
        return [
            f"def {name}({carry}, {row}):",
            *self.indented([*lines, f"return {self.back(carry, self.scope[first])}, {stacked}"]),
            f"{outs[0]}, {outs[1]} = plica.scan({name}, {first}, {rows})",
        ], outs


def _tuple(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else ", ".join(texts)


_KINDS: Sequence[Callable[[_Writer], str]] = (
    _Writer.unary, _Writer.unary, _Writer.binary, _Writer.binary, _Writer.binary, _Writer.shifted, _Writer.cast,
    _Writer.reduced, _Writer.reduced, _Writer.along, _Writer.moved, _Writer.moved, _Writer.read, _Writer.read,
    _Writer.written, _Writer.written, _Writer.chosen, _Writer.contracted, _Writer.fourier, _Writer.searched,
    _Writer.made,
)  # fmt: skip


def swept_function(rng: np.random.Generator, most: int = 5) -> SweptFunction:
    """A random function of one to three arrays."""
    write = _Writer(rng)
    shapes = [write.one_of(_SHAPES) for _ in range(int(rng.integers(1, 4)))]
    dtypes = [str(write.one_of(DTYPES)) for _ in shapes]
    made = SweptFunction("", shapes, dtypes, int(rng.integers(2**31)))
    names = [write.new() for _ in shapes]
    for name, array in zip(names, made.arguments(_SIZES), strict=True):
        write.scope[name] = array
        write.values.append(name)
    lines = write.lines(most)
    results = [one for one in write.values if one not in names][-4:] or names[:1]
    body = [*lines, f"return {', '.join(results)},"]
    source = "\n".join([f"def function({', '.join(names)}):", *(f"    {one}" for one in body)]) + "\n"
    return SweptFunction(source, shapes, dtypes, made.seed)


def sweeps(first: int, number: int, most: int = 5) -> Iterator[tuple[int, SweptFunction]]:
    """Functions by their seeds."""
    for seed in range(first, first + number):
        yield seed, swept_function(np.random.default_rng([seed, 41]), most)
