"""Circuits in which views stand between a logarithm and its softmax: right at large logits because it is moved.

Layers of one's own hand ordinary numbers to the semiring, and parameters of one's own have no row that says what their
logarithm is. So only the Program shows that a softmax is behind it.
"""

from collections.abc import Callable
from typing import Any, final

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.lower import cascade
from plica.passes import clean as passes
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import ExpParameter, MixingWeightParameter, Parameter, SoftmaxParameter, TensorParameter
from plica.symbolic.parameters.nodes import UnaryOp
from plica.symbolic.semirings import Bound
from tests.harness import oracle
from tests.harness.circuits import chain, constant, product_then_sum, tensor
from tests.harness.devices import forbid_branches
from tests.harness.layer_cases.joint import JOINT_ROW, JointLayer, reference
from tests.harness.oracle import Oracle, gradients, numbers
from tests.harness.pairwise import flagged

pytestmark = pytest.mark.usefixtures("may_branch")

LOGITS = [[0.0, -150.0, -900.0, 40.0], [500.0, 0.0, 20.0, -700.0]]
LOG = "log(softmax(x)) -> log_softmax(x)"
EXP = "log(exp(x)) -> x, x real"


@final
class TransposedParameter(UnaryOp):
    """A parameter of one's own: its logarithm is that of the input, transposed, which only the Program shows."""

    def infer_shape(self) -> tuple[int, ...]:
        return self.in_shape[::-1]

    def evaluate(self, xp: Any, *arrays: Any) -> Any:
        return xp.matrix_transpose(arrays[0])


def of(op: Any, leaf: TensorParameter) -> Parameter:
    return Parameter.from_unary(op(leaf.shape), leaf)


def joint(place: int, op: Any, leaf: TensorParameter | None = None) -> JointLayer:
    """A table over two variables; the numbers are far apart."""
    rows = np.roll(LOGITS, place, axis=1)
    return JointLayer([2 * place, 2 * place + 1], 2, num_states=2, weight=of(op, leaf or tensor(rows / (1 + place))))


def one_table() -> Circuit:
    return chain(joint(0, SoftmaxParameter), SumLayer(2, 1))


def alike() -> Circuit:
    return product_then_sum(HadamardLayer(2, 3), [joint(place, SoftmaxParameter) for place in range(3)])


def _leaf(kind: Any) -> TensorParameter:
    return tensor(np.array(LOGITS) / (9 if kind is ExpParameter else 1))


def mixed() -> Circuit:
    """One fold joins a softmax and an exponential."""
    kinds = (SoftmaxParameter, ExpParameter, SoftmaxParameter)
    inputs = [joint(place, kind, _leaf(kind)) for place, kind in enumerate(kinds)]
    return product_then_sum(HadamardLayer(2, 3), inputs)


def scattered() -> Circuit:
    """So many runs of both kinds that the folds are gathered."""
    kinds = [(SoftmaxParameter, ExpParameter)[place % 2] for place in range(20)]
    inputs = [joint(place, kind, _leaf(kind)) for place, kind in enumerate(kinds)]
    return product_then_sum(HadamardLayer(2, 20), inputs)


def shared() -> Circuit:
    """Two tables that read one leaf, beside one with a leaf of its own."""
    leaf = tensor(LOGITS)
    weights = [
        of(SoftmaxParameter, leaf),
        Parameter.from_unary(SoftmaxParameter((2, 4)), Parameter.from_input(leaf).ref()),
    ]
    inputs = [JointLayer([2 * place, 2 * place + 1], 2, num_states=2, weight=one) for place, one in enumerate(weights)]
    return product_then_sum(HadamardLayer(2, 3), [*inputs, joint(2, SoftmaxParameter)])


