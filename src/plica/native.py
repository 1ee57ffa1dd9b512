"""Native files: made by `compile`, loaded by `load`, which imports numpy and the IREE runtime alone ([native.md])."""

from plica.runtime.entry_points import EntryPoint
from plica.runtime.module import NativeModule, load
from plica.runtime.signature import make_keys

__all__ = ["EntryPoint", "NativeModule", "load", "make_keys"]
