"""When the results of two devices are the same."""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.gpu.devices import Device

# Sums of some tens of terms in another order; what is compared has a size of about 10.
BOUND = {torch.float32: 2e-5, torch.float64: 1e-11, torch.complex64: 2e-5, torch.complex128: 1e-11}
DTYPES = (torch.float32, torch.float64)


def require_same(found: Tensor, expected: Tensor, device: Device, what: str, scale: float = 1.0) -> None:
    """Check device, dtype, shape and values; NaN equals NaN, and what is not floating is equal.

    Raises:
        AssertionError: Something differs; `what` says where.
    """
    if found.device.type != device.name:
        raise AssertionError(f"{what}: found a result on {found.device}, expected one on {device.name}.")
    bound = BOUND.get(expected.dtype, 0.0) * scale
    try:
        torch.testing.assert_close(
            found.detach().cpu(), expected.detach().cpu(), rtol=bound, atol=bound, equal_nan=True
        )
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from None


def waits(device: Device, call: Callable[[], object]) -> bool:
    """Whether the host waits for the device during a call."""
    try:
        with device.watched():
            call()
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        return True
    return False


def require_no_waiting(device: Device, call: Callable[[], object], what: str) -> None:
    """Check that the host never waits for the device during a call.

    Raises:
        AssertionError: It does.
    """
    try:
        with device.watched():
            call()
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        raise AssertionError(f"{what}: the host waits for the device: {error}") from error
