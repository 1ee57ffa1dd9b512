"""Contexts, the options of `compile`, and the two-way map between symbolic and compiled circuits."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import ClassVar

import pytest
import torch

import plica
from plica import pipeline
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import UnsupportedError
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import LAYER_ROWS, CategoricalLayer, ProductLayer, ProductRow, SumLayer
from plica.symbolic.semirings import SEMIRINGS
from tests.harness.circuits import bag, chain, coin, mixture

X = torch.tensor([[0], [1]])


def test_the_map_goes_both_ways() -> None:
    first, second = mixture(1), mixture(1)
    ctx, other = PipelineContext(), PipelineContext()
    compiled = ctx.compile(first)
    assert ctx.compile(first) is compiled
    assert ctx[first] is ctx.get_compiled_circuit(first) is compiled
    assert ctx.get_symbolic_circuit(compiled) is first
    assert (ctx.is_compiled(first), ctx.is_compiled(second), other.is_compiled(first)) == (True, False, False)
    elsewhere = other.compile(first)
    assert elsewhere is not compiled
    assert (ctx.has_symbolic(compiled), ctx.has_symbolic(elsewhere)) == (True, False)
    for lookup in (
        lambda: ctx[second],
        lambda: other.get_compiled_circuit(second),
        lambda: ctx.get_symbolic_circuit(elsewhere),
    ):
        with pytest.raises(KeyError):
            lookup()


def test_the_innermost_context_compiles() -> None:
    circuit = mixture(1)
    with PipelineContext(semiring="sum-product") as outer:
        assert plica.compile(circuit).semiring.name == "sum-product"
        with PipelineContext(dtype="float64") as inner:
            assert plica.compile(circuit) is inner[circuit]
            assert plica.compile(circuit).dtype == torch.float64
            assert plica.compile(circuit, outer) is outer[circuit]
            with outer:  # entered a second time
                assert plica.compile(circuit) is outer[circuit]
            assert plica.compile(circuit) is inner[circuit]
        assert plica.compile(circuit) is outer[circuit]
    assert plica.compile(circuit) is not outer[circuit]
    assert plica.compile(circuit).semiring.name == "lse-sum"


def test_a_context_ends_with_an_error() -> None:
    circuit = mixture(1)
    with pytest.raises(RuntimeError, match="inside"), PipelineContext(semiring="sum-product"):
        raise RuntimeError("inside")
    assert plica.compile(circuit).semiring.name == "lse-sum"


def test_threads_enter_and_leave_one_context_in_any_order() -> None:
    context, inside, leave = PipelineContext(), Event(), Event()

    def stay() -> bool:
        with context:
            inside.set()
            leave.wait(10)
            return plica.compile(circuit) is context[circuit]

    layer = coin([0], 2)
    circuit = Circuit([layer], {}, [layer])
    with ThreadPoolExecutor(1) as pool:
        with context:
            other = pool.submit(stay)
            assert inside.wait(10)
        leave.set()
        assert other.result()
    assert not context.has_symbolic(plica.compile(circuit))


def test_options() -> None:
    circuit = mixture(2)
    compiled = plica.compile(circuit, semiring="sum-product", fold=False, optimize=False, dtype=torch.float64)
    assert compiled.semiring is SEMIRINGS["sum-product"]
    assert compiled.dtype == torch.float64
    assert [group.num_folds for group in compiled.layers] == [1, 1, 1]
    assert plica.compile(circuit, semiring=SEMIRINGS["lse-sum"]).semiring.name == "lse-sum"
    log_space = plica.compile(circuit, dtype="float64")
    log_space.load_state_dict(compiled.state_dict())
    torch.testing.assert_close(log_space(X).exp(), compiled(X))


def test_the_default_dtype_of_torch_is_the_default() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert plica.compile(mixture(1)).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert plica.compile(mixture(1)).dtype == torch.float32


WRONG = {
    "semiring": (
        lambda: plica.compile(mixture(1), semiring="min-sum"),
        "no semiring 'min-sum'; there are sum-product, lse-sum",
    ),
    "compiler's semiring": (lambda: TorchCompiler("max"), "there is no semiring 'max'"),
    "backend": (lambda: PipelineContext("jax"), "there is no backend 'jax'; there are torch"),
    "dtype": (
        lambda: plica.compile(mixture(1), dtype=torch.int64),
        "circuits compute in float32 or float64.*not in torch.int64",
    ),
    "options beside a context": (
        lambda: plica.compile(mixture(1), PipelineContext(), fold=False),
        r"the options fold belong to the context; give them to PipelineContext\(...\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    call, message = WRONG[case]
    with pytest.raises(UnsupportedError, match=message):
        call()


def test_circuits_of_one_context_share_tensors() -> None:
    layer = coin([0], 2, 3)
    one, two = chain(layer, SumLayer(2, 1)), bag(SumLayer(2, 1, 2), layer, coin([0], 2, 3))
    ctx = PipelineContext(dtype="float64")
    first, second = ctx.compile(one), ctx.compile(two)
    alone = PipelineContext(dtype="float64").compile(two)
    key = f"{two.layer_index(layer)}.logits"
    assert torch.equal(first.state_dict()["0.logits"], second.state_dict()[key])
    before = second(X)
    state = first.state_dict()
    state["0.logits"] = state["0.logits"] + torch.arange(3.0)
    first.load_state_dict(state)
    assert not torch.equal(second(X), before)
    assert torch.equal(first.state_dict()["0.logits"], second.state_dict()[key])
    assert not torch.equal(alone.state_dict()[key], second.state_dict()[key])


def test_circuits_that_threads_compile_at_one_time_share_tensors() -> None:
    for _ in range(5):
        context, shared, barrier = PipelineContext(), coin([0], 2), Barrier(4)
        sums = [SumLayer(2, 1) for _ in range(3)]
        circuits = [Circuit([shared, one], {one: [shared]}, [one]) for one in sums]

        def compiled(
            part: Circuit | CategoricalLayer, barrier: Barrier = barrier, context: PipelineContext = context
        ) -> torch.nn.Module:
            barrier.wait()
            if isinstance(part, Circuit):
                return context.compile(part)
            return context.compile_layer(part)

        with ThreadPoolExecutor(4) as pool:
            modules = list(pool.map(compiled, [*circuits, shared]))
        with torch.no_grad():
            next(one for name, one in modules[0].named_parameters() if "logits" in name).fill_(-7.0)
        for module in modules:
            assert any((one == -7.0).all() for one in module.parameters())


def test_a_part_of_a_compiled_circuit_keeps_its_tensors() -> None:
    """A later circuit's initial values do not touch what an earlier one has."""
    circuit = mixture(2)
    ctx = PipelineContext()
    compiled = ctx.compile(circuit)
    before = {key: value.clone() for key, value in compiled.state_dict().items()}
    part = ctx.compile(circuit.subgraph(circuit.input_layers[0]))
    assert all(torch.equal(value, before[key]) for key, value in compiled.state_dict().items())
    assert torch.equal(part(X)[:, 0], ctx.compile(circuit.subgraph(*circuit.input_layers))(X)[:, 0])
    assert isinstance(part.symbolic, Circuit)


