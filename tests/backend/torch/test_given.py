"""Tensors that calls give for leaves: for all rows of data, and for each row, against the oracle and against loops."""

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch import scoring
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, InputError, ShapeError, UnsupportedError
from plica.files.model import load_model, save_model
from plica.ir.program import Program
from plica.lower import cascade
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers import (
    CategoricalLayer,
    GaussianLayer,
    HadamardLayer,
    SumLayer,
)
from plica.symbolic.parameters import IndexParameter, Parameter, TensorParameter
from plica.symbolic.semirings import SEMIRINGS, Bound
from tests.harness.circuits import chain, tensor
from tests.harness.conformance import is_signed
from tests.harness.given import (
    MEANS,
    ROWS,
    X,
    close,
    compiled_case,
    compiled_conditional,
    conditional,
    expected,
    of_row,
    other_values,
    own_values,
)
from tests.harness.layer_cases import CASES, LayerCase
from tests.harness.oracle import gradients, numbers
from tests.harness.own_layers import VALUES, ValueLayer

FLAGS = tuple(itertools.product((True, False), repeat=2))
WAYS = [
    pytest.param(case, *FLAGS[place % 4], marks=[] if place % 4 == 1 else pytest.mark.full)
    for place, case in enumerate(CASES)
]
OTHER_WAYS = [
    pytest.param(case, *FLAGS[3 - place % 4], marks=pytest.mark.full if place % 4 else [])
    for place, case in enumerate(CASES)
]


def semiring_of(case: LayerCase) -> str:
    """One that carries the numbers of a case."""
    return "sum-product" if is_signed(case) else "lse-sum"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("case", "fold", "optimize"), WAYS, ids=str)
