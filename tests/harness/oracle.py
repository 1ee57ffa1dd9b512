"""The brute-force oracle: a symbolic circuit evaluated node by node in numpy, from the values in a state dict.

It shares no code with the compiler: layers and parameter operations are written here a second time, as plainly as
possible, in extended precision and without broadcasting over folds. Totals and marginals come from enumerating every
state, or from quadrature; for speed, input layers also know their own sums over entries that are NaN.

    oracle = Oracle(circuit, numbers(compiled))  # a dict of arrays by key
    oracle.log(x)      # (B, outputs, units): logarithms, right where the probability underflows any float
    oracle.linear(x)   # the same as ordinary numbers; weights may be negative
"""

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import Parameter
from tests.harness.layer_cases import LAYER_CASES, num_states, references
from tests.harness.spaces import LARGEST, LINEAR, LOG, WIDE, Space, safe_log

Array = Any

# Parameter operations: (operation, *inputs) -> value, without a fold axis. Of complex numbers too, whose imaginary
# parts tell derivatives.


def _softmax(op: Any, x: Array) -> Array:
    powers = np.exp(x - x.real.max(op.axis, keepdims=True))
    return powers / powers.sum(op.axis, keepdims=True)


def _log_softmax(op: Any, x: Array) -> Array:
    x = x - x.real.max(op.axis, keepdims=True)  # first: 1e30 + log 2 is 1e30 in any float
    return x - np.log(np.exp(x).sum(op.axis, keepdims=True))


def _softplus(_: Any, x: Array) -> Array:
    if not np.iscomplexobj(x):
        return np.logaddexp(x, 0)
    y = np.exp(np.where(x.real < 0, x, -x))
    log1p = np.where(np.abs(y) < 1e-6, y - y * y / 2 + y * y * y / 3, np.log(1 + y))
    return np.where(x.real < 0, log1p, x + log1p)


def _sigmoid(_: Any, x: Array) -> Array:
    y = np.exp(np.where(x.real < 0, x, -x))
    return np.where(x.real < 0, y, 1) / (1 + y)


def _clamped(op: Any, x: Array) -> Array:
    low, high = (bound if bound is not None else other for bound, other in ((op.vmin, -np.inf), (op.vmax, np.inf)))
    return np.where(x.real < low, low, np.where(x.real > high, high, x))


def _outer(op: Any, x: Array, y: Array) -> Array:
    at = op.axis % x.ndim
    return (np.expand_dims(x, at + 1) * np.expand_dims(y, at)).reshape(op.shape)


def _outer_sum(op: Any, x: Array, y: Array) -> Array:
    at = op.axis % x.ndim
    return (np.expand_dims(x, at + 1) + np.expand_dims(y, at)).reshape(op.shape)


def _blocks(op: Any, x: Array, y: Array) -> Array:
    pairs = itertools.product(np.split(x, op.blocks1, axis=1), np.split(y, op.blocks2, axis=1))
    return np.concatenate([np.kron(first, second) for first, second in pairs], axis=1)


def _diagonals(_: Any, weights: Array) -> Array:
    return np.concatenate([np.diag(weights[:, place]) for place in range(weights.shape[1])], axis=1)


OPERATIONS: dict[str, Callable[..., Array]] = {
    "SumParameter": lambda _, a, b: a + b,
    "LogAddExpParameter": lambda _, a, b: np.logaddexp(a, b),
    "HadamardParameter": lambda _, a, b: a * b,
    "BlockKroneckerParameter": _blocks,
    "KroneckerParameter": lambda _, a, b: np.kron(a, b),
    "OuterProductParameter": _outer,
    "OuterSumParameter": _outer_sum,
    "ReduceLSEParameter": lambda op, x: safe_log(np.exp(x).sum(op.axis)),
    "ExpParameter": lambda _, x: np.exp(x),
    "LogParameter": lambda _, x: safe_log(x),
    "SquareParameter": lambda _, x: x * x,
    "SoftplusParameter": _softplus,
    "ConjugateParameter": lambda _, x: np.conj(x),
    "SigmoidParameter": _sigmoid,
    "ScaledSigmoidParameter": lambda op, x: op.vmin + (op.vmax - op.vmin) * _sigmoid(op, x),
    "SoftmaxParameter": _softmax,
    "LogSoftmaxParameter": _log_softmax,
    "ReduceSumParameter": lambda op, x: x.sum(op.axis),
    "ReduceProductParameter": lambda op, x: x.prod(op.axis),
    "TwiceParameter": lambda _, x: 2 * x,  # a test's own
    "MatMulParameter": lambda _, a, b: a @ b,
    "EinsumParameter": lambda op, a, b: np.einsum(op.equation, a, b),
    "ConcatParameter": lambda op, a, b: np.concatenate([a, b], op.axis),
    "FlattenParameter": lambda op, x: x.reshape(op.shape),
    "ClampParameter": _clamped,
    "IndexParameter": lambda op, x: np.take(x, op.indices, op.axis),
    "MixingWeightParameter": _diagonals,
    "PolynomialDifferential": lambda op, x: np.polynomial.polynomial.polyder(x, op.order, axis=1),
}


