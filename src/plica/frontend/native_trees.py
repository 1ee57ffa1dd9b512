"""Trees of arguments and results of functions, as native files keep them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from plica.backend.native.entry_programs import EntryProgram
from plica.errors import UnsupportedError
from plica.ir.program import Program
from plica.runtime.checks import SEED
from plica.runtime.manifest import Tree

Node = Tree | int | None


def with_trees(
    entry_program: EntryProgram, program: Program, arguments: Mapping[str, Any], results: Any
) -> EntryProgram:
    """The entry point, which takes and returns trees if arguments are no arrays, or results no tuple of arrays.

    Args:
        entry_program: The entry point of a Program.
        program: The Program, before some of its arguments became arrays of the file.
        arguments: By name, trees of indices of its arguments.
        results: A tree of indices of its results.

    Raises:
        UnsupportedError: A dict has a key that is neither text nor a whole number.
    """
    passed = [var.name for var in entry_program.body.program.arguments if var not in entry_program.body.updatable]
    index_of_array = {
        index: passed.index(var.name) for index, var in enumerate(program.arguments) if var.name in passed
    }
    takes = {name: _node(node, index_of_array) for name, node in arguments.items()}
    takes = {name: node for name, node in takes.items() if node is not None or arguments[name] is None}
    gives = _node(results, {index: index for index in range(len(entry_program.results))})
    if list(takes.values()) != list(range(len(passed))):
        names = dict(path for name, node in takes.items() for path in _paths(node, name))
        names_of_arrays = _unique([names[index] for index in range(len(passed))], passed)
        entry_program = replace(
            entry_program, takes=Tree("dict", (*takes.values(),), (*takes,)), arguments=names_of_arrays
        )
    is_plain = len(entry_program.results) > 1 and gives == Tree("tuple", tuple(range(len(entry_program.results))))
    if isinstance(gives, Tree) and not is_plain:
        names = dict(_paths(gives, "" if gives.keys else "result"))
        names_of_arrays = _unique([names[index] for index in range(len(entry_program.results))], entry_program.results)
        entry_program = replace(entry_program, gives=gives, results=names_of_arrays)
    return entry_program


def _node(tree: Any, index_of_array: Mapping[int, int]) -> Node:
    """A tree as a manifest stores it; None in place of an array that callers do not pass.

    Raises:
        UnsupportedError: A dict has a key that is neither text nor a whole number, or a tree is of another kind.
    """
    if tree is None or isinstance(tree, int):
        return None if tree is None else index_of_array.get(tree)
    if isinstance(tree, Mapping):
        wrong = [key for key in tree if type(key) not in (str, int) or (type(key) is int and key < 0)]
        if wrong:
            raise UnsupportedError(
                f"a dict has the key {wrong[0]!r}; files keep keys that are text or numbers from 0 on: use those."
            )
        return Tree("dict", tuple(_node(child, index_of_array) for child in tree.values()), tuple(tree))
    if is_dataclass(tree) or hasattr(tree, "_fields"):
        keys = [field.name for field in fields(tree) if field.init] if is_dataclass(tree) else [*tree._fields]
        items = tuple(_node(getattr(tree, key), index_of_array) for key in keys)
        return Tree("named", items, tuple(keys), type(tree).__name__)
    if not isinstance(tree, tuple | list | deque):
        raise UnsupportedError(
            f"native files keep tuples, lists, dicts, named tuples and dataclasses, found {type(tree).__name__}; use "
            "one of these."
        )
    return Tree("tuple" if isinstance(tree, tuple) else "list", tuple(_node(child, index_of_array) for child in tree))


def _paths(tree: Node, path: str) -> Iterator[tuple[int, str]]:
    """The numbers of the arrays of a tree, each with a name made of the keys on its path."""
    if not isinstance(tree, Tree):
        yield from () if tree is None else ((tree, path),)
        return
    for key, child in zip(tree.keys or range(len(tree.items)), tree.items, strict=True):
        yield from _paths(child, f"{path}_{key}" if path else f"{key}")


def _unique(names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """The names if they are unique and allowed in files and commands; else the others."""
    are_allowed = len(set(names)) == len(names) and all(name.isidentifier() and name.isascii() for name in names)
    return tuple(names if are_allowed and SEED not in names else others)
