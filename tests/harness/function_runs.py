"""Four ways to run a random function, which must agree: compiled and plain, over torch and over numpy.

Plain means: the very same text, run by Python; loops and branches are Python's own, and each call of a function of
`plica.numpy` runs at once.
"""

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

import plica
import plica.numpy as pnp
from plica.tracing.trees import flatten
from tests.harness.programs import Array
from tests.harness.random_functions import Function

Run = Callable[..., Any]
# Dozens of operations in another order, with ranges of up to 30: float64 loses a few digits, float32 most of its seven.
TOLERANCE = {"float64": 1e-9, "float32": 2e-3}
_STEP = 1e-6  # of finite differences: rounding adds about 1e-15 / step to them, curvature about step


class _Numpy:
    """`plica.numpy` with new arrays made by numpy: of numbers alone it makes torch tensors."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(pnp, name)

        def made(*args: Any, **kwargs: Any) -> Any:
            found = function(*args, **kwargs)
            return found.numpy() if isinstance(found, torch.Tensor) else found

        return made


_TRACED: Mapping[str, Any] = {"plica": plica, "pnp": pnp, "jit": plica.jit}
_PLAIN: Mapping[str, Any] = {"plica": plica, "pnp": pnp, "jit": lambda fn: fn}
_PLAIN_NUMPY: Mapping[str, Any] = {**_PLAIN, "pnp": _Numpy()}


def compiled(function: Function, backend: str = "torch") -> Any:
    """The function under `jit`, with sizes that are not known yet."""
    return plica.jit(function.load(_TRACED), abstracted_axes=function.axes, backend=backend)


def plain(function: Function) -> Run:
    """The function in plain Python over torch."""
    return function.load(_PLAIN)


def plain_numpy(function: Function) -> Run:
    """The function in plain Python over numpy."""
    return function.load(_PLAIN_NUMPY)


def to_torch(arguments: Sequence[Any]) -> list[Any]:
    """Arguments with tensors in the place of arrays; those of floats are differentiated."""
    return [_tensor(one) if isinstance(one, np.ndarray) else one for one in arguments]


def _tensor(array: Array) -> torch.Tensor:
    tensor = torch.from_numpy(array.copy())
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def attempt(what: str, run: Run, arguments: Sequence[Any]) -> Any:
    """The result of a run. An error becomes one of the test, at one place: Hypothesis then knows that it is the same.

    Raises:
        AssertionError: The run failed.
    """
    try:
        with np.errstate(all="ignore"):
            return run(*arguments)
    except Exception as error:
        found = "".join(traceback.format_exception(error))
    raise AssertionError(f"{what} fails:\n{found}")


def leaves(result: Any) -> list[Array]:
    """The arrays of a result, numbers too."""
    return [one.detach().numpy() if isinstance(one, torch.Tensor) else np.asarray(one) for one in flatten(result)[0]]


def assert_same(found: Any, expected: Any, tolerance: float, what: str) -> None:
    """Compare two results: their structure, and shape, dtype and values of each array."""
    assert flatten(found)[1] == flatten(expected)[1], f"{what}: found {flatten(found)[1]}"
    for place, (one, other) in enumerate(zip(leaves(found), leaves(expected), strict=True)):
        where = f"{what}, result {place}"
        assert one.shape == other.shape, f"{where}: found shape {one.shape}, expected {other.shape}"
        assert one.dtype == other.dtype, f"{where}: found {one.dtype}, expected {other.dtype}"
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True, err_msg=where)


# Gradients


def loss(result: Any) -> torch.Tensor | None:
    """A scalar that depends on every float of a result; None if nothing of it is differentiated."""
    parts = [
        (one * torch.cos(torch.arange(one.numel(), dtype=one.dtype) + 0.3).reshape(one.shape)).sum().double()
        for one in flatten(result)[0]
        if isinstance(one, torch.Tensor) and one.is_floating_point()
    ]
    total = sum(parts, torch.zeros((), dtype=torch.float64))
    return total if total.requires_grad else None


def gradients(run: Run, arguments: Sequence[Any]) -> list[Array] | None:
    """The gradients of the loss in each float array; None if there are none."""
    tensors = to_torch(arguments)
    inputs = [one for one in tensors if isinstance(one, torch.Tensor) and one.requires_grad]
    total = loss(attempt("the run", run, tensors))
    if total is None:
        return None
    found = torch.autograd.grad(total, inputs, allow_unused=True)
    return [
        np.zeros(one.shape, leaves(one)[0].dtype) if grad is None else grad.numpy()
        for one, grad in zip(inputs, found, strict=True)
    ]


def slopes(run: Run, arguments: Sequence[Any], entries: int) -> Iterator[tuple[int, int, float, float]]:
    """Finite differences of the loss, before and behind a few elements of each float64 array."""
    floats = [place for place, one in enumerate(arguments) if isinstance(one, np.ndarray) and one.dtype == np.float64]
    for number, place in enumerate(floats):
        for entry in np.linspace(0, arguments[place].size - 1, min(entries, arguments[place].size)).astype(int):
            values = []
            for shift in (-_STEP, 0.0, _STEP):
                moved = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
                moved[place].flat[entry] += shift
                total = loss(run(*to_torch(moved)))
                assert total is not None, "there was a gradient"
                values.append(float(total.detach()))
            yield number, int(entry), (values[1] - values[0]) / _STEP, (values[2] - values[1]) / _STEP
