"""Rules of users in the four tables: they fire beside the built-in ones, read their context, and end."""

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, GraphError
from plica.frontend.programs import verify
from plica.graph.limits import limit_reached
from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.graph.strategy import OptMatchStrategy
from plica.ir.dtypes import DType
from plica.ir.program import Literal
from plica.ir.types import ShapedArray, spec
from plica.lower.optimize import DEFAULT_RULES, Rules, optimize_circuit
from plica.passes.algebra import simplify
from plica.queries import sample
from plica.rules.view import made, view_of
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import GaussianLayer, HadamardLayer, InnerLayer, InputLayer, SumLayer
from plica.symbolic.parameters import (
    ExpParameter,
    Parameter,
    SoftmaxParameter,
    SumParameter,
    normal,
    softmax_normal,
)
from plica.symbolic.semirings import Law
from plica.tracing.trace import trace
from tests.harness.circuits import chain, coin
from tests.harness.own_rules import (
    HADAMARD,
    SQUARED,
    TIMES_ITSELF,
    compiled_with,
    gaussians,
    operations,
    the_x,
)

# They fire


def test_a_rule_on_programs_fires_beside_the_built_in_ones_and_changes_no_number() -> None:
    x = torch.randn(5, 2)
    x[0, 0] = torch.nan
    rules = DEFAULT_RULES.adding(programs=[SQUARED])
    circuit = gaussians()
    plain, mine = compiled_with(circuit), compiled_with(circuit, rules=rules)
    assert "square" not in operations(plain)
    assert operations(mine).count("square") == 1
    assert len(operations(mine)) == len(operations(plain))
    torch.testing.assert_close(mine(x), plain(x))
    verify(mine.program)
    assert "square" not in operations(compiled_with(circuit, rules=rules, optimize=False))


def test_built_in_rules_on_programs_may_be_left_out() -> None:
    circuit = gaussians(Parameter.from_unary(ExpParameter((1, 2)), normal((1, 2))))
    bare = compiled_with(circuit, rules=Rules())
    plain = compiled_with(circuit)
    x = torch.randn(3, 2)
    torch.testing.assert_close(bare(x), plain(x))
    assert len(operations(bare)) >= len(operations(plain))


def test_a_rule_on_programs_is_applied_for_every_dtype_of_data() -> None:
    compiled = compiled_with(gaussians(), rules=DEFAULT_RULES.adding(programs=[SQUARED]))
    for dtype in (torch.float32, torch.float64):
        names = [equation.op.name for equation in compiled.lowered(dtype).program.equations]
        assert names.count("square") == 1


def one_negation(match: Any) -> Any:
    """-(x) - c -> -(x + c)."""
    x, c, make = match["x"], match["c"], view_of(match).make
    return Replacement.chain((x, c), make(match.root, "add", (x, c), {}), make(match.root, "negative", (), {}))


def test_a_replacement_of_several_equations_gets_variables_of_its_own() -> None:
    pattern = Pattern(Entry("outer", "subtract", ("inner", "c")), Entry("inner", "negative", ("x",)))
    rule = Rule("one-negation", "-x - c -> -(x + c)", pattern, one_negation, laws=ORDINARY)
    compiled = compiled_with(gaussians(), rules=DEFAULT_RULES.adding(programs=[rule]))
    verify(compiled.program)
    names = operations(compiled)
    assert names.index("negative", names.index("log")) == names.index("log") + 2
    assert "subtract" not in names[names.index("log") :]
    x = torch.randn(4, 2)
    torch.testing.assert_close(compiled(x), compiled_with(compiled.symbolic)(x))


def test_a_literal_may_be_part_of_a_replacement() -> None:
    def twice(match: Any) -> Any:
        two = Literal(2.0, ShapedArray((), DType.FLOAT64))
        new = view_of(match).make(match.root, "multiply", (match["x"], two), {})
        return Replacement(((two, ()), (new, (match["x"], two))), new)

    rule = Rule("twice", "x + x -> 2 x", Pattern(Entry("sum", "add", ("x", "x"))), twice, laws=ORDINARY)
    program = simplify(trace(lambda x: x + x, spec(("n",), "float64")), [rule])
    verify(program)
    (equation,) = program.equations
    assert (equation.op.name, equation.inputs[1].value) == ("multiply", 2.0)


