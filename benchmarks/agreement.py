"""Contenders agree on values before they are timed: the same circuit with equal parameters on the same rows.

A named circuit is described a second time, from its graph and with given numbers, in the language of each
library that can be told them: Plica's names are those of the field, so one description serves two libraries. Weights
depend on their shape alone and probabilities on their variable, so it does not matter in which order they are made.

The rows lie near the mode of the circuit. Elsewhere log-likelihoods of 784 pixels are about -4,300, and a peer does not
go below -708.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn

    from benchmarks.circuits import Spec

ROWS = 8
_UNUSUAL = 5  # pixels of a row that do not have their usual value
_RELATIVE = 1e-4  # of sums of some thousand float32 logarithms
COMPARED = f"log-likelihoods of {ROWS} rows under equal parameters"


class DisagreementError(AssertionError):
    """A contender gives other values than the first."""


def described(spec: Spec, package: str = "plica") -> Any:
    """The circuit with given parameters, in the language of `plica` or of a package with the same names."""
    parameters, layers, templates = (
        import_module(f"{package}.{name}") for name in ("symbolic.parameters", "symbolic.layers", "templates")
    )
    initializer = import_module(f"{package}.symbolic.initializers").ConstantTensorInitializer
    assert templates, "importing a package alone does not import its modules"

    def tensor(array: Any) -> Any:
        return parameters.Parameter.from_input(parameters.TensorParameter(*array.shape, initializer=initializer(array)))

    def input_layer(scope: Any, num_units: int) -> Any:
        probabilities = _probabilities(next(iter(scope)), num_units, spec.num_values)
        return layers.CategoricalLayer(scope, num_units, num_categories=spec.num_values, probs=tensor(probabilities))

    def weight(shape: tuple[int, ...]) -> Any:
        return tensor(_weight(shape))

    def mixing(shape: tuple[int, ...]) -> Any:
        return parameters.mixing_weight_factory(shape, param_factory=weight)

    return spec.assemble(package, input_layer, weight, mixing)


def rows(spec: Spec) -> Tensor:
    """Rows near the mode, `(ROWS, D)`."""
    import torch

    rng = np.random.default_rng(0)
    variables = np.arange(spec.num_variables)
    found = np.tile(_usual(variables, spec.num_values), (ROWS, 1))
    for row in found:
        places = rng.choice(variables, min(_UNUSUAL, len(variables)), replace=False)
        row[places] = rng.integers(spec.num_values, size=len(places))
    return torch.from_numpy(found)


def compare_values(modules: Mapping[str, nn.Module], x: Tensor) -> dict[str, Any]:
    """Check that all modules give what the first gives; how far apart they are, for a result file.

    Raises:
        DisagreementError: One does not, or the first is not finite.
    """
    import torch

    with torch.no_grad():
        values = {name: module(x).double().reshape(len(x), -1).cpu() for name, module in modules.items()}
    first, expected = next(iter(values.items()))
    if not bool(expected.isfinite().all()):
        raise DisagreementError(f"{first}: found {_shown(expected)}, expected finite log-likelihoods.")
    differences = {}
    for name, found in values.items():
        if found.shape != expected.shape or not torch.allclose(found, expected, rtol=_RELATIVE, atol=_RELATIVE):
            raise DisagreementError(
                f"{name}: found {_shown(found)}, expected {_shown(expected)} as {first} gives; contenders that do not "
                "agree are not timed."
            )
        differences[name] = float(((found - expected) / expected).abs().max())
    return {"compared": COMPARED, "largest relative difference": differences}


def _shown(values: Tensor) -> str:
    return ", ".join(f"{one:.6g}" for one in values.flatten()[:3].tolist()) + ", ..."


def _usual(variable: Any, num_values: int) -> Any:
    return 7 * variable % num_values


def _probabilities(variable: int, num_units: int, num_values: int) -> Any:
    """`(K, C)`: all units expect one value most, and differ in the others."""
    units, values = np.mgrid[:num_units, :num_values]
    logits = np.sin(1.0 + 3 * units + 5 * values + variable)
    logits[:, _usual(variable, num_values)] = np.log(num_values) + 3.0
    return _normalized(np.exp(logits))


def _weight(shape: Iterable[int]) -> Any:
    """`(O, I)`: rows that differ, and sum to 1."""
    sums, inputs = np.indices(tuple(shape))
    return _normalized(np.exp(np.sin(2.0 + 3 * sums + 7 * inputs)))


def _normalized(weights: Any) -> Any:
    return weights / weights.sum(-1, keepdims=True)
