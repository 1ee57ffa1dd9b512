"""The settings that layers of one group share, and which layers of unequal sizes are worth one group.

Where registry entries pad their parameters, layers of unequal lengths may be one group: shorter parameters are filled
up to the longest. A parameter that its entry does not pad has one length in a group, whatever the layer's class allows.

The cost rule: a group costs as much as `GROUP` numbers of parameters, and every number that is filled in costs one. Of
all ways to split the layers by length into groups, the cheapest is taken.

>>> from plica.symbolic.layers import CategoricalLayer
>>> sizes = [2, 3, 100, 90_000]
>>> layers = [CategoricalLayer([variable], 1, num_categories=size) for variable, size in enumerate(sizes)]
>>> settings = fold_settings_of(layers)
>>> [settings[layer] == settings[layers[0]] for layer in layers]
[True, True, True, False]
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import inf, prod

from plica.graph.fold import group_foldable, own_settings
from plica.symbolic.layers import LAYER_ROWS, InputRow, Layer, LayerRow

GROUP = 2**14
"""How many numbers of parameters cost as much as one more group, whose operations start and whose values are joined."""

Lengths = tuple[int, ...]  # of the last axes of padded parameters


LayerRows = Mapping[type[Layer], LayerRow]
_NO_ROWS: LayerRows = {}


def fold_settings_of(layers: Iterable[Layer], rows: LayerRows = _NO_ROWS) -> dict[Layer, Hashable]:
    """For each layer the key that it shares with the layers that it may be computed with.

    Args:
        layers: The layers.
        rows: The registry entries of custom layers: a parameter that an entry does not pad has one length in a group.
    """
    groups = group_foldable(layers, lambda layer: own_settings_of(layer, rows))
    settings: dict[Layer, Hashable] = {}
    for number, group in enumerate(groups):
        lengths = {layer: padded_lengths(layer) for layer in group}
        part_of = _cheapest_split(lengths)
        settings.update((layer, (number, part_of[length])) for layer, length in lengths.items())
    return settings


def own_settings_of(layer: Layer, rows: LayerRows = _NO_ROWS) -> Hashable:
    """The type of a layer and its `fold_settings()`, and the same of its sub-layers."""
    sub_layers = tuple((name, own_settings_of(sub_layer, rows)) for name, sub_layer in layer.sub_layers.items())
    return own_settings(layer), _unpadded(layer, rows), sub_layers


def _unpadded(layer: Layer, rows: LayerRows) -> Hashable:
    """The shapes of the parameters that the class of a layer pads and its registry entry does not."""
    if not layer.padded:
        return ()
    row = rows.get(type(layer)) or LAYER_ROWS.get(type(layer))
    padding = row.padding if isinstance(row, InputRow) else layer.padded
    return tuple(
        parameter.shapes for name, parameter in layer.evaluated_params.items() if name in layer.padded.keys() - padding
    )


def padded_lengths(layer: Layer) -> Lengths:
    """The lengths of the parameters that are padded, those of sub-layers among them."""
    if not layer.padded and not layer.sub_layers:
        return ()
    lengths = tuple(parameter.shape[-1] for name, parameter in layer.evaluated_params.items() if name in layer.padded)
    return sum((padded_lengths(sub_layer) for sub_layer in layer.sub_layers.values()), lengths)


def _padded_rows(layer: Layer) -> Lengths:
    """For each of the lengths, how many times a layer has it."""
    rows = tuple(
        prod(parameter.shape[:-1]) for name, parameter in layer.evaluated_params.items() if name in layer.padded
    )
    return sum((_padded_rows(sub_layer) for sub_layer in layer.sub_layers.values()), rows)


def _cheapest_split(lengths: dict[Layer, Lengths]) -> dict[Lengths, int]:
    """The index of the group of each of the lengths, in the cheapest split."""
    distinct = sorted(dict.fromkeys(lengths.values()))
    if len(distinct) == 1:
        return {distinct[0]: 0}
    rows = _padded_rows(next(iter(lengths)))
    counts = [sum(layer_length == length for layer_length in lengths.values()) for length in distinct]
    # best[n]: the least cost of the first n lengths, and where their last group begins
    best: list[tuple[float, int]] = [(0, 0)]
    for end in range(1, len(distinct) + 1):
        costs = [best[begin][0] + GROUP + _filled(distinct[begin:end], counts[begin:end], rows) for begin in range(end)]
        cost = min(costs)
        best.append((cost, costs.index(cost)))
    part_of: dict[Lengths, int] = {}
    end = len(distinct)
    while end:
        begin = best[end][1]
        part_of.update((length, begin) for length in distinct[begin:end])
        end = begin
    return part_of


def _filled(lengths: Sequence[Lengths], counts: Sequence[int], rows: Lengths) -> float:
    """How many numbers fill parameters up to the longest ones; infinitely many where no layer has all the longest."""
    longest: Lengths = tuple(map(max, zip(*lengths, strict=True)))
    if longest not in lengths:
        return inf
    return sum(
        count * sum(row * (longest_size - size) for row, longest_size, size in zip(rows, longest, length, strict=True))
        for length, count in zip(lengths, counts, strict=True)
    )
