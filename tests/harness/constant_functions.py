"""Random functions of arrays of all dtypes and small sizes, 0 and 1 among them, some of whose arguments are constant.

`draw_function(seed)` writes the text of one: what expands, moves, cuts, packs, casts and updates arrays, loops,
branches, captured arrays, and results that are arguments, parts, or given twice. All is drawn by the seed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

import plica
import plica.numpy as pnp
from plica.ir.dtypes import as_dtype
from tests.harness.texts import loaded

Shape = tuple[int, ...]
_LARGEST = 600  # entries
_DTYPES = ("float32", "float64", "int64", "int32", "int8", "uint8", "bool", "bfloat16", "float16", "complex64")
_FAMILIES = (
    ("float32",),
    ("float64",),
    ("float32", "int8", "int64"),
    ("float64", "bool", "int64"),
    ("bfloat16", "float32"),
    ("complex64", "float32"),
    _DTYPES,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A variable of the function."""

    name: str
    shape: Shape
    dtype: str

    @property
    def kind(self) -> str:
        """ "bool", "int", "float" or "complex"."""
        return as_dtype(self.dtype).kind


@dataclass(frozen=True, slots=True)
class ConstantFunction:
    """A random function.

    Args:
        source: Its text.
        arguments: What it takes.
        dtypes: The dtypes of its values.
    """

    source: str
    arguments: tuple[Value, ...]
    dtypes: frozenset[str]

    def load(self) -> Callable[..., Any]:
        """The function."""
        return loaded(self.source, {"pnp": pnp, "plica": plica})

    def draw(self, rng: np.random.Generator) -> list[Any]:
        """Arguments."""
        return [numbers(rng, one) for one in self.arguments]


def numbers(rng: np.random.Generator, value: Value) -> Any:
    """An array for an argument."""
    draws = {
        "bool": lambda: rng.random(value.shape) < 0.5,
        "int": lambda: rng.integers(0 if value.dtype == "uint8" else -3, 6, value.shape),
        "float": lambda: rng.uniform(-2, 2, value.shape),
        "complex": lambda: rng.uniform(-2, 2, value.shape) + 1j * rng.uniform(-1, 1, value.shape),
    }
    return np.asarray(draws[value.kind]()).astype(as_dtype(value.dtype).numpy)


