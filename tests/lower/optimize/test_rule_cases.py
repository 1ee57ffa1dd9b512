"""Every rule of the optimizer by its cases: it fires and changes no number, and near misses stay as they are."""

from dataclasses import replace

import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.lower.optimize import DEFAULT_RULES, Rules, optimize_circuit
from plica.symbolic.semirings import SEMIRINGS, Semiring
from tests.harness.circuits import data
from tests.harness.rewrites import assert_same, fired, missed, only
from tests.harness.rule_cases import RULE_CASES
from tests.harness.rule_cases.case import BOTH, RuleCase
from tests.harness.together import grouped

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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", FIRES, ids=str)
def test_a_rule_fires_and_changes_no_number(case: RuleCase) -> None:
    circuit = case.build()
    for semiring in case.semirings:
        row = Semiring.from_name(semiring)
        alone = optimize_circuit(circuit, only(case.rule), semiring=row)
        assert set(fired(alone)) == {case.rule}
        together = optimize_circuit(circuit, semiring=row)
        assert case.rule in fired(together)
        assert_same(circuit, alone, together, semiring=semiring)


@grouped("case", STAYS, ids=str)
def test_a_near_miss_stays(case: RuleCase) -> None:
    circuit = case.build()
    for semiring in case.semirings:
        optimized = optimize_circuit(circuit, only(case.rule), semiring=Semiring.from_name(semiring))
        assert optimized.circuit is circuit
        assert case.why in missed(optimized).get(case.rule, "")


OTHERS = [row for row in SEMIRINGS.values() if row.algebra.name != "real"]
LAYER_RULES = [rule.name for rule in DEFAULT_RULES.on_layers]


OF_LAYERS = [case for case in FIRES if case.rule in LAYER_RULES and case.semirings == BOTH]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "case",
    [
        # the first of each rule, and every third
        pytest.param(
            case,
            marks=pytest.mark.full if place % 3 and case.rule in {one.rule for one in OF_LAYERS[:place]} else [],
        )
        for place, case in enumerate(OF_LAYERS)
    ],
    ids=str,
)
def test_a_rule_holds_in_every_algebra_that_grants_its_laws(case: RuleCase) -> None:
    circuit, found = case.build(), 0
    x = torch.from_numpy(data(circuit, 5))
    for row in OTHERS:
        alone = optimize_circuit(circuit, only(case.rule), semiring=row)
        assert fired(alone).keys() <= {case.rule}
        assert bool(fired(alone)) != bool(alone.report.left_out)
        torch.manual_seed(0)
        compiler = TorchCompiler(row.name, optimize=False, dtype="float64")
        before, after = compiler.compile(circuit), compiler.compile(alone.circuit)
        torch.testing.assert_close(after(x), before(x), rtol=1e-9, atol=1e-9)
        found += bool(fired(alone))
    assert found, "boolean grants all that rules need"
