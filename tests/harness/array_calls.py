"""Calls of all functions of `plica.numpy` and methods of traced arrays, right and wrong, made from their signatures."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import Parameter
from typing import Any

import numpy as np

import plica.numpy as pnp
from plica.tracing.signatures import signature_of
from plica.tracing.tracer import Tracer

_MODULES = ("linalg", "fft", "random")


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for prefix, module in (("", pnp), *((f"{name}.", getattr(pnp, name)) for name in _MODULES)):
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and callable(value) and hasattr(value, "__signature__"):
                yield prefix + name, value


FUNCTIONS: Mapping[str, Callable[..., Any]] = dict(_functions())
METHODS = [  # operators are lambdas
    name
    for name, value in vars(Tracer).items()
    if callable(value) and (not name.startswith("_") or value.__name__ == "<lambda>")
]
WRONG: tuple[Any, ...] = (
    *(
        None,
        -1,
        7,
        1.5,
        math.nan,
        1j,
        2**70,
        True,
        "a",
        b"a",
        [],
        ["a"],
        [[1], [1, 2]],
        (),
        (-1, -1),
        (0, 0),
        {1: None},
    ),
    *(object(), int, slice(1, 2, 0), np.asarray("a"), np.ones((2, 5)), np.ones((2, 3), "int8"), np.asarray([], bool)),
)
# What a parameter without default takes, where it is no array.
_GIVEN: Mapping[str, Any] = {
    "axis": 0,
    "axes": (1, 0),
    "destination": 0,
    "dtype": "float64",
    "equation": "ij->i",
    "factors": (),
    "fill_value": 1,
    "from_": "float32",
    "kind": "integral",
    "key": 0,
    "mode": "set",
    "n": 3,
    "num": 3,
    "n_cols": 3,
    "n_rows": 3,
    "repeats": 2,
    "repetitions": 2,
    "seed": 0,
    "shape": (2, 3),
    "shift": 1,
    "source": 1,
    "start": 0,
    "stop": 3,
    "to": "float64",
    "type": "float32",
}


def parameters(name: str) -> list[Parameter]:
    """The parameters of a function."""
    return list(signature_of(FUNCTIONS[name]).parameters.values())


def good(parameter: Parameter, array: Any) -> Any:
    """What a parameter is given in a call that may work."""
    return _GIVEN.get(parameter.name, array)


def right_call(name: str, array: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call that may work, without what has a default."""
    required = [one for one in parameters(name) if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    by_name = {one.name: good(one, array) for one in required if one.kind is one.KEYWORD_ONLY}
    if name.startswith("random.") and required and required[0].name == "key":
        return [pnp.random.key(0), *(good(one, array) for one in required[1:])], by_name
    return [good(one, array) for one in required if one.name not in by_name], by_name


def wrong_calls(name: str, array: Any, values: Sequence[Any] = WRONG) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each argument in turn replaced by each of some values: what was replaced, and the call."""
    function = FUNCTIONS[name]
    given, named = right_call(name, array)
    for place in range(len(given)):
        for wrong in values:
            arguments = [*given[:place], wrong, *given[place + 1 :]]
            yield f"{name}: argument {place} = {wrong!r}", partial(function, *arguments, **named)
    for parameter in parameters(name):
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.name not in named:
            if parameter.default is parameter.empty:
                continue
            for wrong in values:
                options = {**named, parameter.name: wrong}
                yield f"{name}: {parameter.name} = {wrong!r}", partial(function, *given, **options)
