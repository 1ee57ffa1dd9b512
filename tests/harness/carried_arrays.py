"""Random functions that hand arrays on: loops, branches and scans, nested, whose arrays change size from turn to turn.

What matters is who is handed on: one array in several places, arrays that change places, some that a turn leaves as
they are. What is computed is exact, so that results are compared bit for bit.

    made = carried_function(np.random.default_rng(0))
    made.source, made.arguments({"n": 5, "m": 0, "k": 3})
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import numpy as np

import plica
import plica.numpy as pnp
from plica.ir.program import Program
from tests.harness.programs import Array
from tests.harness.texts import loaded

_MADE = (
    "{0}[1:]", "{0}[:-1]", "{0}[:2]", "pnp.concat([{0}, {1}[:1]])", "pnp.concat([{1}[:2], {0}])",
    "pnp.concat([{0}[1:], {1}[-1:]])", "pnp.flip({0})", "-{0}", "{0} + 1.0", "pnp.where({0} > 0, {0}, 1 - {0})",
    "pnp.concat([{0}, pnp.full((1,), 2.5)])",
)  # fmt: skip
_PREDICATES = ("k > 1", "{0}.shape[0] > 4", "{0}.shape[0] > {1}.shape[0]", "pnp.sum({0}) > 1.0")


@dataclass(frozen=True, slots=True)
class CarriedFunction:
    """A function of two arrays, of `n` and `m` numbers, and of a number of turns, `k`.

    Args:
        source: Its text.
    """

    source: str

    def traced(self) -> Program:
        """Its Program."""
        function = loaded(self.source, {"plica": plica, "pnp": pnp})
        return plica.trace(function, plica.spec("n", "float64"), plica.spec("m", "float64"), int)

    def arguments(self, sizes: Mapping[str, int]) -> list[Array]:
        """Arguments of these sizes."""
        return [np.arange(sizes["n"]) - 1.5, 2.0 * np.arange(sizes["m"]) - 3, np.asarray(sizes["k"])]


@dataclass(slots=True)
class _Writer:
    """Writes lines; knows which arrays the next line may read."""

    rng: np.random.Generator
    lines: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=lambda: ["x", "y"])
    names: Iterator[int] = field(default_factory=count)
    indent: int = 1

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self) -> str:
        return f"v{next(self.names)}"

    def several(self, names: Sequence[str], least: int = 2, most: int = 4) -> list[str]:
        """Some names, the later ones more often, and often one of them twice."""
        length = int(self.rng.integers(least, most + 1))
        weights = np.arange(1, len(names) + 1) / sum(range(len(names) + 1))
        return [str(one) for one in self.rng.choice(names, length, p=weights)]

    @contextmanager
    def function(self, arguments: Sequence[str] = (), head: str = "") -> Iterator[str]:
        """A function within, whose arguments are arrays but for what stands in `head`."""
        name, before = f"f{next(self.names)}", list(self.arrays)
        self.put(f"def {name}({head}{', '.join(arguments)}):")
        self.arrays += arguments
        self.indent += 1
        yield name
        self.indent -= 1
        self.arrays = before

    def handed(self, names: Sequence[str], length: int) -> str:
        """As many of these, and what is computed of them."""
        return ", ".join(self.several([*self.arrays, *names, *names], length, length)) + ","

    def block(self, depth: int) -> None:
        """Some lines."""
        for _ in range(int(self.rng.integers(1, 4))):
            nests = depth and self.rng.random() < 0.4
            kinds = (self.loop, self.loop, self.going, self.branch, self.scan)
            kind = kinds[int(self.rng.choice(len(kinds)))] if nests else self.array
            kind(depth)

    def array(self, _: int) -> None:
        """Another array."""
        made = self.name()
        self.put(f"{made} = {str(self.rng.choice(_MADE)).format(*self.several(self.arrays, 2, 2))}")
        self.arrays.append(made)

    def loop(self, depth: int) -> None:
        """A loop of as many turns as one number or the other says."""
        first = self.several(self.arrays)
        inside, results = ([self.name() for _ in first] for _ in range(2))
        with self.function(inside, "i, ") as step:
            self.block(depth - 1)
            self.put(f"return {self.handed(inside, len(first))}")
        turns = self.rng.choice(["k", "3", f"{first[0]}.shape[0]"])
        given = f"0, {turns}, 1, {step}, {', '.join(first)}, preserve_dimensions=False"
        self.put(f"{', '.join(results)}, = plica.for_loop({given})".replace(", , =", ", ="))
        self.arrays += results

    def going(self, depth: int) -> None:
        """A loop that goes on while a condition holds, of an array among others, and at most a few times."""
        first = self.several(self.arrays)
        inside, results = ([self.name() for _ in first] for _ in range(2))
        with self.function(inside, "c, ") as goes:
            condition = str(self.rng.choice(_PREDICATES[1:])).format(inside[0], inside[-1])
            self.put(f"return pnp.logical_and(c < 4, pnp.logical_or(c < 1, {condition}))")
        with self.function(inside, "c, ") as step:
            self.block(depth - 1)
            self.put(f"return c + 1, {self.handed(inside, len(first))}")
        given = f"{goes}, {step}, 0, {', '.join(first)}, preserve_dimensions=False"
        self.put(f"_, {', '.join(results)} = plica.while_loop({given})")
        self.arrays += results

    def branch(self, depth: int) -> None:
        """One of two ways."""
        results = [self.name() for _ in range(int(self.rng.integers(1, 4)))]
        sides = []
        for _ in range(2):
            with self.function() as side:
                self.block(depth - 1)
                self.put(f"return {self.handed([], len(results))}")
            sides.append(side)
        predicate = str(self.rng.choice(_PREDICATES)).format(*self.several(self.arrays, 2, 2))
        self.put(f"{', '.join(results)}, = plica.cond({predicate}, {', '.join(sides)}, preserve_dimensions=False)")
        self.arrays += results

    def scan(self, depth: int) -> None:
        """A loop along an array, which keeps a number of each turn."""
        first = self.several(self.arrays)
        inside, results = ([self.name() for _ in first] for _ in range(2))
        with self.function((), "carried, row") as step:
            self.put(f"{', '.join(inside)}, = carried")
            self.arrays += inside
            self.block(depth - 1)
            kept = f"row + pnp.sum({self.arrays[-1]}[:1])"
            self.put(f"return ({self.handed(inside, len(first))}), {kept}")
        rows, along = self.name(), self.rng.choice(self.arrays)
        given = f"{step}, ({', '.join(first)},), {along}, preserve_dimensions=False"
        self.put(f"({', '.join(results)},), {rows} = plica.scan({given})")
        self.arrays += [*results, rows]


def carried_function(rng: np.random.Generator) -> CarriedFunction:
    """A random function."""
    writer = _Writer(rng)
    writer.loop(2)
    writer.block(1)
    writer.put(f"return {', '.join(writer.several(writer.arrays, 2, 4))}")
    return CarriedFunction("\n".join(["def function(x, y, k):", *writer.lines]) + "\n")
