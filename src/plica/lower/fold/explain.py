"""The report of folding: how many layers became one, and why layers that look alike stayed apart."""

from collections.abc import Iterator
from typing import Any

from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.fold.settings import LayerRows, own_settings_of
from plica.symbolic.layers import InputLayer, Layer, held_layers


def explain_folds(folded: FoldedCircuit) -> str:
    """One line for each group, and one for each pair of groups that differ in little."""
    live, layers = len(folded.circuit.live.layers), len(folded.circuit.layers)
    lines = [f"folded: {live} layers became {len(folded.groups)} groups"]
    if live < layers:
        lines.append(f"  {layers - live} layers that no output depends on are left out")
    if folded.folds:
        lines += [
            f"  {number:3} {group.num_folds} x {_described(group.representative)}"
            for number, group in enumerate(folded.groups)
        ]
        lines += list(_separations(folded))
    return "\n".join(lines)


def _described(layer: Layer) -> str:
    hidden = ("scope", *(name.partition(".")[0] for name in layer.sub_layers))
    settings = [f"{name}={value}" for name, value in layer.config.items() if name not in hidden]
    settings += [f"{name}={_described(sub_layer)}" for name, sub_layer in layer.sub_layers.items()]
    return f"{type(layer).__name__}({', '.join(settings)})"


def _separations(folded: FoldedCircuit) -> Iterator[str]:
    """For each class, why its groups are several: settings that differ, or inputs that were not ready together."""
    kinds: dict[type[Layer], list[FoldedLayer]] = {}
    for group in folded.groups:
        kinds.setdefault(type(group.representative), []).append(group)
    for kind, groups in kinds.items():
        if len(groups) > 1:
            yield f"  {kind.__name__}: {len(groups)} groups; {'; '.join(_reasons(groups, folded.rows))}"


def _reasons(groups: list[FoldedLayer], rows: LayerRows) -> Iterator[str]:
    settings = {own_settings_of(group.representative, rows) for group in groups}
    if len(settings) < len(groups):
        inputs = isinstance(groups[0].representative, InputLayer)
        why = "of lengths whose padding costs more than a group" if inputs else "but read one another's results"
        yield f"{len(groups) - len(settings) + 1} are alike {why}"
    differing = _differences(groups)
    if differing:
        yield f"they differ in {', '.join(differing)}"


def _differences(groups: list[FoldedLayer]) -> list[str]:
    """The facts that differ between groups; one that differs within a group does not separate them."""
    facts = [[_facts(layer) for layer in group.members] for group in groups]
    names = dict.fromkeys(name for group in facts for layer in group for name in layer)
    values = {name: [dict.fromkeys(layer.get(name, "none") for layer in group) for group in facts] for name in names}
    between = {
        name: dict.fromkeys(value for group in per_group for value in group) for name, per_group in values.items()
    }
    return [
        f"{name} ({', '.join(between[name])})"
        for name, per_group in values.items()
        if len(between[name]) > 1 and all(len(group) == 1 for group in per_group)
    ]


def _facts(layer: Layer) -> dict[str, str]:
    facts: dict[str, Any] = {}
    for start, part in held_layers(layer):
        hidden = ("scope", *(name.partition(".")[0] for name in part.sub_layers))
        facts |= {start + name: value for name, value in part.config.items() if name not in hidden}
    facts |= {
        f"the shape of {name}": " and ".join(map(str, parameter.shapes))
        for name, parameter in layer.all_evaluated_params.items()
    }
    if isinstance(layer, InputLayer):
        facts["num_variables"] = layer.num_variables
    facts["mixing"] = getattr(layer, "mixing", None)
    return {name: str(value) for name, value in facts.items()}
