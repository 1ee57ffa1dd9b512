"""A conformance case for each form of each layer: tests loop over them, and every row must have one.

A new layer brings a file here, whose `CASES` are found; `tests/symbolic/layers/test_conformance.py` says what is
missing.
"""

from importlib import import_module
from pkgutil import iter_modules

from plica.symbolic.layers import LAYER_ROWS
from tests.harness.layer_cases.case import InnerCase, InputCase, LayerCase, Refused, num_states, references

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
_CASES: list[LayerCase] = [case for module in _MODULES for case in getattr(module, "CASES", ())]

LAYER_CASES = tuple(case for case in _CASES if case.row.layer in LAYER_ROWS)

# Layers of a user's own, as a context is given them: of several variables, of other distributions, sums, and layers
# that hold layers.
OWN_CASES = tuple(case for case in _CASES if case.row.layer not in LAYER_ROWS)

CASES = (*LAYER_CASES, *OWN_CASES)

__all__ = [
    "CASES",
    "LAYER_CASES",
    "OWN_CASES",
    "InnerCase",
    "InputCase",
    "LayerCase",
    "Refused",
    "num_states",
    "references",
]
