"""Random functions of updates, views, loops and branches, which give one array many names.

They write to it at places that depend on the iteration.

`drawn(seed)` is the text of `function(x, y, m, u)` of vectors (n,) and a matrix (n, n), n of 4 or more. The text names
an array namespace `xp`, control flow `flow` and `updated(x, key, mode, values)`; `ON_PLICA` and `ON_NUMPY` are these,
the latter copying always.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import plica
import plica.numpy as pnp
from tests.harness.texts import NUMPY, PLAIN_FLOW

Env = list[tuple[str, str]]  # names of what is known, and their kinds: v(ector), m(atrix), s(calar)

# Other names for what lies in an array, or in two, or for new arrays of their elements.
_ALIASES = {
    "v": (
        "{v}",
        "{v}[:]",
        "xp.flip({v}, axis=0)",
        "xp.positive({v})",
        "xp.astype({v}, {v}.dtype)",
        "xp.squeeze(xp.expand_dims({v}, axis=0), axis=0)",
        "xp.where({v} > 0, {v}, {w})",
        "xp.concat([{v}[1:], {w}[:1]])",
        "xp.real({v} + 0j)",
        "xp.maximum({v}, {w})",
        "xp.stack([{v}, {w}])[1]",
        "xp.reshape({v}, (n, 1))[:, 0]",
        "xp.broadcast_to({v}, (n, n))[0]",
        "xp.ones(n) * {s}",
        "xp.sin({v})",
        "-{v}",
        "{v} * 0.5 - {w}",
        "xp.clip({v}, -1.0, 1.0)",
        "xp.sort({v}, axis=0)",
        "xp.cumulative_sum({v}, axis=0) * 0.25",
        "xp.roll({v}, 1, axis=0)",
        "xp.einsum('i->i', {v})",
        "xp.zeros_like({v})",
        "xp.full(n, 0.5, dtype='float64')",
    ),
    "mv": (
        "{m}[{k}]",
        "{m}[:, {k}]",
        "{m}.T[{k}]",
        "xp.linalg.diagonal({m})",
        "xp.reshape({m}, (-1,))[:n]",
        "xp.flip({m}, axis=1)[{k}]",
    ),
    "vs": ("{v}[{k}]", "{v}[0]", "xp.sum({v}) * 0.125"),
    "m": (
        "{m}",
        "{m}.T",
        "xp.flip({m}, axis=0)",
        "xp.reshape(xp.reshape({m}, (-1,)), (n, n))",
        "xp.stack([{m}, {q}])[0]",
        "xp.concat([{m}[1:], {q}[:1]])",
        "xp.broadcast_to({m}[0], (n, n))",
        "xp.where({m} > 0, {m}, {q}.T)",
        "xp.matmul({m}, {q}) * 0.25",
        "xp.tril({m})",
        "xp.roll({m}, 1, axis=0)",
        "xp.sort({m}, axis=0)",
        "xp.einsum('ij->ij', {m})",
    ),
}
_MODES = ("set", "set", "set", "add", "add", "multiply", "min", "max")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def some(self, env: Env, kind: str) -> str:
        known = [name for name, one in env if one == kind]
        late = self.random.choice((1, 1, 2, 3, len(known)))
        return self.random.choice(known[-late:])

    # Expressions

    def index(self, turns: Sequence[str]) -> str:
        near = [text for one in turns for text in (one, one, f"{one} - 1", f"n - 1 - {one}")]
        return self.random.choice(["0", "2", "-1", *near])

    def part(self, turns: Sequence[str]) -> str:
        near = [text for one in turns for text in (f"{one}:", f":{one}", f"{one}::2", f"{one}:{one} + 1")]
        return self.random.choice(["1:", ":-1", "::2", "1:3", ":", *near])

    def places(self, turns: Sequence[str], vector: str) -> str:
        near = [f"(xp.arange(n) + {one}) % n" for one in turns]
        return self.random.choice(["xp.asarray([3, 1])", "xp.arange(n)", f"xp.argsort({vector})", *near])

    def scalar(self, env: Env, turns: Sequence[str]) -> str:
        choices = ["0.5", "-2.0", f"{self.some(env, 'v')}[{self.index(turns)}]"]
        choices += [f"{self.some(env, 'm')}[{self.index(turns)}, {self.index(turns)}]"]
        choices += [name for name, kind in env if kind == "s"][-1:]
        return self.random.choice(choices)

    def alias(self, env: Env, turns: Sequence[str]) -> tuple[str, str]:
        """Text and its kind."""
        rows = self.random.choice(("v", "v", "v", "mv", "m", "m", "vs"))
        names = {"v": self.some(env, "v"), "w": self.some(env, "v"), "m": self.some(env, "m"), "q": self.some(env, "m")}
        text = self.random.choice(_ALIASES[rows])
        return text.format(k=self.index(turns), s=self.scalar(env, turns), **names), rows[-1]

    def update(self, env: Env, turns: Sequence[str]) -> tuple[str, str]:
        """Text and its kind."""
        kind, mode = self.random.choice("vvm"), self.random.choice(_MODES)
        x, scalar, i, part = self.some(env, kind), self.scalar(env, turns), self.index(turns), self.part(turns)
        y = self.random.choice([x, self.some(env, kind)])
        places, v = self.places(turns, self.some(env, "v")), self.some(env, "v")
        if mode != "set" and self.random.random() < 0.3:
            places = "xp.asarray([3, 1, 3])"  # in which order a place is set twice is nobody's promise
        choices = {
            "v": [
                (i, scalar),
                (i, scalar),
                (f"at[{part}]", self.random.choice([scalar, f"{y}[{part}]", f"xp.flip({y}[{part}], axis=0)"])),
                ("at[1:]", f"{y}[:-1]"),
                (f"{v} > {scalar}", scalar),
                (places, f"{y}[{places}]"),
            ],
            "m": [
                (i, self.random.choice([f"{y}[{self.index(turns)}]", f"{y}[:, {self.index(turns)}]", v, scalar])),
                (f"at[:, {i}]", self.random.choice([f"{y}[{self.index(turns)}]", f"{y}.T[{self.index(turns)}]", v])),
                (f"({i}, {self.index(turns)})", scalar),
                (f"at[{i}, {part}]", self.random.choice([f"{y}[{self.index(turns)}, {part}]", scalar])),
                (f"at[{part}]", self.random.choice([f"{y}[{part}]", f"{y}.T[{part}]", v])),
                (places, scalar),
            ],
        }
        key, values = self.random.choice(choices[kind])
        return f"updated({x}, {key}, {mode!r}, {values})", kind

    # Statements

    def block(self, env: Env, turns: Sequence[str], depth: int, length: int) -> Env:
        env = list(env)
        for _ in range(length):
            chance = self.random.random()
            if chance > 0.75 and depth < 3:
                env += self.nested(env, turns, depth)
            else:
                env.append(self.assigned(depth, *(self.update if chance < 0.5 else self.alias)(env, turns)))
        return env

    def assigned(self, depth: int, text: str, kind: str) -> tuple[str, str]:
        """A new name for what a text makes."""
        name = self.name()
        self.line(depth, f"{name} = {text}")
        return name, kind

    def body(
        self,
        names: Sequence[str],
        env: Env,
        turns: Sequence[str],
        depth: int,
        result: Callable[[Env], str],
        start: str = "",
    ) -> str:
        """Write a function at `depth`, whose first line is `start`; returns its name."""
        name = self.name()
        self.line(depth, f"def {name}({', '.join(names)}):")
        if start:
            self.line(depth + 1, start)
        known = self.block(env, turns, depth + 1, self.random.randint(1, 3))
        self.line(depth + 1, f"return {result(known)}")
        return name

    def nested(self, env: Env, turns: Sequence[str], depth: int) -> Env:
        """Control flow, and what it returns."""
        known = "vvms" if any(kind == "s" for _, kind in env) else "vvm"
        kinds = [self.random.choice(known) for _ in range(self.random.randint(1, 3))]
        first = [self.random.choice([name for name, one in env if one == kind]) for kind in kinds]
        carried, results, turn = [self.name() for _ in kinds], [self.name() for _ in kinds], self.name()
        inner: Env = [*env, *zip(carried, kinds, strict=True)]

        def packed(names: Sequence[str]) -> str:
            return names[0] if len(names) == 1 else f"({', '.join(names)})"

        def following(known: Env) -> str:
            return packed([self.some(known, kind) for kind in kinds])

        made: Env = list(zip(results, kinds, strict=True))
        given, left = ", ".join(first), packed(results)
        match self.random.choice(("for", "for", "for", "while", "scan", "cond", "call")):
            case "for":
                body = self.body([turn, *carried], inner, [*turns, turn], depth, following)
                last = self.random.choice(("n", "3", "0"))
                self.line(depth, f"{left} = flow.for_loop(0, {last}, 1, {body}, {given})")
            case "while":
                asked = self.body([turn, *carried], inner, [], depth, lambda _: f"{turn} < 3")
                body = self.body(
                    [turn, *carried],
                    inner,
                    [*turns, turn],
                    depth,
                    lambda known: f"{turn} + 1, {', '.join(self.some(known, kind) for kind in kinds)}",
                )
                self.line(depth, f"_, {', '.join(results)} = flow.while_loop({asked}, {body}, xp.asarray(0), {given})")
            case "scan":
                row, (of, kind) = self.name(), self.random.choice((("v", "s"), ("m", "v")))
                body = self.body(
                    [turn, row],
                    [*inner, (row, kind)],
                    turns,
                    depth,
                    lambda known: f"{following(known)}, {self.some(known, 'v')}",
                    start=f"{packed(carried)} = {turn}",
                )
                made.append((self.name(), "m"))
                self.line(depth, f"{left}, {made[-1][0]} = flow.scan({body}, {packed(first)}, {self.some(env, of)})")
            case "cond":
                ways = ", ".join(self.body(carried, inner, turns, depth, following) for _ in range(2))
                asked = f"xp.sum({self.some(env, 'v')}) > {self.random.choice(('0.0', '-50.0', '50.0'))}"
                self.line(depth, f"{left} = flow.cond({asked}, {ways}, {given})")
            case _:
                body = self.body(carried, inner, turns, depth, following)
                self.line(depth, f"{left} = flow.jit({body})({given})")
        return made


def drawn(seed: int) -> str:
    """The text of a function."""
    writer = _Writer(seed)
    writer.line(0, "def function(x, y, m, u):")
    writer.line(1, "n = x.shape[0]")
    given = [("x", "v"), ("y", "v"), ("m", "m"), ("u", "v")]
    own = [writer.assigned(1, f"{name} * 0.5", kind) for name, kind in given[:3]]  # which nobody else holds
    made = writer.block([*given, *own], [], 1, 2 + seed % 5)[len(given) + len(own) :]
    results = [name for name, kind in made if writer.random.random() < 0.4] or [made[-1][0]]
    writer.line(1, f"return ({', '.join(results)},)")
    return "\n".join(writer.lines) + "\n"


def arguments(seed: int, size: int) -> list[np.ndarray]:
    """What it takes."""
    random = np.random.default_rng(seed)
    return [random.normal(size=shape) for shape in ((size,), (size,), (size, size), (size,))]


# What the text names: on numpy, where everything is copied


def _updated(x: Any, key: Any, mode: str, values: Any) -> Any:
    made, values = np.array(x), np.array(values)
    if mode == "set":
        made[key] = values
    else:
        {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[mode].at(made, key, values)
    return made


_AT = type("_At", (), {"__getitem__": lambda _, key: key})()
ON_NUMPY: Mapping[str, Any] = {
    "xp": NUMPY,
    "flow": PLAIN_FLOW,
    "updated": _updated,
    "at": _AT,
}
ON_PLICA: Mapping[str, Any] = {
    "xp": pnp,
    "flow": plica,
    "updated": lambda x, key, mode, values: pnp.update(x, key, values, mode),
    "at": _AT,
}
EAGER: Mapping[str, Any] = {
    **ON_PLICA,
    "flow": SimpleNamespace(
        for_loop=plica.for_loop, while_loop=plica.while_loop, scan=plica.scan, cond=plica.cond, jit=PLAIN_FLOW.jit
    ),
}
"""Without functions that are compiled: they would capture arrays that the others hold."""
