"""Plica compiles tractable models: circuits and array programs with sizes unknown until they run.

Public names are imported when they are first used: a command that ends at once, or is stopped, has loaded nothing.
"""

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from plica.public import listing as _listing

if TYPE_CHECKING:
    from plica.constants.changes.states import invalidate
    from plica.constants.policy import FoldPolicy
    from plica.constants.store.cache import FoldCache
    from plica.eager.packed import PackedArray
    from plica.frontend.contexts import PipelineContext, compile  # noqa: A004 - the word of the field
    from plica.frontend.control import cond, for_loop, scan, while_loop
    from plica.frontend.folding import FoldedProgram, fold_constants
    from plica.frontend.jit import jit
    from plica.frontend.programs import interpret, parse, trace, verify
    from plica.frontend.saving import load, save
    from plica.ir.types import spec
    from plica.symbolic.circuit import Circuit
    from plica.symbolic.scope import Scope

    __version__: str

__all__ = [
    "Circuit",
    "FoldCache",
    "FoldPolicy",
    "FoldedProgram",
    "PackedArray",
    "PipelineContext",
    "Scope",
    "compile",
    "cond",
    "fold_constants",
    "for_loop",
    "interpret",
    "invalidate",
    "jit",
    "load",
    "parse",
    "save",
    "scan",
    "spec",
    "trace",
    "verify",
    "while_loop",
]

_MODULES = {
    "plica.frontend.programs": ("interpret", "parse", "trace", "verify"),
    "plica.frontend.control": ("cond", "for_loop", "scan", "while_loop"),
    "plica.frontend.jit": ("jit",),
    "plica.frontend.saving": ("load", "save"),
    "plica.constants.store.cache": ("FoldCache",),
    "plica.constants.changes.states": ("invalidate",),
    "plica.frontend.folding": ("FoldedProgram", "fold_constants"),
    "plica.constants.policy": ("FoldPolicy",),
    "plica.eager.packed": ("PackedArray",),
    "plica.ir.types": ("spec",),
    "plica.frontend.contexts": ("PipelineContext", "compile"),
    "plica.symbolic.circuit": ("Circuit",),
    "plica.symbolic.scope": ("Scope",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, the version, or a module of the package, loaded now and kept."""
    if name == "__version__":
        value: Any = _version()
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif not name.startswith("_") and find_spec(f"plica.{name}") is not None:
        return importlib.import_module(f"plica.{name}")
    else:
        raise AttributeError(f"module 'plica' has no attribute {name!r}")
    globals()[name] = value
    return value


_PUBLIC_MODULES = {  # and the library that each needs
    "data": "pyarrow",
    "errors": "",
    "learn": "torch",
    "native": "",
    "numpy": "",
    "pipeline": "",
    "queries": "",
    "sklearn": "sklearn",
    "symbolic": "",
    "tables": "torch",
    "templates": "",
}


def __dir__() -> list[str]:
    there = (name for name, library in _PUBLIC_MODULES.items() if not library or find_spec(library))
    return sorted({*_listing(__name__)(), *there, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("plica")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"
