"""Checks arguments of callers: each function returns the argument in a plain form, or raises an error.

>>> integer("LinearTree", "n", 3, least=1), known(["cp"], {"cp": 1})
(3, False)
>>> integer("LinearTree", "n", "3")
Traceback (most recent call last):
plica.errors.DTypeError: LinearTree: n must be an integer, found '3' of type str
"""

import operator
import reprlib
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from numbers import Real
from typing import Any, TypeVar

from plica.errors import DTypeError, GraphError, InputError, ShapeError

Node = TypeVar("Node", bound=Hashable)
Value = TypeVar("Value")
Last = TypeVar("Last", bound=Hashable)


def shown(value: object) -> str:
    """A value for messages: on one line, and shortened."""
    return " ".join(reprlib.repr(value).split())


def is_count(value: object) -> bool:
    """Whether a value is an integer of at least 1."""
    try:
        return operator.index(value) >= 1  # type: ignore[arg-type]
    except TypeError:
        return False


def listed(value: Any) -> tuple[Any, ...]:
    """The items of a sequence; an empty tuple for other values."""
    try:
        return tuple(value)
    except TypeError:  # arrays without axes raise it when they are read
        return ()


def is_permutation(values: Iterable[Any], n: int) -> bool:
    """Whether values are the integers from 0 to n - 1, each once."""
    try:
        return sorted(map(operator.index, values)) == list(range(n))
    except TypeError:
        return False


def found(value: object) -> str:
    """A value with its type, for messages: "found '3' of type str"."""
    return f"found {shown(value)} of type {type(value).__name__}"


def integer(owner: str, name: str, value: Any, *, least: int | None = None) -> int:
    """An integer of any library, at least `least`.

    Raises:
        DTypeError: The value is no integer.
        ShapeError: The value is smaller than `least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise DTypeError(f"{owner}: {name} must be an integer, {found(value)}") from None
    if least is not None and number < least:
        raise ShapeError(f"{owner}: {name} must be at least {least}, found {number}")
    return number


def seed(owner: str, value: Any) -> int:
    """The seed of a generator of random numbers.

    Raises:
        DTypeError: The seed is no integer.
        InputError: The seed is negative.
    """
    number = integer(owner, "seed", value)
    if number < 0:
        raise InputError(f"{owner}: seed must not be negative, found {number}; pass 0, 1, 2, ...")
    return number


def number(owner: str, name: str, value: Any) -> float:
    """A real number.

    Raises:
        DTypeError: The value is no real number.
    """
    if isinstance(value, Real):
        return float(value)
    raise DTypeError(f"{owner}: {name} must be a number, {found(value)}")


def flag(owner: str, name: str, value: Any) -> bool:
    """True or false: booleans of any library, and 0 and 1.

    Raises:
        DTypeError: The value is neither.
    """
    try:
        if value in (0, 1):
            return bool(value)
    except (TypeError, ValueError, RuntimeError):  # arrays have many values
        pass
    raise DTypeError(f"{owner}: {name} must be True or False, {found(value)}")


def known(value: object, table: Container[Any]) -> bool:
    """Whether a table has a key; a value that cannot be hashed is no key."""
    return _has_hash(value) and value in table


def _has_hash(value: object) -> bool:
    """Whether the class of a value has a hash; this is faster than `isinstance(value, Hashable)`."""
    return type(value).__hash__ is not None


def elements(owner: str, name: str, value: Any) -> tuple[Any, ...]:
    """The items of a sequence.

    Raises:
        DTypeError: The value is no sequence.
    """
    try:
        return tuple(value)
    except TypeError:
        raise DTypeError(f"{owner}: {name} must be a sequence, {found(value)}; write [...] around it") from None


def keywords(owner: str, name: str, value: Any) -> dict[str, Any]:
    """Settings by name.

    Raises:
        InputError: The value is no mapping, or its keys are no names.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f'{owner}: {name} must be a mapping from names, such as {{"name": ...}}; {found(value)}')
    return dict(value)


def function(owner: str, name: str, value: Any) -> Callable[..., Any]:
    """A callable.

    Raises:
        DTypeError: The value is not callable.
    """
    if not callable(value):
        raise DTypeError(f"{owner}: {name} must be a function, {found(value)}")
    return value  # type: ignore[no-any-return]


def edges(
    owner: str, nodes: Iterable[Node], in_nodes: Mapping[Node, Iterable[Node]], outputs: Iterable[Last], name: str
) -> tuple[dict[Node, tuple[Node, ...]], tuple[Last, ...]]:
    """The arguments of a graph's constructor: the nodes with the inputs of each, and the outputs.

    Args:
        owner: The class of the constructor.
        nodes: The nodes.
        in_nodes: The inputs of some nodes; the others have none.
        outputs: The outputs.
        name: The constructor's word for its nodes, such as `layers`.

    Raises:
        DTypeError: An argument is no sequence or no mapping, or an item cannot be hashed.
    """
    listed, last = elements(owner, name, nodes), elements(owner, "outputs", outputs)
    if not isinstance(in_nodes, Mapping):
        raise DTypeError(f"{owner}: in_{name} must be a mapping from nodes to sequences of them, {found(in_nodes)}")
    inputs_of = {node: elements(owner, "the inputs of a node", inputs) for node, inputs in in_nodes.items()}
    for node in (*listed, *last, *(child for inputs in inputs_of.values() for child in inputs)):
        if not _has_hash(node):
            raise DTypeError(f"{owner}: expected {name}, {found(node)}")
    return {node: inputs_of.get(node, ()) for node in listed}, last


def looked_up(owner: str, table: Mapping[Node, Value], node: Any, kind: str) -> Value:
    """The value of a node of a graph in a table.

    Raises:
        GraphError: The graph does not have the node.
    """
    if not known(node, table):
        raise GraphError(f"{owner}: {shown(node)} is no {kind} of this graph; choose one of its {kind}s")
    return table[node]
