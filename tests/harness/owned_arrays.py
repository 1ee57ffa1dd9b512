"""Random functions of updates, views, loops and branches, which run on `plica.numpy` and, always copying, on numpy.

A function is a list of steps, each a name, the numbers of the arrays that it reads, and settings. They are drawn while
they run on numpy, so that shapes fit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import plica
import plica.numpy as pnp

Arrays = list[Any]
_MODES = ("set", "add", "multiply", "min", "max")
_DEPTH = 2
_ALONG_AN_AXIS = ("flip", "part", "element", "taken", "concat", "sorted", "sums", "roll", "einsum")
_MORE_OPERANDS = {"maximum": 1, "average": 1, "minus": 1, "where": 2, "stack": 1, "concat": 1}


@dataclass(frozen=True, slots=True)
class Block:
    """Steps, and the numbers of the arrays that are returned."""

    steps: tuple["Step", ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it does, the arrays that it reads, its settings, and nested blocks."""

    name: str
    read: tuple[int, ...]
    settings: tuple[Any, ...] = ()
    blocks: tuple[Block, ...] = ()


# Steps without blocks: on numpy, and on plica


def _numpy_update(x: Any, values: Any, key: Any, mode: str) -> Any:
    made = x.copy()
    match mode:
        case "set":
            made[key] = values
        case "add":
            np.add.at(made, key, values)
        case "multiply":
            np.multiply.at(made, key, values)
        case "min":
            np.minimum.at(made, key, values)
        case "max":
            np.maximum.at(made, key, values)
    return made


def _plica_update(x: Any, values: Any, key: Any, mode: str) -> Any:
    return getattr(x.at[key], mode)(values)


Row = tuple[Callable[..., Any], Callable[..., Any]]
_BOTH: dict[str, Row] = {
    "update": (_numpy_update, _plica_update),
    "negative": (np.negative, pnp.negative),
    "sin": (np.sin, pnp.sin),
    "maximum": (np.maximum, pnp.maximum),
    "average": (lambda x, y: 0.5 * x + 0.5 * y, lambda x, y: 0.5 * x + 0.5 * y),
    "minus": (lambda x, y: 0.5 * (x - y), lambda x, y: 0.5 * (x - y)),
    "where": (
        lambda x, y, z: np.where(x > 0.125, y, z),
        lambda x, y, z: pnp.where(x > 0.125, y, z),
    ),
    "flip": (lambda x: x[::-1].copy(), lambda x: x[::-1]),
    "flipped": (lambda x: np.flip(x).copy(), pnp.flip),
    "transpose": (lambda x: x.T.copy(), lambda x: pnp.permute_dims(x, tuple(range(x.ndim))[::-1])),
    "flat": (lambda x: x.reshape(-1).copy(), lambda x: pnp.reshape(x, (-1,))),
    "part": (lambda x, start, stop, step: x[start:stop:step].copy(), lambda x, a, b, c: x[a:b:c]),
    "element": (lambda x, place: x[place].copy(), lambda x, place: x[place]),
    "taken": (lambda x, *places: x[list(places)], lambda x, *places: pnp.take(x, np.asarray(places), axis=0)),
    "rows": (lambda x: np.stack([x, x]), lambda x: pnp.broadcast_to(x, (2, *x.shape))),
    "stack": (lambda x, y: np.stack([x, y]), lambda x, y: pnp.stack([x, y])),
    "concat": (lambda x, y: np.concatenate([x, y]), lambda x, y: pnp.concat([x, y])),
    "first": (lambda x: x[None].copy(), lambda x: pnp.squeeze(pnp.expand_dims(x[None], axis=0), 0)),
    "same": (lambda x: x.copy(), lambda x: pnp.positive(x)),
    "cast": (lambda x: x.copy(), lambda x: pnp.astype(x, x.dtype)),
    "real": (lambda x: x.copy(), lambda x: pnp.real(pnp.astype(x, "complex128"))),
    "zeros": (np.zeros_like, pnp.zeros_like),
    "full": (lambda x: np.full(x.shape, 0.5), lambda x: pnp.full(x.shape, 0.5, dtype="float64")),
    "einsum": (lambda x: x.copy(), lambda x: pnp.einsum("...a->...a", x)),
    "sorted": (lambda x: np.sort(x, axis=0), lambda x: pnp.sort(x, axis=0)),
    "sums": (lambda x: 0.25 * np.cumsum(x, axis=0), lambda x: 0.25 * pnp.cumulative_sum(x, axis=0)),
    "tril": (np.tril, pnp.tril),
    "roll": (lambda x: np.roll(x, 1, axis=0), lambda x: pnp.roll(x, 1, axis=0)),
    "rounded": (lambda x: np.clip(x, -1.0, 1.0), lambda x: pnp.clip(x, -1.0, 1.0)),
}


