"""The matching function: it binds the names of a pattern to nodes, or says why a pattern nearly matches.

No rule may fuse away an interior node of a match that is an output, or that a node outside of the match reads.

A pattern's inputs are tried in order by backtracking: a variadic name takes as few nodes as it can first, and the
inputs of a commutative entry come in every order.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import permutations
from math import inf
from typing import Any, NamedTuple

from plica.graph.match import MatchFunction, Neighbours
from plica.graph.order import lazy_consumers
from plica.graph.pattern import LEAST_REPEATED, Entry, Pattern, holds
from plica.graph.view import MISSING, GraphOptMatch, GraphView, NearMiss, kind_fits


def pattern_matcher(graph: GraphView[Any]) -> MatchFunction:
    """The matching function of a graph: the first way in which a pattern holds; why not, where all kinds fit.

    Args:
        graph: The kinds, settings, outputs and names of its nodes.
    """
    return partial(_match_pattern, graph)


def _match_pattern(
    graph: GraphView[Any], root: Any, pattern: Pattern, inputs: Neighbours, readers: Neighbours
) -> GraphOptMatch[Any] | NearMiss[Any] | None:
    if not kind_fits(graph.fits, graph.kind(root), pattern.root):
        return None
    search = _PatternSearch(graph, pattern, inputs, readers)
    if len(pattern.entries) == 1:
        unmet = _unmet(graph, root, pattern.root)
        if unmet is not None and unmet.value is not MISSING:  # most searches for a node alone end here
            return None
    missed: NearMiss[Any] | None = None
    for binding in _bindings(search, (pattern.root,), _Binding({pattern.root.name: root}, {})):
        match = GraphOptMatch(pattern, binding.nodes, binding.inputs, graph=graph)
        problem = _problem(search, match)
        if problem is None:
            subs = _sub_matches(match)
            if isinstance(subs, dict):
                return replace(match, sub_matches=subs) if subs else match
            problem = subs
        # A node alone that does not fit is no near miss: every node of its kind would be one.
        if missed is None and (problem.is_missing or len(match.fused) > 1):
            missed = NearMiss(root, problem.why, problem.detail)
    return missed


class _PatternSearch(NamedTuple):
    """A search: the graph, the pattern, and the neighbours of nodes."""

    graph: GraphView[Any]
    pattern: Pattern
    inputs: Neighbours
    readers: Neighbours


def inputs_may_fit(fits: Any, pattern: Pattern, number: int, kinds: Iterable[Any]) -> bool:
    """Whether a root has enough inputs, with one of a fitting kind for each entry that it reads; most fail here.

    Args:
        fits: Whether a node of one kind is of another kind (`GraphView.fits`).
        pattern: The pattern.
        number: How many inputs there are.
        kinds: The kinds of the inputs.
    """
    least, most, entries = _root_inputs(pattern)
    if not entries:
        return True
    return least <= number <= most and all(any(kind_fits(fits, kind, entry) for kind in kinds) for entry in entries)


@lru_cache(maxsize=1024)
def _root_inputs(pattern: Pattern) -> tuple[int, float, tuple[Entry, ...]]:
    """How many inputs the root has at least and at most, and the entries that it reads; called for every node."""
    names = pattern.root.inputs
    read = tuple(pattern.by_name[bare] for name in names if (bare := name.removesuffix("+")) in pattern.by_name)
    if pattern.is_repeated:
        return LEAST_REPEATED, inf, read
    fixed = sum(not name.startswith("*") for name in names)
    return fixed, fixed if fixed == len(names) else inf, read


class Problem(NamedTuple):
    """Why a match of fitting kinds does not hold.

    Args:
        why: In words that are the same wherever it occurs.
        detail: The same with the nodes named.
        is_missing: A node has nothing under a name that the pattern asks for.
    """

    why: str
    detail: str
    is_missing: bool = False


def _problem(search: _PatternSearch, match: GraphOptMatch[Any]) -> Problem | None:
    """Why a match of fitting kinds does not hold: no output, other settings, or readers of a node that would go."""
    graph, pattern = search.graph, search.pattern
    if pattern.is_output and not any(match.root is output for output in graph.outputs):
        return Problem("the root is no output", f"{graph.describe(match.root)} is no output")
    for entry in pattern.entries:
        unmet = _unmet(graph, match.nodes[entry.name], entry)
        if unmet is not None:
            return _why_unmet(match, entry, unmet)
    return exposed(match, graph, search.readers)


class _Unmet(NamedTuple):
    """A setting or fact of a node that an entry does not accept."""

    name: str
    wanted: Any
    value: Any


def _unmet(graph: GraphView[Any], node: Any, entry: Entry) -> _Unmet | None:
    """The first setting or fact that an entry does not accept."""
    config = graph.config(node) if entry.config else entry.config
    for name, wanted in entry.config.items():
        value = config.get(name, MISSING)
        if value is MISSING or not holds(wanted, value):
            return _Unmet(name, wanted, value)
    for name, wanted in entry.facts.items():
        value = graph.fact(node, name)
        if value is MISSING or not holds(wanted, value):
            return _Unmet(name, wanted, value)
    return None


def _why_unmet(match: GraphOptMatch[Any], entry: Entry, unmet: _Unmet) -> Problem:
    """Why an entry does not accept a setting or fact of a node."""
    name, condition, value = unmet
    if value is MISSING:
        return _missing(match, entry, name)
    wanted = "" if callable(condition) else f", not {condition}"
    text = str(value)
    shown = text if len(text) < 60 else type(value).__name__
    detail = f"{match.graph.describe(match.nodes[entry.name])}: {name} is {shown}{wanted}"
    return Problem(f"{name} of {entry.name} does not fit", detail)


def _missing(match: GraphOptMatch[Any], entry: Entry, name: str) -> Problem:
    detail = f"{match.graph.describe(match.nodes[entry.name])} has no {name}"
    return Problem(f"{entry.name} has no {name}", detail, is_missing=True)


def exposed(match: GraphOptMatch[Any], graph: GraphView[Any], readers: Neighbours) -> Problem | None:
    """Why a node within a match may not be fused away: an output, an input of the match, or read by another node."""
    fused = match.fused
    inside, outputs = dict.fromkeys(fused), set(map(id, graph.outputs))
    taken = {id(node) for nodes in match.inputs.values() for node in nodes}
    for node in fused[1:]:
        if id(node) in outputs:
            return Problem("an interior node is an output", f"{graph.describe(node)} is itself an output")
        if id(node) in taken:
            return Problem("an interior node is read twice", f"{graph.describe(node)} is also an input of the match")
        for reader in readers(node):
            if reader not in inside:
                names = f"{graph.describe(node)} is also read by {graph.describe(reader)}"
                return Problem("an interior node has another consumer", names)
    return None


def _sub_matches(match: GraphOptMatch[Any]) -> dict[str, dict[str, tuple[GraphOptMatch[Any], ...]]] | Problem:
    """All matches within what the nodes carry; a problem where a pattern has none."""
    sub_matches: dict[str, dict[str, tuple[GraphOptMatch[Any], ...]]] = {}
    for entry in match.pattern.entries:
        for name, pattern in entry.sub_patterns.items():
            node = match.nodes[entry.name]
            carried = None if match.graph.sub_graph is None else match.graph.sub_graph(node, name)
            if carried is None:
                return _missing(match, entry, name)
            inner = all_matches(carried, pattern)
            if not inner:
                why = f"the {name} of {entry.name} is of another form"
                return Problem(why, f"{match.graph.describe(node)}: its {name} differs")
            sub_matches.setdefault(entry.name, {})[name] = inner
    return sub_matches


def all_matches(graph: GraphView[Any], pattern: Pattern) -> tuple[GraphOptMatch[Any], ...]:
    """Every match of a pattern in a graph of which nothing is replaced: matches may overlap."""
    if not any(kind_fits(graph.fits, graph.kind(node), pattern.root) for node in graph.nodes):
        return ()
    readers = lazy_consumers(graph.nodes, graph.inputs)
    match_function = pattern_matcher(graph)
    patterns = ((node, pattern.for_inputs(len(graph.inputs(node)))) for node in graph.nodes)
    results = (
        match_function(node, unrolled, graph.inputs, readers) for node, unrolled in patterns if unrolled is not None
    )
    return tuple(result for result in results if isinstance(result, GraphOptMatch))


class _Binding(NamedTuple):
    """Which nodes the names of a pattern stand for so far."""

    nodes: dict[str, Any]
    inputs: dict[str, tuple[Any, ...]]


def _bindings(search: _PatternSearch, todo: tuple[Entry, ...], binding: _Binding) -> Iterator[_Binding]:
    """Every way to bind the inputs of the entries in `todo`."""
    steps = [iter([(todo, binding)])]  # no recursion: a pattern may have thousands of entries
    while steps:
        step = next(steps[-1], None)
        if step is None:
            steps.pop()
        elif step[0]:
            steps.append(_extended(search, *step))
        else:
            yield step[1]


def _extended(
    search: _PatternSearch, todo: tuple[Entry, ...], binding: _Binding
) -> Iterator[tuple[tuple[Entry, ...], _Binding]]:
    """Every way to bind the inputs of the first entry, each with the entries that are left."""
    entry, *rest = todo
    inputs = tuple(search.inputs(binding.nodes[entry.name]))
    orders = _orders(inputs) if entry.commutative else (inputs,)
    for order in orders:
        for extended in _read(search, entry.inputs, order, binding):
            fresh = tuple(search.pattern.by_name[name] for name in extended.nodes if name not in binding.nodes)
            yield (*rest, *fresh), extended


def _orders(nodes: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The nodes in every order, the given order first; more than four inputs come in the given order alone."""
    return permutations(nodes) if len(nodes) <= 4 else iter((nodes,))


