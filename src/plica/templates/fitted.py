"""Input layers whose units start from clusters of rows.

Layers of states start from counts. Densities start where the rows of a unit lie. Each unit is made of its rows as
templates make it of a column, and takes the middle instead of random draws.

>>> import numpy as np
>>> start = ColumnStart("example", 0, {"name": "bernoulli"}, np.array([0.0, 1.0, 1.0, np.nan, 0.0]), pseudocount=0.0)
>>> layer = start.layer(np.arange(5), np.array([0, 0, 0, 1, 1]), 2)
>>> odds = np.exp(layer.params["logits"].output.initializer.value)
>>> (odds / (1 + odds)).round(3).tolist()
[0.667, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from plica.symbolic.initializers import ConstantTensorInitializer, NormalInitializer
from plica.symbolic.layers import (
    DISTRIBUTIONS,
    BernoulliLayer,
    BinomialLayer,
    CategoricalLayer,
    InputLayer,
)
from plica.symbolic.parameters import (
    ConstantParameter,
    LogSoftmaxParameter,
    Parameter,
    ParameterOp,
    SoftplusParameter,
    TensorParameter,
)
from plica.symbolic.scope import Scope
from plica.templates.inputs import InputSetting, InputSettings, check_rows, column_factories, each_setting

Array: TypeAlias = NDArray[Any]

_LEAST_COUNT = 1e-6
_MIDDLE = (1 / 6, 5 / 6)  # where the imaginary rows of densities lie: the ends of the middle two thirds of a column
_SOFTPLUS_ONE = float(np.log(np.expm1(1.0)))  # softplus is 1 there


@final
@dataclass(slots=True, eq=False)
class ColumnStart:
    """Makes input layers of a column that start from its values.

    Args:
        owner: The caller, for messages.
        column: The number of the column, which is its variable.
        setting: The setting of its input layer.
        values: `(N,)`; NaN is missing.
        pseudocount: Imaginary rows of each unit. Those of a layer of states are distributed as the column is; densities
            have so many at each end of the middle two thirds of the column.

    Attributes:
        whole: The layer of one unit of all rows, as templates make it.
    """

    owner: str
    column: int
    setting: InputSetting
    values: Array
    pseudocount: float
    whole: InputLayer = field(init=False)

    def __post_init__(self) -> None:
        self.whole = self._made(self.values, 1)
        if not callable(self.setting):  # each unit has what follows from all rows, such as the number of categories
            distribution = DISTRIBUTIONS[self.setting["name"]]
            keys = () if distribution.settings is None else tuple(distribution.settings(1))
            follows = {key: self.whole.config[key] for key in keys}
            self.setting = {**self.setting, "args": {**follows, **(self.setting.get("args") or {})}}

    def layer(self, rows: Array, labels: Array, units: int) -> InputLayer:
        """The layer of some units.

        Layers whose units cannot be told apart by data start as templates make them: those of functions, but for
        layers of states, and histograms.

        Args:
            rows: The numbers of the rows that count.
            labels: The unit that each of these rows counts for.
            units: The number of units.
        """
        values = self.values[rows]
        known = ~np.isnan(values)
        logits = self.whole.params.get("logits")
        if logits is not None and type(self.whole) in _LOGITS and _is_drawn(logits):
            layer = self._made(self.values, units)
            counted = _LOGITS[type(self.whole)](layer, values[known], labels[known], self._known(), self.pseudocount)
            return layer.with_params({**layer.params, "logits": counted})
        parts: list[InputLayer] = []
        if not callable(self.setting):
            imaginary = self._imaginary()
            parts = [self._made(np.concatenate([values[labels == unit], imaginary]), 1) for unit in range(units)]
        if units == 1 and not parts:
            parts = [self.whole]
        if not parts or not all(parameter.shape[:1] == (1,) for part in parts for parameter in part.params.values()):
            return self._made(self.values, units)
        params = {name: _stacked([part.params[name] for part in parts]) for name in parts[0].params}
        return type(parts[0])(**{**parts[0].config, "num_output_units": units}, **params)

    def _known(self) -> Array:
        return self.values[~np.isnan(self.values)]

    def _imaginary(self) -> Array:
        """The imaginary rows of each unit of a density."""
        known = self._known()
        ends = np.quantile(known, _MIDDLE, method="nearest") if known.size else known
        return np.repeat(ends, math.ceil(self.pseudocount))

    def _made(self, values: Array, units: int) -> InputLayer:
        (factory,) = column_factories(self.owner, [self.setting], 1, values[:, None])
        return factory(Scope([self.column]), units)


def column_starts(owner: str, input_layers: InputSettings, rows: Array, pseudocount: float) -> list[ColumnStart]:
    """The start of each column.

    Args:
        owner: The caller, for messages.
        input_layers: As of `column_factories`.
        rows: `(N, D)`; NaN is missing.
        pseudocount: As of `ColumnStart`.

    Raises:
        InputError: A setting is none, or a layer does not take a value of its column.
        ShapeError: There is another number of settings than of columns.
    """
    columns = rows.shape[1]
    layers = [factory(Scope([v]), 1) for v, factory in enumerate(column_factories(owner, input_layers, columns, rows))]
    check_rows(owner, rows, [layer.domain for layer in layers])
    settings = each_setting(owner, input_layers, columns)
    return [ColumnStart(owner, v, setting, rows[:, v], pseudocount) for v, setting in enumerate(settings)]


def _categorical(layer: CategoricalLayer, known: Array, labels: Array, column: Array, pseudocount: float) -> Parameter:
    """Logarithms of the shares of the values, of each unit."""
    states = layer.num_categories
    whole = np.bincount(column.astype(np.int64), minlength=states) + 1.0 / states
    counts = np.zeros((layer.num_output_units, states))
    np.add.at(counts, (labels, known.astype(np.int64)), 1.0)
    counts = np.maximum(counts + pseudocount * whole / whole.sum(), _LEAST_COUNT)
    logits = tensor(np.log(counts / counts.sum(axis=1, keepdims=True)))
    return Parameter.from_unary(LogSoftmaxParameter(logits.shape), logits)


def _of_trials(trials: int, units: int, known: Array, labels: Array, column: Array, pseudocount: float) -> Parameter:
    """The log odds of success of each unit."""
    success = (float(column.sum()) + 0.5 * trials) / (trials * (len(column) + 1.0))
    hits, misses = np.zeros(units), np.zeros(units)
    np.add.at(hits, labels, known)
    np.add.at(misses, labels, trials - known)
    hits = np.maximum(hits + pseudocount * trials * success, _LEAST_COUNT)
    misses = np.maximum(misses + pseudocount * trials * (1.0 - success), _LEAST_COUNT)
    return Parameter.from_input(tensor(np.log(hits) - np.log(misses)))


_LOGITS: Mapping[type[InputLayer], Callable[[Any, Array, Array, Array, float], Parameter]] = {
    CategoricalLayer: _categorical,
    BernoulliLayer: lambda layer, *data: _of_trials(1, layer.num_output_units, *data),
    BinomialLayer: lambda layer, *data: _of_trials(layer.total_count, layer.num_output_units, *data),
}


def tensor(value: Array) -> TensorParameter:
    """A learnable tensor that starts at a value."""
    return TensorParameter(*value.shape, initializer=ConstantTensorInitializer(value))


def _is_drawn(parameter: Parameter) -> bool:
    """Whether all leaves start from normal draws, as those that nobody described do."""
    leaves = parameter.leaves
    return all(isinstance(leaf, TensorParameter) and isinstance(leaf.initializer, NormalInitializer) for leaf in leaves)


def _stacked(parameters: Sequence[Parameter]) -> Parameter:
    """The parameter of several units from those of one unit each, which have the same operations.

    Tensors of normal draws start at their mean, or where a softplus that reads them is 1. Those that are read as they
    are stay draws.
    """
    first = parameters[0]
    under_softplus = [
        child for node in first.nodes if isinstance(node, SoftplusParameter) for child in first.node_inputs(node)
    ]
    images: dict[Any, Any] = {}
    for nodes in zip(*(parameter.nodes for parameter in parameters), strict=True):
        node, shape = nodes[0], (len(nodes), *nodes[0].shape[1:])
        if isinstance(node, ParameterOp):
            images[node] = type(node)(*(images[child].shape for child in first.node_inputs(node)), **node.config)
        elif isinstance(node, ConstantParameter):
            value = np.concatenate([np.broadcast_to(one.value, one.shape) for one in nodes])
            images[node] = ConstantParameter(*shape, value=value)
        elif len(first.nodes) > 1 and isinstance(node.initializer, NormalInitializer):
            start = _SOFTPLUS_ONE if node in under_softplus else node.initializer.mean
            images[node] = TensorParameter(
                *shape, initializer=ConstantTensorInitializer(start), learnable=node.learnable
            )
        else:
            images[node] = TensorParameter(*shape, initializer=node.initializer, learnable=node.learnable)
    edges = {images[node]: [images[child] for child in first.node_inputs(node)] for node in first.nodes}
    return Parameter(edges, edges, [images[node] for node in first.outputs])
