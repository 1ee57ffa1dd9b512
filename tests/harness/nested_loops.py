"""Random loops, scans, branches and while loops within each other, whose sizes are shared, doubled, grown or captured.

`nested_loops(seed)` writes the text of a function of `x` (n,) and `y` (m,). Every size is known to the writer as its
values at a few random assignments of whatever it depends on: two sizes with the same values are equal (Schwartz and
Zippel), so that arrays are added only where their sizes are equal whenever the function runs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.harness.random_functions import Argument, Function
from tests.harness.texts import NUMPY, PLAIN_FLOW

_PRIME = 2_147_483_647
_ASSIGNMENTS = 3
_LARGEST = 100  # entries of an array, at most
_TRIPS = 2
_LARGEST_SIZES = {"n": 3, "m": 2}
SIZES = tuple({"n": n, "m": m} for n, m in ((3, 2), (2, 2), (1, 0), (0, 1), (2, 1)))

Values = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Array:
    """A one-dimensional array: how the text calls it, its size at each assignment, and the largest it may have."""

    text: str
    size: Values
    largest: int


def nested_loops(seed: int, depth: int = 3) -> Function:
    """A random function."""
    writer = _Writer(np.random.default_rng(seed))
    arrays = [writer.fresh(name, largest) for name, largest in zip("xy", _LARGEST_SIZES.values(), strict=True)]
    with writer.indented("def function(x, y):"):
        arrays += [writer.assigned(_joined(writer.pick(arrays), writer.pick(arrays))) for _ in range(2)]
        arrays = writer.statements(arrays, depth)
        results = [array.text for array in arrays[-3:]]
        writer.line(f"return {', '.join(results)}")
    arguments = tuple(Argument(name, "float64", (size,)) for name, size in zip("xy", _LARGEST_SIZES, strict=True))
    return Function("\n".join(writer.lines) + "\n", arguments, ("float64",))


class _Writer:
    def __init__(self, rng: np.random.Generator) -> None:
        self.lines: list[str] = []
        self._rng = rng
        self._level = 0
        self._names = 0

    # Text

    def line(self, text: str) -> None:
        self.lines.append("    " * self._level + text)

    @contextmanager
    def indented(self, head: str) -> Iterator[None]:
        self.line(head)
        self._level += 1
        yield
        self._level -= 1

    def name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    # Choices

    def fresh(self, text: str, largest: int) -> _Array:
        """An array of a size that nothing is known of."""
        values = self._rng.integers(1, _PRIME, _ASSIGNMENTS)
        return _Array(text, tuple(map(int, values)), largest)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self._rng.integers(len(options)))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self._rng.random() < share)

    # Statements

    def statements(self, arrays: Sequence[_Array], depth: int) -> list[_Array]:
        """A few lines; the arrays that there are behind them, the newest last."""
        known = list(arrays)
        for _ in range(int(self._rng.integers(0, 3))):
            known.append(self.assigned(self.expression(known)))
        if depth:
            known += self.pick([self.for_loop, self.while_loop, self.scan, self.cond])(known, depth - 1)
        if self.chance(0.3):
            known.append(self.assigned(self.expression(known)))
        return known

    def assigned(self, array: _Array) -> _Array:
        name = self.name("a")
        self.line(f"{name} = {array.text}")
        return _Array(name, array.size, array.largest)

    def expression(self, arrays: Sequence[_Array]) -> _Array:
        """An array made of others: of the size of one, or of the sum of two."""
        first, second = self.pick(arrays), self.pick(arrays)
        if first.largest + second.largest <= _LARGEST and self.chance(0.4):
            return _joined(first, second)
        return self.alike(first, arrays)

    def alike(self, like: _Array, arrays: Sequence[_Array]) -> _Array:
        """An array of the size of one, made of any arrays that have this size."""
        equal = [array for array in arrays if array.size == like.size]
        first, second, other = self.pick(equal), self.pick(equal), self.pick(arrays)
        text = self.pick([
            f"pnp.tanh({first.text} + {second.text})",
            f"{first.text} * pnp.tanh(pnp.sum({other.text}))",
            f"{first.text} * pnp.tanh(pnp.sum({other.text}))",
            first.text,
        ])  # fmt: skip
        return _Array(text, like.size, min(array.largest for array in equal))

    # Loops

    def carried(self, arrays: Sequence[_Array], trips: int) -> tuple[list[_Array], list[_Array], list[Any], bool]:
        """What a loop carries at first and within, how each changes, and whether equal sizes are shared."""
        options = self.pick([arrays, arrays[-4:], arrays[:4]])
        first = [self.pick(options) for _ in range(self.pick([1, 1, 2, 3]))]
        shared = self.chance(0.75)
        added = self.pick(arrays)
        inside, changes = [], []
        kinds: dict[Any, str] = {}
        factor, times = self.fresh("", 0).size, self.fresh("", 0).size
        for place, array in enumerate(first):
            key = array.size if shared else place
            if not shared:  # sizes of carries are compared with captured ones alone
                factor, times = self.fresh("", 0).size, self.fresh("", 0).size
            kind = kinds.setdefault(key, self.pick(["kept", "kept", "doubled", "grown"]))
            largest = {"doubled": array.largest * 2**trips, "grown": array.largest + trips * added.largest}
            if largest.get(kind, 0) > _LARGEST:
                kind = kinds[key] = "kept"
            name = self.name("c")
            size = {
                "doubled": _apply(lambda a, b: a * b, array.size, factor),
                "grown": _apply(lambda a, b, c: a + b * c, array.size, times, added.size),
            }
            inside.append(_Array(name, size.get(kind, array.size), largest.get(kind, array.largest)))
            changes.append(lambda array, known, kind=kind: self.changed(kind, array, known, added))
        return first, inside, changes, shared

    def changed(self, kind: str, array: _Array, known: Sequence[_Array], added: _Array) -> str:
        """What a loop carries next in the place of an array."""
        if kind == "kept":
            return self.alike(array, known).text
        own = self.alike(array, [array])
        return _joined(own, array if kind == "doubled" else added).text

    def bind(self, inside: Sequence[_Array], call: str) -> list[_Array]:
        """The line that names the results of a loop; their sizes are those that an iteration may begin with."""
        names = [self.name("r") for _ in inside]
        self.line(f"{', '.join(names)}{',' * (len(names) == 1)} = {call}")
        return [_Array(name, array.size, array.largest) for name, array in zip(names, inside, strict=True)]

    def after(self, first: Sequence[_Array], inside: Sequence[_Array]) -> list[_Array]:
        """What a loop carries when it is over, of sizes that stay or of new ones."""
        again: dict[Values, Values] = {}
        return [
            one if one.size == before.size else
            _Array(one.text, again.setdefault(one.size, self.fresh("", 0).size), one.largest)
            for before, one in zip(first, inside, strict=True)
        ]  # fmt: skip

    def for_loop(self, arrays: Sequence[_Array], depth: int) -> list[_Array]:
        first, inside, changes, shared = self.carried(arrays, _TRIPS)
        name = self.name("loop")
        with self.indented(f"def {name}(i, {_listed(inside)}):"):
            self._body(arrays, inside, changes, depth, "({},)" if len(first) > 1 else "{}")
        bounds = self.pick([f"0, {_TRIPS}, 1", f"0, pnp.minimum({_TRIPS}, x.shape[0]), 1", "1, -1, -1"])
        call = f"plica.for_loop({bounds}, {name}, {_listed(first)}{_option(shared)})"
        return self.bind(self.after(first, inside), f"({call},)" if len(first) == 1 else call)

    def while_loop(self, arrays: Sequence[_Array], depth: int) -> list[_Array]:
        first, inside, changes, shared = self.carried(arrays, _TRIPS)
        name, watched = self.name("loop"), self.pick(inside)
        more = f" & (pnp.sum({watched.text}) < 50)" if self.chance() else ""
        with self.indented(f"def {name}(k, {_listed(inside)}):"):
            self._body(arrays, inside, changes, depth, "(k + 1, {})")
        condition = f"lambda k, {_listed(inside)}: (k < {_TRIPS}){more}"
        call = f"plica.while_loop({condition}, {name}, 0, {_listed(first)}{_option(shared)})"
        return self.bind(self.after(first, inside), f"{call}[1:]")

    def scan(self, arrays: Sequence[_Array], depth: int) -> list[_Array]:
        rows = self.pick(["x", f"pnp.zeros({_TRIPS})", f"pnp.ones({_TRIPS})"])
        first, inside, changes, shared = self.carried(arrays, max(_TRIPS, _LARGEST_SIZES["n"]))
        name, made = self.name("step"), self.pick(arrays)
        with self.indented(f"def {name}(carry, row):"):
            self.line(f"{_listed(inside)}, = carry")
            self._body(arrays, inside, changes, depth, "({},), " + f"row * {made.text}")
        stacked = self.name("stacked")
        call = f"plica.scan({name}, ({_listed(first)},), {rows}{_option(shared)})"
        self.line(f"carried, {stacked} = {call}")
        total = _Array(f"pnp.tanh({made.text} + pnp.sum({stacked}, axis=0))", made.size, made.largest)
        return [*self.bind(self.after(first, inside), "carried"), self.assigned(total)]

    def cond(self, arrays: Sequence[_Array], depth: int) -> list[_Array]:
        first, inside, changes, shared = self.carried(arrays, 1)
        del inside
        other = self.pick(arrays)
        is_changed = self.chance()
        yes, no = self.name("branch"), self.name("branch")
        with self.indented(f"def {yes}():"):
            known = self.statements(arrays, depth)
            results = [
                change(array, known) if is_changed else self.alike(array, known).text
                for array, change in zip(first, changes, strict=True)
            ]
            self.line(f"return {', '.join(results)},")
        with self.indented(f"def {no}():"):
            self.line(f"return {_listed(first)},")
        names = [self.name("r") for _ in first]
        call = f"plica.cond(pnp.sum({other.text}) > 0, {yes}, {no}{_option(shared)})"
        self.line(f"{', '.join(names)}, = {call}")
        return [
            self.fresh(name, _LARGEST // 2) if is_changed else _Array(name, array.size, array.largest)
            for name, array in zip(names, first, strict=True)
        ]

    def _body(
        self, arrays: Sequence[_Array], inside: Sequence[_Array], changes: Sequence[Any], depth: int, returned: str
    ) -> None:
        known = self.statements([*arrays, *inside], depth)
        results = [change(array, known) for array, change in zip(inside, changes, strict=True)]
        self.line("return " + returned.format(", ".join(results)))


def _apply(function: Callable[..., int], *sizes: Values) -> Values:
    return tuple(function(*values) % _PRIME for values in zip(*sizes, strict=True))


def _joined(first: _Array, second: _Array) -> _Array:
    size = _apply(lambda a, b: a + b, first.size, second.size)
    return _Array(f"pnp.concat([{first.text}, {second.text}])", size, first.largest + second.largest)


def _listed(arrays: Sequence[_Array]) -> str:
    return ", ".join(array.text for array in arrays)


def _option(shared: bool) -> str:
    return "" if shared else ", preserve_dimensions=False"


PLAIN = {"plica": PLAIN_FLOW, "pnp": NUMPY}
"""Names with which a function runs in plain Python over numpy."""