def test_importing_plica_does_not_import_torch() -> None:
    import subprocess

    code = "import sys, plica, plica.pipeline; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class _Doubled(ProductLayer):
    """Twice its one input."""

    num_input_units = num_output_units = 2
    arity = 1
    config: ClassVar[dict[str, object]] = {}


def _doubled(xp, semiring, _layer, _params, inputs):
    return semiring.product(xp, inputs[0], semiring.from_linear(xp, xp.full((1, 1, 1), 2.0, dtype=xp.float32)))


ROW = ProductRow(_Doubled, body=_doubled, route=lambda *given: (given[-1],))


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("semiring", list(SEMIRINGS))
def test_a_layer_of_ones_own_is_compiled_by_its_row(fold: bool, semiring: str) -> None:
    inner, outer = CategoricalLayer([0], 2, num_categories=3), _Doubled()
    circuit = Circuit([inner, outer], {outer: [inner]}, [outer])
    context = PipelineContext(fold=fold, semiring=semiring)
    context.add_layer_compilation_rule(ROW)
    compiled = context.compile(circuit)
    row, real = SEMIRINGS[semiring], SEMIRINGS["sum-product"]
    plain = PipelineContext(fold=fold, semiring=semiring).compile(Circuit([inner], {}, [inner]))
    plain.load_state_dict(compiled.state_dict())
    data = torch.arange(3)[:, None]
    torch.testing.assert_close(compiled(data), row.mul(row.map_from(torch.tensor(2.0), real), plain(data)))


def test_layers_without_a_row_and_rows_given_twice_are_refused() -> None:
    inner, outer = CategoricalLayer([0], 2, num_categories=3), _Doubled()
    context = PipelineContext()
    with pytest.raises(UnsupportedError, match=r"_Doubled has no row .*add_layer_compilation_rule"):
        context.compile(Circuit([inner, outer], {outer: [inner]}, [outer]))
    context.add_layer_compilation_rule(ROW)
    for row in (ROW, LAYER_ROWS[SumLayer]):
        with pytest.raises(UnsupportedError, match="has a row already"):
            context.add_layer_compilation_rule(row)


def test_functions_for_parts_work_in_the_active_context() -> None:
    layer = CategoricalLayer([0], 2, num_categories=3)
    x = torch.tensor([[0], [2]])
    alone = pipeline.compile_layer(layer, semiring="sum-product", dtype="float64")
    assert alone(x).dtype == torch.float64
    with PipelineContext(semiring="sum-product") as ctx:
        torch.testing.assert_close(pipeline.compile_layer(layer)(x), ctx.compile_layer(layer)(x))
        assert pipeline.compile_parameter(layer.params["logits"])().shape == (1, 2, 3)
        filled = pipeline.compile_initializer(NormalInitializer())(torch.empty(4))
        assert filled.isfinite().all()
        with pytest.raises(UnsupportedError, match="the options semiring belong to the context"):
            pipeline.compile_layer(layer, semiring="lse-sum")
