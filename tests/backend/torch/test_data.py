"""What data a compiled circuit takes: domains, dtypes, missing values, layers that nothing reads, other devices."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica import queries
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.data import DataCheck
from plica.backend.torch.queries import SamplingQuery
from plica.draw.circuit import draw_circuit
from plica.draw.view import view_circuit
from plica.errors import DTypeError, InputError
from plica.files.model import load_model, save_model
from plica.ir.dtypes import as_dtype
from plica.lower.data import column_domains, lower_check
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope
from tests.harness.circuits import CIRCUITS, chain, coin, constant, data, product_then_sum, several_sizes
from tests.harness.layers import ROWS, ExponentialLayer, MarginalTableLayer, TableLayer, WaitingLayer
from tests.harness.oracle import keys
from tests.harness.own_layers import PAIRS_IN_PART, PairLayer

SMALL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
nan = float("nan")
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def compiled(circuit: Circuit, semiring: str = "sum-product", **settings) -> TorchCircuit:
    compiler = TorchCompiler(semiring, dtype="float64", **settings)
    for row in ROWS:
        compiler.add_layer_rule(row)
    return compiler.compile(circuit)


def parameter(value: object) -> Parameter:
    return Parameter.from_input(constant(value))


def unchecked(circuit: TorchCircuit, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """The result where nothing is checked, as on other devices."""
    with monkeypatch.context() as patch:
        patch.setattr(DataCheck, "check", lambda *_: None)
        return circuit(x)


def table(size: int, scope: tuple[int, ...] = (0,)) -> CategoricalLayer:
    """p(v) = v + 1, over the numbers 0 to size - 1."""
    return CategoricalLayer(scope, 1, num_categories=size, probs=constant([np.arange(size) + 1.0]))


@pytest.mark.parametrize("dtype", [*SMALL, *UNSIGNED, *FLOATS], ids=str)
def test_states_of_every_dtype(dtype: torch.dtype) -> None:
    """The largest states that each dtype holds exactly, from 300: none is lost by rounding the limit."""
    circuit = compiled(chain(table(300)))
    states = torch.arange(300, dtype=torch.float64)
    x = states.to(dtype)
    exact = x.to(torch.float64) == states
    x = x[exact][:, None]
    assert circuit(x).flatten().tolist() == (states[exact] + 1).tolist()
    if not dtype.is_floating_point:
        return
    assert circuit(torch.tensor([[torch.nan]], dtype=dtype)).item() == 300 * 301 / 2
    with pytest.raises(InputError, match=r"variable 0: the value 0.5 is none of the 300 states 0 to 299; .*, or NaN"):
        circuit(torch.tensor([[0.5]], dtype=dtype))


@pytest.mark.parametrize(
    ("dtype", "size", "value"),
    [
        (torch.float16, 2048, 2047),
        (torch.float16, 2049, 2048),
        (torch.float16, 70_000, 65504),
        (torch.bfloat16, 256, 255),
        (torch.bfloat16, 257, 256),
        (torch.bfloat16, 300, 298),
    ],
)
def test_limits_are_not_rounded(dtype: torch.dtype, size: int, value: int) -> None:
    circuit = compiled(chain(table(size)))
    x = torch.tensor([[value]], dtype=dtype)
    assert x.item() == value
    assert circuit(x).item() == value + 1
    beyond = torch.tensor([[torch.inf if size == 70_000 else 2 * value + 2]], dtype=dtype)
    with pytest.raises(InputError, match=f"is none of the {size} states"):
        circuit(beyond)


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_unsigned_data(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 2 ** (8 * dtype.itemsize) - 1
    x = torch.from_numpy(np.array([[2], [largest], [0]], dtype=str(dtype).removeprefix("torch.")))
    circuit = compiled(chain(table(3)))
    with pytest.raises(InputError, match=f"row 1, variable 0: the value {largest} is none of the 3 states"):
        circuit(x)
    found = unchecked(circuit, x, monkeypatch).flatten()
    assert found[[0, 2]].tolist() == [3.0, 1.0]
    assert found[1].isnan()
    wide = GaussianLayer([0], 1, mean=constant([0.0]), stddev=constant([1e19]))
    real = compiled(chain(wide))
    torch.testing.assert_close(real(x), real(x.to(torch.float64)))  # 2**64 - 1 is no negative number


def test_counts() -> None:
    circuit = compiled(chain(WaitingLayer(Scope([0]), 1, parameter([0.5]))))
    counts = np.array([0, 1, 7, 50])
    expected = (1 - np.exp(-0.5)) * np.exp(-0.5 * counts)
    for dtype in (*SMALL, *UNSIGNED, *FLOATS):
        np.testing.assert_allclose(circuit(torch.from_numpy(counts[:, None]).to(dtype)).flatten(), expected, rtol=1e-12)
    for value in (-1, -1.0, 0.5, 1e300, torch.inf, -torch.inf):
        with pytest.raises(InputError, match=r"row 1, variable 0: the value .* is no count; give integers of at least"):
            circuit(torch.tensor([[0], [value]]))
    assert circuit(torch.tensor([[torch.nan]])).item() == 1


def test_positive_numbers_keep_gradients_of_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong or missing entry is replaced by a legal one: the body's derivative at 0 is infinite."""
    x = torch.tensor([[2.0], [0.0], [nan], [-1.0], [0.5]], dtype=torch.float64, requires_grad=True)
    circuit = compiled(chain(ExponentialLayer(Scope([0]), 1, parameter([1.5]))))
    message = "row 1, variable 0: the value 0 is not above 0; give positive numbers, or NaN where it is missing"
    with pytest.raises(InputError, match=message):
        circuit(x)
    result = unchecked(circuit, x, monkeypatch).flatten()
    assert result.isnan().tolist() == [False, True, False, True, False]
    np.testing.assert_allclose(result.detach()[[0, 2, 4]], [1.5 * np.exp(-3), 1, 1.5 * np.exp(-0.75)], rtol=1e-12)
    (gradient,) = torch.autograd.grad(result[[0, 2, 4]].sum(), x)
    assert gradient.isfinite().all()
    assert circuit(torch.tensor([[torch.inf]])).item() == 0


