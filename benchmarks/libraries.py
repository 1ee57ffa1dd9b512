"""Libraries that run functions of arrays, beside Plica: how each makes its arrays, and how its results are waited for.

A peer is one more row. What is not installed is left out of a benchmark; names of rows are those of its contenders.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Library:
    """One library.

    Args:
        module: What is imported.
        package: What is installed.
        arrays: Its arrays of numpy arrays.
        wait: Its results when they are there: what is computed in the background is waited for.
    """

    module: str
    package: str
    arrays: Callable[[Sequence[Array]], list[Any]]
    wait: Callable[[Any], Any]


def _torch_arrays(arrays: Sequence[Array]) -> list[Any]:
    torch = importlib.import_module("torch")
    return [torch.from_numpy(one.copy()) for one in arrays]


def _jax_arrays(arrays: Sequence[Array]) -> list[Any]:
    numpy = importlib.import_module("jax.numpy")
    return [numpy.asarray(one) for one in arrays]


def _rows_of_jax(arrays: Sequence[Array]) -> list[Any]:
    """Rows of one array: Catalyst 0.15 asks that equal sizes of arguments are one Python object, and so they are."""
    numpy = importlib.import_module("jax.numpy")
    return list(numpy.unstack(numpy.stack(_jax_arrays(arrays))))


def _at_once(result: Any) -> Any:
    return result


def _wait_for_jax(result: Any) -> Any:
    return importlib.import_module("jax").block_until_ready(result)


LIBRARIES: dict[str, Library] = {
    "torch": Library("torch", "torch", _torch_arrays, _at_once),
    "plica": Library("plica", "plica", _torch_arrays, _at_once),
    "torch.compile": Library("torch", "torch", _torch_arrays, _at_once),
    "jax": Library("jax", "jax", _jax_arrays, _wait_for_jax),
    "catalyst": Library("catalyst", "pennylane-catalyst", _rows_of_jax, _wait_for_jax),
}


def installed(names: Iterable[str]) -> list[str]:
    """Those of `names` whose library is there."""
    return [name for name in names if importlib.util.find_spec(LIBRARIES[name].module) is not None]


def versions(names: Sequence[str]) -> dict[str, str]:
    """The version of each library."""
    return {name: version(LIBRARIES[name].package) for name in names}


def use_threads_of_peers(threads: int) -> None:
    """Let peers compute with so many threads; call it before they are imported."""
    if threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
