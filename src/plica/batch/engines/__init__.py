"""Engines, which deal the parts of a job out to workers and try again where one is lost; a module for each.

An engine is a function `reports(worker, numbers, workers)`: it calls the worker with each number, in that many
processes, and gives the texts that this returns, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias

Engine: TypeAlias = Callable[[Callable[[int], str], Sequence[int], int], Iterator[str]]

ENGINES: Mapping[str, str] = {
    "processes": "plica.batch.engines.processes",
    "ray": "plica.batch.engines.on_ray",
    "spark": "plica.batch.engines.on_spark",
    "dask": "plica.batch.engines.on_dask",
}
"""By its name, the module of an engine, which is imported when it is first needed."""


def engine_of(name: str) -> Engine:
    """The engine of a name.

    Raises:
        MissingExtraError: Its library is not installed.
    """
    reports: Engine = import_module(ENGINES[name]).reports
    return reports
