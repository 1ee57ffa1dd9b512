"""The version of the installed package."""

import importlib.metadata


def plica_version() -> str:
    """The installed version, or a word for a source tree that is not installed."""
    try:
        return importlib.metadata.version("plica")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