References = Mapping[type[Layer], Callable[..., Array]]
_REFERENCES = references(LAYER_CASES)


class Oracle:
    """A circuit with values of its parameters.

    Args:
        circuit: The symbolic circuit.
        values: The arrays of a state dict: "<layer index>.<parameter>" of unfolded shapes, or the leaf's own name.
        own: The references of further classes of layers.
    """

    def __init__(self, circuit: Circuit, values: Mapping[str, Array], own: References | None = None) -> None:
        self.circuit = circuit
        self._references = {**_REFERENCES, **(own or {})}
        self._leaves = {leaf: wide(values[key]) for leaf, key in keys(circuit).items() if key in values}
        self._held = {layer: held_values(circuit, layer, values) for layer in circuit.layers}
        self._read = circuit.subgraph(*circuit.outputs).layers
        self._parameters: dict[Any, Array] = {}

    def log(self, x: Array) -> Array:
        """Logarithms `(B, outputs, units)`; a variable that is NaN in `x (B, D)` is summed out by its input layers."""
        return self._outputs(self.layers(LOG, x))

    def linear(self, x: Array) -> Array:
        """Ordinary numbers `(B, outputs, units)`."""
        return self._outputs(self.layers(LINEAR, x))

    def largest(self, x: Array) -> Array:
        """Logarithms `(B, outputs, units)` where each sum is the largest of its terms."""
        return safe_log(self._outputs(self.layers(LARGEST, x)))

    def parameter(self, parameter: Parameter) -> Array:
        """The value of one parameter."""
        return evaluate(parameter, self._leaves, self._parameters)

    def layers(self, space: Space, x: Array) -> dict[Layer, Array]:
        """The values `(B, units)` of every layer that an output reads."""
        x = np.asarray(x, WIDE)
        values: dict[Layer, Array] = {}
        for layer in self._read:
            params = {name: self.parameter(parameter) for name, parameter in layer.all_params.items()}
            params |= self._held[layer]
            read = [values[one] for one in self.circuit.layer_inputs(layer)]
            values[layer] = self._references[type(layer)](space, layer, params, read or x)
        return values

    def _outputs(self, values: dict[Layer, Array]) -> Array:
        return np.stack([values[layer] for layer in self.circuit.outputs], axis=1)

    def total(self) -> Array:
        """The sum over all states, in ordinary numbers `(outputs, units)`."""
        return self.linear(all_states(self.circuit)).sum(axis=0)

    def marginal(self, row: Array) -> Array:
        """The sum over the states of the variables that are NaN in `row (D,)`: `(outputs, units)`."""
        states = all_states(self.circuit)
        return self.linear(states[(np.isnan(row) | (states == row)).all(axis=1)]).sum(axis=0)

    def part(self, *outputs: Layer) -> "Oracle":
        """The oracle of some layers, with the same values."""
        circuit = self.circuit.subgraph(*outputs)
        return Oracle(circuit, {key: self._leaves[tensor] for tensor, key in keys(circuit).items()})

    def integral(self, row: Array, bound: float = 40.0, step: float = 0.2) -> float:
        """The integral over the real variables that are NaN in `row`, for one output of one unit, by quadrature.

        Sums of equidistant values of a density that is smooth, and nothing at both ends, are exact to rounding where
        the step is a fraction of its spread.
        """
        free = np.isnan(row)
        ends = np.arange(-bound, bound, step)
        rows = np.tile(np.array(row, float), (len(ends) ** free.sum(), 1))
        rows[:, free] = np.stack(np.meshgrid(*[ends] * free.sum()), axis=-1).reshape(-1, free.sum())
        return float(self.linear(rows).sum() * step ** free.sum())


