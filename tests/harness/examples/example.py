"""An example: a call of one public function on arrays of two sizes, n and m, and what numpy says of it."""
# ruff: noqa: ARG005 - the kinds of arguments are functions of n and m

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import array_api_compat.numpy
import numpy as np

import plica.numpy as pnp
from plica.frontend.programs import interpret, trace, verify
from plica.ir.types import spec
from tests.harness.programs import Array, assert_same, run_torch, to_torch

SIZES = ((2, 3), (4, 1))
EMPTY = (0, 3)


def _floats(n: int, m: int) -> Array:
    return np.sin(np.arange(1.0, n * m + 1)).reshape(n, m).astype("float32")


def _units(n: int, m: int) -> Array:
    return _floats(n, m) * 0.9


def _positive(n: int, m: int) -> Array:
    return np.abs(_floats(n, m)) + np.float32(1.0)


def _integers(n: int, m: int) -> Array:
    return (np.arange(n * m).reshape(n, m) % 5 + 1).astype("int32")


def _truths(n: int, m: int) -> Array:
    return _floats(n, m) > 0


def _complex(n: int, m: int) -> Array:
    return (_floats(n, m) + 1j * _units(m, n).T[::-1]).astype("complex64")


# Kinds of arguments, one letter each: how the array is made, and its shape.
KINDS: Mapping[str, tuple[Callable[[int, int], Array], tuple[str | int, ...]]] = {
    "f": (_floats, ("n", "m")),
    "u": (_units, ("n", "m")),
    "p": (_positive, ("n", "m")),
    "q": (lambda n, m: np.abs(_units(n, m)), ("n", "m")),
    "d": (lambda n, m: _floats(n, m).astype("float64"), ("n", "m")),
    "i": (_integers, ("n", "m")),
    "b": (_truths, ("n", "m")),
    "x": (_complex, ("n", "m")),
    "t": (lambda n, m: _floats(m, n), ("m", "n")),
    "v": (lambda n, m: _floats(1, m)[0], ("m",)),
    "j": (lambda n, m: np.arange(m) % 3, ("m",)),
    "1": (lambda n, m: _floats(n, 1), ("n", 1)),
    "0": (lambda n, m: np.asarray([0, 0, n * 0], "int64"), (3,)),
    "6": (lambda n, m: np.arange(6.0).reshape(2, 3) + n, (2, 3)),
    "g": (lambda n, m: np.zeros((n, 2), "int64"), ("n", 2)),
    "w": (lambda n, m: np.stack([_positive(n, m)]), (1, "n", "m")),
    "c": (lambda n, m: np.cumsum(np.stack([_positive(n, m)]), axis=-1), (1, "n", "m")),
    "r": (lambda n, m: np.stack([np.arange(6) % n]), (1, 6)),
    "s": (lambda n, m: np.stack([np.linspace(0, 0.9, 6, dtype="float32")]), (1, 6)),
    "k": (lambda n, m: np.zeros((1, 4), "int64"), (1, 4)),
    "N": (lambda n, m: np.asarray(n + 1), ()),
    "F": (lambda n, m: np.asarray(n + 0.5), ()),
}


@dataclass(frozen=True)
class Example:
    """A call of one public function.

    Args:
        name: The function.
        arguments: Kinds of arrays, one letter each.
        call: The call, if it is more than the arrays and `settings`.
        numpy: What it means in numpy; by default numpy's function of that name, unless there is a `call`.
        settings: Arguments by name.
        eager: Whether it means the same on arrays: sizes alone do not know to which library they belong.
        empty: Whether there may be no elements.
    """

    name: str
    arguments: str
    call: Callable[..., Any] | None = None
    numpy: Callable[..., Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    eager: bool = True
    empty: bool = True

    def __str__(self) -> str:
        return f"{self.name}-{self.arguments}-{','.join(self.settings)}"

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        return (*SIZES, EMPTY) if self.empty else SIZES

    def apply(self, *arrays: Any) -> Any:
        function = getattr(pnp, self.name)
        return self.call(*arrays) if self.call else function(*arrays, **self.settings)

    def arrays(self, n: int, m: int) -> list[Array]:
        return [KINDS[letter][0](n, m) for letter in self.arguments]

    @property
    def specs(self) -> list[Any]:
        return [spec(KINDS[letter][1], KINDS[letter][0](1, 1).dtype) for letter in self.arguments]

    @property
    def reference(self) -> Callable[..., Any] | None:
        if self.numpy is not None or self.call is not None:
            return self.numpy
        function = getattr(array_api_compat.numpy, self.name, None)
        return function and (lambda *arrays: function(*arrays, **self.settings))


def examples(names: str, arguments: str, *, empty: bool = True, **settings: Any) -> list[Example]:
    """The same call of several functions."""
    return [Example(name, arguments, settings=settings, empty=empty) for name in names.split()]


def check(example: Example) -> None:
    """Traced once, then at every size: interpreted, in torch, eager on numpy and on torch, and numpy's own."""
    program = trace(example.apply, *example.specs)
    verify(program)
    for size in example.sizes:
        arrays = example.arrays(*size)
        expected = interpret(program, *arrays)
        _all_same(run_torch(program, *map(to_torch, arrays)), expected, 5.0)
        if example.eager:
            _all_same(_listed(example.apply(*arrays)), expected, 1.0)
            _all_same(_listed(example.apply(*map(to_torch, arrays))), expected, 5.0)
        if example.reference is not None:
            with np.errstate(all="ignore"):
                _all_same(expected, [np.asarray(one) for one in _listed(example.reference(*arrays))], 5.0)


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


def _all_same(found: Any, expected: Any, scale: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert_same(np.asarray(one) if isinstance(one, np.generic) else one, other, scale)