def test_layers_with_given_parameters(case: LayerCase, fold: bool, optimize: bool) -> None:
    compiled, x = compiled_case(case, semiring_of(case), fold, optimize)
    state = own_values(compiled)
    own = compiled(x)
    assert close(compiled(x, parameters=state), own.detach())
    assert close(
        compiled(x, parameters={key: one.expand(ROWS, *one.shape) for key, one in state.items()}), own.detach()
    )
    others = other_values(compiled, 5)
    names = list(others)
    for by_row in (names, names[:1]):  # the rest is one tensor for all rows, or the circuit's own
        given = {name: others[name] if name in by_row else others[name][1] for name in names[: len(names) // 2 + 1]}
        given |= {name: others[name] for name in by_row}
        found = compiled(x, parameters=given)
        for row in range(ROWS):
            alone = of_row(given, by_row, row)
            assert close(found[row], expected(case, compiled, x[row : row + 1], alone)[0])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("case", "fold", "optimize"), OTHER_WAYS, ids=str)
def test_gradients_of_given_parameters(case: LayerCase, fold: bool, optimize: bool) -> None:
    compiled, x = compiled_case(case, semiring_of(case), fold, optimize)
    given = {name: one.requires_grad_() for name, one in other_values(compiled, 6).items()}
    compiled(x, parameters=given).sum().backward()
    found = {name: torch.zeros_like(one) if one.grad is None else one.grad for name, one in given.items()}
    for row in range(ROWS):
        one_set = {name: one.detach()[row].requires_grad_() for name, one in given.items()}
        compiled(x[row : row + 1], parameters=one_set).sum().backward()
        compiled.load_state_dict({**compiled.state_dict(), **{name: one.detach() for name, one in one_set.items()}})
        compiled.zero_grad()
        compiled(x[row : row + 1]).sum().backward()
        own = gradients(compiled)
        for name, one in one_set.items():
            again = torch.zeros_like(one) if one.grad is None else one.grad
            assert close(found[name][row], again.numpy()), name
            assert name not in learnt(compiled) or close(again, own[name]), name


def learnt(compiled: Any) -> list[str]:
    """The keys of the leaves that are parameters of the module, so that gradients can be read there."""
    leaves = compiled.leaves
    return [key for attribute, leaf in leaves.attributes() if leaf.learnable for key in leaves._keys[attribute]]


@pytest.mark.parametrize("semiring", list(SEMIRINGS))
@pytest.mark.parametrize("scaled", [False, True])
def test_all_algebras(semiring: str, scaled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0 if scaled else 10**12)
    leaf = TensorParameter(2, 3, initializer=tensor([[1.0] * 3] * 2).initializer, name="table")
    inputs = [CategoricalLayer([0], 2, num_categories=3, probs=leaf), CategoricalLayer([1], 2, num_categories=3)]
    product, total = HadamardLayer(2), SumLayer(2, 1)
    compiled = TorchCompiler(semiring, dtype="float64").compile(
        Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    )
    table = torch.rand(ROWS, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = torch.tensor([[0, 1], [2, 0], [1, 1]])
    found = compiled(x, parameters={"table": table})
    for row in range(ROWS):
        with torch.no_grad():
            compiled.get_parameter("leaves.table").copy_(table[row : row + 1])
        assert close(found[row], compiled(x[row : row + 1])[0].detach())


@pytest.mark.parametrize("fold", [True, False])
def test_a_leaf_without_a_value_of_its_own(fold: bool, tmp_path: Any) -> None:
    compiled = compiled_conditional(fold=fold)
    assert list(compiled.state_dict()) == ["0.stddev", "1.mean", "1.stddev", "3.weight"]
    compiled.load_state_dict(compiled.state_dict())
    with pytest.raises(InputError, match=r"'mean' has no value of its own.*shape \(2,\) for all .* or \(B, 2\) with"):
        compiled(X)
    with pytest.raises(InputError, match="'mean' has no value of its own"):
        compiled(X, parameters={"1.mean": MEANS})
    with pytest.raises(InputError, match="'mean' has no value of its own"):
        compiled.check(X)
    with pytest.raises(InputError, match="'mean' has no value of its own"):
        plica.queries.sample(compiled, 3)
    with pytest.raises(InputError, match="'mean' has no value of its own"):
        plica.jit(lambda x: compiled(x))(X)
    compiled.check(X, parameters={"mean": MEANS})
    found = compiled(X, parameters={"mean": MEANS})
    plain = TorchCompiler(dtype="float64").compile(conditional(tensor(MEANS[1].tolist())))
    plain.load_state_dict({**plain.state_dict(), **compiled.state_dict()})
    assert close(found[1], plain(X[1:2])[0].detach())
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert torch.equal(other(X, parameters={"mean": MEANS}), found)
    save_model(tmp_path / "model.plica", compiled.symbolic, numbers(compiled), {"semiring": "lse-sum"})
    loaded = load_model(tmp_path / "model.plica")
    again = TorchCompiler(dtype="float64").compile(loaded.circuit)
    again.load_state_dict({key: torch.from_numpy(value) for key, value in loaded.tensors.items()})
    assert torch.equal(again(X, parameters={"mean": MEANS}), found)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a list": ([MEANS], DTypeError, "expected a dict of tensors"),
    "another name": ({"maen": MEANS}, InputError, "no leaf 'maen'.*did you mean 'mean'"),
    "no tensor": ({"mean": [1.0, 2.0]}, DTypeError, "is list, expected a torch tensor"),
    "another shape": ({"mean": MEANS[:, :1]}, ShapeError, r"shape \(3, 1\); expected \(2,\) for all rows"),
    "too many axes": ({"mean": MEANS[None]}, ShapeError, r"shape \(1, 3, 2\)"),
    "other rows": ({"mean": MEANS[:2]}, InputError, "numbers for 2 rows, and the data has 3"),
    "several numbers of rows": ({"mean": MEANS, "1.mean": MEANS[:2]}, InputError, "3 for 'mean', 2 for '1.mean'"),
    "whole numbers": ({"mean": MEANS.long()}, DTypeError, r"torch.int64, and the circuit takes torch.float64"),
    "complex numbers": ({"mean": MEANS.to(torch.complex64)}, DTypeError, "convert them by"),
    "another device": ({"mean": MEANS.to("meta")}, InputError, "is on meta, and the circuit on cpu"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    parameters, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        compiled_conditional()(X, parameters=parameters)


def test_more_digits_than_the_circuit_has_are_refused_and_fewer_are_taken() -> None:
    compiled = compiled_conditional().float()
    with pytest.raises(DTypeError, match=r"torch\.float64, and the circuit takes torch\.float32"):
        compiled(X, parameters={"mean": MEANS})
    found = compiled(X, parameters={"mean": MEANS.bfloat16()})
    assert found.dtype == torch.float32
    assert torch.equal(found, compiled(X, parameters={"mean": MEANS.bfloat16().float()}))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(compiled(X, parameters={"mean": MEANS.bfloat16()}), found)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_any_number_of_rows(rows: int) -> None:
    """One row, and as many as there are folds, are no other case."""
    compiled = compiled_conditional()
    found = compiled(X[:rows], parameters={"mean": MEANS[:rows]})
    assert torch.equal(found, compiled(X, parameters={"mean": MEANS})[:rows])


def test_no_rows_have_no_negative_weights() -> None:
    layer = SumLayer(2, 1, weight=tensor([[0.5, 0.5]]))
    compiled = TorchCompiler().compile(chain(CategoricalLayer([0], 2, num_categories=2), layer))
    x, weights = torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0, 1, 2)
    assert compiled(x, parameters={"1.weight": weights}).shape == (0, 1, 1)
    compiled.check(x, parameters={"1.weight": weights})


def test_rows_that_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compiled_conditional().eval()
    x, means = X[:2].repeat(30, 1), torch.linspace(-1, 1, 120, dtype=torch.float64).reshape(60, 2)
    with torch.no_grad():
        whole = compiled(x, parameters={"mean": means})
        monkeypatch.setattr(scoring, "_PART", 1)
        assert close(compiled(x, parameters={"mean": means}), whole)


def test_rows_that_scaled_numbers_do_not_prove_have_their_own_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
    compiled = compiled_conditional().float()
    means = MEANS.float()
    x = torch.tensor([[0.1, -0.3], [1e8, 0.2], [1.0, 0.0]])
    found = compiled(x, parameters={"mean": means})
    for row in range(3):
        alone = compiled(x[row : row + 1], parameters={"mean": means[row]})
        assert torch.allclose(found[row], alone[0], rtol=1e-5)


def test_rows_of_nothing_but_missing_entries() -> None:
    total = SumLayer(2, 1, weight=TensorParameter(1, 2, initializer=None, name="weight"))
    compiled = TorchCompiler("sum-product", dtype="float64").compile(chain(GaussianLayer([0], 2), total))
    weight = torch.tensor([[[1.0, 2.0]], [[0.5, 0.25]]], dtype=torch.float64)
    found = compiled(torch.full((2, 1), float("nan")), parameters={"weight": weight})
    assert found.flatten().tolist() == [3.0, 0.75]


@pytest.mark.parametrize("fold", [True, False])
def test_circuits_without_variables_have_a_row_for_each_set(fold: bool) -> None:
    """Integrals, whose layers have the scope of nothing."""
    compiler = TorchCompiler("sum-product", fold=fold, dtype="float64")
    compiler.add_layer_rule(VALUES)
    weight = TensorParameter(1, 2, initializer=None, name="weight")
    layer, total = ValueLayer(2, Parameter.from_input(tensor([3.0, 4.0]))), SumLayer(2, 1, weight=weight)
    compiled = compiler.compile(chain(layer, total))
    weights = torch.tensor([[[1.0, 2.0]], [[0.5, 0.25]], [[1.0, 0.0]]], dtype=torch.float64)
    assert compiled(parameters={"weight": weights}).tolist() == [[[11.0]], [[2.5]], [[3.0]]]
    assert compiled(parameters={"weight": weights[0]}).tolist() == [[11.0]]
    totals = torch.tensor([[1.0, 1.0], [2.0, 3.0]], dtype=torch.float64)
    assert compiled(parameters={"weight": weights[0], "0.value": totals}).tolist() == [[[3.0]], [[8.0]]]


@pytest.mark.parametrize("training", [True, False])
def test_nothing_that_is_given_is_kept(training: bool) -> None:
    compiled = compiled_conditional().train(training)
    with torch.no_grad():
        first, second = (compiled(X, parameters={"mean": one}) for one in (MEANS, MEANS + 1))
        assert not torch.equal(first, second)
        assert torch.equal(compiled(X, parameters={"mean": MEANS}), first)
        both = {"mean": MEANS, "0.stddev": compiled.state_dict()["0.stddev"] * 2}
        assert not torch.equal(compiled(X, parameters=both), first)
        assert torch.equal(compiled(X, parameters={"mean": MEANS}), first)


def test_what_is_not_given_is_kept_in_eval_mode() -> None:
    compiled = compiled_conditional().eval()
    with torch.no_grad():
        compiled(X, parameters={"mean": MEANS})
    assert compiled.constants.num_bytes > 0


def test_negative_weights_are_refused() -> None:
    layer = SumLayer(2, 1, weight=tensor([[0.5, 0.5]]))
    compiled = TorchCompiler().compile(chain(CategoricalLayer([0], 2, num_categories=2), layer))
    x = torch.zeros(3, 1, dtype=torch.int64)
    assert compiled(x, parameters={"1.weight": torch.rand(1, 2)}).isfinite().all()
    wrong = torch.tensor([[0.5, -0.25]])
    with pytest.raises(UnsupportedError, match=r"SumLayer.*its weight has the entry -0\.25"):
        compiled(x, parameters={"1.weight": wrong})
    with pytest.raises(UnsupportedError, match=r"its weight has the entry -0\.25"):
        compiled(x, parameters={"1.weight": torch.stack([wrong.abs(), wrong, wrong.abs()])})
    with pytest.raises(UnsupportedError, match=r"its weight has the entry -0\.25"):
        compiled.check(x, parameters={"1.weight": wrong})
    assert compiled(x).isfinite().all()


def test_some_folds_of_a_leaf_are_given() -> None:
    """And what they are joined with, and what has no value for each row, is computed once."""
    inputs = [CategoricalLayer([place], 2, num_categories=3) for place in range(5)]
    product, total = HadamardLayer(2, 5), SumLayer(2, 1)
    circuit = Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.tensor([[0, 1, 2, 0, 1]] * 4)
    logits = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found = compiled(x, parameters={"2.logits": logits})
    for row in range(4):
        other = copy.deepcopy(compiled)
        other.load_state_dict({**other.state_dict(), "2.logits": logits[row]})
        assert close(found[row], other(x[row : row + 1])[0].detach())
    program = _program_given(compiled, (("2.logits", True),))
    sizes = [equation.outputs[0].type.shape for equation in program.equations if equation.op.name == "log_softmax"]
    assert [len(shape) for shape in sizes] == [3, 3], "four layers have a table for all rows, one has one for each"
    assert 4 in [shape[0] for shape in sizes]


def _program_given(compiled: Any, names: Any) -> Program:
    lowered = compiled.compiled.programs._lowered
    found: Program = next(program.program for key, program in lowered.items() if key[3] == names)
    return found


def test_a_program_for_each_set_of_names() -> None:
    compiled = compiled_conditional()
    for _ in range(2):
        compiled(X, parameters={"mean": MEANS})
        compiled(X, parameters={"mean": MEANS[0]})
    usual = (("mean", False),)
    assert {key[3] for key in compiled._runs} == {usual, (("mean", True),)}


def test_whole_numbers() -> None:
    values = TensorParameter(3, initializer=None, learnable=False, dtype=DataType.INTEGER, name="code")
    weight = Parameter.from_unary(IndexParameter((3,), indices=[0, 2]), values)
    layer = GaussianLayer([0], 2, mean=weight)
    compiled = TorchCompiler(dtype="float64").compile(Circuit([layer], {}, [layer]))
    x = torch.zeros(2, 1)
    found = compiled(x, parameters={"code": torch.tensor([[1, 2, 3], [0, 0, 5]])})
    again = compiled(x, parameters={"code": torch.tensor([1, 2, 3], dtype=torch.int32)})
    assert torch.equal(found[0], again[0])
    with pytest.raises(DTypeError, match=r"torch\.float32, and the circuit takes torch\.int64"):
        compiled(x, parameters={"code": torch.zeros(3)})


def test_conditional_densities_integrate_to_one() -> None:
    compiled = compiled_conditional()
    grid = torch.linspace(-12, 12, 2001, dtype=torch.float64)
    x = torch.stack([grid, torch.full_like(grid, float("nan"))], dim=1)
    values = compiled(x, parameters={"mean": MEANS[0]}).exp().flatten().detach().numpy()
    assert np.isclose(np.trapezoid(values, grid.numpy()), 1.0, atol=1e-6)
