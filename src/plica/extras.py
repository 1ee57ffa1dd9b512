"""Imports libraries that belong to extras of Plica; the error for a missing one says how to install it.

>>> require("json").__name__
'json'
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from plica.errors import MissingExtraError

__all__ = ["LIBRARIES", "how_to_install", "missing", "require"]

LIBRARIES: Mapping[str, tuple[str, str]] = {  # root module: the name of the library, and the extra
    "cryptography": ("cryptography", "native"),
    "distributed": ("distributed", "dask"),
    "llvmlite": ("llvmlite", "loops"),
    "matplotlib": ("matplotlib", "draw"),
    "pydataset": ("pydataset", "bench"),
    "pysdd": ("pysdd", "logic"),
    "pyspark": ("pyspark", "spark"),
    "ray": ("ray", "ray"),
    "sklearn": ("scikit-learn", "digits"),
    "statsmodels": ("statsmodels", "bench"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "torch": ("PyTorch", "torch"),
    "ziglang": ("ziglang", "native"),
}


def require(module: str) -> ModuleType:
    """A module of a library of an extra.

    Raises:
        MissingExtraError: The library is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing(error) or error from None


def missing(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The error for a missing library of an extra; None if the missing module belongs to no such library."""
    root = (error.name or "").partition(".")[0]
    if root not in LIBRARIES:
        return None
    name, extra = LIBRARIES[root]
    return MissingExtraError(f"this needs {name}, which is not installed; {how_to_install(extra)}", name=root)


def how_to_install(extra: str) -> str:
    """The command that installs an extra.

    Plica is on no package index yet, where another package may take its name: so it is installed from a checkout.
    """
    return f"try, in a checkout of Plica: pip install '.[{extra}]'"
