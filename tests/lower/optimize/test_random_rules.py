"""Rules of a user that are right, together with Plica's or alone: no value changes, whatever the strategy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from plica.frontend.contexts import PipelineContext
from plica.graph.optimize import ORDINARY, Replacement, Rule
from plica.graph.pattern import Entry, Pattern
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.lower.optimize import DEFAULT_RULES, Rules, cost_guided
from plica.rules.view import made, view_of
from plica.symbolic.layers import HadamardLayer, SumLayer
from plica.symbolic.parameters import ExpParameter, LogParameter, LogSoftmaxParameter, Parameter, SoftmaxParameter
from tests.harness.random_circuits import draw_circuit

pytestmark = pytest.mark.filterwarnings("ignore:optimizing stopped")  # most of these rules undo themselves
DENSE = {"mixing": False}


def rule(name: str, entry: Entry, make: Any) -> Rule:
    return Rule(f"own {name}", name, Pattern(entry), make, laws=ORDINARY)


def left_first(match: Any) -> Replacement[Any]:
    """`(x * y) * z` for `x * y * z`."""
    first, second = HadamardLayer(match.root.num_input_units, 2), HadamardLayer(match.root.num_input_units, 2)
    return Replacement(((first, (match["x"], match["y"])), (second, (first, match["z"]))), second)


def of_exp_log(match: Any) -> Replacement[Any]:
    """The sum whose weight is the exponential of its logarithm."""
    root, shape = match.root, match.root.weight.shape
    weight = Parameter.from_sequence(root.weight, LogParameter(shape), ExpParameter(shape))
    return Replacement.chain(match["x"], SumLayer(root.num_input_units, root.num_output_units, root.arity, weight))


def under_one_factor(match: Any) -> Replacement[Any]:
    new = match.root.with_params(match.root.params)
    return Replacement.chain(match["x"], new, HadamardLayer(match.root.num_output_units, 1))


def of_log_softmax(match: Any) -> Replacement[Any]:
    root = match.root
    return Replacement.chain([match["x"]], LogSoftmaxParameter(root.in_shape, axis=root.axis), ExpParameter(root.shape))


def two(match: Any, *steps: tuple[str, Sequence[Any], dict[str, Any]]) -> Replacement[Any]:
    """Two operations, the second of which reads the first after its own inputs."""
    make = view_of(match).make
    first, second = (make(match.root, name, inputs, settings) for name, inputs, settings in steps)
    return Replacement(((first, tuple(steps[0][1])), (second, (*steps[1][1], first))), second)


RULES = {
    "fuse": [
        rule(
            "y * x",
            Entry("product", HadamardLayer, ("x", "y")),
            lambda match: Replacement.chain([match["y"], match["x"]], HadamardLayer(match.root.num_input_units, 2)),
        ),
        rule("(x * y) * z", Entry("product", HadamardLayer, ("x", "y", "z")), left_first),
        rule("exp(log(W)) x", Entry("sum", SumLayer, ("*x",), facts=DENSE), of_exp_log),
        rule("product(W x)", Entry("sum", SumLayer, ("*x",)), under_one_factor),
    ],
    "parameters": [
        rule("exp(log_softmax)", Entry("softmax", SoftmaxParameter, ("x",)), of_log_softmax),
        rule("b a", Entry("product", "multiply", ("x", "y")), lambda match: made(match, "multiply", "y", "x")),
        rule("b + a", Entry("sum", "add", ("x", "y")), lambda match: made(match, "add", "y", "x")),
        rule("a a", Entry("square", "square", ("x",)), lambda match: made(match, "multiply", "x", "x")),
    ],
    "programs": [
        rule("y x", Entry("product", "multiply", ("x", "y")), lambda match: made(match, "multiply", "y", "x")),
        rule("y + x", Entry("sum", "add", ("x", "y")), lambda match: made(match, "add", "y", "x")),
        rule(
            "exp of log_softmax",
            Entry("softmax", "softmax", ("x",)),
            lambda match: two(match, ("log_softmax", [match["x"]], match.root.params), ("exp", [], {})),
        ),
        rule(
            "x + -y",
            Entry("difference", "subtract", ("x", "y")),
            lambda match: two(match, ("negative", [match["y"]], {}), ("add", [match["x"]], {})),
        ),
    ],
}
STRATEGIES: tuple[Strategy, ...] = (OptMatchStrategy.LARGEST_MATCH, OptMatchStrategy.FIRST_RULE, cost_guided)


def fired_without_change(seed: int) -> set[str]:
    """Which rules of the user fired."""
    draw, rng = draw_circuit("mild", seed), np.random.default_rng([seed, 9])
    tables = {name: [one for one in rules if rng.random() < 0.5] for name, rules in RULES.items()}
    rules = (DEFAULT_RULES if rng.random() < 0.7 else Rules()).adding(**tables)
    options: dict[str, Any] = {"max_steps": int(rng.integers(1, 6)), "fold": bool(rng.integers(2))}
    strategy = STRATEGIES[rng.integers(len(STRATEGIES))]
    plain = PipelineContext(dtype=torch.float64, optimize=False).compile(draw.circuit)
    compiled = PipelineContext(dtype=torch.float64, rules=rules, strategy=strategy, **options).compile(draw.circuit)
    compiled.load_state_dict(plain.state_dict())
    torch.testing.assert_close(compiled(draw.x), plain(draw.x), rtol=1e-9, atol=1e-9, equal_nan=True)
    report = compiled.explain()
    return {one.name for table in tables.values() for one in table if one.name in report}


def test_right_rules_change_no_value() -> None:
    fired = set().union(*(fired_without_change(seed) for seed in range(14)))
    assert len(fired) >= 8


@pytest.mark.full
def test_right_rules_change_no_value_of_many_circuits() -> None:
    for seed in range(1000, 1300):
        fired_without_change(seed)
