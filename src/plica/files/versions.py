"""Versions of the format of model files, and the steps that upgrade a description from one version to the next.

A step changes only the JSON: the names, shapes and values of tensors stay, so that `state_dict`s of old files fit.

>>> UPGRADES.keys()
dict_keys([1, 2, 3, 4])
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = Any
Upgrade = Callable[[Json], None]

VERSION = 5  # reading upgrades files of older versions to it


def version_of(circuit: Json) -> int:
    """The oldest version that can express an encoded circuit; files state it, so that older readers can read them."""
    if "complete" in circuit or "never_negative" in circuit:
        return 5
    if "data_scope" in circuit:
        return 4
    return 3 if "modules" in circuit or any(item.keys() == {"domain"} for item in _objects(circuit)) else 2


def upgraded(description: Json, version: int) -> Json:
    """Upgrades a checked description of any older version to `version`, in place."""
    while description["version"] < version:
        UPGRADES[description["version"]](description)
        description["version"] += 1
    return description


def _normalize_logits(description: Json) -> None:
    """1 -> 2: a categorical layer took the softmax of its logits; now it takes their exponential.

    The log-softmax becomes a node of the parameter, one for each node that layers have as logits.
    """
    nodes = description["circuit"]["nodes"]
    wrapped: dict[int, int] = {}
    for layer in _layers(description["circuit"]):
        if layer["class"] != "CategoricalLayer" or "logits" not in layer["params"]:
            continue
        logits = layer["params"]["logits"]["parameter"]
        output = logits["output"]
        if output not in wrapped:
            wrapped[output] = len(nodes)
            nodes.append({"class": "LogSoftmaxParameter", "config": {"axis": -1}, "inputs": [output]})
        logits["nodes"].append(wrapped[output])
        logits["output"] = wrapped[output]


def _layers(circuit: Json) -> Iterator[Json]:
    """The layers of a circuit, including layers within the settings of other layers."""
    parts = {"layers": circuit["layers"], "nodes": circuit["nodes"]}
    return (item for item in _objects(parts) if {"class", "config", "params"} == item.keys())


def _objects(circuit: Json) -> Iterator[Json]:
    """Every JSON object of a circuit."""
    todo = [circuit]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield item
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)


def _without_modules(_: Json) -> None:
    """2 -> 3: settings may be modules and domains, and a file of version 2 has none."""


def _without_data_scope(_: Json) -> None:
    """3 -> 4: a circuit may say which variables its data has, and one of version 3 has those of its scope."""


def _without_complete_form(_: Json) -> None:
    """4 -> 5: a circuit may have layers for rows without missing variables, and say that it is never negative."""


# version: the step from it to the next
UPGRADES: Mapping[int, Upgrade] = {
    1: _normalize_logits,
    2: _without_modules,
    3: _without_data_scope,
    4: _without_complete_form,
}
