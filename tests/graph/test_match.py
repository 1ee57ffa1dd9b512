"""Patterns and where they match: chains, trees, DAGs, variadic inputs, conditions, sharing, and what nearly matches."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from plica.errors import GraphError
from plica.graph.bind import pattern_matcher
from plica.graph.match import Search, match_optimization_patterns
from plica.graph.order import consumers
from plica.graph.pattern import Entry, Pattern
from plica.graph.strategy import OptMatchStrategy, overlaps
from plica.graph.view import GraphOptMatch, GraphView
from tests.harness.graphs import Letters, letters

CHAIN = Pattern.chain("f", "g")


def find(graph: Letters | GraphView, *patterns: Pattern, strategy=OptMatchStrategy.LARGEST_MATCH, **settings):
    """The matches, the same by root, and the near misses."""
    view = graph.view() if isinstance(graph, Letters) else graph
    misses: list[Any] = []
    found = match_optimization_patterns(
        view.nodes,
        view.outputs,
        patterns,
        view.inputs,
        consumers(view.nodes, view.inputs).__getitem__,
        pattern_matcher(view),
        strategy,
        Search(view, on_near_miss=misses.append, **settings),
    )
    return Found(*found, misses)


class Found(NamedTuple):
    matches: list
    by_root: dict
    near_misses: list


def names(match: GraphOptMatch, name: str) -> str:
    found = match[name]
    return " ".join(node.name for node in found) if isinstance(found, tuple) else found.name


def test_a_chain_matches_the_example_of_the_seed() -> None:
    graph = letters("l1 = one; l2 = two l1; l3 = three l2; l4 = four l3", "l4")
    matches, by_root, misses = find(graph, Pattern.chain("three", "two"))
    (match,) = matches
    assert [node.name for node in match.nodes.values()] == ["l3", "l2"]
    assert match.root is graph.nodes["l3"]
    assert by_root == {graph.nodes["l3"]: match}
    assert names(match, "inputs") == "l1"
    assert not misses


def test_a_chain_ends_where_the_graph_does() -> None:
    assert not find(letters("a = f", "a"), CHAIN).matches
    assert not find(letters("x; a = f x", "a"), CHAIN).matches


@pytest.mark.parametrize(
    ("text", "outputs", "reason"),
    [
        ("x; b = g x; a = f b; c = h b", ("a", "c"), "b is also read by c"),
        ("x; b = g x; a = f b", ("a", "b"), "b is itself an output"),
        ("x; b = g x; a = f b; c = f b", ("a", "c"), "b is also read by c"),
    ],
)
def test_an_interior_node_with_another_reader_is_never_fused(text, outputs, reason) -> None:
    matches, _, misses = find(letters(text, *outputs), CHAIN)
    assert not matches
    assert reason in [miss.detail for miss in misses]


def test_a_root_may_be_read_often_and_be_an_output() -> None:
    assert find(letters("x; b = g x; a = f b; c = h a a; d = h a", "a", "c", "d"), CHAIN).matches


def test_a_node_read_twice_by_its_one_reader_may_be_fused() -> None:
    pattern = Pattern(Entry("square", "times", ("inner", "inner")), Entry("inner", "g", ("x",)))
    (match,) = find(letters("x; b = g x; a = times b b", "a"), pattern).matches
    assert names(match, "inner") == "b"
    assert not find(letters("x; b = g x; c = g x; a = times b c", "a"), pattern).matches


def test_a_pattern_may_be_a_tree() -> None:
    pattern = Pattern(
        Entry("sum", "add", ("left", "right")), Entry("left", "g", ("x",)), Entry("right", "g", ("y",), {"n": 2})
    )
    graph = letters("x; y; b = g x; c = g y; a = add b c", "a", c={"n": 2})
    (match,) = find(graph, pattern).matches
    assert (names(match, "x"), names(match, "y"), names(match, "right")) == ("x", "y", "c")
    turned = letters("x; y; b = g x; c = g y; a = add c b", "a", c={"n": 2})
    _, _, (miss,) = find(turned, pattern)
    assert miss.detail == "b has no n"


def test_a_pattern_may_be_a_dag() -> None:
    # f(x) + h(f(x)), where both read one f
    pattern = Pattern(
        Entry("sum", "add", ("shared", "outer")), Entry("outer", "h", ("shared",)), Entry("shared", "f", ("x",))
    )
    assert find(letters("x; b = f x; c = h b; a = add b c", "a"), pattern).matches
    assert not find(letters("x; b = f x; d = f x; c = h d; a = add b c", "a"), pattern).matches


def test_a_repeated_input_name_is_one_node() -> None:
    pattern = Pattern(Entry("op", "minus", ("x", "x")))
    assert find(letters("x; a = minus x x", "a"), pattern).matches
    assert not find(letters("x; y; a = minus x y", "a"), pattern).matches


def test_two_entries_are_two_nodes() -> None:
    pattern = Pattern(Entry("sum", "add", ("b", "c")), Entry("b", "g"), Entry("c", "g"))
    assert not find(letters("x; b = g x; a = add b b", "a"), pattern).matches


@pytest.mark.parametrize(
    ("inputs", "before", "inside", "after"),
    [("b", "", "p q", ""), ("x b", "x", "p q", ""), ("b x y", "", "p q", "x y"), ("x b y", "x", "p q", "y")],
)
def test_variadic_inputs_take_what_is_there(inputs, before, inside, after) -> None:
    pattern = Pattern(Entry("outer", "m", ("*before", "inner", "*after")), Entry("inner", "m", ("*factors",)))
    graph = letters(f"x; y; p; q; b = m p q; a = m {inputs}", "a")
    (match,) = find(graph, pattern).matches
    assert (names(match, "before"), names(match, "factors"), names(match, "after")) == (before, inside, after)


def test_variadic_inputs_skip_a_place_that_does_not_hold() -> None:
    pattern = Pattern(Entry("outer", "m", ("*before", "inner", "*after")), Entry("inner", "m", ("*factors",)))
    graph = letters("x; p; b = m p x; c = m p x; a = m b c; d = h b", "a", "d")
    (match,) = find(graph, pattern).matches
    assert (names(match, "before"), names(match, "inner")) == ("b", "c")


def test_the_number_of_inputs_must_fit() -> None:
    pattern = Pattern(Entry("op", "m", ("x", "y", "*rest")))
    assert not find(letters("x; a = m x", "a"), pattern).matches
    (match,) = find(letters("x; y; a = m x y", "a"), pattern).matches
    assert match["rest"] == ()


@pytest.mark.parametrize("count", [2, 3, 12])
def test_each_of_two_inputs_or_more_may_be_as_one_entry_says(count: int) -> None:
    pattern = Pattern(Entry("outer", "m", ("each+",)), Entry("each", "g", ("first", "*rest"), {"value": 1}))
    inputs = [f"g{place}" for place in range(count)]
    text = "x; y; " + "; ".join(f"{name} = g x {'y' * (place % 2)}" for place, name in enumerate(inputs))
    values = {name: {"value": 1} for name in inputs}
    graph = letters(f"{text}; a = m {' '.join(inputs)}", "a", **values)
    (match,) = find(graph, pattern).matches
    assert [node.name for node in match.fused] == ["a", *inputs]
    assert [names(match, f"rest_{place}") for place in range(count)] == ["y" * (place % 2) for place in range(count)]
    assert names(match, f"first_{count - 1}") == "x"
    values[inputs[-1]] = {"value": 2}
    found = find(letters(f"{text}; a = m {' '.join(inputs)}", "a", **values), pattern)
    assert not found.matches
    assert [miss.why for miss in found.near_misses] == [f"value of each_{count - 1} does not fit"]


def test_numbered_names_are_never_two_names_at_once() -> None:
    pattern = Pattern(Entry("outer", "m", ("each+",)), Entry("each", "g", ("x", "x1", "*x_1")))
    inputs = [f"g{place}" for place in range(12)]
    graph = letters(f"p; q; {'; '.join(f'{name} = g p q' for name in inputs)}; a = m {' '.join(inputs)}", "a")
    (match,) = find(graph, pattern).matches
    assert (names(match, "x_10"), names(match, "x1_0"), names(match, "x_1_0")) == ("p", "q", "")


@pytest.mark.parametrize("text", ["x; b = g x; a = m b", "x; b = g x; a = m b b", "x; b = g x; a = m b x", "a = m"])
def test_one_input_is_not_each_of_several_nor_one_node_twice(text: str) -> None:
    pattern = Pattern(Entry("outer", "m", ("each+",)), Entry("each", "g"))
    found = find(letters(text, "a"), pattern)
    assert not found.matches
    assert not found.near_misses


def test_commutative_entries_match_in_any_order() -> None:
    one = Entry("one", "number", (), {"value": 1}, preserved=True)
    pattern = Pattern(Entry("op", "times", ("x", "one"), commutative=True), one)
    for text in ("x; n = number; a = times x n", "x; n = number; a = times n x"):
        (match,) = find(letters(text, "a", n={"value": 1}), pattern).matches
        assert names(match, "x") == "x"
    assert not find(letters("x; n = number; a = times x n", "a", n={"value": 2}), pattern).matches


def test_conditions_are_values_or_predicates() -> None:
    graph = letters("x; b = g x; a = f b", "a", b={"size": 3})
    for condition, fits in ((3, True), (4, False), (lambda size: size > 2, True), (lambda size: size > 3, False)):
        pattern = Pattern.chain("f", "g", config_patterns=[{}, {"size": condition}])
        assert bool(find(graph, pattern).matches) == fits


def test_an_array_is_a_setting_like_any_other() -> None:
    array, number = (Pattern(Entry("a", "f", config={"value": value})) for value in (np.ones(2), 1.0))
    for value, fits in ((np.ones(2), (True, False)), (np.zeros(2), (False, False)), (1.0, (False, True))):
        graph = letters("x; a = f x", "a", a={"value": value})
        assert (bool(find(graph, array).matches), bool(find(graph, number).matches)) == fits
    assert not find(letters("x; a = f x", "a", a={"value": np.ones(3)}), array).matches


@pytest.mark.parametrize("where", ["config", "facts"])
def test_a_missing_name_is_a_near_miss(where: str) -> None:
    graph = letters("x; a = f x; b = f a", "b", b={"n": 1})
    wanted: dict[str, Any] = {where: {"n": lambda n: n > 0}}
    matches, _, (miss,) = find(graph, Pattern(Entry("only", "f", ("x",), **wanted)))
    assert [match.root.name for match in matches] == ["b"]
    assert (miss.why, miss.detail) == ("only has no n", "a has no n")


def test_a_missing_sub_graph_is_a_near_miss() -> None:
    carried = letters("w", "w").view()
    graph = letters("x; a = f x; b = f a", "b").view(sub_graph=lambda node, _: carried if node.name == "b" else None)
    pattern = Pattern(Entry("sum", "f", ("x",), sub_patterns={"weight": Pattern(Entry("leaf", "w", ()))}))
    matches, _, (miss,) = find(graph, pattern)
    assert [match.root.name for match in matches] == ["b"]
    assert (miss.why, miss.detail) == ("sum has no weight", "a has no weight")
    assert not find(letters("x; a = f x", "a"), pattern).matches


def test_a_kind_may_be_one_of_several_or_any() -> None:
    graph = letters("x; b = g x; a = f b", "a")
    assert find(graph, Pattern.chain("f", ("h", "g"))).matches
    assert find(graph, Pattern(Entry("root", "f", ("inner",)), Entry("inner", None, ("x",)))).matches
    assert not find(graph, Pattern.chain("f", ("h", "k"))).matches


def test_is_output_asks_for_an_output() -> None:
    pattern = Pattern.chain("g", is_output=True)
    graph = letters("x; b = g x; a = g b", "a")
    (match,) = find(graph, pattern).matches
    assert match.root is graph.nodes["a"]


def test_a_kept_node_may_have_other_readers() -> None:
    pattern = Pattern(Entry("outer", "f", ("inner",)), Entry("inner", "g", ("x",), preserved=True))
    graph = letters("x; b = g x; a = f b; c = h b", "a", "c")
    (match,) = find(graph, pattern).matches
    assert [node.name for node in match.fused] == ["a"]


def test_sub_patterns_are_found_in_what_a_node_carries() -> None:
    carried = letters("w; s = softmax w", "s").view()
    inner = Pattern(Entry("soft", "softmax", ("logits",)), is_output=True)
    pattern = Pattern(Entry("sum", "f", ("x",), sub_patterns={"weight": inner}))
    graph = letters("x; a = f x", "a").view(sub_graph=lambda *_: carried)
    (match,) = find(graph, pattern).matches
    assert [one["logits"].name for one in match.sub_matches["sum"]["weight"]] == ["w"]
    assert match.sub_matches["sum"]["weight"][0].graph is carried
    other = Pattern(Entry("sum", "f", ("x",), sub_patterns={"weight": Pattern.chain("exp")}))
    assert not find(graph, other).matches


def test_all_matches_of_a_sub_pattern_are_kept() -> None:
    carried = letters("w; a = add w w; b = add a a; c = add b b; s = softmax c", "s").view()
    pattern = Pattern(Entry("sum", "f", ("x",), sub_patterns={"weight": Pattern.chain("add", "softmax")}))
    graph = letters("x; a = f x", "a").view(sub_graph=lambda *_: carried)
    assert not find(graph, pattern).matches
    adds = Pattern(Entry("outer", "add", ("inner", "inner")), Entry("inner", "add", ("x", "x")))
    (match,) = find(graph, Pattern(Entry("sum", "f", ("x",), sub_patterns={"weight": adds}))).matches
    found = match.sub_matches["sum"]["weight"]
    assert [(one["outer"].name, one["inner"].name) for one in found] == [("b", "a"), ("c", "b")]


def test_the_largest_match_wins_and_the_first_rule_under_the_other_strategy() -> None:
    graph = letters("x; c = h x; b = g c; a = f b", "a")
    small, large = Pattern.chain("f", "g"), Pattern.chain("f", "g", "h")
    assert [match.number for match in find(graph, small, large).matches] == [1]
    first = find(graph, small, large, strategy=OptMatchStrategy.FIRST_RULE)
    assert [match.number for match in first.matches] == [0]


def test_ties_go_to_the_first_rule_then_to_the_first_place() -> None:
    graph = letters("x; c = m x; b = m c; a = m b", "a")
    (match,) = find(graph, Pattern.chain("m", "m"), Pattern.chain("m", "m")).matches
    assert (match.number, match.root.name) == (0, "b")


def test_matches_do_not_overlap() -> None:
    graph = letters("x; d = m x; c = m d; b = m c; a = m b", "a")
    matches = find(graph, Pattern.chain("m", "m")).matches
    assert [[node.name for node in match.fused] for match in matches] == [["c", "d"], ["a", "b"]]


def test_what_a_match_looks_at_is_not_fused_by_another() -> None:
    looks = Pattern(Entry("outer", "f", ("inner",)), Entry("inner", "g", ("x",), preserved=True))
    fuses = Pattern.chain("g", "h")
    graph = letters("x; c = h x; b = g c; a = f b", "a")
    assert [match.number for match in find(graph, looks, fuses).matches] == [0]
    assert [match.number for match in find(graph, fuses, looks).matches] == [0]


def test_a_declined_match_is_a_near_miss_and_blocks_no_other() -> None:
    graph = letters("x; b = g x; a = f b", "a")
    conditions = [lambda match: f"too dear: {match.root.name}", None]
    matches, _, (miss,) = find(graph, CHAIN, Pattern.chain("f", "g"), conditions=conditions)
    assert [match.number for match in matches] == [1]
    assert (miss.number, miss.why, miss.detail) == (0, "too dear", "a: too dear: a")


def test_a_single_node_that_does_not_fit_is_no_near_miss() -> None:
    pattern = Pattern(Entry("op", "f", ("x",), {"n": 1}))
    assert find(letters("x; a = f x", "a", a={"n": 2}), pattern) == ([], {}, [])


def chain_matcher(node, pattern, inputs, readers) -> GraphOptMatch | None:
    """The algorithm of the seed, written anew: kinds in a chain, each node but the last with one input."""
    found = {}
    for place, entry in enumerate(pattern.entries):
        is_last = place == len(pattern.entries) - 1
        if node.kind != entry.kind or (not is_last and len(inputs(node)) != 1) or (place and len(readers(node)) != 1):
            return None
        found[entry.name] = node
        node = node if is_last else inputs(node)[0]
    return GraphOptMatch(pattern, found, {"inputs": tuple(inputs(node))})


def test_a_matching_function_of_ones_own() -> None:
    graph = letters("x; b = g x; a = f b; c = h a; d = g x; e = f d; i = h d", "c", "e", "i")
    view = graph.view()
    readers = consumers(view.nodes, view.inputs)
    arguments = ([CHAIN], view.inputs, readers.__getitem__, chain_matcher, OptMatchStrategy.LARGEST_MATCH)
    matches, by_root = match_optimization_patterns(iter(view.nodes), iter(view.outputs), *arguments)
    assert [(names(match, "n0"), names(match, "n1"), names(match, "inputs")) for match in matches] == [("a", "b", "x")]
    assert by_root == {graph.nodes["a"]: matches[0]}
    assert matches[0].graph.inputs(graph.nodes["a"]) == (graph.nodes["b"],)


def test_a_matching_function_of_ones_own_is_asked_for_outputs_alone_where_the_pattern_is() -> None:
    view = letters("x; a = f x; b = f a", "b").view()
    pattern = Pattern.chain("f", is_output=True)
    readers = consumers(view.nodes, view.inputs).__getitem__
    matches, _ = match_optimization_patterns(view.nodes, view.outputs, [pattern], view.inputs, readers, chain_matcher)
    assert [match.root.name for match in matches] == ["b"]


def test_a_matching_function_that_matches_another_node_is_refused() -> None:
    view = letters("x; b = g x; a = f b", "a").view()

    def wrong(node, pattern, inputs, readers):  # noqa: ARG001
        return GraphOptMatch(pattern, {"n0": view.nodes[0], "n1": node})

    with pytest.raises(GraphError, match="asked for n0 at b, and matched it with x"):
        match_optimization_patterns(view.nodes[1:], view.outputs, [CHAIN], view.inputs, view.inputs, wrong)


def test_a_matching_function_that_gives_something_else_is_refused() -> None:
    view = letters("x; b = g x; a = f b", "a").view()
    wrong: Any = lambda *_: []  # noqa: E731 - of a type that is refused
    with pytest.raises(GraphError, match=r"gives a GraphOptMatch, a NearMiss or None, found \[\]"):
        match_optimization_patterns(view.nodes, view.outputs, [CHAIN], view.inputs, view.inputs, wrong)


def test_a_strategy_of_ones_own_sees_all_matches_and_the_graph() -> None:
    graph = letters("x; d = m x; c = m d; b = m c; a = m b", "a")
    seen = []

    def last_first(matches, view, replacement):
        seen.append(([match.root.name for match in matches], view.outputs))
        with pytest.raises(GraphError, match="use a strategy that reads replacements in optimize_graph alone"):
            replacement(matches[0])
        return reversed(matches)

    found = find(graph, Pattern.chain("m", "m"), strategy=last_first)
    assert [match.root.name for match in found.matches] == ["c", "a"]
    assert seen == [(["c", "b", "a"], (graph.nodes["a"],))]
    assert not find(graph, Pattern.chain("m", "m"), strategy=lambda *_: ()).matches


def test_a_strategy_that_gives_what_was_not_found_is_refused() -> None:
    graph = letters("x; b = g x; a = f b", "a")
    foreign: GraphOptMatch[Any] = GraphOptMatch(CHAIN, {})
    with pytest.raises(GraphError, match="none of the 1 matches that it was given"):
        find(graph, CHAIN, strategy=lambda *_: [foreign])


def test_overlap_is_what_the_engine_leaves_out() -> None:
    graph = letters("x; d = m x; c = m d; b = m c; a = m b", "a")
    seen = []
    find(graph, Pattern.chain("m", "m"), strategy=lambda matches, *_: seen.extend(matches) or matches)
    by_root = {match.root.name: match for match in seen}
    pairs = {one + other: overlaps(by_root[one], by_root[other]) for one in "abc" for other in "abc"}
    assert [pair for pair, both in pairs.items() if not both] == ["ac", "ca"]


MALFORMED: Any = (
    ((), {}, "there are no entries"),
    ((Entry("a b", "f"),), {}, "'a b' is no name"),
    ((Entry("a", "f", ("b",)), Entry("b", "g", ("a",))), {}, "reverse topological order"),
    ((Entry("a", "f", ("a",)),), {}, "'a' reads 'a', which comes before it"),
    ((Entry("a", "f", ("b", "b")), Entry("b", "g"), Entry("b", "h")), {}, "two entries are called 'b'"),
    ((Entry("a", "f", ("x",)), Entry("b", "g")), {}, "no entry before 'b' reads it"),
    ((Entry("a", "f", ("*b",)), Entry("b", "g")), {}, "stands for one node"),
    ((Entry("a", "f", ("x", "*x")),), {}, "one input and also any number"),
    ((Entry("a", "f", ("x y",)),), {}, "'x y' of 'a' is no name"),
    ((Entry("a", "f", ("*x",), commutative=True),), {}, "commutative and variadic"),
    ((Entry("a", "f", preserved=True),), {}, "so that nothing is replaced"),
    ((Entry("a", "f", ("x", "b+")), Entry("b", "g")), {}, "all inputs of the root in order; name no other input"),
    ((Entry("a", "f", ("b",)), Entry("b", "g", ("c+",)), Entry("c", "h")), {}, "all inputs of the root in order"),
    ((Entry("b_0", "f", ("b+",)), Entry("b", "g")), {}, "give the root another name"),
    ((Entry("a", "f", ("b+",)),), {}, "nodes of the entry 'b'; list that entry alone after the root"),
    ((Entry("a", "f", ("b+",)), Entry("b", "g", ("c",)), Entry("c", "h")), {}, "list that entry alone after the root"),
    ((Entry("a", "f", sub_patterns={"w": "softmax"}),), {}, "sub-pattern 'w' of 'a' is str"),  # type: ignore[dict-item]
)


@pytest.mark.parametrize(("entries", "settings", "message"), MALFORMED, ids=[row[2] for row in MALFORMED])
def test_a_malformed_pattern_is_refused_when_it_is_declared(entries, settings, message) -> None:
    with pytest.raises(GraphError, match=message.replace("(", r"\(")):
        Pattern(*entries, **settings)


def test_a_class_as_a_value_is_refused_as_it_could_be_a_predicate() -> None:
    wanted: dict[str, Any]
    for where in ("config", "facts"):
        wanted = {where: {"dtype": int}}
        with pytest.raises(GraphError, match=r"'a' is compared with the class int, .* lambda value: value is int"):
            Pattern(Entry("a", "f", **wanted))
    graph = letters("x; a = f x", "a", a={"dtype": int})
    assert find(graph, Pattern(Entry("a", "f", config={"dtype": lambda dtype: dtype is int}))).matches


def test_a_chain_with_too_many_conditions_is_refused() -> None:
    with pytest.raises(GraphError, match=r"1 kind\(s\), but 2 config pattern"):
        Pattern.chain("f", config_patterns=[{}, {}])


def test_the_four_questions_have_answers() -> None:
    inner = Pattern.chain("softmax")
    pattern = Pattern.chain("f", "g", config_patterns=[{"n": 1}], sub_patterns=[{}, {"w": inner}], is_output=True)
    assert pattern.is_output
    assert [entry.kind for entry in pattern.entries] == ["f", "g"]
    assert pattern.config_patterns == ({"n": 1}, {})
    assert pattern.sub_patterns == ({}, {"w": inner})
    assert pattern.inputs == ("*inputs",)
