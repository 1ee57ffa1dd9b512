"""Random well-typed functions over `plica.numpy`, written in Python.

`functions()` draws the text of a function: its arguments have sizes `n` and `m` that are known when it runs, and
every index lies within its axis whatever they are, so that it can be traced once and compared with plain Python.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np

from plica.ir.sizes import Size
from tests.harness import function_arrays as arrays
from tests.harness import function_indexing as indexing
from tests.harness import function_steps as steps
from tests.harness.function_branches import call, cond
from tests.harness.function_loops import for_loop, scan, while_loop
from tests.harness.function_values import Atom, Value, integer
from tests.harness.function_writer import Shared, Writer
from tests.harness.programs import Array
from tests.harness.texts import loaded

LARGEST_SIZE = 4
_DEPTH = 3
_STEPS = (
    steps.of_floats,
    steps.of_floats,
    steps.of_integers,
    steps.convert,
    steps.binary,
    steps.binary,
    steps.mixed,
    steps.with_number,
    steps.with_number,
    steps.compare,
    steps.choose,
    steps.count,
    steps.fraction,
    steps.name_size,
    arrays.reduction,
    arrays.reduction,
    arrays.along,
    arrays.accumulate,
    arrays.rearrange,
    arrays.widen,
    arrays.join,
    arrays.contract,
    arrays.contract,
    arrays.make,
    arrays.make,
    indexing.read,
    indexing.read,
    indexing.take,
    indexing.update,
    indexing.update_masked,
    indexing.mask,
)
_NESTED = (for_loop, while_loop, cond, scan, call)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: an array of named sizes, or a Python number, whose shape is None."""

    name: str
    dtype: str
    shape: tuple[str | int, ...] | None


@dataclass(frozen=True, slots=True)
class Function:
    """A random function.

    Args:
        source: Its text.
        arguments: What it takes.
        floats: The floating dtypes that it uses.
    """

    source: str
    arguments: tuple[Argument, ...]
    floats: tuple[str, ...]

    def __repr__(self) -> str:
        kinds = "".join(f"#   {one}\n" for one in self.arguments)
        return f"\n{kinds}{self.source}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis shows of a function that fails."""
        del cycle
        printer.text(repr(self))

    @property
    def axes(self) -> tuple[Any, ...]:
        """What `jit` is told of the sizes that are not known yet."""
        return tuple(
            {axis: name for axis, name in enumerate(one.shape or ()) if isinstance(name, str)} for one in self.arguments
        )

    def load(self, scope: Mapping[str, Any]) -> Callable[..., Any]:
        """The function, in a module with these names."""
        return loaded(self.source, scope)

    def draw(self, sizes: Mapping[str, int], seed: int) -> list[Any]:
        """Arguments of these sizes."""
        rng = np.random.default_rng(seed)
        return [_argument(one, sizes, rng) for one in self.arguments]


def _argument(one: Argument, sizes: Mapping[str, int], rng: np.random.Generator) -> Array | complex:
    if one.shape is None:
        return _NUMBER[one.dtype](rng)
    shape = tuple(sizes[size] if isinstance(size, str) else size for size in one.shape)
    if one.dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if one.dtype == "int64":
        return np.asarray(rng.integers(-3, 6, shape))
    return np.asarray(rng.uniform(-2, 2, shape)).astype(one.dtype)


_NUMBER: Mapping[str, Callable[[np.random.Generator], complex]] = {
    "int64": lambda rng: int(rng.integers(0, LARGEST_SIZE + 1)),
    "float64": lambda rng: float(rng.uniform(-2, 2)),
    "bool": lambda rng: bool(rng.random() < 0.5),
}
_SHAPES: tuple[tuple[str | int, ...], ...] = (
    ("n",),
    ("m",),
    ("n", "m"),
    ("n", 3),
    ("m", "n"),
    (2,),
    (),
    (3, 2),
    ("n", 2, "m"),
    ("n", "n"),
)
_RANGES = {"float": (-2.0, 2.0), "int": (-3.0, 5.0), "bool": (0.0, 1.0)}


@st.composite
def functions(draw: st.DrawFn, floats: Sequence[Sequence[str]] = (("float64",), ("float64", "float32"))) -> Function:
    """A function of at least one array whose size is `n`."""
    write = Writer(draw, Shared(tuple(draw(st.sampled_from(list(floats))))))
    arguments = [Argument("x", "float64", write.one_of([("n",), ("n", "m")]))]
    for name in write.one_of(["y", "", "yk", "yks", "ykst"]):
        arguments.append(_drawn(write, name))
    _enter(write, arguments)
    block(write)
    write.line(f"return {_returned(write)}")
    head = f"def function({', '.join(one.name for one in arguments)}):"
    return Function("\n".join([head, *write.shared.lines]) + "\n", tuple(arguments), write.shared.floats)


def _drawn(write: Writer, name: str) -> Argument:
    match name:
        case "y":
            return Argument(name, write.one_of(write.shared.floats[::-1]), write.one_of(_SHAPES))
        case "k":
            return Argument(name, "int64", write.one_of([*_SHAPES, None]))
        case "s":
            return Argument(name, write.one_of(["float64", "int64", "bool"]), None)
    return Argument(name, write.one_of([*write.shared.floats, "int64", "bool"]), write.one_of(_SHAPES))


def _enter(write: Writer, arguments: Sequence[Argument]) -> None:
    """The arguments become variables."""
    sizes: dict[str, Atom] = {}
    for one in arguments:
        if one.shape is None:
            _enter_number(write, one)
            continue
        for axis, size in enumerate(one.shape):
            if isinstance(size, str) and size not in sizes:
                sizes[size] = write.new_atom(f"{one.name}.shape[{axis}]", 0, LARGEST_SIZE, is_argument=True)
                write.values.append(integer(sizes[size].name, Size.of(sizes[size])))
        dims = [Size.of(sizes[size]) if isinstance(size, str) else size for size in one.shape]
        value = Value(one.name, one.dtype, tuple(dims))
        low, high = _RANGES[value.kind]
        write.values.append(Value(one.name, one.dtype, tuple(dims), low, high))


def _enter_number(write: Writer, one: Argument) -> None:
    if one.dtype == "int64":
        write.values.append(integer(one.name, Size.of(write.new_atom(one.name, 0, LARGEST_SIZE, is_argument=True))))
    else:
        write.values.append(Value(one.name, one.dtype, (), -2.0, 2.0, number=True))


def block(write: Writer) -> None:
    """A few lines; those of a nested scope are fewer."""
    for _ in range(write.number(1, 9) if write.depth == 0 else write.number(0, 2)):
        if write.depth < _DEPTH and write.number(0, 3) == 3:
            write.one_of(_NESTED)(write, block)
        else:
            write.one_of(_STEPS)(write)


def _returned(write: Writer) -> str:
    """A tree of some variables, the newest first."""
    values = write.values[::-1]
    found = write.draw(st.lists(st.sampled_from(values), min_size=1, max_size=4, unique_by=lambda value: value.text))
    texts = [value.text for value in found]
    match write.number(0, 3):
        case 0:
            return f"({', '.join(texts)},)"
        case 1:
            return texts[0]
        case 2:
            return "{" + ", ".join(f'"{text}": {text}' for text in texts) + "}"
    return f"({texts[0]}, [{', '.join(texts[1:])}])"
