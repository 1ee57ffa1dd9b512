"""Contenders are compared on values, and those that disagree are not timed."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from benchmarks import agreement, measures
from benchmarks.circuits import CircuitSpec
from benchmarks.contenders import CONTENDERS, FLAGS
from benchmarks.harness import Settings
from plica.backend.torch.compiler import TorchCompiler
from tests.harness.oracle import Oracle

GRAPHS = ("quad-tree-2", "quad-graph", "random-binary-tree")


def tiny(graph: str = "quad-tree-2", sum_product: str = "cp") -> CircuitSpec:
    return CircuitSpec(graph, sum_product, side=2, num_values=3, num_units=2)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("sum_product", ["cp", "cp-t", "tucker"])
def test_the_second_description_has_the_given_numbers(graph: str, sum_product: str) -> None:
    spec = tiny(graph, sum_product)
    compiled = TorchCompiler(dtype="float64").compile(agreement.described(spec))
    state = {key: value.numpy() for key, value in compiled.state_dict().items()}
    assert {value.shape for value in state.values()} <= {(2, 3), (2, 2), (2, 4), (1, 2), (1, 4)}
    x = agreement.rows(spec)
    expected = Oracle(compiled.symbolic, state).log(x.numpy()).astype(float)
    torch.testing.assert_close(compiled(x), torch.from_numpy(expected))
    described, named = compiled.symbolic, spec.build()
    assert [layer.__class__ for layer in described.layers] == [layer.__class__ for layer in named.layers]


def test_rows_lie_near_the_mode() -> None:
    spec = CircuitSpec("quad-tree-2", "cp", side=28, num_values=256, num_units=2)
    x = agreement.rows(spec)
    assert x.shape == (agreement.ROWS, 784)
    assert len(x.unique(dim=0)) == agreement.ROWS
    (usual, _) = x.mode(0)
    assert int((x != usual).sum(1).max()) <= 5


def test_contenders_agree() -> None:
    found = measures.check_agreement(tiny(), FLAGS, "cpu")
    assert set(found) == {"compared", "largest relative difference"}
    assert max(found["largest relative difference"].values()) < 1e-5


class Other(nn.Module):
    """A module with other values."""

    def __init__(self, module: nn.Module, change: float) -> None:
        super().__init__()
        self.module, self.change = module, change

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.module(x)
        return values + self.change


@pytest.mark.parametrize("change", [0.01, float("nan"), float("inf")])
def test_a_contender_with_other_values_is_not_timed(change: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plica = CONTENDERS["plica"]
    other = replace(plica, compile=lambda description: Other(plica.compile(description), change))
    monkeypatch.setitem(CONTENDERS, "other", other)
    monkeypatch.setattr(measures, "compare", lambda *_: pytest.fail("nothing may be timed"))
    for names, message in ((["plica", "other"], "other: found"), (["other", "plica"], "(other|plica): found")):
        with pytest.raises(agreement.DisagreementError, match=message):
            measures.measure_speed(tiny(), names, Settings(rounds=1, warmup=0, seconds=0))


def test_values_that_are_not_finite_are_not_compared() -> None:
    wrong = Other(TorchCompiler().compile(agreement.described(tiny())), float("-inf"))
    with pytest.raises(agreement.DisagreementError, match="expected finite log-likelihoods"):
        agreement.compare_values({"a": wrong, "b": wrong}, agreement.rows(tiny()))