@dataclass
class _Writer:
    """The function under construction."""

    rng: np.random.Generator
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def one_of(self, *of: Any) -> Any:
        return of[self.rng.integers(len(of))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def pick(self, fits: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """A value, a new one more likely."""
        found = [one for one in self.values if fits(one)]
        return self.one_of(*found[-8:], *found) if found else None

    def like(self, value: Value) -> Value:
        """A value of the same shape and dtype."""
        found = self.pick(lambda one: (one.shape, one.dtype) == (value.shape, value.dtype))
        return value if found is None else found

    def new(self, text: str, shape: Shape, dtype: str) -> None:
        if prod(shape) <= _LARGEST:
            name = f"v{len(self.lines)}"
            self.lines.append(f"{name} = {text}")
            self.values.append(Value(name, tuple(shape), dtype))

    def define(self, result: str, lines: list[str], like: Value) -> None:
        name = f"v{len(self.lines)}"
        self.lines += [*(one.replace("BODY", f"body_{name}") for one in lines), f"{name} = {result}"]
        self.lines[-1] = self.lines[-1].replace("BODY", f"body_{name}")
        self.values.append(Value(name, like.shape, like.dtype))


def draw_function(seed: int) -> ConstantFunction:
    """The function of one seed."""
    write = _Writer(np.random.default_rng([seed, 44]))
    family = _FAMILIES[write.number(0, len(_FAMILIES) - 1)]
    for place in range(write.number(2, 5)):
        shape = tuple(write.one_of(1, 2, 3, 4, 1, 3, 0) for _ in range(write.one_of(0, 1, 1, 2, 2, 2, 3)))
        write.values.append(Value(f"a{place}", shape, write.one_of(*family)))
    arguments = tuple(write.values)
    for _ in range(write.number(3, 22)):
        value = write.pick()
        assert value is not None, "there are arguments"
        write.one_of(*_STEPS)(write, value)
    results = [write.one_of(*write.values[-8:], *write.values).name for _ in range(write.number(1, 4))]
    results += results[:1] * (write.rng.random() < 0.2)
    head = f"def function({', '.join(one.name for one in arguments)}):"
    body = [*write.lines, f"return ({', '.join(results)},)"]
    source = "\n    ".join([head, *body]) + "\n"
    return ConstantFunction(source, arguments, frozenset(one.dtype for one in write.values))


# Steps: each writes a line that reads `value`, or nothing where it does not fit

_UNARY = {
    "float": ("pnp.exp(pnp.minimum({0}, 3))", "pnp.tanh({0})", "-{0}", "pnp.abs({0})", "pnp.floor({0})", "{0} * {0}"),
    "int": ("pnp.abs({0})", "{0} + {0}", "{0} * 3", "~{0}", "{0} // 3", "{0} % 5"),
    "bool": ("~{0}",),
    "complex": ("pnp.conj({0})", "{0} * {0}", "-{0}"),
}
_BINARY = {
    "float": ("{0} + {1}", "{0} * {1}", "{0} - {1}", "pnp.maximum({0}, {1})"),
    "int": ("{0} + {1}", "{0} * {1}", "{0} - {1}", "pnp.minimum({0}, {1})"),
    "bool": ("{0} & {1}", "{0} | {1}"),
    "complex": ("{0} * {1}", "{0} + {1}"),
}
_NUMBERS = {"float": ("0.5", "1.0", "-0.0", "2.0"), "int": ("0", "1", "2")}


def _unary(write: _Writer, value: Value) -> None:
    write.new(write.one_of(*_UNARY[value.kind]).format(value.name), value.shape, value.dtype)


def _binary(write: _Writer, value: Value) -> None:
    def fits(one: Value) -> bool:
        pairs = zip(one.shape[::-1], value.shape[::-1], strict=False)
        return one.dtype == value.dtype and all(a == b or 1 in (a, b) for a, b in pairs)

    other = write.pick(fits) or value
    shape = np.broadcast_shapes(value.shape, other.shape)
    write.new(write.one_of(*_BINARY[value.kind]).format(value.name, other.name), shape, value.dtype)


def _with_number(write: _Writer, value: Value) -> None:
    if value.kind in _NUMBERS:
        text = f"{value.name} {write.one_of('+', '*', '-')} {write.one_of(*_NUMBERS[value.kind])}"
        write.new(text, value.shape, value.dtype)


def _compare(write: _Writer, value: Value) -> None:
    if value.kind in _NUMBERS:
        write.new(f"{value.name} > {write.one_of(0, 1)}", value.shape, "bool")


def _choose(write: _Writer, value: Value) -> None:
    mask = write.pick(lambda one: one.dtype == "bool" and one.shape == value.shape)
    if mask is not None:
        write.new(f"pnp.where({mask.name}, {value.name}, {write.like(value).name})", value.shape, value.dtype)


def _cast(write: _Writer, value: Value) -> None:
    dtype = write.one_of(*_DTYPES)
    if value.kind == "complex" and dtype != "complex64":
        return
    is_cut = value.kind == "float" and as_dtype(dtype).kind == "int"
    source = f"pnp.clip({value.name}, 0, 100)" if is_cut else value.name
    write.new(f'pnp.astype({source}, "{dtype}")', value.shape, dtype)


def _dequantize(write: _Writer, value: Value) -> None:
    if value.dtype in ("int8", "uint8"):
        write.new(f'pnp.astype({value.name}, "float32") * 0.1 - 1.0', value.shape, "float32")


def _broadcast(write: _Writer, value: Value) -> None:
    shape = (write.number(0, 4), *(write.one_of(2, 3, 0, 1) if size == 1 else size for size in value.shape))
    write.new(f"pnp.broadcast_to({value.name}, {shape})", shape, value.dtype)


def _fill(write: _Writer, value: Value) -> None:
    shape = tuple(write.number(1, 3) for _ in range(write.number(0, 2)))
    if value.shape == ():
        write.new(f"pnp.full({shape}, {value.name})", shape, value.dtype)
    else:
        write.new(f'pnp.full({shape}, {write.number(0, 2)}, dtype="{value.dtype}")', shape, value.dtype)


def _tile(write: _Writer, value: Value) -> None:
    times = tuple(write.one_of(1, 2) for _ in value.shape)
    if times:
        shape = tuple(a * b for a, b in zip(value.shape, times, strict=True))
        write.new(f"pnp.tile({value.name}, {times})", shape, value.dtype)


def _transpose(write: _Writer, value: Value) -> None:
    axes = tuple(int(one) for one in write.rng.permutation(len(value.shape)))
    if axes:
        write.new(f"pnp.permute_dims({value.name}, {axes})", tuple(value.shape[one] for one in axes), value.dtype)


def _reshape(write: _Writer, value: Value) -> None:
    count = prod(value.shape)
    write.new(f"pnp.reshape({value.name}, ({count},))", (count,), value.dtype)


def _expand(write: _Writer, value: Value) -> None:
    if value.shape[:1] == (1,) and write.one_of(True, False):
        write.new(f"pnp.squeeze({value.name}, axis=0)", value.shape[1:], value.dtype)
    else:
        write.new(f"pnp.expand_dims({value.name}, axis=0)", (1, *value.shape), value.dtype)


def _along(write: _Writer, value: Value) -> None:
    if not value.shape:
        return
    axis = write.number(-len(value.shape), len(value.shape) - 1)
    texts = ["pnp.flip({0}, axis={1})"]
    texts += ["pnp.roll({0}, 1, axis={1})"] * (value.shape[axis] > 0)
    texts += ["pnp.sort({0}, axis={1})"] * (value.kind in _NUMBERS)
    texts += ["pnp.cumulative_sum({0}, axis={1})"] * (value.dtype in ("float32", "float64", "int64"))
    texts += ["pnp.softmax({0}, axis={1})"] * (value.kind == "float" and value.shape[axis] > 0)
    write.new(write.one_of(*texts).format(value.name, axis), value.shape, value.dtype)


def _slice(write: _Writer, value: Value) -> None:
    if value.shape:
        axis = write.number(0, len(value.shape) - 1)
        size = value.shape[axis]
        start = write.number(0, size)
        places = range(start, write.number(start, size), write.one_of(1, 1, 1, 2))
        shape = (*value.shape[:axis], len(places), *value.shape[axis + 1 :])
        text = f"{value.name}[{':, ' * axis}{places.start}:{places.stop}:{places.step}]"
        write.new(text, shape, value.dtype)


def _parts(write: _Writer, value: Value) -> None:
    for place in range(min(3, *value.shape[:1], 3) if value.shape else 0):
        write.new(f"{value.name}[{place}:{place + 1}]", (1, *value.shape[1:]), value.dtype)


def _take(write: _Writer, value: Value) -> None:
    if value.shape and value.shape[0]:
        places = [write.number(0, value.shape[0] - 1) for _ in range(write.number(1, 3))]
        shape = (len(places), *value.shape[1:])
        write.new(f"pnp.take({value.name}, pnp.asarray({places}), axis=0)", shape, value.dtype)


def _join(write: _Writer, value: Value) -> None:
    if value.shape:
        other = write.like(value).name
        write.new(f"pnp.concat([{value.name}, {other}])", (2 * value.shape[0], *value.shape[1:]), value.dtype)


def _pack(write: _Writer, value: Value) -> None:
    if not value.shape or not value.shape[0] or value.kind == "complex":
        return
    zero = "False" if value.kind == "bool" else "0"
    tiles = (-(-value.shape[0] // 2), *value.shape[1:], 2)
    write.new(f"pnp.pack({value.name}, (0,), (2,), padding_value={zero})", tiles, value.dtype)
    if write.one_of(True, False) and prod(tiles) <= _LARGEST:
        text = f"pnp.unpack({write.values[-1].name}, (0,), (2,), shape={value.shape})"
        write.new(text, value.shape, value.dtype)


def _reduce(write: _Writer, value: Value) -> None:
    if value.shape and value.kind != "bool":
        text = write.one_of("sum", "prod") if value.kind == "float" else "sum"
        write.new(f'pnp.{text}({value.name}, axis=0, dtype="{value.dtype}")', value.shape[1:], value.dtype)


def _multiply(write: _Writer, value: Value) -> None:
    if len(value.shape) == 2 and value.kind in _NUMBERS:
        other = write.pick(lambda one: one.dtype == value.dtype and one.shape[:-1] == value.shape[1:])
        if other is not None and len(other.shape) == 2:
            write.new(f"{value.name} @ {other.name}", (value.shape[0], other.shape[1]), value.dtype)


def _update(write: _Writer, value: Value) -> None:
    if value.shape and value.shape[0] and value.kind in _NUMBERS:
        place, number = write.number(0, value.shape[0] - 1), "2" if value.kind == "int" else "0.5"
        key = write.one_of(str(place), f":{place}", f"pnp.asarray([{place}, {place}])")
        how = write.one_of("set", "add", "multiply")
        write.new(f"{value.name}.at[{key}].{how}({number})", value.shape, value.dtype)


def _branch(write: _Writer, value: Value) -> None:
    which = write.pick(lambda one: one.shape == () and one.dtype == "bool")
    if which is not None:
        text = f"plica.cond({which.name}, lambda: {value.name}, lambda: {write.like(value).name})"
        write.new(text, value.shape, value.dtype)


def _loop(write: _Writer, value: Value) -> None:
    if value.kind not in _NUMBERS:
        return
    other, number = write.like(value).name, "2" if value.kind == "int" else "0.5"
    texts = [f"a * {number} + {other}", f"pnp.maximum(a, {other} * {number})"]
    texts += [f"a.at[0].add({number}) + {other}"] * (value.shape[:1] > (0,))
    lines = [f"def BODY(i, a): return {write.one_of(*texts)}"]
    write.define(f"plica.for_loop(0, {write.one_of(0, 1, 3)}, 1, BODY, {value.name})", lines, value)


def _scan(write: _Writer, value: Value) -> None:
    if value.kind in _NUMBERS and value.shape[:1] > (0,):
        lines = ["def BODY(c, x): return c + x, c - x"]
        write.define(f"plica.scan(BODY, {value.name}[0], {write.like(value).name})[1]", lines, value)


def _capture(write: _Writer, _: Value) -> None:
    write.new('pnp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype="float32")', (2, 3), "float32")


def _draw(write: _Writer, _: Value) -> None:
    write.new("pnp.random.uniform(pnp.random.key(3), (2, 3))", (2, 3), "float32")


_STEPS: tuple[Callable[[_Writer, Value], None], ...] = (
    *(_unary, _unary, _unary, _binary, _binary, _binary, _binary, _with_number, _with_number, _with_number),
    *(_compare, _choose, _cast, _cast, _dequantize, _broadcast, _broadcast, _broadcast, _fill, _tile, _transpose),
    *(_reshape, _expand, _along, _along, _slice, _slice, _slice, _parts, _take, _join, _pack, _reduce, _reduce),
    *(_multiply, _multiply, _update, _update, _branch, _loop, _scan, _capture, _draw),
)
