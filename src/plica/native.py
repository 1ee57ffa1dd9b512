"""Native files: machine code of circuits and functions, which runs without the library that they were trained with.

    plica.native.compile(circuit, path="digits.plicab")
    m = plica.native.load("digits.plicab")
    m(x)                                        # any number of rows; numpy in, numpy out

Loading imports numpy and the runtime alone.
"""

from typing import TYPE_CHECKING, Any

from plica.public import listing

if TYPE_CHECKING:
    from plica.frontend.native import compile  # noqa: A004 - the word of the field
    from plica.frontend.stablehlo import stablehlo
    from plica.runtime.module import NativeModule, load
    from plica.runtime.signature import make_keys

__all__ = ["NativeModule", "compile", "load", "make_keys", "stablehlo"]

_HOME = {
    "compile": "plica.frontend.native",
    "stablehlo": "plica.frontend.stablehlo",
    "NativeModule": "plica.runtime.module",
    "load": "plica.runtime.module",
    "make_keys": "plica.runtime.signature",
}


__dir__ = listing(__name__)


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'plica.native' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
