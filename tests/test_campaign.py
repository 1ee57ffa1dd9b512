"""Random circuits at the corners of what can be described: compiled ones against the oracle, in values and gradients.

A failing draw is shown with what to run to see it alone: `python -m tests.harness.comparison FAMILY SEED`.
"""

from collections import Counter
from typing import Any

import pytest
import torch

from plica.backend.torch import circuits as torch_circuits
from plica.lower.optimize import DEFAULT_RULES, optimize_circuit
from plica.symbolic.layers import InputLayer, KroneckerLayer, SumLayer
from plica.symbolic.semirings import LSE_SUM
from tests.harness.comparison import WAYS, Way, compare, compare_algebras, some_ways
from tests.harness.random_circuits import FAMILIES, draw_circuit

DRAWS = 12  # of a family: each way of compiling once, or three ways of each under `make test-all`
UNUSUAL = ("kronecker-tensor-dot", "sparse-sum")  # which need three factors, or wide constants that are mostly zeros
FAMILY = pytest.mark.parametrize("family", FAMILIES)


def check(family: str, seeds: range, ways: int) -> None:
    failed = {}
    for seed in seeds:
        draw = draw_circuit(family, seed)
        if failures := compare(draw, some_ways(draw, ways)):
            failed[seed] = failures
    shown = "\n".join(line for failures in list(failed.values())[:4] for line in failures[:2])
    assert not failed, f"seeds {list(failed)} of {family!r} fail\n{shown}"


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=pytest.mark.full if place % 2 else []) for place, name in enumerate(FAMILIES)]
)
def test_random_circuits(family: str) -> None:
    """Half of the families, a quarter of the ways, by turns; the full suite has more draws of all in more ways."""
    first = list(FAMILIES).index(family) % 4 * DRAWS // 4
    check(family, range(first, first + DRAWS // 4), 1)


WITHOUT_MISSING = [name for name, one in FAMILIES.items() if not (one.missing or one.signed)]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("family", WITHOUT_MISSING)
def test_random_circuits_in_other_algebras(family: str, seed: int) -> None:
    failures = compare_algebras(draw_circuit(family, seed))
    assert not failures, "\n".join(failures[:3])


@pytest.mark.full
@FAMILY
def test_random_circuits_in_full(family: str) -> None:
    check(family, range(DRAWS), 3)


# What the campaign itself is worth.


def test_a_draw_depends_on_its_seed_alone() -> None:
    first, again, other = (draw_circuit("mild", seed) for seed in (5, 5, 6))
    assert str(first.circuit.layers) == str(again.circuit.layers) != str(other.circuit.layers)
    assert first.dtype == again.dtype
    assert torch.equal(first.x, again.x)


def test_the_draws_hold_what_they_promise() -> None:
    found: Counter[Any] = Counter()
    for draw in [draw_circuit(family, seed) for family in FAMILIES for seed in range(DRAWS)]:
        circuit = draw.circuit
        live = circuit.subgraph(*circuit.outputs)
        found[draw.dtype] += 1
        found["rows", len(draw.x)] += 1
        found["several outputs"] += len(circuit.outputs) > 1
        found["a repeated output"] += len(set(circuit.outputs)) < len(circuit.outputs)
        found["an interior output"] += any(circuit.layer_outputs(layer) for layer in circuit.outputs)
        found["missing"] += draw.x.is_floating_point() and bool(draw.x.isnan().any())
        found["dead"] += len(live.layers) < len(circuit.layers)
        found["shared layer"] += any(len(circuit.layer_outputs(layer)) > 1 for layer in circuit.layers)
        for layer in live.layers:
            if isinstance(layer, InputLayer):
                found["input", min(layer.num_variables, 2)] += 1
            else:
                found["sum" if isinstance(layer, SumLayer) else "product", layer.arity] += 1
                found["mixing"] += getattr(layer, "mixing", False)
                found["kronecker"] += isinstance(layer, KroneckerLayer)
            nodes = [type(node).__name__ for parameter in layer.params.values() for node in parameter.nodes]
            found["shared parameter"] += "ReferenceParameter" in nodes
            found["constant"] += "ConstantParameter" in nodes
        for fired in optimize_circuit(circuit, semiring=LSE_SUM).report.fired:
            found["rule", fired.rule] += 1
    expected: list[Any] = [(kind, arity) for kind in ("sum", "product") for arity in (1, 2, 3, 4)]
    expected += [("input", 1), ("input", 2), ("rows", 0), ("rows", 1), torch.float32, torch.float64]
    expected += ["several outputs", "a repeated output", "an interior output", "missing", "dead", "shared layer"]
    expected += ["shared parameter", "constant", "mixing", "kronecker"]
    assert not [what for what in expected if found[what] < 5]
    rules = [rule for rule in DEFAULT_RULES.on_layers if rule.name not in UNUSUAL]
    within = [rule.name for rule in rules if len(rule.pattern.root.inputs) <= 4]  # the largest arity drawn
    assert not [name for name in within if not found["rule", name]]


def break_result(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let `change` have the result of every Program."""
    run = torch_circuits.TorchCircuit._exact
    monkeypatch.setattr(torch_circuits.TorchCircuit, "_exact", lambda self, *x, **how: change(run(self, *x, **how)))


BROKEN = {
    "values": lambda y: y + 1e-3,
    "gradients": lambda y: y.detach() + 1.01 * (y - y.detach()),
    "no gradient": lambda y: y + 0.0 * (y - y.detach()).sqrt(),
    "NaN": lambda y: torch.where(y < y.mean(), y, torch.nan),
    "dtype": lambda y: y.to(torch.float16),
    "shape": lambda y: y[:, :1],
}


@pytest.mark.parametrize(
    "name", [name if name in ("gradients", "NaN") else pytest.param(name, marks=pytest.mark.full) for name in BROKEN]
)
def test_what_is_broken_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = [draw_circuit("mild", seed) for seed in range(12)]
    ways = [Way("lse-sum", True, True)]
    assert not [failure for draw in draws for failure in compare(draw, ways)]
    break_result(monkeypatch, BROKEN[name])
    assert len([failure for draw in draws for failure in compare(draw, ways)]) >= 3


def test_every_way_is_taken() -> None:
    draws = [draw_circuit("mild", seed) for seed in range(len(WAYS))]
    for number in (1, 3):
        taken = Counter(way for draw in draws for way in some_ways(draw, number))
        assert taken == dict.fromkeys(WAYS, number)
