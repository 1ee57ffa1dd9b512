"""The writer of a random function: it adds lines and knows which variables the next line may use."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

import hypothesis.strategies as st

from plica.ir.sizes import Dim
from tests.harness.function_values import Atom, Value, fits, integer, limits, say

T = TypeVar("T")
LARGEST = {"float64": 30.0, "float32": 30.0, "int64": 60.0, "int32": 60.0, "bool": 1.0}
LARGEST_NUMBER = 100


@dataclass(slots=True)
class Shared:
    """What all scopes of one function share.

    Args:
        floats: The floating dtypes that it uses; with several, what is computed is noisy.
        lines: The text so far.
    """

    floats: tuple[str, ...]
    lines: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))


@dataclass(slots=True)
class Writer:
    """A scope: the body of the function, of a loop or of a branch.

    Args:
        draw: What Hypothesis decides.
        shared: The function.
        values: The variables that can be used here, newest last.
        atoms: The integers that are known here.
        depth: How deep it is nested.
        outside: How many of the variables come from around it.
    """

    draw: st.DrawFn
    shared: Shared
    values: list[Value] = field(default_factory=list)
    atoms: list[Atom] = field(default_factory=list)
    depth: int = 0
    outside: int = 0

    # Choices

    def one_of(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def chance(self) -> bool:
        return self.draw(st.booleans())

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, wanted: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """One of the variables that are wanted, the newest first; no Python number."""
        found = [value for value in reversed(self.values) if not value.number and wanted(value)]
        return self.one_of(found) if found else None

    def pick_number(self, wanted: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """One of the Python numbers that are wanted."""
        found = [value for value in reversed(self.values) if value.number and wanted(value)]
        return self.one_of(found) if found else None

    def axis(self, value: Value) -> int:
        return self.one_of(range(len(value.dims)))

    # Text

    def line(self, text: str) -> None:
        self.shared.lines.append("    " * (self.depth + 1) + text)

    def indexed(self, value: Value) -> str:
        """Python before the brackets of an index: an array from outside may meet an index that is traced."""
        return f"pnp.asarray({value.text})" if value in self.values[: self.outside] else value.text

    def name(self, letter: str = "v") -> str:
        """A name that nothing else has."""
        return f"{letter}{next(self.shared.numbers)}"

    def say(self, dim: Dim) -> str | None:
        """Python for a size."""
        return say(dim, self.values, by_shape=self.chance())

    def say_all(self, dims: Sequence[Dim]) -> str | None:
        """Python for a shape."""
        texts = [self.say(dim) for dim in dims]
        known = [text for text in texts if text is not None]
        return f"({', '.join(known)}{',' if len(dims) == 1 else ''})" if len(known) == len(texts) else None

    def let(self, text: str, dtype: str, dims: Sequence[Dim], **facts: Any) -> Value | None:
        """A new variable; none if it is too large. Elements too large are made smaller.

        Args:
            text: What it is.
            dtype: Its dtype.
            dims: Its sizes.
            facts: Further fields of `Value`.
        """
        if not fits(dims):
            return None
        facts.setdefault("noisy", len(self.shared.floats) > 1 and dtype.startswith("float"))
        value = Value(self.name(), dtype, tuple(dims), **facts)
        return self.add(replace(value, text=f"({text})"), value.text, text)

    def add(self, value: Value, name: str, text: str) -> Value:
        """The line that gives a name to what `text` says, `value` once its elements are small."""
        small = self.small(value)
        self.line(f"{name} = {text if small.text == value.text else small.text}")
        result = replace(small, text=name)
        self.values.append(result)
        return result

    def let_number(self, text: str, dim: Dim) -> Value | None:
        """A Python integer."""
        low, high = limits(dim)
        if max(abs(low), abs(high)) > LARGEST_NUMBER:
            return None
        value = integer(self.name(), dim)
        self.line(f"{value.text} = {text}")
        self.values.append(value)
        return value

    def new_atom(self, name: str, low: int, high: int, *, is_argument: bool = False) -> Atom:
        """A new integer that is known here."""
        atom = Atom(name, low, max(low, high), is_argument=is_argument)
        self.atoms.append(atom)
        return atom

    # Fitting values

    def small(self, value: Value, low: float | None = None, high: float | None = None) -> Value:
        """A value with elements from `low` to `high`, which hold [-1, 1] or [0, 2]; by default those not too large."""
        largest = LARGEST[value.dtype]
        low, high = -largest if low is None else low, largest if high is None else high
        text = value.text
        if low <= value.low and value.high <= high:
            return value
        if value.kind == "int":
            modulus = 3 if high >= 2 else 2
            return replace(value, text=f"{text} % {modulus}", low=0, high=modulus - 1)
        function = "pnp.tanh" if low <= -1 else "pnp.sigmoid"
        return replace(value, text=f"{function}({text})", low=-1 if low <= -1 else 0, high=1)

    def conform(self, value: Value, wanted: Value) -> str:
        """Python for `value` with the range and the finiteness of `wanted`, which has its dtype and shape."""
        if wanted.finite and not value.finite:
            text = f"pnp.where(pnp.isfinite({value.text}), {value.text}, 0.5)"
            value = replace(value, text=text, finite=True, low=min(value.low, 0.5), high=max(value.high, 0.5))
        return self.small(value, wanted.low, wanted.high).text

    def alike(self, wanted: Value) -> list[Value]:
        """The variables of the dtype and the shape of `wanted`, the newest first."""
        return [
            value
            for value in reversed(self.values)
            if not value.number and value.dtype == wanted.dtype and value.dims == wanted.dims
        ]

    @contextmanager
    def nested(self) -> Iterator["Writer"]:
        """A scope within this one, whose lines come next."""
        yield Writer(self.draw, self.shared, list(self.values), list(self.atoms), self.depth + 1, len(self.values))