@pytest.mark.parametrize("semiring", ["sum-product", "lse-sum"])
@pytest.mark.parametrize("rows", [3, 40_000])
def test_infinity_is_a_real_number_of_density_zero(semiring: str, rows: int) -> None:
    inputs = [GaussianLayer([0], 4), coin([1], 4, 3)]
    circuit = compiled(product_then_sum(HadamardLayer(4, 2), inputs), semiring)
    x = torch.tensor([[torch.inf, 1.0], [-torch.inf, torch.nan], [0.25, 2.0]]).repeat(-(-rows // 3), 1)
    circuit.check(x)
    result = circuit(x).flatten()[-3:]
    assert result[:2].tolist() == [0.0 if semiring == "sum-product" else -torch.inf] * 2
    torch.testing.assert_close(result[2:], circuit(x[2:3]).flatten())
    with pytest.raises(InputError, match="row 1, variable 1: the value inf is none of the 3 states 0 to 2"):
        circuit(torch.tensor([[0.0, 1], [0, torch.inf]]))


def test_layers_of_one_variable_narrow_each_other() -> None:
    """Three states, five, and a density of the same variable: all three must hold."""
    inputs = [coin([0], 2, 5), coin([0], 2, 3), GaussianLayer([0], 2)]
    total = SumLayer(2, 1, 3)
    circuit = compiled(Circuit([*inputs, total], {total: inputs}, [total]))
    assert circuit(torch.tensor([[2.0], [0.0]])).isfinite().all()
    for value in (3, -1, 0.5):
        with pytest.raises(InputError, match="is none of the 3 states 0 to 2"):
            circuit(torch.tensor([[value]]))


TABLE = np.array([[[0.1, 0.2], [0.3, 0.4]]])  # p(x, y)


def pair(layer: type[TableLayer], scope: tuple[int, int] = (0, 1)) -> TableLayer:
    return layer(Scope(scope), 1, 2, parameter(TABLE))


@pytest.mark.parametrize("fold", [True, False])
def test_one_missing_variable_of_several_is_summed_out(fold: bool) -> None:
    circuit = compiled(chain(pair(MarginalTableLayer)), fold=fold)
    x = torch.tensor([[0, nan], [nan, 0], [nan, 1], [1, 0], [nan, nan]])
    np.testing.assert_allclose(circuit(x).flatten(), [0.3, 0.4, 0.6, 0.3, 1.0], rtol=1e-12)
    circuit.check(x)
    with pytest.raises(InputError, match="row 0, variable 1: the value 2 is none of the 2 states"):
        circuit(torch.tensor([[nan, 2.0]]))


@pytest.mark.parametrize("fold", [True, False])
def test_one_missing_variable_is_refused_where_a_layer_cannot_sum_it_out(
    fold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [pair(TableLayer, (0, 2)), pair(MarginalTableLayer, (1, 4)), pair(TableLayer, (3, 5))]
    product = HadamardLayer(1, 3)
    circuit = compiled(Circuit([*inputs, product], {product: inputs}, [product]), fold=fold)
    x = torch.tensor([[0.0] * 6, [nan] * 6, [0, nan, 0, nan, 0, nan], [0, 0, 0, 0, 0, nan], [nan, 0, 0, 0, 0, 0]])
    message = (
        r"row 3: variable 5 is missing, but TableLayer\(2, .* sums out all of its variables .*3, 5.* or none; give the "
        r"value, make all of them missing, or write `partial` in the row of TableLayer"
    )
    for call in (circuit, circuit.check):
        with pytest.raises(InputError, match=message):
            call(x)
    found = unchecked(circuit, x, monkeypatch).flatten()
    np.testing.assert_allclose(found[:3], [1e-3, 1.0, 0.1 * 0.4], rtol=1e-12)
    assert found[3:].isnan().all()


def test_a_missing_variable_of_several_is_refused_where_the_algebra_does_not_sum() -> None:
    compiler = TorchCompiler("max-product")
    compiler.add_layer_rule(PAIRS_IN_PART)
    circuit = compiler.compile(chain(PairLayer(Scope([0, 1]), 1, 2, parameter([[0.1, 0.2, 0.3, 0.4]]))))
    assert circuit(torch.full((1, 2), nan)).item() == pytest.approx(0.4)
    with pytest.raises(
        InputError, match="write `partial_maximum` in the row of PairLayer, or use a semiring that sums: max-product"
    ):
        circuit(torch.tensor([[0, nan]]))


LIVE = coin([0], 1, 5)
FAR = coin([7], 2, 2)
ABOVE, UNEVEN = SumLayer(2, 1), SumLayer(1, 1, 2)
# what no output depends on: layers, and their inputs
UNREAD: dict[str, Any] = {
    "fewer states": ([coin([0], 1, 2)], {}),
    "a higher variable": ([FAR], {}),
    "layers above it": ([FAR, ABOVE], {ABOVE: [FAR]}),
    "a density": ([GaussianLayer([0], 1)], {}),
    "no common value": ([ExponentialLayer(Scope([0]), 1, parameter([1.0])), coin([0], 1, 1)], {}),
    "a sum that is not smooth": ([FAR, ABOVE, UNEVEN], {ABOVE: [FAR], UNEVEN: [LIVE, ABOVE]}),
    "negative numbers": ([CategoricalLayer([0], 1, num_categories=2, probs=constant([[-1.0, 2.0]]))], {}),
}


@pytest.mark.parametrize("case", UNREAD)
@pytest.mark.parametrize(("fold", "optimize"), [(True, True), (False, False)])
def test_layers_that_no_output_depends_on_change_nothing(case: str, fold: bool, optimize: bool) -> None:
    layers, edges = UNREAD[case]
    plain, circuit = Circuit([LIVE], {}, [LIVE]), Circuit([LIVE, *layers], edges, [LIVE])
    assert circuit.scope == plain.scope
    assert circuit.domains == plain.domains
    assert circuit.properties == plain.properties
    assert [layer.num_output_units for layer in circuit.live.layers] == [1]
    settings = {"fold": fold, "optimize": optimize}
    found, expected = compiled(circuit, "lse-sum", **settings), compiled(plain, "lse-sum", **settings)
    state = found.state_dict()
    assert set(state) == set(keys(circuit).values())  # its layers keep their tensors
    expected.load_state_dict({"0.logits": state[f"{circuit.layer_index(LIVE)}.logits"]})
    x = torch.tensor([[4.0], [0.0], [nan]])
    torch.testing.assert_close(found(x), expected(x), rtol=0, atol=0)
    found.check(x)
    for value in (5, -1):
        with pytest.raises(InputError, match="none of the 5 states"):
            found(torch.tensor([[value]]))
    draws = [SamplingQuery(one)(50, generator=torch.Generator().manual_seed(1))[0] for one in (found, expected)]
    assert torch.equal(*draws)
    assert "that no output depends on are left out" in found.explain()
    found(x.long()[:2]).sum().backward()
    other = copy.deepcopy(found)
    other.reset_parameters(3)
    other.load_state_dict(state)
    torch.testing.assert_close(other(x), found(x), rtol=0, atol=0)


def test_layers_that_no_output_depends_on_are_kept_in_files_and_left_out_of_pictures(tmp_path: Path) -> None:
    layers, edges = UNREAD["a sum that is not smooth"]
    circuit = Circuit([LIVE, *layers], edges, [LIVE])
    found = compiled(circuit)
    save_model(tmp_path / "m.plica", circuit, {key: value.numpy() for key, value in found.state_dict().items()}, {})
    loaded = load_model(tmp_path / "m.plica")
    again = compiled(loaded.circuit)
    again.load_state_dict({key: torch.from_numpy(value) for key, value in loaded.tensors.items()})
    assert len(loaded.circuit.layers) == len(circuit.layers)
    torch.testing.assert_close(again(torch.tensor([[4]])), found(torch.tensor([[4]])))
    view = view_circuit(circuit)
    assert (view.num_variables, len(view.layers), view.outputs) == (1, 1, (0,))
    draw_circuit(circuit, tmp_path / "m.svg", image_shape=(1, 1, 1))


def test_a_column_that_no_layer_reads_may_hold_anything() -> None:
    circuit = several_sizes()
    model = TorchCompiler().compile(circuit)
    x = torch.from_numpy(data(circuit, 3))
    other = x.clone()
    other[:, 2] = torch.tensor([nan, torch.inf, -7.5])
    torch.testing.assert_close(model(other), model(x))
    twice = HadamardLayer(2, 2)  # not decomposable: a missing value of a variable is refused
    inputs = [coin([0], 2, 3), coin([0], 2, 3), coin([2], 2, 2)]
    root = HadamardLayer(2, 2)
    model = TorchCompiler().compile(
        Circuit([*inputs, twice, root], {twice: inputs[:2], root: [twice, inputs[2]]}, [root])
    )
    torch.testing.assert_close(model(torch.tensor([[1, nan, 1]])), model(torch.tensor([[1, 0, 1]])))


@pytest.mark.parametrize("name", ["hadamard", "several sizes", "many outputs", "constants"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint16, torch.float16], ids=str)
def test_the_program_of_the_check(name: str, dtype: torch.dtype) -> None:
    circuit = CIRCUITS[name]()
    model = TorchCompiler().compile(circuit)
    program, constants = lower_check(model.folded, model.semiring, as_dtype(torch.float32), as_dtype(dtype))
    plica.verify(program)
    assert plica.parse(str(program)) == program
    x = torch.from_numpy(data(circuit, 5)).to(dtype)
    x[3] = 77
    entries, rows = plica.interpret(program, x.numpy(), consts=[constant.value for constant in constants])
    whole = [domain.whole for domain in column_domains(circuit)]
    assert entries.tolist() == [[row == 3 and one for one in whole] for row in range(5)]
    assert not rows.any()


@pytest.mark.parametrize("dtype", [*UNSIGNED, *FLOATS], ids=str)
def test_queries_take_every_dtype(dtype: torch.dtype) -> None:
    circuit = TorchCompiler().compile(product_then_sum(HadamardLayer(2, 2), [coin([0], 2, 3), GaussianLayer([1], 2)]))
    x = torch.tensor([[2, 1], [0, 3]])
    rows, value = plica.queries.mpe(circuit, x.to(dtype))
    assert rows.tolist() == x.tolist()
    torch.testing.assert_close(value, plica.queries.mpe(circuit, x)[1])
    assert plica.queries.sample(circuit, 2, given=x.to(dtype)).tolist() == x.repeat_interleave(2, 0).tolist()
    with pytest.raises(InputError, match="row 1, variable 0: the value 3 is none of the 3 states"):
        plica.queries.mpe(circuit, x.flip(1).to(dtype))


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("dtype", [*UNSIGNED, torch.bfloat16, torch.bool], ids=str)
def test_few_rows_of_rare_dtypes(rows: int, dtype: torch.dtype) -> None:
    circuit = compiled(product_then_sum(HadamardLayer(2, 2), [coin([0], 2), GaussianLayer([1], 2)]))
    x = torch.zeros(rows, 2, dtype=dtype)
    assert circuit(x).shape == (rows, 1, 1)
    circuit.check(x)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["hadamard", "several sizes", "shared", "quad graph, mixing"])
@pytest.mark.parametrize("fold", [True, False])
def test_the_meta_device(name: str, fold: bool) -> None:
    """As other modules: shapes without values, and `load_state_dict(assign=True)` or `to_empty` brings it back."""
    circuit = CIRCUITS[name]()
    model = TorchCompiler(fold=fold).compile(circuit)
    x = torch.from_numpy(data(circuit, 4))
    expected, state = model(x).detach(), copy.deepcopy(model.state_dict())
    assert model.to("meta") is model
    for rows in (x, x.float(), x[:0]):
        result = model(rows.to("meta"))
        assert result.is_meta
        assert result.shape == (len(rows), *expected.shape[1:])
    result.sum().backward()
    with pytest.raises(InputError, match="data on the meta device has no values to check"):
        model.check(x.to("meta"))
    model.load_state_dict(state, assign=True)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=0)
    model(x.to(torch.float16))  # its constants are where its tensors are
    model.to("meta").to_empty(device="cpu").load_state_dict(state)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=0)


