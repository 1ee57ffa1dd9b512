"""The table of queries: for each its name and the module of its row, which is imported when the query is first asked.

>>> list(QUERIES)[:3], QUERIES["covariance"].driver
(['log_likelihood', 'conditional_log_likelihood', 'cdf'], 'covariance')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plica.lower.queries.query import Query

_MODULES: Mapping[str, str] = {
    "log_likelihood": "likelihood",
    "conditional_log_likelihood": "likelihood",
    "cdf": "boxes",
    "probability": "boxes",
    "quantile": "quantile",
    "sample": "sample",
    "mpe": "mpe",
    "mpe_bounds": "mpe",
    "posterior": "expect",
    "latent_posterior": "expect",
    "mean": "expect",
    "variance": "expect",
    "covariance": "covariance",
    "expectation": "expectation",
    "moment": "expectation",
    "overlap": "expectation",
    "probability_of": "expectation",
    "entropy": "information",
    "cross_entropy": "information",
    "kullback_leibler": "information",
    "renyi": "information",
    "mutual_information": "information",
    "backdoor": "backdoor",
}
"""The module in this folder that has each `Query`, by the name of its function, in the order of the documentation."""


@cache
def _query(function: str) -> Query[Any]:
    module = import_module(f"plica.lower.queries.{_MODULES[function]}")
    return next(row for row in vars(module).values() if getattr(row, "ask", None) is getattr(module, function))


class _Queries(Mapping[str, "Query[Any]"]):
    def __getitem__(self, function: str) -> Query[Any]:
        return _query(function)

    def __contains__(self, function: object) -> bool:
        return function in _MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


QUERIES: Mapping[str, Query[Any]] = _Queries()
"""By the name of the function: those of `plica.queries`, in the order of its documentation."""
