"""Joint parameters: the groups of layers whose alike parameters are evaluated as one.

Layers that read one another's results are different groups, but their parameters can be evaluated together. For
example, the softmax of all `(3, 3)` weights of a chain is one operation, of which each group reads its folds. The cost
rule: groups are joined while their parameter has no more than `JOINED` numbers altogether. On so few numbers, the call
of an operation is most of its time. More numbers are evaluated where they are read: they are in the cache then, and
their gradient is not summed over all groups.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

from plica.graph.fold import own_settings
from plica.lower.fold.groups import FoldedLayer
from plica.lower.leaves import Leaf, Owners
from plica.symbolic.parameters import Parameter, ParameterOp, dereferenced

JOINED = 2**12
"""A parameter of several groups is evaluated as one up to so many numbers."""

Joint = dict[tuple[FoldedLayer, str], tuple[FoldedLayer, ...]]


def joint_groups(groups: Sequence[FoldedLayer], owners: Owners) -> Joint:
    """For each group and name of a parameter, the groups whose parameter of that name is evaluated with it."""
    growing: dict[Hashable, tuple[int, list[FoldedLayer]]] = {}
    joints: list[tuple[FoldedLayer, str, list[FoldedLayer]]] = []
    for group in groups:
        for name, first in group.representative.all_evaluated_params.items():
            if len(first.outputs) > 1 or not isinstance(first.output, ParameterOp):
                continue
            numbers = group.num_folds * prod(first.shape)
            if numbers > JOINED:
                continue
            key = _common(name, (layer.all_evaluated_params[name] for layer in group.members), owners)
            if key is None:
                continue
            used, joined = growing.get(key, (0, []))
            if used + numbers > JOINED:
                used, joined = 0, []
            joined.append(group)
            growing[key] = (used + numbers, joined)
            joints.append((group, name, joined))
    return {(group, name): tuple(joined) for group, name, joined in joints if len(joined) > 1}


def _common(name: str, parameters: Iterable[Parameter], owners: Owners) -> Hashable:
    """The key that the graphs of a group's parameters share; None where they differ."""
    keys = dict.fromkeys(_key(parameter, owners) for parameter in parameters)
    return (name, *keys) if len(keys) == 1 else None


def _key(parameter: Parameter, owners: Owners) -> Hashable:
    """The key of a parameter's graph: settings and inputs of its nodes, and the existing tensors that they read."""
    known: Mapping[Any, Leaf] = owners
    number_of: dict[Any, int] = {}
    key: list[Hashable] = []
    for node in parameter.nodes:
        target = dereferenced(node)
        inputs = tuple(number_of[child] for child in parameter.node_inputs(node))
        number_of[node] = len(key)
        key.append((own_settings(target), inputs, known.get(target)))
    return tuple(key)
