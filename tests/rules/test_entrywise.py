"""The one table of entrywise rules: what its patterns name exists, and both graphs take all that they can."""

import pytest

from plica.graph.optimize import Rule, optimize_graph
from plica.lower.optimize.parameters import OPERATIONS, PARAMETER_RULES, parameter_view
from plica.ops import OPS
from plica.passes.algebra import ALGEBRA
from plica.rules.entrywise import ENTRYWISE
from plica.rules.view import CONSTANT, of_graph_with
from plica.symbolic import parameters
from plica.symbolic.parameters import ExpParameter, LogParameter, Parameter, ParameterOp, normal


def kinds(rule: Rule) -> list[str]:
    """What the pattern of a rule names."""
    found = [entry.kind for entry in rule.pattern.entries]
    return [str(one) for kind in found for one in (kind if isinstance(kind, tuple) else (kind,))]


@pytest.mark.parametrize("rule", ENTRYWISE, ids=lambda rule: rule.name)
def test_patterns_name_operations_and_constants(rule: Rule) -> None:
    assert all(kind in OPS or kind == CONSTANT for kind in kinds(rule))


def test_programs_have_all_rules_and_parameters_those_on_operations_that_they_have() -> None:
    """The rows themselves, not copies of them."""
    assert set(ENTRYWISE) <= set(ALGEBRA)
    mine = [rule for rule in ENTRYWISE if rule in PARAMETER_RULES]
    assert [rule.name for rule in mine] == [
        "log-softmax",
        "exp-log-softmax",
        "log-exp",
        "exp-log",
        "times-one",
        "plus-zero",
    ]
    assert not of_graph_with(ENTRYWISE, {"exp": None})
    assert [rule.name for rule in of_graph_with(ENTRYWISE, {"exp": None, "log": None})] == ["log-exp", "exp-log"]


def test_parameters_that_are_operations_are_known_by_their_names() -> None:
    classes = [one for one in vars(parameters).values() if isinstance(one, type) and issubclass(one, ParameterOp)]
    named = [one for one in classes if one.operation is not None]
    assert {one.operation: one for one in named} == OPERATIONS
    assert len(named) == len(OPERATIONS)
    assert all(name in OPS for name in OPERATIONS)


def test_a_rule_of_ones_own_may_name_classes_and_operations() -> None:
    parameter = Parameter.from_sequence(normal((2, 3)), ExpParameter((2, 3)), LogParameter((2, 3)))
    view = parameter_view(parameter)
    assert [view.fits(ExpParameter, one) for one in ("exp", "log", ExpParameter, LogParameter, CONSTANT)] == [
        True,
        False,
        True,
        False,
        False,
    ]
    result = optimize_graph(view, ENTRYWISE)
    assert result is not None
    assert result.nodes == (parameter.nodes[0],)
