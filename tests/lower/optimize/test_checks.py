"""What is refused of rules: where they are declared, and where what they make does not fit."""

from typing import Any

import pytest

from plica.errors import GraphError
from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.ir.program import Equation, OpRef
from plica.lower.optimize import DEFAULT_RULES, Rules, optimize_circuit
from plica.ops import OPS
from plica.passes.forms import operation_form
from plica.rules.view import made
from plica.symbolic.layers import HadamardLayer, SumLayer
from plica.symbolic.parameters import (
    ExpParameter,
    SoftmaxParameter,
    normal,
)
from plica.symbolic.semirings import Law
from tests.harness.own_rules import HADAMARD, SQUARED, TIMES_ITSELF, compiled_with, gaussians, make_square, the_x


def rule(pattern: Pattern, laws: Any = ORDINARY, make: Any = the_x) -> Rule:
    return Rule("mine", "x -> x", pattern, make, laws=laws)


BAD: Any = [
    ("programs", rule(Pattern(Entry("a", "mutiply", ("x", "y")))), "no operation 'mutiply'; did you mean multiply"),
    ("programs", rule(Pattern(Entry("a", "zzzz", ("x",)))), "no operation 'zzzz'; docs/ir.md lists all of them"),
    (
        "programs",
        rule(Pattern(Entry("a", "softmax", ("x",), config={"axes": 1}))),
        "axes among the settings of softmax",
    ),
    ("programs", rule(Pattern(Entry("a", "exp", ("x", "y")))), r"exp has 1 input, but the pattern names 2 \(x, y\)"),
    ("programs", rule(Pattern(Entry("a", "multiply", ("x",)))), "multiply has 2 inputs, but the pattern names 1"),
    ("programs", rule(Pattern(Entry("a", "constant", ("x",)))), "constant has no inputs"),
    ("programs", rule(Pattern(Entry("a", SumLayer, ("x",)))), "wants 'a' to be SumLayer, .* name operations"),
    (
        "parameters",
        rule(Pattern(Entry("a", SumLayer, ("x",)))),
        "'a' to be SumLayer, .* parameter nodes, or operations",
    ),
    ("parameters", rule(Pattern(Entry("a", "expp", ("x",)))), "no operation 'expp'; did you mean exp"),
    ("fuse", rule(Pattern(Entry("a", ExpParameter, ("x",)))), "to be ExpParameter, .* patterns name classes of layers"),
    ("shatter", rule(Pattern(Entry("a", "multiply", ("x", "y")))), "to be 'multiply', .* name classes of layers"),
    ("fuse", rule(Pattern(Entry("a", HadamardLayer(2, 2), ("x",)))), "to be HadamardLayer"),
    ("fuse", rule(HADAMARD, laws={"associative"}), "'associative' is no law; there are Law.ASSOCIATIVE_SUM"),
    ("fuse", rule(HADAMARD, laws=Law.ONE), "its laws are <Law.ONE: '1 a = a'>; give a set of them"),
    ("programs", rule(TIMES_ITSELF, laws={Law.IDEMPOTENT_SUM}), r"needs a \+ a = a, which does not hold for ordinary"),
    ("parameters", rule(Pattern.chain(ExpParameter), laws={Law.SELECTIVE_SUM}), "does not hold for ordinary numbers"),
]


@pytest.mark.parametrize(("table", "bad", "message"), BAD, ids=[row[2][:30] for row in BAD])
def test_a_rule_that_its_table_cannot_apply_is_refused_where_it_is_declared(
    table: str, bad: Rule, message: str
) -> None:
    with pytest.raises(GraphError, match=f"rule mine in the table '{table}': .*{message}"):
        DEFAULT_RULES.adding(**{table: [bad]})


def test_a_table_that_there_is_not_is_refused() -> None:
    with pytest.raises(GraphError, match="no table 'program'; there are parameters, shatter, fuse, programs"):
        DEFAULT_RULES.adding(program=[SQUARED])


def test_one_name_for_rules_of_two_tables_is_refused() -> None:
    with pytest.raises(GraphError, match="two rules are called 'tucker'"):
        DEFAULT_RULES.adding(programs=[Rule("tucker", "x", TIMES_ITSELF, make_square, laws=ORDINARY)])


def test_a_rule_on_layers_whose_laws_the_algebra_lacks_is_left_out_like_a_built_in_one() -> None:
    mine = Rule("mine", "x * y -> x", HADAMARD, the_x, laws=frozenset({Law.IDEMPOTENT_SUM}))
    compiled = compiled_with(gaussians(), rules=DEFAULT_RULES.adding(fuse=[mine]))
    assert "left out: mine needs a + a = a, which the algebra real does not have" in compiled.explain()


def wrong(make: Any, pattern: Pattern) -> Rule:
    return Rule("wrong", "?", pattern, make, laws=ORDINARY)