def _read(
    search: _PatternSearch, names: Sequence[str], nodes: tuple[Any, ...], binding: _Binding
) -> Iterator[_Binding]:
    """Every way in which `names` stand for `nodes`; a variadic name takes as few as it can first."""
    for position, name in enumerate(names):
        if name.startswith("*"):
            bare, rest, left = name[1:], names[position + 1 :], nodes[position:]
            fixed = sum(not other_name.startswith("*") for other_name in rest)
            most = len(left) - fixed
            for count in range(max(most, 0) if fixed == len(rest) else 0, most + 1):
                taken = left[:count]
                if binding.inputs.get(bare, taken) == taken:
                    extended = binding._replace(inputs={**binding.inputs, bare: taken})
                    yield from _read(search, rest, left[count:], extended)
            return
        bound = _bound(search, name, nodes[position], binding) if position < len(nodes) else None
        if bound is None:
            return
        binding = bound
    if len(names) == len(nodes):
        yield binding


def _bound(search: _PatternSearch, name: str, node: Any, binding: _Binding) -> _Binding | None:
    """The binding with one more name; None where the name stands for another node, or the node for another entry."""
    graph = search.graph
    entry = search.pattern.by_name.get(name)
    if entry is None:
        known = binding.inputs.get(name, (node,))
        return binding._replace(inputs={**binding.inputs, name: (node,)}) if known[0] is node else None
    if name in binding.nodes:
        return binding if binding.nodes[name] is node else None
    if not kind_fits(graph.fits, graph.kind(node), entry):
        return None
    if not entry.preserved and any(node is bound for bound in binding.nodes.values()):
        return None
    return binding._replace(nodes={**binding.nodes, name: node})
