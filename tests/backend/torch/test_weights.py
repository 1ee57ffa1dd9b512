"""Learned weights that become negative where the semiring has no negative numbers: refused on every path."""

import copy
import pickle
import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from plica.backend.torch import emit as emitter
from plica.backend.torch import scoring, weights
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.watch import Watch
from plica.errors import UnsupportedError
from plica.ir.op import unsupported
from plica.lower import cascade, checks
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import REALS
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, InputLayer, InputRow, SumLayer
from plica.symbolic.parameters import MatMulParameter, Parameter, ReduceSumParameter, normal
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Bound
from tests.harness.circuits import chain, constant, product_then_sum, tensor


def mixture(weight: list[list[float]]):
    """A sum of a categorical layer with raw, learnable weights."""
    return chain(CategoricalLayer([0], 2, num_categories=2), SumLayer(2, 1, weight=tensor(weight)))


def test_weights_made_of_constants_alone() -> None:
    total = Parameter.from_unary(ReduceSumParameter((1, 2, 2)), constant([[[1.0, 2.0], [3.0, -1.0]]]))
    inputs = CategoricalLayer([0], 2, num_categories=1, probs=constant([[1.0], [1.0]]))
    assert TorchCompiler().compile(chain(inputs, SumLayer(2, 1, weight=total)))(torch.zeros(1, 1)).exp().item() == 5


@pytest.mark.parametrize("semiring", ["lse-sum", "max-product", "max-sum", "min-plus", "boolean"])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 100])
def test_a_weight_that_became_negative_is_refused(
    semiring: str, scaled: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled else 10**12)
    compiled = TorchCompiler(semiring).compile(mixture([[0.5, 2.0]]))
    x = torch.zeros(rows, 1, dtype=torch.int64)
    assert not compiled(x).isnan().any()
    with torch.no_grad():
        compiled.get_parameter("leaves.weight_1")[0, 0, 0] = -0.5
    with pytest.raises(UnsupportedError, match=r"its weight has the entry -0\.5, and .* stores"):
        compiled(x)
    with pytest.raises(UnsupportedError, match="SumLayer"):
        compiled.check(x)
    with torch.no_grad():
        compiled.get_parameter("leaves.weight_1")[0, 0, 0] = 0.5
    assert not compiled(x).isnan().any()


