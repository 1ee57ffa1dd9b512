"""Input layers as templates are asked for them: a name, settings, and how to make parameters.

>>> from plica.symbolic.scope import Scope
>>> from plica.templates.parameterization import Parameterization
>>> factory = input_factory("categorical", {"num_categories": 3}, {"probs": Parameterization(activation="softmax")})
>>> factory(Scope([5]), 4)
CategoricalLayer(scope={5}, 4)
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import InputError
from plica.symbolic.layers import DISTRIBUTIONS, Column
from plica.templates.parameterization import (
    InputFactory,
    Parameterization,
    name_to_input_layer_factory,
    named_parameterizations_to_factories,
)


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
        num_values: The number of values of its variable, which gives layers that count them what `settings` leave out.
        values: Data of its variable, NaN where it is missing: gives the number of values, and densities whose
            parameters nobody described start where it lies.

    Raises:
        InputError: A name or a setting that is not known, or one that is missing.
    """
    given, described = dict(settings or {}), dict(params or {})
    distribution = DISTRIBUTIONS.get(name)
    if distribution is None:  # refused there, with its reason
        return name_to_input_layer_factory(name)
    unknown = [key for key in described if key not in distribution.parameters]
    if unknown:
        raise InputError(
            f"input layer {name!r} has no parameter {unknown[0]!r}; parameters that can be described are "
            f"{', '.join(distribution.parameters)}"
        )
    follows: dict[str, Any] = {}
    if values is not None:
        known = values[~np.isnan(values)]
        if num_values is None and distribution.settings is not None and known.size:
            num_values = max(int(known.max()), 0) + 1
        starts = {start for key in distribution.parameters for start in (key, f"{key}_factory")}
        if distribution.fitted is not None and known.size and not described and not starts & given.keys():
            follows |= distribution.fitted(Column.of(known))
    if num_values is not None:
        follows |= distribution.settings_for(num_values)
    return name_to_input_layer_factory(name, **follows | given | named_parameterizations_to_factories(described))