@pytest.mark.parametrize("table", ["parameters", "shatter", "fuse"])
def test_a_rule_in_each_table_of_the_circuit_fires(table: str) -> None:
    swapped = {name: rule for name, rule in LOOPS.items() if name == table}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = compiled_with(loops_circuit(), rules=DEFAULT_RULES.adding(**{table: [swapped[table]]}), max_steps=1)
    assert f"{table} swap-{table}" in compiled.explain()


def test_the_strategy_of_a_context_chooses() -> None:
    seen = []

    def watching(matches, graph, replacement):
        seen.append((len(matches), type(graph.nodes[0]).__name__))
        return OptMatchStrategy.LARGEST_MATCH(matches, graph, replacement)

    circuit = chain(coin([0], 2), HadamardLayer(2, 1), SumLayer(2, 2))
    compiled = compiled_with(circuit, strategy=watching)
    assert "one-factor" in compiled.explain()
    assert any(kind == "CategoricalLayer" for _, kind in seen), "it is asked for layers"
    assert any(kind in ("Var", "Literal") for _, kind in seen), "and for equations"
    idle = compiled_with(circuit, strategy=lambda *_: ())
    assert "no rule matched" in idle.explain()
    assert "one-factor" not in idle.explain()


def test_max_steps_zero_applies_no_rule() -> None:
    circuit = chain(coin([0], 2), HadamardLayer(2, 1), SumLayer(2, 2))
    with pytest.warns(UserWarning, match=r"the limit of 0 step\(s\) was reached"):
        compiled = compiled_with(circuit, max_steps=0)
    assert "one-factor" not in compiled.explain()
    assert len(operations(compiled)) >= len(operations(compiled_with(circuit)))


# They read the context


def test_a_rule_reads_the_device_the_dtype_and_the_algebra_that_it_is_applied_in() -> None:
    seen: dict[str, list[tuple[str, str, str]]] = {"programs": [], "parameters": [], "fuse": []}

    def told(table: str) -> Any:
        def condition(match: Any) -> str:
            context = match.context
            seen[table].append((context.device, context.dtype.value, context.algebra.name))
            return "it only looks"

        return condition

    rules = DEFAULT_RULES.adding(
        programs=[Rule("p", "x -> x", TIMES_ITSELF, the_x, told("programs"), laws=ORDINARY)],
        parameters=[
            Rule("q", "x -> x", Pattern(Entry("s", SoftmaxParameter, ("x",))), the_x, told("parameters"), laws=ORDINARY)
        ],
        fuse=[Rule("f", "x -> x", Pattern(Entry("s", SumLayer, ("x",))), the_x, told("fuse"), laws=ORDINARY)],
    )
    compiled_with(gaussians(), rules=rules, dtype="float64", semiring="lse-sum")
    assert {table: set(found) for table, found in seen.items()} == {
        table: {("cpu", "float64", "real")} for table in seen
    }
    with torch.device("meta"):
        compiled_with(gaussians(), rules=rules, dtype="float32", semiring="max-sum")
    assert {found[-1] for found in seen.values()} == {("meta", "float32", "max-product")}


def test_a_rule_on_programs_is_asked_for_the_programs_of_queries() -> None:
    seen = []

    def told(match: Any) -> str:
        seen.append(match.root.op.name)
        return "it only looks"

    looks = Rule("looks", "softmax(x)", Pattern(Entry("s", "softmax", ("x",))), the_x, told, laws=ORDINARY)
    compiled = compiled_with(gaussians(), rules=DEFAULT_RULES.adding(programs=[looks]))
    scored = len(seen)
    sample(compiled, 2, seed=0)
    assert 0 < scored < len(seen)


# What they nearly match is told


def test_names_that_a_node_lacks_are_near_misses_in_the_report() -> None:
    circuit = chain(coin([0], 2), HadamardLayer(2, 1), SumLayer(2, 2))
    softmax = Pattern(Entry("softmax", SoftmaxParameter, ("x",)))
    mine = [
        Pattern(Entry("leaf", InputLayer, ("*none",), sub_patterns={"probabilities": softmax})),
        Pattern(Entry("inner", InnerLayer, ("x",), config={"depth": 1})),
        Pattern(Entry("inner", InnerLayer, ("x",), facts={"depth": 1})),
    ]
    rules = Rules(fuse=tuple(Rule(f"mine{n}", "x -> x", one, the_x, laws=ORDINARY) for n, one in enumerate(mine)))
    report = optimize_circuit(circuit, rules).report
    assert [(one.rule, one.why, len(one.details)) for one in report.missed] == [
        ("mine0", "leaf has no probabilities", 1),
        ("mine1", "inner has no depth", 2),
        ("mine2", "inner has no depth", 2),
    ]
    assert "HadamardLayer(1, arity=1, 2 -> 2) has no depth" in report.text()