def test_a_thread_sees_all_of_what_another_one_makes_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other thread begins to make it between two steps of this one, and goes on once this one has looked."""
    compiled = copy.deepcopy(TorchCompiler().compile(mixture([[0.5, 2.0]])))
    x, values = torch.zeros(1, 1, dtype=torch.int64), []
    begun, ended = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: values.append(compiled(x)))
    make, write = checks.lower_least, emitter.emit

    def lower_least(*args: Any) -> Any:
        if threading.current_thread() is other:
            begun.set()
            ended.wait(60)
        return make(*args)

    def emit(*args: Any, **options: Any) -> Any:
        if threading.current_thread() is not other and not other.ident:
            other.start()
            begun.wait(60)
        return write(*args, **options)

    monkeypatch.setattr(weights, "lower_least", lower_least)
    monkeypatch.setattr(weights, "emit", emit)
    try:
        values.append(compiled(x))
    finally:
        ended.set()
        other.join()
    assert begun.is_set()
    assert torch.equal(*values)


def test_a_call_in_eval_mode_looks_at_tensors_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    is_current = Watch.is_current
    monkeypatch.setattr(Watch, "is_current", lambda self, tensors: looks.append(self) or is_current(self, tensors))
    monkeypatch.setattr(scoring, "_PART", 1)
    compiled = TorchCompiler().compile(mixture([[0.5, 2.0]])).eval()
    x = torch.zeros(3 * scoring._LEAST_ROWS, 1, dtype=torch.int64)  # three parts
    with torch.no_grad():
        compiled(x)
        looks.clear()
        expected = compiled(x)
        assert len(looks) == 1, "for its weights as for what is kept"
        compiled.get_parameter("leaves.weight_1")[0, 0, 0] = -0.5
        with pytest.raises(UnsupportedError, match=r"its weight has the entry -0\.5"):
            compiled(x)
        compiled.get_parameter("leaves.weight_1")[0, 0, 0] = 0.5
        assert torch.equal(compiled(x), expected)


def test_ordinary_numbers_may_be_negative() -> None:
    compiled = TorchCompiler("sum-product").compile(mixture([[-0.5, 2.0]]))
    assert compiled(torch.zeros(1, 1, dtype=torch.int64)).isfinite().all()


def test_the_layer_is_named_among_those_that_fold() -> None:
    inputs = [CategoricalLayer([variable], 1, num_categories=2, probs=tensor([[0.5, 0.5]])) for variable in range(3)]
    circuit = product_then_sum(HadamardLayer(1, 3), inputs)
    compiled = TorchCompiler().compile(circuit)
    with torch.no_grad():
        state = compiled.state_dict()
        state["1.probs"] -= 1.0
        compiled.load_state_dict(state)
    with pytest.raises(UnsupportedError, match=r"scope=\{1\}.*its probs has the entry -0.5"):
        compiled(torch.zeros(1, 3, dtype=torch.int64))


def test_weights_are_looked_at_once_for_each_version() -> None:
    compiled = TorchCompiler().compile(mixture([[0.5, 2.0]]))
    x = torch.zeros(3, 1, dtype=torch.int64)
    compiled(x)
    check = compiled._weights[()]
    minima, runs = check._minima, []
    assert minima is not None
    check._minima = replace(minima, run=lambda leaves: runs.append(1) or minima.run(leaves))
    compiled(x)
    assert len(runs) == 0
    with torch.no_grad():
        compiled.get_parameter("leaves.weight_1").mul_(2.0)
    compiled(x)
    compiled(x)
    assert len(runs) == 1


def test_weights_made_with_constants_are_looked_at_in_another_dtype() -> None:
    made = Parameter.from_binary(
        MatMulParameter((1, 2), (2, 2)), tensor([[0.5, 2.0]]), constant([[1.0, 2.0], [3.0, 1.0]])
    )
    compiled = TorchCompiler(dtype=torch.float64).compile(
        chain(CategoricalLayer([0], 2, num_categories=2), SumLayer(2, 1, weight=made))
    )
    x = torch.zeros(1, 1, dtype=torch.int64)
    with torch.no_grad():
        expected = compiled(x)
        torch.testing.assert_close(compiled.float()(x), expected.float())
        compiled.get_parameter("leaves.weight_1")[...] = -1.0
    with pytest.raises(UnsupportedError, match="its weight has the entry -4"):
        compiled(x)


def test_proven_weights_are_not_looked_at() -> None:
    compiled = TorchCompiler().compile(chain(CategoricalLayer([0], 2, num_categories=2), SumLayer(2, 1)))
    assert compiled.lowered(torch.int64).weights == ()


def test_copies_and_pickles_look_at_their_own_weights() -> None:
    compiled = TorchCompiler().compile(mixture([[0.5, 2.0]]))
    x = torch.zeros(3, 1, dtype=torch.int64)
    compiled(x)
    other = pickle.loads(pickle.dumps(compiled))
    with torch.no_grad():
        other.leaves.weight_1[0, 0, 0] = -0.5
    assert compiled(x).isfinite().all()
    with pytest.raises(UnsupportedError, match=r"the entry -0\.5"):
        other(x)


def test_weights_under_inference_mode_are_looked_at_too() -> None:
    with torch.inference_mode():
        compiled = TorchCompiler().compile(
            chain(CategoricalLayer([0], 2, num_categories=2), SumLayer(2, 1, weight_factory=normal))
        )
        compiled.get_parameter("leaves.weight_1").fill_(-1.0)
        with pytest.raises(UnsupportedError, match="the entry -1"):
            compiled(torch.zeros(3, 1, dtype=torch.int64))


@dataclass(frozen=True, eq=False)
class Slope(InputLayer):
    """exp(w x): its parameter is called a weight, and is none."""

    scope: Scope
    num_output_units: int
    weight: Parameter
    domain = REALS

    @property
    def config(self) -> dict[str, Any]:
        return {"scope": self.scope, "num_output_units": self.num_output_units}

    @property
    def params(self) -> dict[str, Parameter]:
        return {"weight": self.weight}


def _slope(xp: Any, semiring: Any, _layer: Slope, params: Any, x: Any) -> Any:
    return semiring.from_log(xp, xp.expand_dims(params["weight"], axis=1) * x)


def _no_integral(xp: Any, semiring: Any, _layer: Slope, params: Any) -> Any:
    return semiring.from_log(xp, xp.expand_dims(params["weight"] * float("inf"), axis=1))


def test_what_layers_of_ones_own_call_a_weight_may_be_negative() -> None:
    """What a layer takes by `params.weight` is a weight, whatever it is called."""
    layer = Slope(Scope([0]), 1, Parameter.from_input(tensor([-2.0])))
    context = PipelineContext()
    context.add_layer_compilation_rule(InputRow(Slope, _slope, _no_integral, unsupported("no sampler")))
    assert context.compile(Circuit([layer], {}, [layer]))(torch.tensor([[3]])).item() == -6.0


def test_a_layer_is_copied_after_its_weights_were_checked() -> None:
    layer = TorchCompiler().compile_layer(SumLayer(2, 1, weight=tensor([[0.5, 2.0]])))
    x = torch.zeros(1, 3, 2)
    expected = layer(x)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), expected)
        with torch.no_grad():
            next(other.parameters()).fill_(-1.0)
        with pytest.raises(UnsupportedError, match="stores logarithms"):
            other(x)
    assert torch.equal(layer(x), expected)
