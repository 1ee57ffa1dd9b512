"""Arguments and results of any structure: tuples, lists, dicts, named tuples and dataclasses of arrays.

>>> leaves, structure = flatten({"a": 1, "b": (2, None)})
>>> leaves, unflatten(structure, [10, 20])
([1, 2], {'a': 10, 'b': (20, None)})
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import optree

from plica.ir.types import Spec

_NAMESPACE = "plica"
Structure = optree.PyTreeSpec


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of `tree` in order, and its structure; None holds no leaf."""
    leaves, structure = optree.tree_flatten(tree, namespace=_NAMESPACE)
    parts = (leaf for leaf in leaves if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type | Spec))
    unknown = dict.fromkeys(map(type, parts))
    if not unknown:
        return leaves, structure
    for cls in unknown:
        _register(cls)
    return flatten(tree)


def shown(structure: Structure) -> str:
    """A structure as messages show it, with `*` for each array."""
    text = str(structure).removeprefix("PyTreeSpec(").removesuffix(")")
    return text.split(", namespace=")[0]


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of `structure` with these leaves."""
    return optree.tree_unflatten(structure, leaves)


def _register(cls: type) -> None:
    """Take dataclasses of this class apart from now on: fields that `__init__` takes are parts of the tree."""
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    optree.register_pytree_node(
        cls,
        lambda tree: ([getattr(tree, name) for name in names], None, tuple(names)),
        lambda _, parts: cls(**dict(zip(names, parts, strict=True))),
        namespace=_NAMESPACE,
    )
