r"""`Form`: the settings, parameters and inputs of all nodes of a kind, by which impossible patterns are refused early.

>>> class Add(NodeKind):
...     @classmethod
...     def form(cls):
...         return Form(config=frozenset({"factor"}), graphs=frozenset(), least=2, most=2)
>>> print(*misfits(Add, config=["scale"], graphs=[], inputs=("x", "y", "z")), sep="\n")
a pattern asks for scale among the settings of Add, which are factor; a property is asked for by facts={'scale': ...}
Add has 2 inputs, but the pattern names 3 (x, y, z)
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_type_hints


@dataclass(frozen=True, slots=True)
class Form:
    """The settings, small graphs and inputs that all nodes of a kind have.

    Args:
        config: The names of their settings; None where they are not known of the kind.
        graphs: The names of the small graphs that they carry; None where they are not known.
        least: The smallest number of inputs.
        most: The largest; None where there is none.
    """

    config: frozenset[str] | None = None
    graphs: frozenset[str] | None = None
    least: int = 0
    most: int | None = None


class NodeKind(ABC):
    """A class of nodes that tells their form."""

    __slots__ = ()
    input_range: ClassVar[tuple[int, int | None]] = (0, None)
    """The smallest and the largest number of inputs; None where there is no largest."""

    @classmethod
    @abstractmethod
    def form(cls) -> Form:
        """The form of all nodes of the class."""


def constructor_arguments(kind: type) -> dict[str, Any] | None:
    """The named arguments of a class's constructor with their annotations; None where it does not name them all.

    An abstract class has none of its own to tell: its subclasses add theirs.
    """
    if inspect.isabstract(kind):
        return None
    try:
        arguments = inspect.signature(kind).parameters.values()
    except ValueError:  # nothing written in Python
        return None
    try:
        hints = get_type_hints(kind.__init__)  # type: ignore[misc]
    except NameError:  # an annotation of names that only a type checker reads
        hints = {}
    if any(argument.kind is inspect.Parameter.VAR_KEYWORD for argument in arguments):
        return None
    named = [argument for argument in arguments if argument.kind is not inspect.Parameter.VAR_POSITIONAL]
    return {argument.name: hints.get(argument.name, argument.annotation) for argument in named}


def form_of(kind: Hashable) -> Form | None:
    """The form of a class of nodes; None for a kind that tells none."""
    return kind.form() if isinstance(kind, type) and issubclass(kind, NodeKind) else None


def misfits(
    kind: Hashable,
    config: Collection[str],
    graphs: Collection[str],
    inputs: Sequence[str],
    form: Callable[[Hashable], Form | None] = form_of,
) -> Iterator[str]:
    """Why no node of a kind, or of one of a tuple of kinds, fits an entry of a pattern.

    Args:
        kind: The kind, a tuple of kinds, or None for any.
        config: The names of settings that the entry asks for.
        graphs: The names of small graphs.
        inputs: The entry's names of the inputs; `*name` and `name+` are any number of them.
        form: Gives the form of a kind.
    """
    problems = [list(_misfits(single, form(single), config, graphs, inputs)) for single in _single_kinds(kind)]
    if problems and all(problems):
        yield from problems[0]


def _single_kinds(kind: Hashable) -> tuple[Hashable, ...]:
    return () if kind is None else kind if isinstance(kind, tuple) else (kind,)


def _misfits(
    kind: Hashable, form: Form | None, config: Collection[str], graphs: Collection[str], inputs: Sequence[str]
) -> Iterator[str]:
    if form is None:
        return
    called = kind.__name__ if isinstance(kind, type) else str(kind)
    for what, known, asked, instead in (
        ("settings", form.config, config, "a property is asked for by facts={{{name!r}: ...}}"),
        ("parameters", form.graphs, graphs, "a setting is asked for by config={{{name!r}: ...}}"),
    ):
        for name in asked:
            if known is not None and name not in known:
                there = ", ".join(sorted(known)) or "none"
                hint = instead.format(name=name)
                yield f"a pattern asks for {name} among the {what} of {called}, which are {there}; {hint}"
    named = [name for name in inputs if not (name.startswith("*") or name.endswith("+"))]
    too_few = len(named) < form.least and len(named) == len(inputs)
    too_many = form.most is not None and len(named) > form.most
    if too_few or too_many:
        number = form.least if too_few else form.most
        bound = "at least " if form.most is None else "at most " if form.least != form.most else ""
        has = f"{bound}{number or 'no'} input{'s' * (number != 1)}"
        names = f" ({', '.join(inputs)})" if inputs else ""
        yield f"{called} has {has}, but the pattern names {len(inputs)}{names}"