# They end


def swap_layers(match: Any) -> Any:
    return Replacement.chain((match["y"], match["x"]), HadamardLayer(2, 2))


def swap_terms(match: Any) -> Any:
    return Replacement.chain((match["y"], match["x"]), SumParameter(*reversed(match.root.in_shapes)))


LOOPS = {
    "parameters": Rule(
        "swap-parameters", "x + y -> y + x", Pattern(Entry("s", SumParameter, ("x", "y"))), swap_terms, laws=ORDINARY
    ),
    "shatter": Rule("swap-shatter", "x * y -> y * x", HADAMARD, swap_layers, laws=ORDINARY),
    "fuse": Rule("swap-fuse", "x * y -> y * x", HADAMARD, swap_layers, laws=frozenset({Law.COMMUTATIVE_PRODUCT})),
    "programs": Rule(
        "swap-programs",
        "x + y -> y + x",
        Pattern(Entry("s", "add", ("x", "y"))),
        lambda match: made(match, "add", "y", "x"),
        laws=ORDINARY,
    ),
}


def loops_circuit() -> Circuit:
    """A circuit with a sum of parameters, a product of two layers, and an addition in its Program."""
    terms = Parameter.from_binary(SumParameter((2, 2), (2, 2)), softmax_normal((2, 2)), softmax_normal((2, 2)))
    leaves = [GaussianLayer([variable], 2) for variable in range(2)]
    product, total, other = HadamardLayer(2, 2), SumLayer(2, 2, weight=terms), SumLayer(2, 2)
    edges: dict[Any, Any] = {product: leaves, total: [product], other: [product]}
    return Circuit([*leaves, *edges], edges, [total, other])


@pytest.mark.parametrize("table", list(LOOPS))
def test_a_rule_that_loops_for_ever_ends_by_the_step_limit_with_a_message_that_names_it(table: str) -> None:
    circuit = loops_circuit()
    x = torch.randn(3, 2)
    rules = DEFAULT_RULES.adding(**{table: [LOOPS[table]]})
    message = (
        rf"the limit of 7 step\(s\) was reached while swap-{table} still fired\. The result is right\. If a rule undoes"
    )
    with pytest.warns(UserWarning, match=message):
        compiled = compiled_with(circuit, rules=rules, max_steps=7)
    torch.testing.assert_close(compiled(x), compiled_with(circuit)(x))
    if table != "programs":
        report = optimize_circuit(circuit, rules, max_steps=7).report
        assert report.steps == 7
        assert report.text().splitlines()[0].endswith(f"while swap-{table} still fired")
        assert f"swap-{table} still fired" in compiled.explain()


def test_a_rule_that_grows_the_graph_ends_before_the_step_limit() -> None:
    def doubled(match: Any) -> Any:
        x, make = match["x"], view_of(match).make
        inner = make(match.root, "negative", (), {})
        outer, last = make(match.root, "negative", (), {}), make(match.root, "negative", (), {})
        return Replacement(((inner, (x,)), (outer, (inner,)), (last, (outer,))), last)

    rule = Rule("more", "-x -> ---x", Pattern(Entry("n", "negative", ("x",))), doubled, laws=ORDINARY)
    program = trace(lambda x: -x, spec(3))
    with pytest.warns(UserWarning, match=r"the graph had grown from 1 to 2,187 nodes in 7 step\(s\) while more still"):
        assert len(simplify(program, [rule]).equations) == 2187


def test_limits() -> None:
    assert limit_reached(1, 2, before=1, now=1, fired=["a"]) is None
    assert limit_reached(2, 2, before=1, now=1, fired=["a", "b", "a"]) == (
        "the limit of 2 step(s) was reached while a, b still fired"
    )
    assert limit_reached(1, 9, before=1, now=1101, fired=["a"]) == (
        "the graph had grown from 1 to 1,101 nodes in 1 step(s) while a still fired"
    )


