"""Input layers whose tensors start from data: by counts where the layer has states, else in the middle of the data.

>>> import numpy as np
>>> from plica.symbolic.layers import CategoricalLayer
>>> from plica.symbolic.scope import Scope
>>> layer = fitted_layer(CategoricalLayer(Scope([0]), 1, num_categories=2), np.array([0.0, 1.0, 1.0, np.nan]), 1.0)
>>> np.exp(layer.params["logits"].nodes[0].initializer.value).round(3).tolist()
[[0.375, 0.625]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.symbolic.initializers import ConstantTensorInitializer, NormalInitializer
from plica.symbolic.layers import BernoulliLayer, BinomialLayer, CategoricalLayer, InputLayer
from plica.symbolic.parameters import LogSoftmaxParameter, Parameter, SoftplusParameter, TensorParameter

Array: TypeAlias = NDArray[Any]

_SOFTPLUS_ONE = float(np.log(np.expm1(1.0)))  # softplus is 1 there


def fitted_layer(layer: InputLayer, values: Array, pseudocount: float) -> InputLayer:
    """The layer with tensors that start from values of its variable.

    Categorical, Bernoulli and binomial layers start from counts. Other layers, which templates already make around the
    data, start in the middle of their random draws. Parameters that start by another rule than normal draws stay.

    Args:
        layer: A layer of one unit and one variable.
        values: `(N,)`, NaN where one is missing.
        pseudocount: A number of imaginary rows, spread evenly over the values of a layer of states.
    """
    logits = layer.params.get("logits")
    if logits is not None and type(layer) in _LOGITS and _is_drawn(logits):
        known = values[~np.isnan(values)]
        return layer.with_params({**layer.params, "logits": _LOGITS[type(layer)](layer, known, pseudocount)})
    return layer.with_params({name: _middle(parameter) for name, parameter in layer.params.items()})


def _categorical(layer: CategoricalLayer, known: Array, pseudocount: float) -> Parameter:
    """Logarithms of the shares of the values; of values that nothing is known of, at least those of a tiny count."""
    counts = np.bincount(known.astype(np.int64), minlength=layer.num_categories) + pseudocount / layer.num_categories
    counts = np.maximum(counts, _LEAST_COUNT)
    logits = TensorParameter(1, len(counts), initializer=ConstantTensorInitializer(np.log(counts / counts.sum())[None]))
    return Parameter.from_unary(LogSoftmaxParameter(logits.shape), logits)


def _of_trials(trials: int, known: Array, pseudocount: float) -> Parameter:
    """The log odds of success."""
    hits = max(float(known.sum()) + pseudocount / 2, _LEAST_COUNT)
    misses = max(trials * len(known) - float(known.sum()) + pseudocount / 2, _LEAST_COUNT)
    odds = ConstantTensorInitializer(np.log([hits]) - np.log([misses]))
    return Parameter.from_input(TensorParameter(1, initializer=odds))


_LEAST_COUNT = 1e-6
_LOGITS: Mapping[type[InputLayer], Callable[[Any, Array, float], Parameter]] = {
    CategoricalLayer: _categorical,
    BernoulliLayer: lambda _, known, pseudocount: _of_trials(1, known, pseudocount),
    BinomialLayer: lambda layer, known, pseudocount: _of_trials(layer.total_count, known, pseudocount),
}


def _is_drawn(parameter: Parameter) -> bool:
    """Whether all leaves start from normal draws, as those that nobody described do."""
    leaves = parameter.leaves
    return all(isinstance(leaf, TensorParameter) and isinstance(leaf.initializer, NormalInitializer) for leaf in leaves)


def _middle(parameter: Parameter) -> Parameter:
    """The parameter whose tensors of normal draws start at their mean, or where a softplus that reads them is 1.

    Tensors that are read as they are stay: they may not all be equal.
    """
    if len(parameter.nodes) == 1:
        return parameter
    under_softplus = [
        child
        for node in parameter.nodes
        if isinstance(node, SoftplusParameter)
        for child in parameter.node_inputs(node)
    ]
    images: dict[Any, Any] = {}
    for node in parameter.nodes:
        if isinstance(node, TensorParameter) and isinstance(node.initializer, NormalInitializer):
            start = _SOFTPLUS_ONE if node in under_softplus else node.initializer.mean
            images[node] = TensorParameter(
                *node.shape, initializer=ConstantTensorInitializer(start), learnable=node.learnable, name=node.name
            )
        else:
            images[node] = node
    edges = {images[node]: [images[child] for child in parameter.node_inputs(node)] for node in parameter.nodes}
    return Parameter(edges, edges, [images[node] for node in parameter.outputs])
