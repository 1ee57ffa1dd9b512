"""Modules that layers hold, in model files: the name of each class and the tensors; the caller passes the modules.

A file has no code of a module and imports nothing by the name of its class. A state dict lacks some state: buffers that
are not persistent, hooks, and whether the module is in training mode. The caller's module keeps its own.

>>> class Network: ...
>>> check_modules({"0.module": record_of(Network())}, {})  # doctest: +ELLIPSIS
Traceback (most recent call last):
plica.errors.FileFormatError: circuit.modules: a file holds no code...modules={key: module})...'0.module', a 'Network'
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from plica.arguments import shown
from plica.errors import FileFormatError
from plica.files.schema import DAMAGED
from plica.lower.leaves import opaque_keys
from plica.symbolic.circuit import Circuit

if TYPE_CHECKING:
    from plica.backend.torch.module_states import Entry

ModuleRecord = TypedDict("ModuleRecord", {"class": str})

_WHERE = "circuit.modules"
_SHOWN = 4  # modules or tensors that a message lists
_MAX_SHOWN_NAME = 100  # of a name that a message shows as it is


def record_of(module: object) -> ModuleRecord:
    """The record of a module in a file, beside its tensors: its class, so that the user knows which to make."""
    return {"class": f"{type(module).__module__}.{type(module).__qualname__}"}


def check_modules(records: Mapping[str, ModuleRecord], modules: Mapping[str, Any]) -> None:
    """Raise unless one module of its class is given for each key.

    Raises:
        FileFormatError: A module is missing, is not in the file, has a class of another name, or is given twice.
    """
    lacking = [
        f"{_quoted(key)}, a {_quoted(_class_of(record))}" for key, record in records.items() if key not in modules
    ]
    if lacking:
        raise FileFormatError(
            f"{_WHERE}: a file holds no code of modules; construct them as for the saved circuit and pass them in "
            f"Python: plica.load(..., modules={{key: module}}); missing: {_some(lacking, '; ')}"
        )
    unknown = [_quoted(key) for key in modules if key not in records]
    if unknown:
        there = _some([_quoted(key) for key in records]) or "none"
        raise FileFormatError(f"{_WHERE}: a module {unknown[0]} is given, and the file has {there}")
    first: dict[int, str] = {}
    for key, module in modules.items():
        name, kind = _class_of(records[key]), type(module).__name__
        if kind != name:
            raise FileFormatError(
                f"{_WHERE}: {_quoted(key)} was saved as a {_quoted(name)}, and a {kind} is given; pass a module of "
                "that class (a class that was renamed may have a subclass of its old name)"
            )
        if first.setdefault(id(module), key) != key:
            raise FileFormatError(
                f"{_WHERE}: {_quoted(first[id(module)])} and {_quoted(key)} were two modules when they were saved, and "
                "one is given for both; make two"
            )


def check_keys(circuit: Circuit, modules: Mapping[str, Any]) -> None:
    """Raise unless the circuit holds each module at its key.

    Raises:
        FileFormatError: A module has another key, and would get the tensors of another module.
    """
    at_keys = opaque_keys(circuit)
    elsewhere = [_quoted(key) for key, module in modules.items() if at_keys.get(key) is not module]
    if elsewhere:
        raise FileFormatError(f"{_WHERE}: no layer holds a module at {elsewhere[0]}; {DAMAGED}")


def module_entries(circuit: Circuit) -> "dict[str, Entry]":
    """The tensors of all modules of a circuit, by their keys in its state dict; needs torch where there are some.

    Raises:
        UnsupportedError: A module has a state that a file cannot hold.
    """
    modules = opaque_keys(circuit)
    if not modules:
        return {}
    from plica.backend.torch.module_states import entries

    return {name: entry for key, module in modules.items() for name, entry in entries(key, module).items()}


def shared_names(entries: "Mapping[str, Entry]") -> list[list[str]]:
    """Groups of names of tensors that share memory, as tied weights do."""
    by_memory: dict[object, list[str]] = {}
    for name, entry in entries.items():
        if entry.address is not None:
            by_memory.setdefault(entry.address, []).append(name)
    return [names for names in by_memory.values() if len(names) > 1]


def check_shared(saved: Iterable[Iterable[str]], present: Iterable[Iterable[str]]) -> None:
    """Raise unless the modules that are given share tensors as they did when they were saved.

    Raises:
        FileFormatError: They share other tensors, so that values or training would differ.
    """
    before, now = (frozenset(frozenset(names) for names in groups) for groups in (saved, present))
    for groups, was, is_now in ((before - now, "one tensor", "other"), (now - before, "other tensors", "one")):
        for names in sorted(map(sorted, groups))[:1]:
            raise FileFormatError(
                f"{_WHERE}: {_some(list(map(_quoted, names)))} were {was} when they were saved, and are {is_now} in "
                "the modules that are given; share weights between modules as it was then"
            )


def fill_modules(circuit: Circuit, tensors: "Mapping[str, np.ndarray[Any, np.dtype[Any]]]") -> None:
    """Write the tensors of a file into the modules of a circuit; needs torch where there are some.

    Raises:
        FileFormatError: A module changed or refused a tensor.
    """
    modules = opaque_keys(circuit)
    if not modules:
        return
    from plica.backend.torch.module_states import fill

    problem = fill(modules, tensors)
    if problem is not None:
        raise FileFormatError(f"{_WHERE}: {problem}")


def _quoted(name: str) -> str:
    return repr(name) if len(name) <= _MAX_SHOWN_NAME else shown(name)


def _class_of(record: ModuleRecord) -> str:
    return record["class"].rpartition(".")[2]


def _some(names: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{between.join(names[:_SHOWN])}{more}"