def run(block: Block, arrays: Sequence[Any], at: int = 0) -> list[Any]:
    """The results of a block on numpy (`at` 0) or traced (`at` 1)."""
    known = list(arrays)
    for step in block.steps:
        known += _made(step, known, at)
    return [known[place] for place in block.results]


def _made(step: Step, known: Arrays, at: int) -> Arrays:
    given = [known[place] for place in step.read]
    if step.name in _BOTH:
        return [_BOTH[step.name][at](*given, *step.settings)]
    return (_on_numpy, _on_plica)[at](step, known, given)


def _on_numpy(step: Step, known: Arrays, given: Arrays) -> Arrays:
    state = given
    match step.name:
        case "for":
            for number in range(*step.settings):
                state = run(step.blocks[0], [*known, *state, _number(number)])
        case "while":
            count = 0
            while count < step.settings[0]:
                state, count = run(step.blocks[0], [*known, *state, _number(count)]), count + 1
        case "scan":
            stacked: Arrays = []
            state = given[1:]
            for row in given[0]:
                *state, made = run(step.blocks[0], [*known, *state, row.copy()])
                stacked.append(made)
            return [*state, np.stack(stacked)]
        case "cond":
            chosen = step.blocks[0 if known[0].sum() > step.settings[0] else 1]
            return run(chosen, [*known, *state])
        case "call":
            return run(step.blocks[0], state)
    return state


def _number(count: int) -> Any:
    return np.asarray(0.25 * count)


def _on_plica(step: Step, known: Arrays, given: Arrays) -> Arrays:
    body = step.blocks[0]

    def listed(found: Any) -> Arrays:
        return list(found) if isinstance(found, tuple | list) else [found]

    match step.name:
        case "for":
            return listed(
                plica.for_loop(
                    *step.settings,
                    lambda i, *state: _packed(run(body, [*known, *state, 0.25 * pnp.astype(i, "float64")], 1)),
                    *given,
                )
            )
        case "while":
            found = plica.while_loop(
                lambda count, *_: count < step.settings[0],
                lambda count, *state: (
                    count + 1,
                    *run(body, [*known, *state, 0.25 * pnp.astype(count, "float64")], 1),
                ),
                pnp.asarray(0),
                *given,
            )
            return listed(found)[1:]
        case "scan":

            def each(state: Any, row: Any) -> Any:
                *carried, made = run(body, [*known, *state, row], 1)
                return tuple(carried), made

            state, stacked = plica.scan(each, tuple(given[1:]), given[0])
            return [*state, stacked]
        case "cond":
            one, other = step.blocks
            return listed(
                plica.cond(
                    pnp.sum(known[0]) > step.settings[0],
                    lambda *state: tuple(run(one, [*known, *state], 1)),
                    lambda *state: tuple(run(other, [*known, *state], 1)),
                    *given,
                )
            )
        case _:
            return listed(plica.jit(lambda *state: tuple(run(body, state, 1)))(*given))


def _packed(state: Arrays) -> Any:
    """What the body of a loop returns."""
    return state[0] if len(state) == 1 else tuple(state)


# Drawing


