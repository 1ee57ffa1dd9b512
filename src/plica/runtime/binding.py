"""The IREE runtime, by its binding alone: the rest of the package `iree.runtime` takes ten times as long to import."""

import functools
from typing import Any

from plica.errors import NativeFileError
from plica.extras import require

LOCAL = ("local-sync", "local-task")
"""The drivers that run code on the processor."""


@functools.cache
def binding() -> Any:
    """The module of the binding's classes.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        from iree._runtime.libs import _runtime
    except ModuleNotFoundError:
        return require("iree.runtime")  # where another version keeps them
    return _runtime


def missing_device(driver: str) -> str:
    """Why nothing here runs the code of a driver; empty if something does.

    Raises:
        MissingExtraError: The package is not installed.
    """
    if driver in LOCAL:
        return ""
    rt = binding()
    try:
        devices = rt.create_hal_driver(driver).query_available_devices()
    except (RuntimeError, ValueError):
        devices = []
    return "" if devices else f"needs a device for {driver}, and this machine has none, or no driver of it"


def check_version(written: str) -> None:
    """Raise unless the runtime is of the version that code was compiled for, but for its last number.

    Raises:
        NativeFileError: The versions differ.
    """
    binding()
    from iree._runtime_libs.version import VERSION

    if VERSION.split(".")[:2] != written.split(".")[:2]:
        raise NativeFileError(
            f"was compiled for IREE {written}, and the runtime here is {VERSION}; "
            f"try: pip install 'iree-base-runtime=={written}', or export the model again"
        )