def transposed() -> Circuit:
    """The probabilities of states are the columns of a softmax over units."""
    weight = Parameter.from_sequence(
        tensor(np.transpose(LOGITS)), SoftmaxParameter((4, 2), axis=0), TransposedParameter((4, 2))
    )
    return chain(CategoricalLayer([0], 2, num_categories=4, probs=weight), SumLayer(2, 1))


def mixing_transposed() -> Circuit:
    """Mixing weights that are the columns of a softmax."""
    weight = Parameter.from_sequence(
        tensor([[200.0, -200.0], [0.0, 0.0]]),
        SoftmaxParameter((2, 2), axis=0),
        TransposedParameter((2, 2)),
        MixingWeightParameter((2, 2)),
    )
    total = SumLayer(2, 2, 2, weight=weight)
    inputs = [CategoricalLayer([0], 2, num_categories=2, probs=constant([row, row])) for row in ([1, 0], [0, 1])]
    return Circuit([*inputs, total], {total: inputs}, [total])


CASES: dict[str, tuple[Callable[[], Circuit], tuple[str, ...]]] = {
    "one table": (one_table, (LOG,)),
    "tables of a fold": (alike, (LOG,)),
    "a fold of two kinds": (mixed, (LOG, EXP)),
    "gathered folds": (scattered, (LOG, EXP)),
    "a shared leaf": (shared, (LOG,)),
    "a parameter of one's own": (transposed, (LOG,)),
    "mixing weights of one's own": (mixing_transposed, (LOG,)),
}


@pytest.fixture(autouse=True)
def _reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(oracle.OPERATIONS, "TransposedParameter", lambda _, x: x.T)


def compiled(circuit: Circuit, **settings: Any) -> Any:
    compiler = TorchCompiler(**settings)
    compiler.add_layer_rule(JOINT_ROW)
    return compiler.compile(circuit)


def rows(circuit: Circuit) -> np.ndarray:
    """Data whose variables are all alike, or alternate."""
    variables = np.arange(circuit.num_variables)
    return np.array([variables * 0, variables % 2, 1 - variables % 2, variables * 0 + 1])


@pytest.mark.one_in(3)
@flagged(name=list(CASES), fold=[True, False], scaled_first=[True, False], may_branch=[True, False])
def test_large_logits_behind_views(
    name: str, fold: bool, scaled_first: bool, may_branch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not may_branch:
        forbid_branches(monkeypatch)
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled_first else 10**12)
    build, rules = CASES[name]
    circuit = build()
    found = compiled(circuit, fold=fold)
    x = rows(circuit)
    expected = Oracle(circuit, numbers(found), {JointLayer: reference}).log(x).astype(float)
    assert np.isfinite(expected).all()
    values = found(torch.from_numpy(x))
    np.testing.assert_allclose(values.detach(), expected, rtol=1e-5, atol=1e-5)
    values.sum().backward()
    assert all(np.isfinite(slope).all() for slope in gradients(found).values())
    lines = [line for line in found.explain().splitlines() if line.startswith("  program ")]
    assert all(any(f"{rule}: " in line for line in lines) for rule in rules)

    monkeypatch.setattr(passes, "move_to_sources", lambda *_, **__: None)
    other = compiled(circuit, fold=fold)
    other.load_state_dict(found.state_dict())
    assert not np.allclose(other(torch.from_numpy(x)).detach(), expected, rtol=1e-3), (
        "the rules fire because of the pass"
    )
    assert not any(f"  program {rule}: " in other.explain() for rule in rules)


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "unfolded"])
def test_a_fold_of_a_softmax_and_of_numbers_as_they_are_stays(fold: bool) -> None:
    numbers_ = tensor(np.full((2, 4), 0.25))
    inputs = [joint(0, SoftmaxParameter), JointLayer([2, 3], 2, num_states=2, weight=numbers_)]
    circuit = product_then_sum(HadamardLayer(2, 2), inputs)
    # the logarithm of a whole table may be more work than that of the entries that are looked up
    assert (LOG in compiled(circuit, fold=fold).explain()) == (not fold)
