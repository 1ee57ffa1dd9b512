"""Patterns: small graphs that are searched for in a graph, as data.

A pattern answers four questions: must its root be an output (`is_output`), which nodes does it hold
in reverse topological order (`entries`), what must their settings be (`config_patterns`) and what must hold within the
small graphs that they carry (`sub_patterns`). A name among an entry's inputs is another entry or, if no entry has it,
an input of the match; `*name` stands for any number of inputs. A name may be read from several places: then the pattern
is a DAG. Where the root's inputs are `name+`, they are two or more, each as the entry `name` says: a match at a root of
two inputs has the entries `name_0` and `name_1`; the names that these read are numbered alike.

    >>> class Add: ...
    >>> class Scale: ...
    >>> Pattern(Entry("sum", Add, ("scaled", "*others")), Entry("scaled", Scale, ("x",), config={"factor": 1.0})).inputs
    ('*others', 'x')
    >>> Pattern(Entry("sum", Add, ("x",)), Entry("lost", Scale, ("x",)))
    Traceback (most recent call last):
        ...
    plica.errors.GraphError: pattern sum: no entry before 'lost' reads it; name it among their inputs, or remove it
    >>> pattern = Pattern(Entry("sum", Add, ("each+",)), Entry("each", Scale, ("x",)))
    >>> two = pattern.for_inputs(2)
    >>> [(entry.name, entry.inputs) for entry in two.entries]
    [('sum', ('each_0', 'each_1')), ('each_0', ('x_0',)), ('each_1', ('x_1',))]
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from plica.errors import GraphError
from plica.graph.kinds import misfits


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One node of a pattern.

    Args:
        name: Its name among the inputs of other entries, and in a match.
        kind: The kind that the graph compares (a class, a name); a tuple of them means any of these, None any at all.
        inputs: Names of other entries or of inputs of the match, in order; `*name` stands for any number of inputs. The
            root may have `name+` alone: two inputs or more, each as the entry `name` says.
        config: For names of settings, the value expected, or a predicate on it; settings are what the node's `config`
            lists.
        sub_patterns: For names of small graphs that the node carries, the pattern that must be found there.
        facts: As `config`, for further facts of the node: its other attributes.
        preserved: The rule only looks at the node: the replacement leaves it in place, since other nodes may read it.
        commutative: The inputs may come in any order.
    """

    name: str
    kind: Hashable = None
    inputs: tuple[str, ...] = ("*inputs",)
    config: Mapping[str, Any] = field(default_factory=dict)
    sub_patterns: Mapping[str, "Pattern"] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    preserved: bool = False
    commutative: bool = False


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Pattern:
    """Entries in reverse topological order: the root first, each other one read by an earlier one.

    Args:
        entries: The nodes.
        is_output: The root must be an output of the graph.

    Attributes:
        by_name: The entries by their names.
        inputs: The names that no entry has, in order of appearance, variadic ones with their star.

    Raises:
        GraphError: The pattern can match nothing, or not what it seems to say.
    """

    entries: tuple[Entry, ...]
    is_output: bool
    by_name: Mapping[str, Entry]
    inputs: tuple[str, ...]

    def __init__(self, *entries: Entry, is_output: bool = False) -> None:
        object.__setattr__(self, "entries", entries)
        object.__setattr__(self, "is_output", is_output)
        object.__setattr__(self, "by_name", {entry.name: entry for entry in entries})
        names = (name for entry in entries for name in entry.inputs if name.removesuffix("+") not in self.by_name)
        object.__setattr__(self, "inputs", tuple(dict.fromkeys(names)))
        problem = next(_problems(entries), None)
        if problem is not None:
            raise GraphError(f"pattern {entries[0].name if entries else '()'}: {problem}")

    @staticmethod
    def chain(
        *kinds: Hashable,
        config_patterns: Sequence[Mapping[str, Any]] = (),
        sub_patterns: Sequence[Mapping[str, "Pattern"]] = (),
        is_output: bool = False,
    ) -> "Pattern":
        """Kinds in reverse topological order, each but the last with one input; entry n is called `n0`, `n1`, ...

        The inputs of the last one are called `inputs`. The other two sequences follow `kinds` and may be shorter.
        """
        if max(len(config_patterns), len(sub_patterns)) > len(kinds):
            raise GraphError(
                f"pattern n0: {len(kinds)} kind(s), but {len(config_patterns)} config pattern(s) and "
                f"{len(sub_patterns)} sub-pattern(s); give at most one of each for each kind"
            )
        configs = [*config_patterns, *[{}] * (len(kinds) - len(config_patterns))]
        subs = [*sub_patterns, *[{}] * (len(kinds) - len(sub_patterns))]
        last = len(kinds) - 1
        entries = (
            Entry(f"n{number}", kind, ("*inputs",) if number == last else (f"n{number + 1}",), config, sub)
            for number, (kind, config, sub) in enumerate(zip(kinds, configs, subs, strict=True))
        )
        return Pattern(*entries, is_output=is_output)

    @property
    def root(self) -> Entry:
        """The entry that the others lead to."""
        return self.entries[0]

    @property
    def config_patterns(self) -> tuple[Mapping[str, Any], ...]:
        """The settings expected of each entry."""
        return tuple(entry.config for entry in self.entries)

    @property
    def sub_patterns(self) -> tuple[Mapping[str, "Pattern"], ...]:
        """The patterns within each entry."""
        return tuple(entry.sub_patterns for entry in self.entries)

    def for_inputs(self, number: int) -> "Pattern | None":
        """The pattern at a root of so many inputs: itself, unless they are `name+`; None where these are too few."""
        if not self.is_repeated:
            return self
        return _for_inputs(self, number) if number >= LEAST_REPEATED else None

    @property
    def is_repeated(self) -> bool:
        """Whether the root's inputs are `name+`."""
        return self.root.inputs[-1:] != () and self.root.inputs[-1].endswith("+")


