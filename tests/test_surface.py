"""What `help` and `dir` show of the public names: signatures that one can read, and no imports."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from plica.lower.optimize import DEFAULT_RULES

MODULES = """
plica plica.native plica.numpy plica.numpy.fft plica.numpy.linalg plica.numpy.random plica.pipeline plica.queries
plica.data plica.errors plica.learn.fit plica.lower.optimize plica.symbolic.circuit plica.symbolic.initializers
plica.symbolic.layers plica.symbolic.parameters plica.symbolic.scope plica.symbolic.semirings plica.templates
plica.templates.data_modalities plica.templates.pgms plica.templates.tensor_factorizations plica.templates.utils
plica.tables plica.tables.recipe plica.sklearn
plica.templates.region_graph plica.templates.automata plica.templates.logic plica.backend.torch.queries
"""
LONGEST = 600
_OF_A_FIELD = 60  # characters, of tables' rows, which have a field for each column
ALIASES = {"OperatorKey", "ParameterFactory", "Shape", "Value"}  # of types of other libraries
SHOWN = {
    "plica": ("jit", "load", "Circuit", "__version__", "queries", "templates", "learn", "tables", "data", "sklearn"),
    "plica.data": ("Rows",),
    "plica.learn": ("fit", "Adam"),
    "plica.native": ("compile", "load", "make_keys", "stablehlo"),
    "plica.numpy": ("sum", "linalg", "float32"),
    "plica.pipeline": ("compile", "multiply"),
    "plica.queries": ("ask", "mean", "Posterior"),
    "plica.sklearn": ("CircuitDensity",),
    "plica.symbolic": ("layers", "circuit"),
    "plica.symbolic.layers": ("SumLayer", "LAYER_ROWS"),
    "plica.symbolic.parameters": ("TensorParameter",),
    "plica.symbolic.semirings": ("SEMIRINGS",),
    "plica.tables": ("fit", "load"),
    "plica.templates": ("hclt", "region_graph"),
    "plica.templates.automata": ("DFA",),
    "plica.templates.logic": ("LogicalCircuit",),
    "plica.templates.region_graph": ("QuadGraph",),
}


def _module(name: str) -> Any:
    if name.startswith("plica.numpy."):
        return getattr(importlib.import_module("plica.numpy"), name.rpartition(".")[2])
    return importlib.import_module(name)


def _public(name: str) -> Iterator[tuple[str, Any]]:
    module = _module(name)
    for public in getattr(module, "__all__", None) or [one for one in dir(module) if not one.startswith("_")]:
        value = getattr(module, public)
        yield f"{name}.{public}", value
        if inspect.isclass(value):
            methods = ((one, method) for one, method in vars(value).items() if not one.startswith("_"))
            yield from ((f"{name}.{public}.{one}", method) for one, method in methods)


@pytest.mark.parametrize("name", MODULES.split())
def test_no_signature_is_too_long_to_read(name: str) -> None:
    for public, value in _public(name):
        try:
            signature = inspect.signature(value)
        except (TypeError, ValueError):
            continue
        is_row = inspect.isclass(value) and hasattr(value, "__dataclass_fields__")
        longest = max(LONGEST, _OF_A_FIELD * len(signature.parameters)) if is_row else LONGEST
        assert len(str(signature)) <= longest, f"{public}{signature}"


@pytest.mark.parametrize("name", SHOWN)
def test_dir_lists_public_names_and_no_imports(name: str) -> None:
    module = importlib.import_module(name)
    shown = dir(module)
    assert set(getattr(module, "__all__", ())) | set(SHOWN[name]) <= set(shown)
    assert shown == sorted(set(shown))
    for public in shown:
        value = getattr(module, public)
        if inspect.ismodule(value):
            assert value.__name__ == f"{name}.{public}", f"{name} shows the module {value.__name__}"
        elif callable(value) and not public.startswith("__") and public not in ALIASES:
            assert value.__module__.startswith("plica"), f"{name} shows {public} of {value.__module__}"


def test_tables_print_short() -> None:
    counts = [len(getattr(DEFAULT_RULES, table)) for table in ("parameters", "shatter", "fuse", "programs")]
    assert repr(DEFAULT_RULES) == "Rules({} parameters, {} shatter, {} fuse, {} programs)".format(*counts)
