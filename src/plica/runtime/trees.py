"""Splits trees of arguments into arrays, builds trees of results from arrays, and prints trees.

>>> tree = Tree("dict", (1, Tree("tuple", (0, None))), ("mean", "range"))
>>> tree_of_results(tree, ["a", "b"])
{'mean': 'b', 'range': ('a', None)}
>>> print(shown(tree, ["x: float32[n]", "y: float32[]"]))
{'mean': y: float32[], 'range': (x: float32[n], None)}
"""

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from plica.errors import InputError
from plica.runtime.manifest import Entry, Tree

Node = Tree | int | None


def arrays_of(takes: Tree, entry: Entry, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays in the arguments of a call, by the names that the manifest gives them.

    A keyword argument that is no parameter, such as an array's own name or a size, is passed on unchanged.

    Raises:
        InputError: An argument is missing, given twice, or its tree differs; the message says where.
    """
    if len(arguments) > len(takes.keys):
        names = ", ".join(map(str, takes.keys))
        raise InputError(f"{entry.name}: takes {names}, found {len(arguments)} arguments by position")
    trees = {**dict(zip(takes.keys, arguments, strict=False))}
    arrays = dict(named)
    for name in takes.keys:
        if name in named and name in trees:
            raise InputError(f"{entry.name}: {name} is given twice")
        if name in arrays:
            trees[name] = arrays.pop(str(name))
    for name, tree in zip(takes.keys, takes.items, strict=True):
        if name in trees:
            for number, array in _parts(tree, trees[name], f"{entry.name}: {name}"):
                arrays[entry.arguments[number].name] = array
    missing = [f"{name}={shown(tree, entry.arguments)}" for name, tree in _missing(takes, entry, arrays)]
    if missing:
        raise InputError(f"{entry.name}: expected {', '.join(missing)}, found no such argument")
    return arrays


def _missing(takes: Tree, entry: Entry, arrays: Mapping[str, Any]) -> Iterator[tuple[str | int, Node]]:
    """The parameters of which arrays are missing."""
    for name, tree in zip(takes.keys, takes.items, strict=True):
        if any(entry.arguments[number].name not in arrays for number in leaves(tree)):
            yield name, tree


def leaves(tree: Node) -> Iterator[int]:
    """The indices of the arrays of a tree, from left to right."""
    if isinstance(tree, Tree):
        for item in tree.items:
            yield from leaves(item)
    elif tree is not None:
        yield tree


def _parts(tree: Node, value: Any, where: str) -> Iterator[tuple[int, Any]]:
    """The index of each array of a tree, and the array at that position of a value."""
    if not isinstance(tree, Tree):
        if tree is not None:
            yield tree, value
        elif value is not None:
            raise InputError(f"{where}: expected None, found {type(value).__name__} {value!r:.60}")
        return
    for (text, item), part in zip(_items(tree, value, where), tree.items, strict=True):
        yield from _parts(part, item, where + text)


def _items(tree: Tree, value: Any, where: str) -> list[tuple[str, Any]]:
    """The parts of a value in the order of a tree, each with its path in the value, such as `[0]` or `.mean`."""
    if tree.kind == "dict" and isinstance(value, Mapping):
        return _by_key(tree, value, where, "[{!r}]")
    if tree.kind == "named" and not isinstance(value, Mapping) and all(hasattr(value, str(key)) for key in tree.keys):
        return [(f".{name}", getattr(value, str(name))) for name in tree.keys]
    if tree.kind == "named" and isinstance(value, Mapping):
        return _by_key(tree, value, where, ".{}")
    if tree.kind != "dict" and isinstance(value, tuple | list):
        if len(value) != len(tree.items):
            raise InputError(f"{where}: expected {_outline(tree)}, found {len(value)} part(s)")
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    raise InputError(f"{where}: expected {_outline(tree)}, found {type(value).__name__}")


def _by_key(tree: Tree, value: Mapping[Any, Any], where: str, text: str) -> list[tuple[str, Any]]:
    missing = [key for key in tree.keys if key not in value]
    unknown = [key for key in value if key not in tree.keys]
    if missing or unknown:
        problem = f"{missing[0]!r} is missing" if missing else f"{unknown[0]!r:.60} is unknown"
        raise InputError(f"{where}: expected {_outline(tree)}; {problem}")
    return [(text.format(key), value[key]) for key in tree.keys]


def _outline(tree: Tree) -> str:
    keys = ", ".join(map(repr, tree.keys))
    return f"a {tree.kind} of {len(tree.items)} part(s)" if not keys else f"a dict of {keys}"


def tree_of_results(tree: Node, arrays: Sequence[Any]) -> Any:
    """The tree with arrays in place of their indices."""
    if not isinstance(tree, Tree):
        return None if tree is None else arrays[tree]
    parts = [tree_of_results(item, arrays) for item in tree.items]
    match tree.kind:
        case "dict":
            return dict(zip(tree.keys, parts, strict=True))
        case "named":
            return _named(tree.name, tuple(map(str, tree.keys)))(*parts)
        case _:
            return parts if tree.kind == "list" else tuple(parts)


@lru_cache(maxsize=256)
def _named(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    """A class of named tuples in place of the user's class, which is not available here."""
    return namedtuple(name, fields, rename=True)


def shown(tree: Node, arrays: Sequence[Any]) -> str:
    """A tree as Python writes it, with the types of its arrays."""
    if not isinstance(tree, Tree):
        return "None" if tree is None else str(arrays[tree])
    parts = [shown(item, arrays) for item in tree.items]
    match tree.kind:
        case "dict":
            return f"{{{', '.join(f'{key!r}: {part}' for key, part in zip(tree.keys, parts, strict=True))}}}"
        case "named":
            return f"{tree.name}({', '.join(f'{key}={part}' for key, part in zip(tree.keys, parts, strict=True))})"
        case "list":
            return f"[{', '.join(parts)}]"
        case _:
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