def test_data_is_checked_as_the_layers_read_it() -> None:
    compiler = TorchCompiler()
    compiler.add_layer_rule(next(row for row in ROWS if row.layer is ExponentialLayer))
    rate = Parameter.from_input(constant([1.5, 0.5]))
    model = compiler.compile(chain(ExponentialLayer(Scope([0]), 2, rate)))
    x = torch.tensor([[0.5], [1e-60]], dtype=torch.float64)
    for call in (model, model.check):
        with pytest.raises(InputError, match=r"row 1, variable 0: the value 1e-60 is not above 0"):
            call(x)
    assert model.double()(x).isfinite().all()
    model.check(x)


def test_data_without_numbers_or_with_some_left_out() -> None:
    """The meta device, and sparse and nested tensors: for the circuit, its queries, their masks and its leaves."""
    circuit = compiled(product_then_sum(HadamardLayer(2, 2), [coin([0], 2), coin([1], 2)]))
    x = torch.zeros(2, circuit.num_variables)
    asked: list[Any] = [
        circuit,
        circuit.check,
        lambda x: queries.log_likelihood(circuit, x),
        lambda x: queries.mpe(circuit, x),
    ]
    asked += [lambda x: queries.cdf(circuit, x), lambda x: queries.sample(circuit, given=x)]
    for ask in asked:
        with pytest.raises(InputError, match=r"data is on the meta device.*circuit on cpu.*circuit\.to\('meta'\)"):
            ask(x.to("meta"))
        for sparse in (x.to_sparse(), x.to_sparse_csr()):
            with pytest.raises(DTypeError, match=r"hold every entry, found torch\.sparse_.*x\.to_dense"):
                ask(sparse)
        with pytest.raises(DTypeError, match=r"found torch\.float8_e5m2; convert it"):
            ask(x.to(torch.float8_e5m2))
        with pytest.raises(DTypeError, match=r"found torch\.quint8; .*dequantize"):
            ask(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8))
        with pytest.raises(DTypeError, match="nested rows"):
            ask(torch.nested.nested_tensor(list(x)))
    for mask in (x.bool().to("meta"), x.bool().to_sparse()):
        with pytest.raises(DTypeError, match="given is a mask with a value for each entry"):
            queries.conditional_log_likelihood(circuit, x, mask)
    name, tensor = next(iter(circuit.state_dict().items()))
    with pytest.raises(DTypeError, match="expected a dense tensor"):
        circuit(x, parameters={name: tensor.to_sparse()})
    assert copy.deepcopy(circuit).to("meta")(x.to("meta")).is_meta
