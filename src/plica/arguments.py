"""What callers pass, checked: the argument in the form that is worked with, or an error that says what is wrong.

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
Last = TypeVar("Last", bound=Hashable)


def shown(value: object) -> str:
    """A value as messages show it: on one line, and not at length."""
    return " ".join(reprlib.repr(value).split())


def is_count(value: object) -> bool:
    """Whether a value is an integer of at least 1."""
    try:
        return operator.index(value) >= 1  # type: ignore[arg-type]
    except TypeError:
        return False


def listed(value: Any) -> tuple[Any, ...]:
    """What a sequence holds; nothing where there is none."""
    try:
        return tuple(value)
    except TypeError:  # arrays without axes say so as they are read
        return ()


def is_permutation(values: Iterable[Any], n: int) -> bool:
    """Whether values are the integers from 0 to n - 1, each once."""
    try:
        return sorted(map(operator.index, values)) == list(range(n))
    except TypeError:
        return False


def found(value: object) -> str:
    """The same, with its type."""
    return f"found {shown(value)} of type {type(value).__name__}"


def integer(owner: str, name: str, value: Any, *, least: int | None = None) -> int:
    """An integer of any library, at least `least`.

    Raises:
        DTypeError: It is none.
        ShapeError: It is smaller.
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
        DTypeError: It is no integer.
        InputError: It is negative.
    """
    number = integer(owner, "seed", value)
    if number < 0:
        raise InputError(f"{owner}: seed must not be negative, found {number}; pass 0, 1, 2, ...")
    return number


def number(owner: str, name: str, value: Any) -> float:
    """A real number.

    Raises:
        DTypeError: It is none.
    """
    if isinstance(value, Real):
        return float(value)
    raise DTypeError(f"{owner}: {name} must be a number, {found(value)}")


def flag(owner: str, name: str, value: Any) -> bool:
    """True or false: booleans of any library, and 0 and 1.

    Raises:
        DTypeError: It is neither.
    """
    try:
        if value in (0, 1):
            return bool(value)
    except (TypeError, ValueError, RuntimeError):  # arrays have many values
        pass
    raise DTypeError(f"{owner}: {name} must be True or False, {found(value)}")


def known(value: object, table: Container[Any]) -> bool:
    """Whether a table has a key; what cannot be hashed is none."""
    return _has_hash(value) and value in table


def _has_hash(value: object) -> bool:
    """Whether a value is of a class whose values can be hashed, as `Hashable` says, which takes longer."""
    return type(value).__hash__ is not None


def elements(owner: str, name: str, value: Any) -> tuple[Any, ...]:
    """What a sequence holds.

    Raises:
        DTypeError: It is none.
    """
    try:
        return tuple(value)
    except TypeError:
        raise DTypeError(f"{owner}: {name} must be a sequence, {found(value)}; write [...] around it") from None


def keywords(owner: str, name: str, value: Any) -> dict[str, Any]:
    """Settings by name.

    Raises:
        InputError: It is no mapping, or its keys are no names.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f'{owner}: {name} must be a mapping from names, such as {{"name": ...}}; {found(value)}')
    return dict(value)


def function(owner: str, name: str, value: Any) -> Callable[..., Any]:
    """What can be called.

    Raises:
        DTypeError: It cannot.
    """
    if not callable(value):
        raise DTypeError(f"{owner}: {name} must be a function, {found(value)}")
    return value  # type: ignore[no-any-return]


def edges(
    owner: str, nodes: Iterable[Node], in_nodes: Mapping[Node, Iterable[Node]], outputs: Iterable[Last], name: str
) -> tuple[dict[Node, tuple[Node, ...]], tuple[Last, ...]]:
    """A graph as constructors take it: the nodes with the inputs of each, and the outputs.

    Args:
        owner: Whose constructor it is.
        nodes: The nodes.
        in_nodes: The inputs of some; others have none.
        outputs: The outputs.
        name: What the constructor calls the nodes, such as `layers`.

    Raises:
        DTypeError: They are no sequences and no mapping, or hold what no node is.
        GraphError: An edge, or an output, that is not among the nodes.
    """
    listed, last = elements(owner, name, nodes), elements(owner, "outputs", outputs)
    if not isinstance(in_nodes, Mapping):
        raise DTypeError(f"{owner}: in_{name} must be a mapping from nodes to sequences of them, {found(in_nodes)}")
    given = {node: elements(owner, "the inputs of a node", inputs) for node, inputs in in_nodes.items()}
    for one in (*listed, *last, *(child for inputs in given.values() for child in inputs)):
        if not _has_hash(one):
            raise DTypeError(f"{owner}: expected {name}, {found(one)}")
    return {node: given.get(node, ()) for node in listed}, last


def looked_up(owner: str, table: Mapping[Node, Any], node: Any, kind: str) -> Any:
    """What a table says of a node of a graph.

    Raises:
        GraphError: The graph does not have it.
    """
    if not known(node, table):
        raise GraphError(f"{owner}: {shown(node)} is no {kind} of this graph; choose one of its {kind}s")
    return table[node]