LEAST_REPEATED = 2
"""How many inputs `name+` is at least: one is written as `name`."""


@lru_cache(maxsize=1024)
def _for_inputs(pattern: Pattern, number: int) -> Pattern:
    root, each = pattern.entries
    copies = [
        replace(each, name=f"{each.name}_{index}", inputs=tuple(f"{name}_{index}" for name in each.inputs))
        for index in range(number)
    ]
    return Pattern(replace(root, inputs=tuple(copy.name for copy in copies)), *copies, is_output=pattern.is_output)


def holds(condition: Any, value: Any) -> bool:
    """Whether a value meets a condition: a predicate, or the value itself."""
    if callable(condition):
        return bool(condition(value))
    if isinstance(condition, np.ndarray) or isinstance(value, np.ndarray):
        return np.array_equal(condition, value)  # `==` would compare entry by entry
    return bool(condition == value)


def _problems(entries: tuple[Entry, ...]) -> Iterator[str]:
    """The mistakes of a pattern, each with a way to mend it."""
    if not entries:
        yield "there are no entries; give at least the root"
        return
    names = [entry.name for entry in entries]
    read: dict[str, int] = {}
    for position, entry in enumerate(entries):
        if not entry.name.isidentifier():
            yield f"{entry.name!r} is no name; use letters, digits and underscores"
        if entry.name in names[:position]:
            yield f"two entries are called {entry.name!r}; to read one node twice, name it twice among the inputs"
        if position and entry.name not in read:
            yield f"no entry before {entry.name!r} reads it; name it among their inputs, or remove it"
        if isinstance(entry.inputs, str):
            yield f"the inputs of {entry.name!r} are the text {entry.inputs!r}; give a tuple of names"
        for name in entry.inputs:
            yield from _input_problems(entry, name, names, position)
            read.setdefault(name.removesuffix("+"), position)
        yield from _repeated_problems(entry, entries, position)
        if entry.commutative and any(name.startswith("*") for name in entry.inputs):
            yield f"{entry.name!r} is commutative and variadic; name its inputs one by one"
        yield from misfits(entry.kind, entry.config, entry.sub_patterns, entry.inputs)
        yield from _condition_problems(entry)
        for name, pattern in entry.sub_patterns.items():
            if not isinstance(pattern, Pattern):
                yield f"the sub-pattern {name!r} of {entry.name!r} is {type(pattern).__name__}; give a Pattern"
    if entries[0].preserved:
        yield f"the root {names[0]!r} is preserved, so that nothing is replaced; take away preserved=True"
    both = [name for name in read if f"*{name}" in read]
    if both:
        yield f"{both[0]!r} is one input and also any number of inputs; use two names"


def _repeated_problems(entry: Entry, entries: tuple[Entry, ...], position: int) -> Iterator[str]:
    for name in entry.inputs:
        if not name.endswith("+"):
            continue
        if position or len(entry.inputs) > 1 or entry.commutative:
            yield f"{entry.name!r} reads {name!r}, all inputs of the root in order; name no other input"
        elif len(entries) != 2 or entries[1].name != name[:-1]:
            yield f"{name!r} stands for nodes of the entry {name[:-1]!r}; list that entry alone after the root"
        elif re.fullmatch(rf"{name[:-1]}_\d+", entry.name):
            yield f"{entry.name!r} is the name of a node of {name!r} in a match; give the root another name"


def _condition_problems(entry: Entry) -> Iterator[str]:
    for name, condition in (*entry.config.items(), *entry.facts.items()):
        if isinstance(condition, type):
            yield (
                f"{name} of {entry.name!r} is compared with the class {condition.__name__}, which may be meant as a "
                f"value or as a predicate; write lambda value: value is {condition.__name__}, or isinstance(value, ...)"
            )


def _input_problems(entry: Entry, name: str, names: list[str], position: int) -> Iterator[str]:
    bare = name.removeprefix("*").removesuffix("+")
    if not bare.isidentifier():
        yield f"the input {name!r} of {entry.name!r} is no name; use letters, digits and underscores, a star in front"
    if name.startswith("*") and bare in names:
        yield f"the entry {bare!r} stands for one node; read it as {bare!r}, without the star"
    if name in names and names.index(name) <= position:
        yield f"{entry.name!r} reads {name!r}, which comes before it; list entries in reverse topological order"
