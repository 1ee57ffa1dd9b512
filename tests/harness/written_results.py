"""Results that are written to: nothing else may change by it, and the next call gives what the first one gave."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

Arrays = Sequence[Any]


def check_written(run: Callable[[], Any], others: Arrays, what: str = "") -> None:
    """Run twice; between the calls, write to each result, and then to each of the others.

    Args:
        run: A call, always of the same arguments.
        others: Arguments and captured arrays: tensors and numpy arrays, which have their entries again at the end.
        what: What is said of it.
    """
    results = _listed(run())
    wanted, before = list(map(_copied, results)), list(map(_copied, others))
    with torch.no_grad():
        for place, result in enumerate(results):
            now = list(map(_copied, results))
            _write(result)
            now[place] = _written(now[place])
            _check_same(results, now, f"result {place} was written to: {what}")
            _check_same(others, before, f"result {place} was written to: {what}")
        now = list(map(_copied, results))
        for place, other in enumerate(others):
            _write(other)
            _check_same(results, now, f"argument {place} was written to: {what}")
        for other, entries in zip(others, before, strict=True):
            _array(other)[...] = entries
    _check_same(_listed(run()), wanted, f"the second call: {what}")


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


def _array(one: Any) -> Any:
    """The memory of a tensor or a numpy array, as numpy writes to it."""
    return one.detach().numpy() if isinstance(one, torch.Tensor) else one


def _copied(one: Any) -> Any:
    return np.array(_array(one))


def _written(entries: Any) -> Any:
    return ~entries if entries.dtype == np.bool_ else entries + entries.dtype.type(1)


def _write(one: Any) -> None:
    """Give each element another value, by the library's own way, which refuses elements that stand in many places."""
    if one.dtype in (torch.bool, np.dtype(bool)):
        one ^= True
    else:
        one += 1


def _check_same(arrays: Arrays, wanted: Arrays, what: str) -> None:
    for place, (one, entries) in enumerate(zip(arrays, wanted, strict=True)):
        np.testing.assert_array_equal(_array(one), entries, err_msg=f"array {place}, after {what}")
