"""Plica compiles tractable models: circuits and array programs with sizes unknown until they run."""

from importlib.metadata import PackageNotFoundError, version

from plica.api import interpret, parse, trace, verify
from plica.control import cond, for_loop, scan, while_loop
from plica.decorator import jit
from plica.ir.types import spec
from plica.pipeline import PipelineContext, compile  # noqa: A004 - the word of the field
from plica.symbolic.circuit import Circuit
from plica.symbolic.scope import Scope

try:
    __version__ = version("plica")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "Circuit",
    "PipelineContext",
    "Scope",
    "compile",
    "cond",
    "for_loop",
    "interpret",
    "jit",
    "parse",
    "scan",
    "spec",
    "trace",
    "verify",
    "while_loop",
]
