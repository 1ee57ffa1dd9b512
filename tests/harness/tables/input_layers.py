"""The table of input layers in `docs/layers.md`.

Each default is written as the parameter that it is: `normal` is a tensor of normal draws that is learned. K is the
number of units.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plica.symbolic.layers import LAYER_ROWS, InputLayer, InputRow
from plica.symbolic.parameters import ConstantParameter, Parameter, ParameterNode, ReferenceParameter, TensorParameter
from plica.symbolic.scope import Scope
from tests.harness.tables import markdown

UNITS = 7
NUM_VALUES = 3  # of the variable of the layers whose defaults are shown

_INFIX: Mapping[str, str] = {"SumParameter": " + ", "HadamardParameter": " * "}


def default_layer(row: InputRow) -> InputLayer | None:
    """A layer of a row with its default parameters; None where its constructor needs to be told more."""
    settings = {} if row.distribution is None else row.distribution.settings_for(NUM_VALUES)
    make: Callable[..., InputLayer] = row.layer if row.distribution is None else row.distribution.layer
    try:
        return make(Scope([0]), UNITS, **settings)
    except TypeError:
        return None


def formula(parameter: Parameter) -> str:
    """A parameter as a formula of what it is made of."""
    texts: dict[ParameterNode, str] = {}
    for node in parameter.nodes:
        inputs = [texts[input_node] for input_node in parameter.node_inputs(node)]
        infix = _INFIX.get(type(node).__name__)
        texts[node] = _leaf(node) or (infix.join(inputs) if infix else f"{_snake(node)}({', '.join(inputs)})")
    return texts[parameter.output]


def _leaf(node: Any) -> str:
    if isinstance(node, ReferenceParameter):
        return _leaf(node.deref())
    if isinstance(node, TensorParameter):
        return type(node.initializer).__name__.removesuffix("Initializer").lower()
    if isinstance(node, ConstantParameter):
        values = np.unique(np.asarray(node.value))
        return f"{values[0]:g}" if len(values) == 1 else f"{values[0]:g} to {values[-1]:g}"
    return ""


def _snake(node: ParameterNode) -> str:
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type(node).__name__)
    return words.removeprefix("_").removesuffix("_parameter")


def _shape(parameter: Parameter) -> str:
    sizes = ["K" if size == UNITS else str(size) for size in parameter.shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def input_layers_table() -> str:
    """One row for each input layer."""
    lines = []
    for row in LAYER_ROWS.values():
        if not isinstance(row, InputRow):
            continue
        layer, name = default_layer(row), "" if row.distribution is None else f"`{row.distribution.name}`"
        if layer is None:
            lines.append((f"`{row.layer.__name__}`", name, "", "", ""))
            continue
        settings = [f"`{name}`" for name in layer.config if name not in ("scope", "num_output_units")]
        parameters = [f"`{key} {_shape(parameter)} = {formula(parameter)}`" for key, parameter in layer.params.items()]
        others = [
            name for name in (row.distribution.parameters if row.distribution else ()) if name not in layer.params
        ]
        parameters += [f"or `{name}`" for name in others]
        lines.append((f"`{row.layer.__name__}`", name, ", ".join(settings), ", ".join(parameters), layer.domain.name))
    return markdown(("layer", "name", "settings", "parameters", "values"), lines)
