"""A Dirichlet prior on the normalized weights of a compiled circuit.

Its log-density is `pseudocount * sum(log w) / n` but for a constant, over all weights `w` of sums and of categories, n
of which belong to one distribution. Its mode under EM is that of expected counts to which `pseudocount / n` is added,
as the learners by expectation maximization do.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, Layer, SumLayer
from plica.symbolic.parameters import (
    LogSoftmaxParameter,
    Parameter,
    SoftmaxParameter,
    TensorParameter,
    dereferenced,
)

_HINT = "normalize it by a softmax, as `Parameterization(activation='softmax')` does, or leave pseudocount out"


class DirichletPrior:
    """The prior of one circuit.

    Args:
        model: The compiled circuit.
        pseudocount: Imaginary rows for each distribution, spread evenly over its weights.
        num_rows: Training rows, over which the prior is spread.

    Raises:
        UnsupportedError: The model is no circuit, or a learned weight is not the softmax of a tensor.
    """

    def __init__(self, model: nn.Module, pseudocount: float, num_rows: int) -> None:
        circuit = getattr(model, "symbolic", None)
        if not isinstance(circuit, Circuit):
            raise UnsupportedError(
                f"pseudocount: the prior is on the weights of a compiled circuit, found {type(model).__name__}; leave "
                "pseudocount out"
            )
        self._scale = pseudocount / num_rows
        self._tensors = _normalized_tensors(circuit, model)

    def per_row(self) -> Tensor:
        """The log-density of the prior divided by the number of training rows, of shape `()`."""
        terms = [
            _finite_sum((tensor if folds is None else tensor[folds]).log_softmax(axis)) / tensor.shape[axis]
            for tensor, folds, axis in self._tensors
        ]
        return self._scale * torch.stack(terms).sum()


def _finite_sum(logs: Tensor) -> Tensor:
    """The sum of logarithms, without weights that are 0 for good."""
    return logs.masked_fill(logs.isneginf(), 0.0).sum()


def _normalized_tensors(circuit: Circuit, model: Any) -> list[tuple[Tensor, Tensor | None, int]]:
    """Folded tensors `(F, *shape)`, the folds that count (None: all), and the axis that a softmax normalizes."""
    axes: dict[tuple[TensorParameter, int], None] = {}
    for layer in circuit.layers:
        for name, parameter in layer.all_params.items():
            under_softmax = dict.fromkeys(_softmaxes(parameter))
            axes.update(under_softmax)
            if isinstance(layer, (SumLayer, CategoricalLayer)):
                _check_normalized(circuit, layer, name, parameter, {tensor for tensor, _ in under_softmax})
    if not axes:
        raise UnsupportedError(f"pseudocount: no weight of the circuit is learned and normalized; {_HINT}")
    folded = {member: (leaf, fold) for leaf, _ in model.leaves.items() for fold, member in enumerate(leaf.members)}
    tensors, groups = dict(model.leaves.items()), {}  # type: ignore[var-annotated]
    for tensor, axis in axes:
        if tensor not in folded:
            raise UnsupportedError(
                "pseudocount: a rule of the context replaces a weight of the circuit, so that its logarithm is not "
                "known; leave pseudocount out"
            )
        leaf, fold = folded[tensor]
        groups.setdefault((leaf, axis), []).append(fold)
    return [
        (
            tensors[leaf],
            None if len(folds) == len(leaf.members) else torch.tensor(sorted(folds), device=tensors[leaf].device),
            axis,
        )
        for (leaf, axis), folds in groups.items()
    ]


def _softmaxes(parameter: Parameter) -> Iterator[tuple[TensorParameter, int]]:
    """The learned tensors that a softmax of a parameter reads, each with the axis of its fold `(F, *shape)`."""
    for node in parameter.nodes:
        if isinstance(node, (SoftmaxParameter, LogSoftmaxParameter)):
            (operand,) = parameter.node_inputs(node)
            tensor = dereferenced(operand)
            if isinstance(tensor, TensorParameter) and tensor.learnable:
                yield tensor, node.axis % len(node.shape) - len(node.shape)


def _check_normalized(
    circuit: Circuit, layer: Layer, name: str, parameter: Parameter, normalized: set[TensorParameter]
) -> None:
    for leaf in parameter.leaves:
        tensor = dereferenced(leaf)
        if isinstance(tensor, TensorParameter) and tensor.learnable and tensor not in normalized:
            raise UnsupportedError(
                f"pseudocount: the parameter {name} of {circuit.layer_name(layer)} is learned and is not the softmax "
                f"of a tensor, so that it has no Dirichlet prior; {_HINT}"
            )