@dataclass
class Drawer:
    """Draws functions of arrays.

    Args:
        random: Where numbers come from.
        depth: How many blocks are around.
    """

    random: np.random.Generator
    depth: int = 0

    def block(self, arrays: Sequence[Any], length: int, like: Sequence[Any] | None = None) -> tuple[Block, Arrays]:
        """A block that returns arrays of the shapes of `like`, or any, and the arrays it returns."""
        known = list(arrays)
        steps: list[Step] = []
        while len(steps) < length:
            step = self._step(known)
            if step is None:
                continue
            made = _made(step, known, 0)
            if any(one.size > 40 or one.ndim > 3 or not np.abs(one).max(initial=0.0) < 50 for one in made):
                continue
            known += made
            steps.append(step)
        if like is None:
            results = tuple(int(one) for one in self.random.integers(len(known), size=3))
        else:
            results = tuple(self._alike(known, one) for one in like)
        return Block(tuple(steps), results), [known[place] for place in results]

    def _alike(self, known: Arrays, wanted: Any) -> int:
        places = [place for place, one in enumerate(known) if one.shape == wanted.shape]
        late = places[-3:]
        return int(self.random.choice(late if self.random.random() < 0.8 else places))

    def _some(self, known: Arrays, fits: Callable[[Any], bool] = lambda _: True) -> int | None:
        places = [place for place, one in enumerate(known) if fits(one)]
        if not places:
            return None
        late = places[-4:]
        return int(self.random.choice(late if self.random.random() < 0.6 else places))

    def _step(self, known: Arrays) -> Step | None:
        kind = self.random.random()
        if kind < 0.4:
            return self._update(known)
        if kind < 0.62 and self.depth < _DEPTH:
            return self._control(known)
        name = str(self.random.choice([one for one in _BOTH if one != "update"]))
        return self._simple(name, known)

    def _update(self, known: Arrays) -> Step | None:
        at = self._some(known, lambda one: one.ndim > 0 and one.shape[0] > 0)
        if at is None:
            return None
        x, mode = known[at], str(self.random.choice(_MODES, p=(0.5, 0.2, 0.1, 0.1, 0.1)))
        size = x.shape[0]
        key: Any
        start = int(self.random.integers(size))
        match int(self.random.integers(6)):
            case 0:
                key = start
            case 1:
                key = slice(start, int(self.random.integers(start, size)) + 1)
            case 2:
                key = slice(None, None, int(self.random.choice([2, -1, -2])))
            case 3:
                places = self.random.permutation(size)[: self.random.integers(1, size + 1)]
                places = np.append(places, places[:1]) if mode != "set" else places
                key = places - (size if self.random.random() < 0.2 else 0)
            case 4 if x.ndim > 1 and x.shape[1]:
                key = (slice(None), int(self.random.integers(x.shape[1])))
            case _:
                key = slice(None)
        target = x[key]
        values = self._some(known, lambda one: _spreads(one.shape, target.shape))
        return None if values is None else Step("update", (at, values), (key, mode))

    def _simple(self, name: str, known: Arrays) -> Step | None:
        least = 2 if name == "tril" else int(name in _ALONG_AN_AXIS)
        at = self._some(known, lambda one: one.ndim >= least and one.size > 0)
        if at is None:
            return None
        x, read = known[at], [at]
        settings: tuple[Any, ...] = ()
        for _ in range(_MORE_OPERANDS.get(name, 0)):
            other = self._some(known, lambda one: one.shape == x.shape)
            assert other is not None
            read.append(other)
        if name == "part":
            start = int(self.random.integers(x.shape[0]))
            settings = (start, int(self.random.integers(start, x.shape[0])) + 1, int(self.random.choice([1, 1, 2])))
        if name == "element":
            settings = (int(self.random.integers(-x.shape[0], x.shape[0])),)
        if name == "taken":
            settings = tuple(int(one) for one in self.random.integers(x.shape[0], size=3))
        return Step(name, tuple(read), settings)

    def _control(self, known: Arrays) -> Step | None:
        name = str(self.random.choice(["for", "for", "while", "scan", "cond", "call"]))
        count = int(self.random.integers(1, 4))
        read = [self._some(known) for _ in range(count)]
        if name == "scan":
            read.insert(0, self._some(known, lambda one: one.ndim > 0 and one.shape[0] > 0))
        if any(one is None for one in read):
            return None
        given = [known[place] for place in read if place is not None]
        inner, length = Drawer(self.random, self.depth + 1), int(self.random.integers(1, 5))
        settings: tuple[Any, ...] = ()
        if name == "scan":
            like = [*given[1:], given[int(self.random.integers(len(given)))]]
            blocks: tuple[Block, ...] = (inner.block([*known, *given[1:], given[0][0].copy()], length, like)[0],)
        elif name == "cond":
            settings = (float(self.random.choice([-100.0, 100.0])),)
            blocks = tuple(inner.block([*known, *given], length, given)[0] for _ in range(2))
        elif name == "call":
            blocks = (inner.block(given, length)[0],)
        else:
            settings = (0, int(self.random.integers(0, 4)), 1) if name == "for" else (int(self.random.integers(0, 4)),)
            blocks = (inner.block([*known, *given, _number(0)], length, given)[0],)
        return Step(name, tuple(one for one in read if one is not None), settings, blocks)


def _spreads(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return len(shape) <= len(target) and all(
        one in (1, size) for one, size in zip(shape[::-1], target[::-1], strict=False)
    )


def drawn(seed: int, length: int = 8) -> tuple[Block, list[Any]]:
    """A function and its arguments."""
    random = np.random.default_rng(seed)
    arguments = [random.normal(size=shape) for shape in ((4,), (3, 4), (4,), ())]
    block, _ = Drawer(random).block(arguments, length)
    return block, arguments
