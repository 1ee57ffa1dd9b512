"""A compiled circuit against the oracle, in values and in gradients, on random draws.

    failures = compare(draw_circuit("mild", 3), WAYS)   # what differs, as text; nothing where all is right

    python -m tests.harness.comparison "mild" 3         # one draw in all ways, and its layers

Tolerances. Logarithms are carried to a relative precision, so results, and the exponents of everything that follows
from them, are held to `VALUES * eps * (1 + M)` absolutely, where M is the largest finite logarithm of a layer's value
or of a parameter in the circuit: 1e-5 (1 + M) in float32, 1e-14 (1 + M) in float64. A derivative along a random
direction is held to that, times GRADIENTS, relative to the sum of the sizes of its terms. Where this tolerance is no
longer small, gradients must be finite and no more.
Ordinary numbers (`sum-product`) are held to the same relative precision while every number in the circuit, and what
products multiply on their way, is in the normal range of the dtype; where one is not, a result may be too small, up to
zero, and no larger.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import PlicaError
from plica.lower import cascade
from plica.symbolic.layers import ProductLayer
from plica.symbolic.semirings import LSE_SUM, SEMIRINGS, Bound
from tests.harness.layer_cases import OWN_CASES, LayerCase, num_states, references
from tests.harness.layer_cases.joint import JointLayer
from tests.harness.oracle import Oracle, gradients, numbers
from tests.harness.random_circuits import Draw, draw_circuit
from tests.harness.spaces import LOG, LOG_SPACES, WIDE, Space

Array = Any
VALUES = 64  # roundings of some tens of operations, one after the other
GRADIENTS = 64
_SMALL = 1e-2  # of tolerances
_STEP = WIDE(1e-7)
SIZES = Space(np.abs, np.exp, np.multiply, lambda x, weight: np.einsum("bi,oi->bo", x, np.abs(weight)))


@dataclass(frozen=True)
class Way:
    """How a circuit is compiled and run; `scaled` runs scaled numbers first on any number of rows."""

    semiring: str
    fold: bool
    optimize: bool
    scaled: bool = False

    def __str__(self) -> str:
        flags = [name for name in ("fold", "optimize", "scaled") if getattr(self, name)]
        return " ".join([self.semiring, *flags])


WAYS = tuple(
    Way(semiring, fold, optimize, scaled)
    for semiring, scaled in (("lse-sum", False), ("lse-sum", True), ("sum-product", False))
    for fold in (False, True)
    for optimize in (False, True)
)

# Carriers of signs and phases, whose results are complex logarithms.
DIRECTED_WAYS = tuple(
    Way(row.name, fold, optimize)
    for place, row in enumerate(row for row in SEMIRINGS.values() if row.negative and row.logarithmic)
    for fold, optimize in (((True, True), (False, False)), ((True, False), (False, True)))[place % 2]
)


def some_ways(draw: Draw, number: int = 1) -> tuple[Way, ...]:
    """The ways that belong to the seed: `len(WAYS)` seeds in a row have each way `number` times."""
    return tuple(WAYS[(draw.seed * number + place) % len(WAYS)] for place in range(number))


def compare(draw: Draw, ways: Iterable[Way], own: Sequence[LayerCase] = OWN_CASES) -> list[str]:
    """What is wrong with a draw compiled in some ways, one text for each way that fails.

    Args:
        draw: The circuit and its data.
        ways: The ways.
        own: The layers that are none of the library's.
    """
    failures = []
    compiled: dict[tuple[Any, ...], TorchCircuit] = {}
    expected = None
    for way in ways:
        if draw.signed and not SEMIRINGS[way.semiring].negative:
            continue
        key = (way.semiring, way.fold, way.optimize)
        try:
            circuit = compiled.get(key) or _compile(draw, way, own)
            expected = expected or Expected(draw, numbers(circuit), own)
            if key not in compiled:  # every way has the values of the first
                circuit.load_state_dict({name: torch.from_numpy(value) for name, value in expected.state.items()})
            compiled[key] = circuit
            with _scaled(way.scaled):
                expected.check(circuit)
        except Exception as error:
            text = str(error).strip().splitlines() or [""]
            failures.append(f"{draw}\n  {way}: {type(error).__name__}: {text[0]}")
    return failures


OTHER_SUMS = tuple(row.name for row in SEMIRINGS.values() if row.algebra.name != "real")
"""The semirings of another sum."""


def compare_algebras(
    draw: Draw, own: Sequence[LayerCase] = OWN_CASES, semirings: Sequence[str] = OTHER_SUMS
) -> list[str]:
    """What is wrong with the values of a draw without missing entries in some semirings of another sum."""
    failures = []
    for place, row in enumerate(SEMIRINGS[name] for name in semirings):
        fold, optimize = bool(draw.seed + place & 1), bool(draw.seed + place & 2)
        compiled = _compile(draw, Way(row.name, fold, optimize), own)
        expected = Expected(draw, numbers(compiled), own)
        found = LSE_SUM.map_from(compiled(draw.x).detach(), row).numpy().astype(WIDE)
        logs = expected.in_space(LOG_SPACES[row.algebra.name])
        if not (row.logarithmic or row.algebra.name == "boolean" or expected.representable):
            continue  # ordinary numbers underflow, and the largest of them with them
        impossible = np.isneginf(logs)
        near = np.abs(found - np.where(impossible, 0, logs)) <= expected.tolerance
        if not np.where(impossible, np.isneginf(found), near).all():
            failures.append(
                f"{draw}\n  {row.name}, fold {fold}, optimize {optimize}: {found.ravel()[:3]}, {logs.ravel()[:3]}"
            )
    return failures


def _compile(draw: Draw, way: Way, own: Iterable[LayerCase]) -> TorchCircuit:
    compiler = TorchCompiler(way.semiring, fold=way.fold, optimize=way.optimize, dtype=draw.dtype)
    for case in own:
        compiler.add_layer_rule(case.row)
    return compiler.compile(draw.circuit)


@contextlib.contextmanager
def _scaled(always: bool) -> Iterator[None]:
    """Run scaled numbers first whatever the number of rows, or as a user does."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if always:
            monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
        yield


