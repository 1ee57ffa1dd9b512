"""Input layers as templates are asked for them: a name, settings, and how to make parameters.

>>> from plica.symbolic.scope import Scope
>>> from plica.templates.parameterization import Parameterization
>>> factory = input_factory("categorical", {"num_categories": 3}, {"probs": Parameterization(activation="softmax")})
>>> factory(Scope([5]), 4)
CategoricalLayer(scope={5}, 4)
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.arguments import keywords, known
from plica.errors import InputError
from plica.symbolic.domains import Domain, outside
from plica.symbolic.layers import DISTRIBUTIONS, Column, Distribution
from plica.symbolic.parameters import ParameterFactory
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
        InputError: A name or a setting that is not known, one that is missing, or data that cannot be counted.
    """
    if not known(name, DISTRIBUTIONS):  # refused there, with its reason
        return name_to_input_layer_factory(name)
    owner, distribution = f"input layer {name!r}", DISTRIBUTIONS[name]
    given = {} if settings is None else keywords(owner, "its settings", settings)
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
            and not distribution.settings(1).keys() <= given.keys()
        ):
            num_values = _num_values(there)
        if distribution.fitted is not None and there.size:
            column = Column.of(there)
            column.check(f"the values of a column of input layer {name!r}")
            follows |= _starts(distribution, column, {*given, *described})
    if num_values is not None:
        follows |= distribution.settings_for(num_values)
    return name_to_input_layer_factory(name, **follows | given | named_parameterizations_to_factories(described))


def check_rows(name: str, rows: NDArray[Any], domains: Sequence[Domain]) -> None:
    """Raise where a value is none that the layer of its column takes.

    Args:
        name: Who asks, for messages.
        rows: `(N, D)`; NaN is missing.
        domains: The values of each column.
    """
    wrong = outside(np, rows.T, domains)
    if wrong is None or not wrong.any():
        return
    variable, row = (int(place[0]) for place in np.nonzero(wrong))
    domain = domains[variable]
    raise InputError(
        f"{name}: row {row}, column {variable} (counted from 0) holds {rows[row, variable]:g}, which is "
        f"{domain.refusal}; {domain.advice}, or choose another input layer"
    )


def _starts(distribution: Distribution, column: Column, given: Set[str]) -> dict[str, ParameterFactory]:
    """What makes parameters that start where a column lies: all of them, unless one is given; others one by one."""
    assert distribution.fitted is not None, "asked of distributions that can start somewhere"
    named = any({name, f"{name}_factory"} & given for name in distribution.parameters)
    starts = {}
    for key, factory in distribution.fitted(column).items():
        name = key.removesuffix("_factory")
        if not {name, key} & given and not (named and name in distribution.parameters):
            starts[key] = factory
    return starts


def _num_values(known: NDArray[Any]) -> int | None:
    """How many values there are from 0 to the largest; None where none is known."""
    wrong = known[(known < 0) | (known != np.floor(known)) | np.isinf(known)]
    if wrong.size:
        raise InputError(
            f"the layer counts values from 0 on, and the data holds {wrong[0]:g}; encode it, choose another layer, "
            "or give its settings"
        )
    return int(known.max()) + 1 if known.size else None
