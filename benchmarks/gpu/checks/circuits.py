"""Circuits of every layer row under every flag, semiring and precision: values, marginals, gradients, no waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu.checks import Check
from benchmarks.gpu.checks.comparison import DTYPES, require_no_waiting, require_same
from benchmarks.gpu.devices import Device
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError, UnsupportedError
from plica.learn import Adam, fit
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, Layer, SumLayer
from plica.symbolic.parameters import Parameter, SoftmaxParameter, TensorParameter
from plica.symbolic.semirings import SEMIRINGS
from tests.harness.case_circuits import circuit_of
from tests.harness.circuits import CIRCUITS, data
from tests.harness.layer_cases import LAYER_CASES

ROWS = 6
FLAGS = tuple(product((False, True), repeat=2))  # fold, optimize


def circuit_cases() -> Mapping[str, Callable[[], Circuit]]:
    """The circuits that are checked, by name: those of the conformance cases, which every layer row has, and others."""
    return {**{str(case): partial(circuit_of, case) for case in LAYER_CASES}, **CIRCUITS}


def checks() -> Iterator[Check]:
    """One check for each circuit and semiring, and what concerns circuits as a whole."""
    for name, build in circuit_cases().items():
        for semiring in SEMIRINGS:
            yield Check(f"circuit {name}, {semiring}", partial(_check, build, semiring))
    yield Check("circuit: entries that are no category", _check_states)
    yield Check("circuit: training", _check_training)
    for is_learned in (True, False):
        name = "learned" if is_learned else "constant"
        yield Check(f"circuit: a captured call, {name} weights", partial(_check_captured, is_learned))


def _check(build: Callable[[], Circuit], semiring: str, device: Device) -> str | None:
    circuit = build()
    try:
        compiled = TorchCompiler(semiring).compile(circuit)
        compiled(_rows(circuit))  # weights of any sign are looked at in a call
    except UnsupportedError as error:
        return f"refused on the CPU too: {error}"
    for (fold, optimize), dtype in product(FLAGS, DTYPES):
        torch.manual_seed(0)
        compiled = TorchCompiler(semiring, fold=fold, optimize=optimize, dtype=dtype).compile(build())
        inputs = {title: x.to(dtype) if x.is_floating_point() else x for title, x in _inputs(circuit, compiled).items()}
        expected = {title: _results(compiled, x) for title, x in inputs.items()}
        compiled.to(device.name)
        for title, x in inputs.items():
            what = f"fold={fold}, optimize={optimize}, {dtype}, {title}"
            _compare(compiled, x.to(device.name), expected[title], device, what)
    return None


def pair(
    build: Callable[[], Circuit],
    device: Device,
    *,
    semiring: str = "lse-sum",
    fold: bool = True,
    optimize: bool = True,
    dtype: torch.dtype = torch.float32,
) -> tuple[TorchCircuit, TorchCircuit]:
    """The circuit on the CPU and, with modules of its own, on the device, with the same numbers in its tensors."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {"fold": fold, "optimize": optimize, "dtype": dtype}
    on_cpu, on_device = (TorchCompiler(semiring, **settings).compile(build()) for _ in range(2))
    on_device.to(device.name).load_state_dict(on_cpu.state_dict())
    return on_cpu, on_device


def with_one_unit(circuit: Circuit) -> Circuit:
    """The circuit of the first output alone, its units mixed if there are several."""
    first = circuit.outputs[0]
    circuit = circuit.subgraph(first)
    if first.num_output_units == 1:
        return circuit
    root = SumLayer(first.num_output_units, 1)
    edges: dict[Layer, Sequence[Layer]] = {layer: circuit.layer_inputs(layer) for layer in circuit.inner_layers}
    return Circuit([*circuit.layers, root], edges | {root: [first]}, [root])


def _inputs(circuit: Circuit, compiled: TorchCircuit) -> dict[str, Tensor]:
    """Rows of data, and rows of which some entries are missing where the circuit can sum them out, or all are."""
    rows = _rows(circuit)
    inputs = {"values": rows}
    missing = torch.from_numpy(np.random.default_rng(1).random(rows.shape) < 0.4)
    missing[0] = True
    for holes in (missing, missing.any(1, keepdim=True).expand(rows.shape)):
        some = rows.double().masked_fill(holes, torch.nan)
        if compiled.properties.smooth and compiled.properties.decomposable and _is_answered(compiled, some):
            return inputs | {"marginals": some}
    return inputs


def _rows(circuit: Circuit) -> Tensor:
    return torch.from_numpy(data(circuit, ROWS))


def _is_answered(compiled: TorchCircuit, x: Tensor) -> bool:
    """Whether the CPU does not refuse the rows by name: layers may need variables, all of them or none."""
    try:
        compiled(x.to(compiled.dtype))
    except (InputError, UnsupportedError):
        return False
    return True