def bare(op: str, *outputs: Any) -> Any:
    """A replacement by an equation that is made by hand."""
    return lambda match: Replacement.chain(
        [match["x"]], Equation(OpRef(op), (), outputs or match.root.outputs, {}, match.root.source)
    )


WRONG: Any = [
    (
        "programs",
        wrong(lambda match: made(match, "isnan", "x"), TIMES_ITSELF),
        r"multiply \w+:f32\[2,b,2\]: its replacement has type bool\[2,b,2\], but stands in place of f32\[2,b,2\]",
    ),
    ("programs", wrong(bare("squre"), TIMES_ITSELF), "no rule can make the operation 'squre'"),
    ("programs", wrong(bare("call"), TIMES_ITSELF), "no rule can make the operation 'call'"),
    ("programs", wrong(bare("softmax"), TIMES_ITSELF), "softmax does not take its operands: .*axis"),
    ("programs", wrong(bare("rescale"), TIMES_ITSELF), "rescale has 2 results; use operations of one result"),
    (
        "fuse",
        wrong(lambda match: Replacement.chain((match["x"], match["y"]), HadamardLayer(3, 2)), HADAMARD),
        r"HadamardLayer\(2.*it made HadamardLayer\(.*, which reads \[3, 3\] units, and gave it \[2, 2\]",
    ),
    (
        "fuse",
        wrong(lambda match: Replacement.chain((match["x"],), HadamardLayer(2, 2)), HADAMARD),
        r"which reads \[2, 2\] units, and gave it \[2\]",
    ),
    (
        "shatter",
        wrong(lambda match: Replacement.chain((match["x"],), SumLayer(2, 5)), HADAMARD),
        r"expected a replacement with 2 unit\(s\), found 5",
    ),
    (
        "fuse",
        wrong(lambda match: Replacement.by(match["x"]), HADAMARD),
        r"expected a replacement with \{0, 1\} as its scope, found \{0\}",
    ),
    (
        "fuse",
        wrong(lambda match: Replacement.chain((match["x"], match["y"]), SoftmaxParameter((2,))), HADAMARD),
        r"it made SoftmaxParameter\(.*, which is no layer",
    ),
    (
        "programs",
        wrong(lambda _: Replacement.chain((), 3.0), TIMES_ITSELF),
        "it made 3.0, which is no equation",
    ),
    (
        "fuse",
        wrong(lambda match: match["x"], HADAMARD),
        r"it gave GaussianLayer\(.*\); return Replacement.chain\(inputs",
    ),
]


@pytest.mark.parametrize(("table", "bad", "message"), WRONG, ids=[row[2][:30] for row in WRONG])
def test_a_replacement_that_does_not_fit_is_refused_by_the_name_of_its_rule(
    table: str, bad: Rule, message: str
) -> None:
    with pytest.raises(GraphError, match=rf"rule wrong at .*{message}"):
        compiled_with(gaussians(), rules=Rules().adding(**{table: [bad]}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda match: Replacement.chain((match["x"],), SoftmaxParameter((7,))), r"reads shapes \(\(7,\),\), and gave"),
        (
            lambda match: Replacement.chain((match["x"],), HadamardLayer(2, 1)),
            r"it made Hada.*, which is no node of a p",
        ),
        (
            lambda _: Replacement.chain((), normal((3,)).output),
            r"expected a replacement with \(1, 2\) as its shape, found \(3,\)",
        ),
    ],
)
def test_a_replacement_of_parameters_of_other_shapes_is_refused(make: Any, message: str) -> None:
    bad = wrong(make, Pattern(Entry("s", SoftmaxParameter, ("x",))))
    with pytest.raises(GraphError, match=f"rule wrong at SoftmaxParameter.*{message}"):
        optimize_circuit(gaussians(), Rules(parameters=(bad,)))


def test_an_operation_that_parameters_do_not_have_is_refused() -> None:
    bad = wrong(lambda match: made(match, "sin", "x"), Pattern(Entry("s", "softmax", ("x",))))
    with pytest.raises(GraphError, match="cannot make 'sin' of parameters; they make conj, exp"):
        optimize_circuit(gaussians(), Rules(parameters=(bad,)))


def test_what_is_no_rule_is_refused() -> None:
    bad: Any = "mine"
    with pytest.raises(GraphError, match="table 'fuse' has rules, found 'mine'"):
        Rules(fuse=(bad,))
    alone: Any = SQUARED
    with pytest.raises(GraphError, match=r"as a list: adding\(programs=\[...\]\)"):
        DEFAULT_RULES.adding(programs=alone)


def test_operations_tell_what_patterns_may_ask_of_them() -> None:
    for name, row in OPS.items():
        form = operation_form(name)
        assert form is not None
        for one in row.samples():
            assert form.least <= len(one.inputs) <= (len(one.inputs) if form.most is None else form.most), name
            assert form.config is None or form.config >= set(one.params), name
