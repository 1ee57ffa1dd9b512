"""The public names: those that have a page in the reference.

>>> "plica.queries.sample" in set(full_names())
True
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, get_origin

MODULES = (
    "plica",
    "plica.tables",
    "plica.queries",
    "plica.templates",
    "plica.templates.data_modalities",
    "plica.templates.pgms",
    "plica.templates.region_graph",
    "plica.templates.tensor_factorizations",
    "plica.templates.automata",
    "plica.templates.logic",
    "plica.symbolic.circuit",
    "plica.symbolic.scope",
    "plica.symbolic.functional",
    "plica.symbolic.layers",
    "plica.symbolic.parameters",
    "plica.symbolic.initializers",
    "plica.symbolic.semirings",
    "plica.symbolic.domains",
    "plica.symbolic.dtypes",
    "plica.learn",
    "plica.sklearn",
    "plica.numpy",
    "plica.numpy.linalg",
    "plica.numpy.fft",
    "plica.numpy.random",
    "plica.native",
    "plica.data",
    "plica.draw",
    "plica.errors",
)


def module_of(name: str) -> ModuleType:
    """The module of a name of `MODULES`; modules of `plica.numpy` are its attributes."""
    if name.startswith("plica.numpy."):
        return getattr(import_module("plica.numpy"), name.rpartition(".")[2])  # type: ignore[no-any-return]
    return import_module(name)


def public_names(module_name: str) -> list[str]:
    """The names of a module: its `__all__`; without one, what `dir` lists of `plica.numpy`, else what it defines.

    A package that lists names as `from ... import X as X` has those of its own modules.
    """
    module = module_of(module_name)
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared, key=str.lower)
    candidates = [name for name in dir(module) if not name.startswith("_")]
    if module_name.startswith("plica.numpy"):
        return [name for name in candidates if not isinstance(getattr(module, name), ModuleType)]
    return sorted((name for name in candidates if _is_own(getattr(module, name), module)), key=str.lower)


def _is_own(value: Any, module: ModuleType) -> bool:
    home = getattr(value, "__module__", None) or ""
    is_package = hasattr(module, "__path__")
    return home == module.__name__ or (is_package and home.startswith(module.__name__ + "."))


def full_names() -> Iterator[str]:
    """All public names, with their modules."""
    for module in MODULES:
        yield from (f"{module}.{name}" for name in public_names(module))


def kinds(module_name: str) -> Mapping[str, list[str]]:
    """The names of a module by what they are: "classes", "functions" or "values"."""
    module = module_of(module_name)
    groups: dict[str, list[str]] = {"classes": [], "functions": [], "values": []}
    for name in public_names(module_name):
        value = getattr(module, name)
        is_function = callable(value) and get_origin(value) is None  # an alias of a type is none
        kind = "classes" if isinstance(value, type) else "functions" if is_function else "values"
        groups[kind].append(name)
    return groups