def _compare(compiled: TorchCircuit, x: Tensor, expected: Mapping[str, Tensor], device: Device, what: str) -> None:
    found = _results(compiled, x)
    is_signed = expected["values"].is_complex()  # sums of numbers of any sign cancel
    for name, wanted in expected.items():
        scale = (1.0 if name == "values" else 10.0) * (100.0 if is_signed else 1.0)
        require_same(found[name], wanted, device, f"{what}, {name}", scale)

    def step() -> None:
        result = compiled(x)
        if result.requires_grad:
            _real(result).sum().backward()  # type: ignore[no-untyped-call]

    require_no_waiting(device, step, f"{what}, forward and backward")


def _real(values: Tensor) -> Tensor:
    """Numbers of which there are gradients: of complex logarithms those of the sizes."""
    return values.real if values.is_complex() else values


def _results(compiled: TorchCircuit, x: Tensor) -> dict[str, Tensor]:
    """The values, and the gradients of the weighted sum of those that are finite."""
    compiled.zero_grad(set_to_none=True)
    values = compiled(x)
    results = {"values": values.detach()}
    if values.requires_grad:
        real = _real(values)
        weights = torch.linspace(0.5, 1.5, real.numel(), dtype=real.dtype).reshape(real.shape).to(real.device)
        torch.where(real.isfinite(), real * weights, 0.0).sum().backward()  # type: ignore[no-untyped-call]
        learned = {f"gradient of {name}": one.grad for name, one in compiled.named_parameters()}
        results |= {
            name: gradient.to(compiled.dtype, copy=True) for name, gradient in learned.items() if gradient is not None
        }
    return results


def _check_states(device: Device) -> None:
    """On the CPU such a row is an error; elsewhere it is NaN, other rows are right, and `check` finds it."""
    on_cpu, on_device = pair(CIRCUITS["hadamard"], device)
    circuit = on_cpu.symbolic
    right = torch.from_numpy(data(circuit, ROWS))
    wrong = right.clone()
    wrong[2, 1], wrong[4, 0] = 99, -1
    if device.name != "cpu":
        found, expected = on_device(wrong.to(device.name)).cpu(), on_cpu(right)
        places = found.isnan().flatten().nonzero().flatten().tolist()
        assert places == [2, 4], f"found NaN in the rows {places}, expected [2, 4]"
        kept = [0, 1, 3, 5]
        torch.testing.assert_close(found[kept], expected[kept], rtol=2e-5, atol=2e-5)
    try:
        on_device.check(wrong.to(device.name))
    except InputError as error:
        assert "row 2, variable 1" in str(error), f"found {error}"  # noqa: PT017 - pytest may not be there
    else:
        raise AssertionError("`check` found nothing wrong")


def _check_training(device: Device) -> None:
    """The likelihoods of a few epochs are those of the CPU, and rise."""
    models, histories = pair(CIRCUITS["random tree, cp"], device, dtype=torch.float64), []
    rows = torch.from_numpy(data(models[0].symbolic, 64))
    for model in models:
        result = fit(model, rows[:48], rows[48:], learner=Adam(0.05), epochs=3, batch=16)
        histories.append([one.train for one in result.history[1:] if one.train is not None])
    expected, found = histories
    assert np.allclose(found, expected, rtol=1e-6), f"found likelihoods {found}, expected {expected}"
    assert found[-1] > found[0], f"found likelihoods {found}, expected rising ones"


def _check_captured(is_learned: bool, device: Device) -> None:
    """A captured call loses no sum, whatever weights it saw before it was captured or, of learned ones, sees later."""
    x = torch.tensor([[0], [1]], device=device.name)
    for least in (-5.0, -120.0):
        weight = TensorParameter(1, 2, initializer=ConstantTensorInitializer(np.array([[0.0, least]])))
        masses = TensorParameter(2, 2, initializer=ConstantTensorInitializer(np.array([[0.0, -300.0], [-300.0, 0.0]])))
        leaf = CategoricalLayer(
            [0], 2, num_categories=2, probs=Parameter.from_unary(SoftmaxParameter(masses.shape), masses)
        )
        root = SumLayer(2, 1, weight=Parameter.from_unary(SoftmaxParameter(weight.shape), weight))
        module = TorchCompiler().compile(Circuit([leaf, root], {root: [leaf]}, [root])).to(device.name)
        module.requires_grad_(is_learned).train(is_learned)
        held: dict[str, Tensor] = {}

        def call(module: TorchCircuit = module, held: dict[str, Tensor] = held) -> None:
            held["values"] = module(x)

        for _ in range(3):
            call()
        replay = device.capture(call)
        for now in (least, -120.0) if is_learned else (least,):
            with torch.no_grad():
                for one in module.parameters():
                    if one.numel() == weight.shape[0] * weight.shape[1]:
                        one[..., 1] = now
            replay()
            whole = np.logaddexp(0.0, now)
            expected = [np.logaddexp(0.0, now - 300) - whole, np.logaddexp(-300.0, now) - whole]
            found = held["values"].detach().flatten().tolist()
            assert np.allclose(found, expected, rtol=1e-6, atol=1e-6), f"{least}, {now}: {found}, expected {expected}"
