"""Distributions by name, by which templates, data files and the command line construct input layers.

A layer that has a name gives one `Distribution` in its row; `plica.symbolic.layers.DISTRIBUTIONS` collects them.

>>> from plica.symbolic.layers import DISTRIBUTIONS
>>> categorical = DISTRIBUTIONS["categorical"]
>>> categorical.domain(3), categorical.settings_for(3)
(Domain('3 states'), {'num_categories': 3})
>>> DISTRIBUTIONS["gaussian"].domain()
Domain('real numbers')
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import GraphError, InputError
from plica.symbolic.domains import Domain
from plica.symbolic.layers.base import InputLayer
from plica.symbolic.parameters import ParameterFactory
from plica.symbolic.scope import Scope

_ROOM = 1e8  # between the numbers of a column and the ends of the dtype, for densities and their gradients


@dataclass(frozen=True, slots=True)
class Column:
    """Statistics of the data of one variable, before training.

    Args:
        mean: Its mean.
        spread: Its standard deviation; 1 where all values are equal.
        least: Its smallest value.
        most: Its largest value.

    >>> Column.of(np.array([1.0, 2.0, 3.0, np.nan]))
    Column(mean=2.0, spread=0.816496580927726, least=1.0, most=3.0)
    """

    mean: float
    spread: float
    least: float
    most: float

    @staticmethod
    def of(values: NDArray[Any]) -> "Column":
        """The statistics of a column of numbers, NaN where one is missing; squares neither overflow nor vanish.

        >>> Column.of(np.array([1e200, 3e200, np.nan]))
        Column(mean=2e+200, spread=1e+200, least=1e+200, most=3e+200)
        """
        known = values[np.isfinite(values)].astype(np.float64)
        low, most = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        width = most - low
        if not 0.0 < width < math.inf:
            return Column(low, 1.0, low, most)
        scaled = (known - low) / width
        return Column(low + width * float(scaled.mean()), width * float(scaled.std()), low, most)

    def check(self, where: str, dtype: str = "float64", advice: str = "rescale them") -> None:
        """Refuse a column to which no density can be fitted in a dtype.

        Args:
            where: The name of the values in messages.
            dtype: The dtype in which densities read them.
            advice: An imperative: how to mend the column.

        Raises:
            InputError: `dtype` cannot hold the values, or their differences.

        >>> Column.of(np.array([1e-310, 2e-310])).check("lengths")
        Traceback (most recent call last):
        plica.errors.InputError: lengths differ by 5e-311, too little for float64; rescale them
        """
        limits = np.finfo(dtype)
        tiny, largest = float(limits.tiny) * _ROOM, max(-self.least, self.most)
        if largest > float(limits.max) / _ROOM:
            raise InputError(f"{where} reach {largest:g}, too large for {dtype}; {advice}")
        if self.least == self.most:
            if 0 < largest < tiny:
                raise InputError(f"{where} are {self.most:g}, too small for {dtype}; {advice}")
            return
        if self.spread < tiny:
            raise InputError(f"{where} differ by {self.spread:g}, too little for {dtype}; {advice}")
        if self.spread < float(limits.eps) * largest:
            shifted = advice.replace("rescale them", "subtract their mean")
            raise InputError(
                f"{where} differ by {self.spread:g} around {self.mean:g}, which {dtype} rounds away; {shifted}"
            )


@dataclass(frozen=True, slots=True)
class Distribution:
    """An input layer of one variable, by name.

    Args:
        name: Its name in templates and on the command line.
        layer: Its constructor: a scope, a number of units, and keywords.
        parameters: The parameters for which the constructor takes a factory, as `<parameter>_factory`.
        settings: The keywords that follow from the number of values of the variable; None where values are not counted.
        fitted: The keywords of parameters whose first values follow from the data; None where they do not.

    >>> from plica.symbolic.layers import BinomialLayer
    >>> trials = Distribution("trials", BinomialLayer, ("probs",), lambda values: {"total_count": values - 1})
    >>> trials.settings_for(5), trials.domain(5)
    ({'total_count': 4}, Domain('5 states'))
    """

    name: str
    layer: Callable[..., InputLayer]
    parameters: tuple[str, ...]
    settings: Callable[[int], dict[str, Any]] | None = None
    fitted: Callable[[Column], dict[str, ParameterFactory]] | None = None

    def settings_for(self, num_values: int | None) -> dict[str, Any]:
        """The keywords for a variable of `num_values` values; only some distributions have any."""
        if self.settings is None:
            return {}
        assert num_values is not None, "who asks for a distribution that counts values knows their number"
        return self.settings(num_values)

    def domain(self, num_values: int | None = None) -> Domain:
        """The values of its variable."""
        return self.layer(Scope([0]), 1, **self.settings_for(num_values)).domain


def distribution_table(distributions: Iterable[Distribution]) -> Mapping[str, Distribution]:
    """The distributions by name.

    Raises:
        GraphError: Two of one name.
    """
    table: dict[str, Distribution] = {}
    for distribution in distributions:
        if table.setdefault(distribution.name, distribution) is not distribution:
            raise GraphError(f"two distributions are called {distribution.name!r}; give one another name")
    return table
