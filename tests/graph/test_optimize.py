"""One pass of rules over a graph: entry and exit points, what is joined to what, what goes and what stays."""

from functools import partial
from typing import Any

import pytest

from plica.errors import GraphError
from plica.graph.optimize import ORDINARY, Replacement, Rule, optimize_graph
from plica.graph.pattern import Entry, Pattern
from plica.graph.view import GraphOptMatch
from tests.harness.graphs import Letter, Letters, letters

CHAIN = Pattern.chain("f", "g")


def fuse(match) -> Replacement:
    return Replacement.chain(match["inputs"], Letter(f"{match.root.name}'", "fg"))


FUSE = Rule("fuse", "f(g(x)) -> fg(x)", CHAIN, fuse, laws=ORDINARY)
CANCEL = Rule(
    "cancel",
    "f(g(x)) -> x",
    Pattern(Entry("outer", "f", ("inner",)), Entry("inner", "g", ("x",))),
    lambda match: Replacement.by(match["x"]),
    laws=ORDINARY,
)


def show(graph: Letters, *rules: Rule) -> str | None:
    """The graph after one pass as text: `a' = fg x; ...; outputs`."""
    result = optimize_graph(graph.view(), rules)
    if result is None:
        return None
    lines = [f"{node} = {' '.join([node.kind, *map(str, result.inputs[node])])}" for node in result.nodes]
    return "; ".join([*lines, "-> " + " ".join(map(str, result.outputs))])


def test_nothing_is_returned_where_nothing_matches() -> None:
    assert show(letters("x; a = f x", "a"), FUSE) is None
    assert show(letters("x; a = f x", "a")) is None


def test_the_replacement_reads_the_inputs_of_the_entry_and_stands_for_the_exit() -> None:
    graph = letters("x; b = g x; a = f b; c = h a x", "c")
    assert show(graph, FUSE) == "x = x; a' = fg x; c = h a' x; -> c"
    result = optimize_graph(graph.view(), [FUSE])
    (applied,) = result.applied
    assert result.entry_points[applied.match] is graph.nodes["b"]
    assert result.exit_points[applied.match].name == "a'"


def test_an_output_is_replaced_among_the_outputs() -> None:
    assert show(letters("x; b = g x; a = f b", "a", "a"), FUSE) == "x = x; a' = fg x; -> a' a'"


def test_one_match_reads_the_exit_of_another() -> None:
    graph = letters("x; d = g x; c = f d; b = g c; a = f b", "a")
    assert show(graph, FUSE) == "x = x; c' = fg x; a' = fg c'; -> a'"


def test_an_input_may_stand_for_a_match() -> None:
    graph = letters("x; b = g x; a = f b; c = h a a", "c", "a")
    assert show(graph, CANCEL) == "x = x; c = h x x; -> c x"


def test_cancelled_matches_in_a_row_lead_to_the_first_input() -> None:
    graph = letters("x; d = g x; c = f d; b = g c; a = f b", "a")
    assert show(graph, CANCEL) == "x = x; -> x"


def test_a_replacement_is_a_graph() -> None:
    def split(match) -> Replacement:
        left, right, joined = Letter("l", "left"), Letter("r", "right"), Letter("j", "join")
        x = match["x"]
        return Replacement(((left, (x,)), (right, (x, left)), (joined, (left, right))), joined)

    rule = Rule("split", "f(x) -> ...", Pattern(Entry("root", "f", ("x",))), split, laws=ORDINARY)
    assert show(letters("x; a = f x", "a"), rule) == "x = x; l = left x; r = right x l; j = join l r; -> j"


def test_a_kept_node_goes_only_when_nothing_reads_it_any_more() -> None:
    rule = Rule(
        "look",
        "f(g(x)) -> k(x)",
        Pattern(Entry("outer", "f", ("inner",)), Entry("inner", "g", ("x",), preserved=True)),
        lambda match: Replacement.chain([match["x"]], Letter("k", "k")),
        laws=ORDINARY,
    )
    assert show(letters("x; b = g x; a = f b", "a"), rule) == "x = x; k = k x; -> k"
    assert show(letters("x; b = g x; a = f b; c = h b", "a", "c"), rule) == "x = x; b = g x; k = k x; c = h b; -> k c"


def test_what_nothing_read_before_stays() -> None:
    assert show(letters("x; y; b = g x; a = f b; d = h y", "a"), FUSE) == "x = x; y = y; a' = fg x; d = h y; -> a'"


def test_the_graph_given_stays_as_it_is() -> None:
    graph = letters("x; b = g x; a = f b", "a")
    view = graph.view()
    optimize_graph(view, [FUSE])
    assert [node.name for node in view.nodes] == ["x", "b", "a"]
    assert view.inputs(graph.nodes["a"]) == (graph.nodes["b"],)