def evaluate(parameter: Parameter, leaves: Mapping[Any, Array], known: dict[Any, Array] | None = None) -> Array:
    """The value of one parameter, from the values of its tensors; `known` gathers those of all nodes."""
    values = {} if known is None else known
    for node in parameter.nodes:
        if node not in values:
            values[node] = _node(node, leaves, [values[one] for one in parameter.node_inputs(node)])
    return values[parameter.output]


def _node(node: Any, leaves: Mapping[Any, Array], inputs: list[Array]) -> Array:
    leaf = getattr(node, "parameter", node)  # a reference stands for what it points to
    if leaf in leaves:
        return leaves[leaf]
    if type(leaf).__name__ == "ConstantParameter":
        return np.broadcast_to(wide(leaf.value), leaf.shape)
    return OPERATIONS[type(node).__name__](node, *inputs)


def wide(array: Array) -> Array:
    """Real or complex numbers in extended precision."""
    return np.asarray(array, np.clongdouble if np.iscomplexobj(array) else WIDE)


def keys(circuit: Circuit) -> dict[Any, str]:
    """What a state dict calls each tensor: its name, or the topological index of its first owner and the parameter."""
    found: dict[Any, str] = {}
    for index, layer in enumerate(circuit.layers):
        for name, parameter in layer.all_params.items():
            targets: list[Any] = [getattr(node, "parameter", node) for node in parameter.nodes]
            tensors = list(dict.fromkeys(one for one in targets if type(one).__name__ == "TensorParameter"))
            for number, tensor in enumerate(tensors):
                suffix = f".{number}" if len(tensors) > 1 else ""
                found.setdefault(tensor, tensor.name or f"{index}.{name}{suffix}")
    return found


def held_values(circuit: Circuit, layer: Layer, values: Mapping[str, Array]) -> dict[str, Array]:
    """The values of what a layer holds of a backend, such as `module.mean`, from those of a state dict."""
    found: dict[str, Array] = {}
    for name, held in layer.opaque.items():
        index = next(place for place, one in enumerate(circuit.layers) if any(it is held for it in one.opaque.values()))
        start = f"{index}.{name}."
        own = {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}
        found |= {f"{name}.{key}": np.asarray(value, WIDE) for key, value in own.items()}
    return found


def all_num_states(circuit: Circuit) -> list[int]:
    """The number of states of each variable; 1 for columns that no layer reads."""
    states: list[Any] = [1] * (max(circuit.scope) + 1)
    for layer in circuit.input_layers:
        for variable in layer.scope:
            states[variable] = num_states(layer) or 1
    return states


def all_states(circuit: Circuit) -> Array:
    """Every row of data of a circuit over finite variables."""
    return np.array(list(itertools.product(*map(range, all_num_states(circuit)))), dtype=np.int64)


def finite_differences(
    function: Callable[[dict[str, Array]], Array], values: Mapping[str, Array], step: float = 1e-5
) -> dict[str, Array]:
    """The derivative of a number with respect to every entry, by central differences in extended precision.

    Their error is step**2 * f''' / 6, usually about 1e-11, beside 1e-19 / step of rounding.
    """
    wide_step = WIDE(step)
    wide = {key: np.array(array, WIDE) for key, array in values.items()}
    gradients = {key: np.zeros(array.shape) for key, array in wide.items()}
    for key, place in [(key, place) for key, array in wide.items() for place in np.ndindex(array.shape)]:
        before = wide[key][place]
        sides = []
        for sign in (1, -1):
            wide[key][place] = before + sign * wide_step
            sides.append(function(wide))
        wide[key][place] = before
        gradients[key][place] = float((sides[0] - sides[1]) / (2 * wide_step))
    return gradients


def numbers(compiled: Any) -> dict[str, Array]:
    """The state dict of a compiled circuit as arrays."""
    return {key: value.detach().cpu().numpy() for key, value in compiled.state_dict().items()}


def gradients(compiled: Any) -> dict[str, Array]:
    """The gradients that a compiled circuit has gathered, by the keys of its state dict."""
    other = copy.deepcopy(compiled)
    for mine, theirs in zip(other.parameters(), compiled.parameters(), strict=True):
        mine.data = theirs.new_zeros(theirs.shape) if theirs.grad is None else theirs.grad
    return numbers(other)
