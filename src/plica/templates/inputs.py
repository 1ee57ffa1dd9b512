"""Makes input layers for templates: from a name, settings, and parameterizations.

>>> from plica.symbolic.scope import Scope
>>> from plica.templates.parameterization import Parameterization
>>> factory = input_factory("categorical", {"num_categories": 3}, {"probs": Parameterization(activation="softmax")})
>>> factory(Scope([5]), 4)
CategoricalLayer(scope={5}, 4)
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plica.arguments import keywords, known, shown
from plica.errors import InputError, ShapeError
from plica.symbolic.domains import Domain, outside
from plica.symbolic.layers import DISTRIBUTIONS, Column, Distribution, InputLayer
from plica.symbolic.parameters import ParameterFactory
from plica.symbolic.scope import Scope
from plica.templates.parameterization import (
    InputFactory,
    Parameterization,
    name_to_input_layer_factory,
    named_parameterizations_to_factories,
)

InputSetting: TypeAlias = Mapping[str, Any] | InputFactory
"""The input layer of a column: `{"name": ..., "args": {...}}`, or a function that makes it."""
InputSettings: TypeAlias = InputSetting | Sequence[InputSetting]
"""That of each column, or one for all."""


def column_factories(
    owner: str, input_layers: InputSettings, columns: int, rows: NDArray[Any] | None = None
) -> list[InputFactory]:
    """The input factory of each column.

    Args:
        owner: The caller, for messages.
        input_layers: A setting for each column, or one for all. `args` are the layer's keywords, or a
            `Parameterization` for each of its parameters.
        columns: D, the number of columns.
        rows: `(N, D)`, from which layers take what their settings lack; None if there are none.

    Raises:
        InputError: A setting is none, or the layer does not take it.
        ShapeError: There is another number of settings than of columns.
    """
    return [
        _of_setting(owner, f"input_layers[{column}]", setting, None if rows is None else rows[:, column])
        for column, setting in enumerate(each_setting(owner, input_layers, columns))
    ]


def each_setting(owner: str, input_layers: InputSettings, columns: int) -> list[InputSetting]:
    """The setting of each column; one that is no list holds for all. Raises as `column_factories` does."""
    if isinstance(input_layers, Mapping) or callable(input_layers):
        return [input_layers] * columns
    if not isinstance(input_layers, Sequence):
        raise InputError(f'{owner}: input_layers is {input_layers!r}; expected {{"name": ..., "args": {{...}}}}')
    if len(input_layers) != columns:
        raise ShapeError(
            f"{owner}: expected input_layers for {columns} columns, found {len(input_layers)}; "
            "give one for each column, or one for all that is no list"
        )
    return list(input_layers)


def _of_setting(owner: str, where: str, setting: Any, values: NDArray[Any] | None) -> InputFactory:
    """The input factory of a column."""
    if callable(setting):

        def checked(scope: Scope, units: int) -> InputLayer:
            layer = setting(scope, units)
            if not isinstance(layer, InputLayer) or layer.scope != scope or layer.num_output_units != units:
                raise InputError(
                    f"{owner}: {where} gave {shown(layer)}; expected an input layer of scope {scope} and {units} "
                    "unit(s), as the function is asked for"
                )
            return layer

        return checked
    if not isinstance(setting, Mapping) or "name" not in setting or not set(setting) <= {"name", "args"}:
        raise InputError(
            f'{owner}: {where} is {setting!r}; expected {{"name": ..., "args": {{...}}}}: the name of an input '
            "layer and its settings"
        )
    args = setting.get("args") or {}
    if not isinstance(args, Mapping):
        raise InputError(f"{owner}: the args of {where} are {args!r}; expected the layer's keywords, by name")
    keywords_given = dict(args)
    params = {key: keywords_given.pop(key) for key in args if isinstance(args[key], Parameterization)}
    try:
        return input_factory(setting["name"], keywords_given, params, values=values)
    except InputError as error:
        raise InputError(f"{owner}: {where}: {error}") from error


def input_factory(
    name: str,
    settings: Mapping[str, Any] | None = None,
    params: Mapping[str, Parameterization] | None = None,
    *,
    num_values: int | None = None,
    values: NDArray[Any] | None = None,
) -> InputFactory:
    """The function from a scope and a number of units to an input layer of one variable.

    Args:
        name: One of `plica.symbolic.layers.DISTRIBUTIONS`.
        settings: Keywords of its constructor, such as `num_categories`.
        params: How to make its parameters, by name.
        num_values: The number of values of its variable, for layers that count values and whose `settings` lack it.
        values: Data of its variable, NaN where it is missing. It gives the number of values, and densities whose
            parameters nobody described start with its mean and spread.

    Raises:
        InputError: A name or a setting is not known, a setting is missing, or data cannot be counted.
    """
    if not known(name, DISTRIBUTIONS):  # refused there, with its reason
        return name_to_input_layer_factory(name)
    owner, distribution = f"input layer {name!r}", DISTRIBUTIONS[name]
    chosen_settings = {} if settings is None else keywords(owner, "its settings", settings)
    described = {} if params is None else keywords(owner, "its parameters", params)
    unknown = [key for key in described if key not in distribution.parameters]
    if unknown:
        raise InputError(
            f"input layer {name!r} has no parameter {unknown[0]!r}; parameters that can be described are "
            f"{', '.join(distribution.parameters)}"
        )
    follows: dict[str, Any] = {}
    if values is not None:
        there = values[~np.isnan(values)]
        if (
            num_values is None
            and distribution.settings is not None
            and not distribution.settings(1).keys() <= chosen_settings.keys()
        ):
            num_values = _num_values(there)
        if distribution.fitted is not None and there.size:
            column = Column.of(there)
            column.check(f"the values of a column of input layer {name!r}")
            follows |= _starts(distribution, column, {*chosen_settings, *described})
    if num_values is not None:
        follows |= distribution.settings_for(num_values)
    return name_to_input_layer_factory(
        name, **follows | chosen_settings | named_parameterizations_to_factories(described)
    )


def check_rows(name: str, rows: NDArray[Any], domains: Sequence[Domain]) -> None:
    """Raise if the layer of a column does not take a value of the column.

    Args:
        name: The caller, for messages.
        rows: `(N, D)`; NaN is missing.
        domains: The values of each column.
    """
    wrong = outside(np, rows.T, domains)
    if wrong is None or not wrong.any():
        return
    variable, row = (int(indices[0]) for indices in np.nonzero(wrong))
    domain = domains[variable]
    raise InputError(
        f"{name}: row {row}, column {variable} (counted from 0) holds {rows[row, variable]:g}, which is "
        f"{domain.refusal}; {domain.advice}, or choose another input layer"
    )


def _starts(distribution: Distribution, column: Column, chosen: Set[str]) -> dict[str, ParameterFactory]:
    """The settings and parameter factories fitted to a column, except those that the user chose.

    Parameters are fitted together: if the user chose one of them, none is fitted.
    """
    assert distribution.fitted is not None, "the caller checks"
    named = any({name, f"{name}_factory"} & chosen for name in distribution.parameters)
    starts = {}
    for key, factory in distribution.fitted(column).items():
        name = key.removesuffix("_factory")
        if not {name, key} & chosen and not (named and name in distribution.parameters):
            starts[key] = factory
    return starts


def _num_values(known: NDArray[Any]) -> int | None:
    """The number of values from 0 to the largest; None if none is known."""
    wrong = known[(known < 0) | (known != np.floor(known)) | np.isinf(known)]
    if wrong.size:
        raise InputError(
            f"the layer counts values from 0 on, and the data holds {wrong[0]:g}; encode it, choose another layer, "
            "or give its settings"
        )
    return int(known.max()) + 1 if known.size else None