def test_a_compiled_circuit_with_rules_of_ones_own_pickles_and_copies() -> None:
    x = torch.randn(3, 2)
    compiled = TorchCompiler(rules=DEFAULT_RULES.adding(programs=[SQUARED])).compile(gaussians())
    for other in (pickle.loads(pickle.dumps(compiled)), copy.deepcopy(compiled)):
        torch.testing.assert_close(other(x), compiled(x))
        assert operations(other) == operations(compiled)


def test_a_traced_function_is_cleaned_by_the_built_in_rules_alone() -> None:
    program = trace(lambda x: x * x, spec(3))
    assert [equation.op.name for equation in simplify(program, [SQUARED]).equations][-1] == "square"
    assert simplify(program) is program


def test_one_node_in_several_places_of_a_rule_is_refused() -> None:
    softmax = SoftmaxParameter((1, 2))  # one object for the weights of both sums

    def again(match: Any) -> Replacement[Any]:
        return Replacement.chain([match["x"]], softmax)

    def not_yet(match: Any) -> str | None:
        return "it is done" if match["softmax"] is softmax else None

    rule = Rule(
        "again",
        "softmax(x) -> softmax(x)",
        Pattern(Entry("softmax", SoftmaxParameter, ("x",))),
        again,
        not_yet,
        laws=ORDINARY,
    )
    inputs = [GaussianLayer([v], 2) for v in range(2)]
    sums = [SumLayer(2, 1) for _ in inputs]
    circuit = Circuit([*inputs, *sums], {total: [one] for total, one in zip(sums, inputs, strict=True)}, sums)
    with pytest.raises(GraphError, match=r"rule again at SoftmaxParameter.*is already used elsewhere"):
        optimize_circuit(circuit, DEFAULT_RULES.adding(parameters=[rule]))
    halves = Parameter.from_binary(SumParameter((1, 2), (1, 2)), softmax_normal((1, 2)), softmax_normal((1, 2)))
    both = SumLayer(2, 1, weight=halves)
    with pytest.raises(GraphError, match=r"rule again at SoftmaxParameter.*is already used elsewhere"):
        optimize_circuit(
            Circuit([inputs[0], both], {both: inputs[:1]}, [both]), DEFAULT_RULES.adding(parameters=[rule])
        )


@pytest.mark.parametrize("answer", [True, False])
def test_a_condition_that_answers_yes_or_no_is_refused(answer: bool) -> None:
    pattern = Pattern(Entry("softmax", SoftmaxParameter, ("x",)))
    rule = Rule("yes", "x -> x", pattern, lambda match: Replacement.by(match["x"]), lambda _: answer, laws=ORDINARY)  # type: ignore[arg-type,return-value]
    with pytest.raises(GraphError, match=f"gave {answer}; return None where the rule may be applied"):
        optimize_circuit(chain(GaussianLayer([0], 2), SumLayer(2, 1)), DEFAULT_RULES.adding(parameters=[rule]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rules": [1]}, "rules must be tables"),
        ({"strategy": "largest match"}, "strategy must be a function"),
        ({"max_steps": None}, "max_steps must be a whole number"),
        ({"max_steps": -1}, "max_steps must be a whole number"),
        ({"max_steps": 2.5}, "max_steps must be a whole number"),
    ],
)
def test_arguments_of_another_kind_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        TorchCompiler(**settings)


def test_patterns_that_mix_up_layers_and_parameters_or_names_and_letters_are_refused() -> None:
    wrong = Pattern(Entry("sum", SumLayer, ("x",), sub_patterns={"weight": Pattern(Entry("inner", SumLayer, ("y",)))}))
    rule = Rule("never", "x -> x", wrong, lambda match: Replacement.by(match["x"]), laws=ORDINARY)
    with pytest.raises(GraphError, match=r"'inner' to be SumLayer, but in a parameter patterns name classes of param"):
        DEFAULT_RULES.adding(fuse=[rule])
    with pytest.raises(GraphError, match="the inputs of 'product' are the text 'xy'; give a tuple of names"):
        Pattern(Entry("product", HadamardLayer, "xy"))  # type: ignore[arg-type]
