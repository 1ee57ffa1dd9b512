"""Functions that are drawn as text: loaded so that tracebacks show their lines, and run by plain Python over numpy."""

import linecache
from collections.abc import Callable, Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np

_NUMBERS = count()


def loaded(text: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function called `function` of a text, in a module that has these names."""
    filename = f"<random function {next(_NUMBERS)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = dict(names)
    exec(compile(text, filename, "exec"), module)
    function: Callable[..., Any] = module["function"]
    return function


NUMPY = SimpleNamespace(
    **{**vars(np), "concat": np.concatenate, "astype": lambda x, dtype: np.asarray(x).astype(dtype)}
)
"""numpy by the names of `plica.numpy`."""


def _for_loop(lower: int, upper: int, step: int, body: Any, *state: Any, **_: Any) -> Any:
    for turn in range(int(lower), int(upper), step):
        state = _listed(body(turn, *map(np.array, state)))
    return state if len(state) > 1 else state[0]


def _while_loop(condition: Any, body: Any, *state: Any, **_: Any) -> Any:
    while condition(*state):
        state = _listed(body(*map(np.array, state)))
    return state


def _scan(body: Any, state: Any, rows: Any, **_: Any) -> Any:
    stacked = []
    for row in np.array(rows):
        state, made = body(state, row)
        stacked.append(np.array(made))
    return state, np.stack(stacked) if stacked else np.zeros(0)


def _cond(predicate: Any, yes: Any, no: Any, *given: Any, **_: Any) -> Any:
    return yes(*given) if predicate else no(*given)


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


PLAIN_FLOW = SimpleNamespace(
    for_loop=_for_loop, while_loop=_while_loop, scan=_scan, cond=_cond, jit=lambda function: function
)
"""Control flow of plain Python, which copies what it hands on."""
