"""The callables of a loaded file: an entry with arguments by position and name, sizes by name, and a seed."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from plica.errors import InputError
from plica.runtime.arrays import Array, Sizes
from plica.runtime.checks import SEED
from plica.runtime.manifest import Entry
from plica.runtime.sizes import is_symbol, symbols
from plica.runtime.trees import arrays_of, shown, tree_of_results

Answer = Callable[[Entry, list[Array], Mapping[str, int]], list[Array]]
_NAMES = 5  # in a message


class EntryPoint:
    """One question that a file answers; call it with arrays.

    Args:
        entry: The entry in the manifest of the file.
        answer: `answer(entry, arrays, sizes)` computes the results for checked arguments and sizes by name.
        path: The file.
    """

    def __init__(self, entry: Entry, answer: Answer, path: str) -> None:
        self.entry = entry
        self.__doc__ = entry.text
        self._answer = answer
        self._path = path

    def __call__(self, /, *arguments: Any, seed: Any = None, **named: Any) -> Any:
        """The results: one array, a tuple of several, or the tree of them that the function returned.

        Args:
            arguments: numpy arrays, other arrays with `__dlpack__` in the CPU's memory, numbers or lists; trees of
                these where the function takes trees.
            seed: A number or a `numpy.random.Generator` for the draws; None: another seed for each call. If the entry
                draws nothing, this is its argument named `seed`.
            named: Arguments by name, and sizes that no argument has (`n=10`).

        Raises:
            InputError: Arguments are missing or too many, or data is refused by the code.
            ShapeError: Shapes do not fit.
            DTypeError: A dtype does not become the right one without loss.
        """
        results = self.arrays(*arguments, seed=seed, **named)
        if self.entry.gives is not None:
            return tree_of_results(self.entry.gives, results)
        return results[0] if len(results) == 1 else results

    def arrays(self, /, *arguments: Any, seed: Any = None, **named: Any) -> tuple[Array, ...]:
        """Like a call, but returns the arrays of the results in the order of the manifest.

        Raises:
            InputError, ShapeError, DTypeError: As a call.
        """
        entry = self.entry
        if seed is not None and not entry.draws and any(argument.name == SEED for argument in entry.arguments):
            named[SEED], seed = seed, None
        if entry.takes is not None:
            arguments, named = (), arrays_of(entry.takes, entry, arguments, named)
        sizes = Sizes(entry.name)
        for symbol in free_sizes(entry):
            sizes.bind(symbol, _size(named.pop(symbol, None), symbol, entry.name))
        inputs = sizes.arrays(self._ordered(arguments, named), entry.arguments)
        if entry.draws:
            inputs += _draws(entry, sizes, seed)
        elif seed is not None:
            raise InputError(f"{entry.name}: takes no seed: it draws nothing")
        return tuple(self._answer(entry, inputs, sizes.known))

    def _ordered(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        entry = self.entry
        if not named and len(arguments) == len(entry.arguments):
            return list(arguments)
        names = [argument.name for argument in entry.arguments]
        values = dict(zip(names, arguments, strict=False))
        twice = sorted(values.keys() & named.keys())
        unknown = sorted(named.keys() - set(names))
        missing = [name for name in names if name not in values and name not in named]
        if len(arguments) > len(names) or twice or unknown or missing:
            wrong = [
                f"{_some(kind)} {problem}"
                for kind, problem in ((twice, "twice"), (unknown, "unknown"), (missing, "missing"))
                if kind
            ]
            raise InputError(
                f"{entry.name}: takes {signature(entry)}, found {len(arguments) + len(named)} argument(s)"
                + (f"; {'; '.join(wrong)}" if wrong else "")
            )
        return [values[name] if name in values else named[name] for name in names]

    def __repr__(self) -> str:
        return f"<entry {signature(self.entry)} of {self._path}>"


def signature(entry: Entry) -> str:
    """An entry as text: `name(x: int64[n, 64]) -> score: float32[n]`."""
    arguments = ", ".join(map(str, entry.arguments))
    if entry.takes is not None:
        parts = zip(entry.takes.keys, entry.takes.items, strict=True)
        arguments = ", ".join(f"{name}={shown(tree, entry.arguments)}" for name, tree in parts)
    results = ", ".join(map(str, entry.shown)) if entry.gives is None else shown(entry.gives, entry.shown)
    return f"{entry.name}({arguments}) -> {results}"


def free_sizes(entry: Entry) -> tuple[str, ...]:
    """The symbols of draws that no argument has: callers give them by name."""
    if not entry.draws:
        return ()
    bound = {size for array in entry.arguments for size in array.shape if is_symbol(size)}
    drawn = [symbol for array in entry.draws for size in array.shape for symbol in symbols(size)]
    return tuple(dict.fromkeys(symbol for symbol in drawn if symbol not in bound))


def _some(names: list[str]) -> str:
    """The first few names, each cut short since callers may pass any text, and how many more there are."""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(f"{name:.40}" for name in names[:_NAMES]) + more


def _size(value: Any, symbol: str, where: str) -> int:
    try:
        size = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        size = -1
    if not 0 <= size < 2**63:
        shown = "nothing" if value is None else f"{value!r:.60}"
        raise InputError(f"{where}: expected {symbol} as a number of rows or entries, found {shown}; pass {symbol}=10")
    return size


def _draws(entry: Entry, sizes: Sizes, seed: Any) -> list[Array]:
    import numpy as np

    try:
        generator = np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(f"{entry.name}: expected a number or a Generator as seed, found {seed!r:.60}") from error
    try:
        return [generator.random(sizes.shape(draw), draw.dtype) for draw in entry.draws]  # type: ignore[call-overload]
    except (ValueError, MemoryError) as error:
        known = ", ".join(f"{name}={size}" for name, size in sizes.known.items())
        raise InputError(f"{entry.name}: not enough memory for {known}; pass smaller sizes") from error
