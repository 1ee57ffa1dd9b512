"""Every rule of the optimiser by its cases: it fires and changes no number, and near misses stay as they are."""

from dataclasses import replace

import pytest

from plica.lower.optimize import DEFAULT_RULES, Rules, optimize_circuit
from plica.symbolic.semirings import Semiring
from tests.harness.rewrites import assert_same, fired, missed, only
from tests.harness.rule_cases import RULE_CASES, RuleCase

FIRES = [case for case in RULE_CASES if not case.near]
STAYS = [case for case in RULE_CASES if case.near]


def lacking(rules: Rules) -> dict[str, list[str]]:
    """What rules lack: a case, a near miss, an equation or a source."""
    found = {}
    for rule in (*rules.parameters, *rules.shatter, *rules.fuse):
        has = {
            "case": any(case.rule == rule.name for case in FIRES),
            "near miss": any(case.rule == rule.name for case in STAYS),
            "equation": bool(rule.equation),
            "source": bool(rule.source),
        }
        if not all(has.values()):
            found[rule.name] = [what for what, there in has.items() if not there]
    return found


def test_every_rule_has_a_case_a_near_miss_an_equation_and_a_source() -> None:
    assert not lacking(DEFAULT_RULES)
    names = {rule.name for rule in (*DEFAULT_RULES.parameters, *DEFAULT_RULES.shatter, *DEFAULT_RULES.fuse)}
    assert {case.rule for case in RULE_CASES} == names


def test_a_rule_without_a_case_is_found() -> None:
    (tucker,) = only("tucker").fuse
    mine = replace(tucker, name="mine", source="")
    assert lacking(Rules(fuse=(tucker, mine))) == {"mine": ["case", "near miss", "source"]}


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_a_rule_fires_and_changes_no_number(case: RuleCase) -> None:
    circuit = case.build()
    for semiring in case.semirings:
        row = Semiring.from_name(semiring)
        alone = optimize_circuit(circuit, only(case.rule), semiring=row)
        assert set(fired(alone)) == {case.rule}
        assert_same(circuit, alone, semiring=semiring)
        together = optimize_circuit(circuit, semiring=row)
        assert case.rule in fired(together)
        assert_same(circuit, together, semiring=semiring)


@pytest.mark.parametrize("case", STAYS, ids=str)
def test_a_near_miss_stays(case: RuleCase) -> None:
    circuit = case.build()
    for semiring in case.semirings:
        optimized = optimize_circuit(circuit, only(case.rule), semiring=Semiring.from_name(semiring))
        assert optimized.circuit is circuit
        assert case.why in missed(optimized).get(case.rule, "")
