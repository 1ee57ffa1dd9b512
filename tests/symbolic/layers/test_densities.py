"""Layers of densities at the ends of what they are asked: boxes, tails, arcs, hidden entries.

The rows run on torch tensors as they are; SciPy's distributions in float64 say what is right.
"""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special
from scipy.integrate import quad
from torch import Tensor

import plica.numpy as pnp
from plica.backend.torch.compiler import TorchCompiler
from plica.ir.op import Unsupported
from plica.symbolic.domains import ANGLES
from plica.symbolic.layers import LAYER_ROWS, ModuleLayer, VonMisesLayer
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import SEMIRINGS, Params
from tests.harness.case_circuits import circuit_of
from tests.harness.layer_cases import CASES, InputCase
from tests.harness.oracle import evaluate
from tests.harness.pairwise import by_turns
from tests.harness.spaces import WIDE

LOG = SEMIRINGS["lse-sum"]
BOXES = (
    (-np.inf, np.inf),
    (-np.inf, 0.0),
    (0.0, np.inf),
    (1.0, 2.0),
    (2.0, 1.0),
    (3.0, 3.0),
    (12.0, np.inf),
    (-np.inf, -12.0),
    (30.0, 40.0),
    (1e30, np.inf),
    (0.0, 0.1),
    (0.9, 1.0),
    (np.inf, np.inf),
    (-np.inf, -np.inf),
)


# of one real variable, and SciPy's distribution functions are right at the ends of its parameters
REALS = [
    case
    for case in CASES
    if isinstance(case, InputCase)
    and case.row.layer in LAYER_ROWS
    and case.num_variables == 1
    and case.distributions is not None
    and case.parameters
    and not isinstance(case.row.interval, Unsupported)
    and not case.build([0], 1).domain.whole
    and "log_partition" not in case.parameters
    and "edges" not in case.parameters
    and case.build([0], 1).domain != ANGLES
]
(TURNS,) = [case for case in CASES if isinstance(case, InputCase) and case.row.layer is VonMisesLayer]
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def units(case: InputCase) -> tuple[Any, dict[str, Any]]:
    """A layer with a unit for each combination of parameters, and these in float32."""
    choices = {name: one.extremes for name, one in case.parameters.items()}
    every = np.array(list(itertools.product(*choices.values()))).T
    values = dict(zip(choices, every.astype(np.float32).astype(float), strict=True))
    return case.build([0], every.shape[-1]), values