def test_a_replacement_that_reads_what_it_was_not_given_is_refused() -> None:
    other = Letter("other", "z")
    rule = Rule("bad", "f(g(x)) -> ?", CHAIN, lambda _: Replacement.chain([other], Letter("n", "n")), laws=ORDINARY)
    with pytest.raises(
        GraphError, match=r"rule bad at a: its replacement reads other, which .* inputs of the match are inputs"
    ):
        show(letters("x; b = g x; a = f b", "a"), rule)
    inner = Rule("bad", "f(g(x)) -> g", CHAIN, lambda match: Replacement.by(match["n1"]), laws=ORDINARY)
    with pytest.raises(GraphError, match="reads b"):
        show(letters("x; b = g x; a = f b", "a"), inner)


def fails(_: object) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("rule", "where"),
    [
        (Rule("bad", "f(g(x)) -> ?", CHAIN, fails, laws=ORDINARY), "in rule bad at a"),
        (Rule("bad", "f(g(x)) -> ?", CHAIN, fuse, fails, laws=ORDINARY), "in the search for bad at a"),
        (
            Rule("bad", "f -> ?", Pattern(Entry("f", "f", ("x",), config={"n": fails})), fuse, laws=ORDINARY),
            "in the search for bad at a",
        ),
    ],
    ids=["replacement", "condition", "predicate"],
)
def test_an_error_within_a_rule_names_the_rule_and_the_place(rule: Rule, where: str) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        show(letters("x; b = g x; a = f b", "a", a={"n": 1}), rule)
    assert caught.value.__notes__ == [where]


def test_a_strategy_that_gives_no_matches_at_all_is_refused() -> None:
    nothing: Any = lambda *_: None  # noqa: E731
    with pytest.raises(GraphError, match="a strategy gave None; return the matches"):
        optimize_graph(letters("x; b = g x; a = f b", "a").view(), [FUSE], nothing)


def test_near_misses_are_told() -> None:
    told = []
    graph = letters("x; b = g x; a = f b; c = h b", "a", "c")
    assert (
        optimize_graph(graph.view(), [FUSE], on_near_miss=lambda rule, miss: told.append((rule.name, miss.why))) is None
    )
    assert told == [("fuse", "an interior node has another consumer")]


def test_a_strategy_compares_what_would_stand_in_place_of_matches() -> None:
    made = []

    def build(match) -> Replacement:
        made.append(match.root.name)
        return fuse(match)

    def fewest(matches, view, replacement):  # noqa: ARG001
        return sorted(matches, key=lambda match: len(replacement(match).nodes))

    rules = [Rule("fuse", "f(g(x)) -> fg(x)", CHAIN, build, laws=ORDINARY), CANCEL]
    graph = letters("x; b = g x; a = f b", "a").view()
    result = optimize_graph(graph, rules, fewest)
    assert [one.rule.name for one in result.applied] == ["cancel"]
    assert [one.rule.name for one in optimize_graph(graph, rules).applied] == ["fuse"]
    assert made == ["a", "a"], "one replacement of each match in each pass"


def test_a_matching_function_of_ones_own_fuses_nothing_that_is_read() -> None:
    def careless(node, pattern, inputs, readers):  # noqa: ARG001
        (below,) = inputs(node)
        return GraphOptMatch(pattern, {"n0": node, "n1": below}, {"inputs": inputs(below)})

    misses = []
    graph = letters("x; b = g x; a = f b; c = h b; d = h x; e = f d", "a", "c", "e")
    result = optimize_graph(
        graph.view(), [FUSE], on_near_miss=lambda _, miss: misses.append(miss.detail), match_function=careless
    )
    assert [one.match.root.name for one in result.applied] == ["e"]
    assert misses == ["b is also read by c"]


def test_a_name_that_no_pattern_has_is_refused_where_a_match_is_asked_for_it() -> None:
    graph = letters("x; b = g x; a = f b", "a").view()
    for name in ("unknown", "*inputs"):
        rule = Rule("typo", "", CHAIN, partial(lambda name, match: match[name], name), laws=ORDINARY)
        with pytest.raises(GraphError, match=r"asked for '.*'; its entries are n0, n1, its inputs inputs \(asked for"):
            optimize_graph(graph, [rule])


def test_a_matching_function_of_ones_own_says_of_every_entry_which_node_it_is() -> None:
    graph = letters("x; b = g x; a = f b", "a").view()
    with pytest.raises(GraphError, match="matched n0 at a without saying which node 'n1' is"):
        optimize_graph(graph, [FUSE], match_function=lambda node, pattern, *_: GraphOptMatch(pattern, {"n0": node}))


def test_a_strategy_that_forgets_to_return_is_refused() -> None:
    graph = letters("x; b = g x; a = f b", "a").view()
    with pytest.raises(GraphError, match="a strategy gave None; return the matches to apply"):
        optimize_graph(graph, [FUSE], lambda *_: None)  # type: ignore[arg-type]  # the mistake


def test_a_deep_graph_is_no_recursion() -> None:
    text = "x; n0 = g x; " + "; ".join(f"n{i} = {'fg'[i % 2 == 0]} n{i - 1}" for i in range(1, 5000))
    result = optimize_graph(letters(text, "n4999").view(), [FUSE])
    assert len(result.nodes) == 2501
