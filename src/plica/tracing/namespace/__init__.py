"""The array namespace over tracers: the Array API standard's names, and what circuits need beside them.

Elementwise functions are the rows of `ops/elementwise.py`, found by name, and of `ops/special.py`; operands are
promoted first, as `operands.py` says; so are operands of custom operations. Other functions are in the modules of this
folder.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from plica.ir.dtypes import DType
from plica.ops import ADDED, NAMES
from plica.tracing.namespace import (
    contractions,
    creation,
    dtypes,
    elementwise,
    fft,
    indexing,
    linalg,
    packing,
    random,
    reductions,
    repeating,
    sets,
    shapes,
    sorting,
    updating,
)
from plica.tracing.namespace.dtypes import VERSION, NamespaceInfo
from plica.tracing.namespace.operands import function_of, public_functions
from plica.tracing.tracer import serve

if TYPE_CHECKING:
    from plica.tracing.namespace.contractions import *  # noqa: F403
    from plica.tracing.namespace.creation import *  # noqa: F403
    from plica.tracing.namespace.dtypes import *  # noqa: F403
    from plica.tracing.namespace.elementwise import *  # noqa: F403
    from plica.tracing.namespace.indexing import *  # noqa: F403
    from plica.tracing.namespace.packing import *  # noqa: F403
    from plica.tracing.namespace.reductions import *  # noqa: F403
    from plica.tracing.namespace.repeating import *  # noqa: F403
    from plica.tracing.namespace.sets import *  # noqa: F403
    from plica.tracing.namespace.shapes import *  # noqa: F403
    from plica.tracing.namespace.sorting import *  # noqa: F403
    from plica.tracing.namespace.updating import *  # noqa: F403

_MODULES: tuple[ModuleType, ...] = (
    elementwise,
    reductions,
    shapes,
    creation,
    repeating,
    packing,
    sorting,
    dtypes,
    indexing,
    updating,
    sets,
    contractions,
)
_CONSTANTS = {
    "e": 2.718281828459045,
    "pi": 3.141592653589793,
    "inf": float("inf"),
    "nan": float("nan"),
    "newaxis": None,
}
_DTYPES = {dtype.value: dtype for dtype in DType}


def _functions() -> dict[str, Any]:
    """The public functions of the modules, each under its name."""
    functions: dict[str, Any] = elementwise.FUNCTIONS | elementwise.SPECIAL_FUNCTIONS
    for module in _MODULES:
        for name in public_functions(vars(module)):
            assert name not in functions, f"two functions are called {name}"
            functions[name] = getattr(module, name)
    return functions


# Functions whose answers are Python values, of which there is nothing to record.
STATIC = frozenset({"broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type"})
_EXTENSIONS = {"fft": fft, "linalg": linalg, "random": random}
_NAMES: dict[str, Any] = {**_functions(), **_EXTENSIONS, **_DTYPES, **_CONSTANTS}
NAMES.update(_NAMES)


def __getattr__(name: str) -> Any:
    # nothing is put into globals: a function called `abs` or a dtype called `bool` would hide Python's own in here
    if name in _NAMES:
        return _NAMES[name]
    if name in ADDED:
        return function_of(ADDED[name])
    raise AttributeError(f"plica.numpy has no {name!r}")


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """The standard's inspection functions."""
    return NamespaceInfo()


__array_api_version__ = VERSION


def __dir__() -> list[str]:
    return sorted({*_NAMES, *ADDED})


serve(sys.modules[__name__])