def run(
    case: InputCase, layer: Any, values: dict[str, Any], dtype: Any, *arrays: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """The logarithms of what units have in boxes, `(B, K)`, and their parameters."""
    params = {name: torch.tensor(one[None], dtype=dtype, requires_grad=True) for name, one in values.items()}
    value = case.row.interval(pnp, LOG, layer, Params.of(pnp, params), *arrays)
    return LOG.to_log(pnp, value)[0], list(params.values())


@pytest.mark.parametrize("case", REALS, ids=str)
@DTYPES
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_boxes_keep_their_digits_in_the_tails(case: InputCase, dtype: torch.dtype) -> None:
    low, high = (torch.tensor(ends, dtype=dtype)[None, :, None] for ends in zip(*BOXES, strict=True))
    layer, values = units(case)
    found, params = run(case, layer, values, dtype, low, high)
    assert not found.isnan().any()
    assert (found < 1e-6).all()
    least, most = (end.double().numpy()[0, :, 0] for end in (low, high))
    expected = []
    for one in case.distributions(layer, values):
        right = one.cdf(least) > 0.5
        share = np.where(right, one.sf(least) - one.sf(most), one.cdf(most) - one.cdf(least))
        expected.append(np.where(least < most, share, 0))
    wanted, shares = np.stack(expected, axis=1), found.detach().double().exp().numpy()
    exact = 1e-6 if dtype == torch.float32 else 1e-9
    np.testing.assert_allclose(shares, wanted, rtol=0, atol=exact)
    # tails that reach to infinity, or end where there is as good as nothing left, are no differences
    tails = [place for place, (_, end) in enumerate(BOXES) if end in (np.inf, -12.0)]
    known = wanted[tails] > float(torch.finfo(dtype).tiny) * 1e6
    np.testing.assert_allclose(shares[tails][known], wanted[tails][known], rtol=1e4 * exact)
    for slope in torch.autograd.grad(found[found.isfinite()].sum(), params):
        assert slope.isfinite().all()


@DTYPES
def test_arcs_keep_their_digits_opposite_to_the_peak(dtype: torch.dtype) -> None:
    """By integrals, since SciPy's distribution function is a normal approximation where concentrations are large."""
    arcs = [(-np.pi, np.pi), (-9.0, 9.0), (0.1, 0.4), (-0.5, 3.0), (-3.1, -2.9), (2.5, 3.1), (2.9, -1.0), (9.0, 10.0)]
    low, high = (torch.tensor(ends, dtype=dtype)[None, :, None] for ends in zip(*arcs, strict=True))
    layer, values = units(TURNS)
    found, params = run(TURNS, layer, values, dtype, low, high)
    for unit, (loc, concentration) in enumerate(zip(values["loc"], values["concentration"], strict=True)):
        if concentration > 1e3:
            continue  # beyond what quadrature finds by itself
        for place in range(len(arcs)):
            least, most = (float(np.clip(end[0, place, 0].double(), -np.pi, np.pi)) for end in (low, high))
            peaks = [one for one in (loc, loc - 0.1, loc + 0.1, loc + 2 * np.pi) if least < one < most]

            def density(x: float, loc: float = loc, concentration: float = concentration) -> float:
                return float(np.exp(-2 * concentration * np.sin((x - loc) / 2) ** 2))

            share = quad(density, least, most, points=peaks or None, limit=200, epsabs=0)[0] if least < most else 0.0
            share /= 2 * np.pi * special.i0e(concentration)
            if share == 0 or share > float(torch.finfo(dtype).tiny):
                value = found[place, unit].double().exp().item()
                assert value == pytest.approx(share, rel=2e-4 if dtype == torch.float32 else 1e-8)
    assert not found.isnan().any()
    for slope in torch.autograd.grad(found[found.isfinite()].sum(), params):
        assert slope.isfinite().all()


ALL = [case for case in CASES if isinstance(case, InputCase) and case.row.layer in LAYER_ROWS]
# which have variables to hide, and parameters of their own: those of a module are its own
INPUTS = [
    case for case in ALL if case.num_variables and not case.signed and not issubclass(case.row.layer, ModuleLayer)
]


@pytest.mark.one_in(3)
@by_turns(case=INPUTS, dtype=["float32", "float64"])
def test_hidden_entries_give_neither_value_nor_gradient(case: InputCase, dtype: str) -> None:
    """A row of which everything is hidden has the total as its value, and its gradient, whatever the layer reads.

    With known entries beside hidden ones, `check_circuit` of the conformance checks compares the gradients.
    """
    circuit = circuit_of(case)
    torch.manual_seed(0)
    compiler = TorchCompiler(dtype=dtype)
    compiled = compiler.compile(circuit)
    x = torch.full((3, max(circuit.scope) + 1), float("nan"), dtype=torch.float64)
    for layer in circuit.input_layers:
        x[0, list(layer.scope)] = torch.tensor(case.draw(layer, np.random.default_rng(0), 1)[0], dtype=x.dtype)
    first = circuit.input_layers[0]
    own = [leaf for one in first.all_params.values() for leaf in one.leaves if isinstance(leaf, TensorParameter)]

    def slopes(rows: list[int]) -> list[Tensor]:
        compiled.zero_grad()
        compiled(x[rows]).sum().backward()
        found = []
        for leaf in own:
            held, fold = compiler.tensor_of(leaf)
            found.append(torch.zeros_like(held[fold]) if held.grad is None else held.grad[fold].clone())
        return found

    known, both, hidden = slopes([0]), slopes([0, 1, 2]), slopes([1, 2])
    for one, other, rest in zip(known, both, hidden, strict=True):
        assert rest.isfinite().all()
        torch.testing.assert_close(one + rest, other)
    if np.allclose(np.asarray(case.totals(first, _numbers(compiler, first)), float), 1):
        assert all(rest.abs().max() < 1e-6 for rest in hidden if rest.numel())


def _numbers(compiler: TorchCompiler, layer: Any) -> dict[str, Any]:
    values = {}
    for one in layer.all_params.values():
        for leaf in one.leaves:
            if isinstance(leaf, TensorParameter):
                held, fold = compiler.tensor_of(leaf)
                values[leaf] = held[fold].detach().double().numpy().astype(WIDE)
    return {name: evaluate(one, values) for name, one in layer.all_params.items()}