class Expected:
    """What the oracle makes of a draw, with the values that its tensors have."""

    def __init__(self, draw: Draw, state: dict[str, Array], own: Iterable[LayerCase] = OWN_CASES) -> None:
        self.draw, self.state = draw, state
        self._limits = torch.finfo(draw.dtype)
        self._repeats, self._signed = draw.repeats, draw.signed
        self._own = references(own)
        self._x = self._read()
        oracle = Oracle(draw.circuit, state, self._own)
        space = SIZES if self._signed else LOG
        self._layers = oracle.layers(space, self._x)
        self.linear = oracle.linear(self._x)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.sizes = np.log(oracle._outputs(self._layers)) if self._signed else oracle._outputs(self._layers)
            self.logs = np.log(np.abs(self.linear)) if self._signed else self.sizes
        exponents = self._exponents(oracle)
        partial = self._partial_products()
        self._range = (float(exponents.min(initial=partial[0])), float(exponents.max(initial=partial[1])))
        self.tolerance = VALUES * self._limits.eps * (1 + float(np.abs(exponents).max(initial=0)))
        rng = np.random.default_rng(draw.seed)
        self._weights = rng.uniform(0.5, 1.5, self.logs.shape)
        self._directions = [self._direction(rng) for _ in range(2)]

    def in_space(self, space: Space) -> Array:
        """The values of the outputs in another algebra."""
        oracle = Oracle(self.draw.circuit, self.state, self._own)
        return oracle._outputs(oracle.layers(space, self._x))

    def _read(self) -> Array:
        """The distinct rows, as a circuit reads them: real numbers in the dtype of its parameters."""
        rows = len(self.draw.x) // self._repeats
        x = self.draw.x[:rows].to(torch.float64)
        real = [v for layer in self.draw.circuit.input_layers if num_states(layer) is None for v in layer.scope]
        real = [v for v in real if v < x.shape[1]]
        x[:, real] = x[:, real].to(self.draw.dtype).to(torch.float64)
        return x.numpy()

    def _exponents(self, oracle: Oracle) -> Array:
        """The finite logarithms of all values and parameters."""
        found = []
        with np.errstate(divide="ignore"):
            for layer, value in self._layers.items():
                found.append(np.log(value) if self._signed else value)
                for name, parameter in layer.all_params.items():
                    array = np.asarray(oracle.parameter(parameter))
                    found.append(array if name.split(".")[-1] in ("logits", "log_partition") else np.log(np.abs(array)))
        flat = np.concatenate([np.ravel(one) for one in found])
        return flat[np.isfinite(flat)].astype(float)

    def _partial_products(self) -> tuple[float, float]:
        """Bounds for the logarithms of what products multiply on their way, in whichever order they take the inputs."""
        low, high = 0.0, 0.0
        for layer in self._layers:
            if isinstance(layer, ProductLayer):
                with np.errstate(divide="ignore"):
                    inputs = [self._layers[one] for one in self.draw.circuit.layer_inputs(layer)]
                    logs = [np.log(one) if self._signed else one for one in inputs]
                finite = [one[np.isfinite(one)] for one in logs]
                low = min(low, float(sum(one.min(initial=0) for one in finite)))
                high = max(high, float(sum(one.max(initial=0) for one in finite)))
        return low, high

    def _direction(self, rng: np.random.Generator) -> dict[str, Array]:
        """A random direction, at most as long in each entry as the entry: small weights stay positive.

        It leaves out entries whose reciprocal is no number of the dtype: a derivative that is as large cannot be right.
        """
        least = 4 / float(self._limits.max)
        sizes = {key: np.abs(value).astype(WIDE) for key, value in self.state.items()}
        return {
            key: rng.normal(size=size.shape) * np.where(size < least, 0, np.minimum(size, 1))
            for key, size in sizes.items()
        }

    @cached_property
    def _finite(self) -> Array:
        return np.isfinite(self.logs)

    @cached_property
    def _slopes(self) -> list[float]:
        """The derivatives along the directions: of weighted finite logarithms, or of weighted values of any sign."""
        return [self._slope(direction) for direction in self._directions]

    def _slope(self, direction: dict[str, Array]) -> float:
        sides = []
        for sign in (1, -1):
            moved = {key: value.astype(WIDE) + sign * _STEP * direction[key] for key, value in self.state.items()}
            oracle = Oracle(self.draw.circuit, moved, self._own)
            found = oracle.linear(self._x) if self._signed else oracle.log(self._x)
            sides.append((found * self._weights)[self._finite].sum())
        return float((sides[0] - sides[1]) / (2 * _STEP))

    @property
    def _cancelled(self) -> float:
        """The size of terms of both signs that may cancel in a derivative."""
        return float(np.exp(self.sizes).sum()) * len(self.state) if self._signed else 0.0

    @property
    def representable(self) -> bool:
        """Whether every number in the circuit is well inside the normal range of the dtype."""
        low, high = np.log(self._limits.tiny / self._limits.eps), np.log(self._limits.max * self._limits.eps)
        return bool(low < self._range[0] and self._range[1] < high)

    def check(self, compiled: TorchCircuit) -> None:
        """Compare values and gradients."""
        compiled.zero_grad()
        result = self._run(compiled)
        if result is None:
            return
        shape = (self._repeats, *self.logs.shape)
        assert result.shape == (len(self.draw.x), *self.logs.shape[1:]), f"shape {tuple(result.shape)}"
        linear = not compiled.semiring.logarithmic
        if compiled.semiring.negative and not linear:
            result, linear = self._real_of(result), self._signed
        assert result.dtype == self.draw.dtype, f"dtype {result.dtype}"
        found = result.detach().numpy().reshape(shape).astype(WIDE)
        (self._check_linear if linear else self._check_logs)(found)
        if not self.state or not self._finite.any() or (linear and not self.representable):
            return
        finite, weights = (
            torch.from_numpy(np.broadcast_to(one, shape).reshape(result.shape).copy())
            for one in (self._finite, self._weights / self._repeats)
        )
        chosen = result[finite].log() if linear and not self._signed else result[finite]
        (chosen * weights[finite].to(result.dtype)).sum().backward()
        self._check_gradients(compiled)

    def _real_of(self, result: torch.Tensor) -> torch.Tensor:
        """Real logarithms of complex ones; ordinary numbers where these have signs."""
        if self._signed:
            return result.exp().real
        assert bool((result.imag == 0).all()), f"arguments {result.imag[result.imag != 0][:3]} of positive numbers"
        return result.real

    def _run(self, compiled: TorchCircuit) -> torch.Tensor | None:
        """The result; None where data is refused by name: a dtype, or a layer's variables that are missing in part."""
        try:
            result: torch.Tensor = compiled(self.draw.x)
            return result
        except PlicaError as error:
            if self.draw.x.dtype is torch.bfloat16 and "bfloat16" in str(error):
                return None
            if self._partly_missing and "JointLayer" in str(error) and "missing" in str(error):
                return None
            raise

    @property
    def _partly_missing(self) -> bool:
        joint = [list(layer.scope) for layer in self._layers if isinstance(layer, JointLayer)]
        counts = [(np.isnan(self._x[:, scope]).sum(axis=1), len(scope)) for scope in joint]
        return any(bool(((count > 0) & (count < size)).any()) for count, size in counts)

    def _check_logs(self, found: Array) -> None:
        assert not np.isnan(found).any(), f"NaN for {self._sample(np.isnan(found))}"
        impossible = np.isneginf(self.logs)
        wrong = np.where(
            impossible, ~np.isneginf(found), ~(np.abs(found - np.where(impossible, 0, self.logs)) <= self.tolerance)
        )
        assert not wrong.any(), (
            f"values {self._sample(wrong, found)} instead of {self._sample(wrong)}, tolerance {self.tolerance:.2g}"
        )

    def _check_linear(self, found: Array) -> None:
        sizes = np.exp(self.sizes)
        error = self.tolerance * sizes + float(self._limits.tiny)
        if self.representable:
            wrong = ~(np.abs(found - self.linear) <= error)
        elif self._signed or self._range[1] >= np.log(self._limits.max * self._limits.eps):
            return  # what overflows inside may become anything
        else:
            wrong = ~((found >= 0) & (found <= self.linear + error + VALUES * float(self._limits.tiny)))
        assert not wrong.any(), f"values {self._sample(wrong, found)} instead of {self._sample(wrong, self.linear)}"

    def _sample(self, places: Array, values: Array | None = None) -> list[str]:
        shape = (self._repeats, *self.logs.shape)
        values = np.broadcast_to(self.logs if values is None else values, shape)
        return [f"{float(value):.8g}" for value in values[np.broadcast_to(places, shape)][:3]]

    def _check_gradients(self, compiled: TorchCircuit) -> None:
        for parameter in compiled.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        slopes = gradients(compiled)
        for key, gradient in slopes.items():
            wrong = ~np.isfinite(gradient)
            assert not wrong.any(), f"the gradient of {key} is {gradient[wrong][:3]} where {self.state[key][wrong][:3]}"
        if self.tolerance > _SMALL:
            return
        for direction, expected in zip(self._directions, self._slopes, strict=True):
            terms = [slopes[key].astype(WIDE) * direction[key] for key in slopes]
            found = sum(float(term.sum()) for term in terms)
            size = sum(float(np.abs(term).sum()) for term in terms) + self._cancelled
            bound = GRADIENTS * self.tolerance * (1 + size) + 1e-9 * (1 + size)
            assert abs(found - expected) <= bound, f"slope {found:.8g} instead of {expected:.8g}, tolerance {bound:.2g}"


def _show(draw: Draw) -> None:
    circuit = draw.circuit
    print(draw)
    for layer in circuit.layers:
        inputs = [circuit.layer_index(one) for one in circuit.layer_inputs(layer)]
        names = {name: [type(node).__name__ for node in one.nodes] for name, one in layer.params.items()}
        print(f"  {circuit.layer_name(layer)} {inputs or ''} {names or ''}")
    print("  outputs", [circuit.layer_index(layer) for layer in circuit.outputs])
    print(*compare(draw, WAYS) or ["right in all ways"], sep="\n")


if __name__ == "__main__":
    _show(draw_circuit(sys.argv[1], int(sys.argv[2])))
