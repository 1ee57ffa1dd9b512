"""What folding did, in lines: how many layers became one, and why alike-looking layers stayed apart."""

from collections.abc import Iterator

from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.symbolic.layers import InputLayer, Layer


def explain_folds(folded: FoldedCircuit) -> str:
    """One line for each group, and one for each pair of groups that differ in little."""
    layers = len(folded.circuit.layers)
    lines = [f"folded: {layers} layers became {len(folded.groups)} groups"]
    if len(folded.groups) < layers:
        lines += [f"  {number:3} {_line(group)}" for number, group in enumerate(folded.groups)]
        lines += list(_apart(folded))
    return "\n".join(lines)


def _line(group: FoldedLayer) -> str:
    return f"{group.num_folds} x {_described(group.representative)}"


def _described(layer: Layer) -> str:
    settings = (f"{name}={value}" for name, value in layer.config.items() if name != "scope")
    return f"{type(layer).__name__}({', '.join(settings)})"


def _apart(folded: FoldedCircuit) -> Iterator[str]:
    """For each class, why its groups are several: settings that differ, or inputs that were not ready together."""
    kinds: dict[type[Layer], list[FoldedLayer]] = {}
    for group in folded.groups:
        kinds.setdefault(type(group.representative), []).append(group)
    for kind, groups in kinds.items():
        if len(groups) > 1:
            yield f"  {kind.__name__}: {len(groups)} groups; {'; '.join(_reasons(groups))}"


def _reasons(groups: list[FoldedLayer]) -> Iterator[str]:
    settings = {group.representative.fold_settings() for group in groups}
    if len(settings) < len(groups) and not isinstance(groups[0].representative, InputLayer):
        yield f"{len(groups) - len(settings) + 1} are alike but read one another's results"
    differing = _differences([group.representative for group in groups])
    if differing:
        yield f"they differ in {', '.join(differing)}"


def _differences(layers: list[Layer]) -> list[str]:
    found: dict[str, dict[str, None]] = {}
    for layer in layers:
        facts = {name: value for name, value in layer.config.items() if name != "scope"}
        facts |= {f"the shape of {name}": parameter.shape for name, parameter in layer.evaluated_params.items()}
        if isinstance(layer, InputLayer):
            facts["num_variables"] = layer.num_variables
        facts["mixing"] = getattr(layer, "mixing", None)
        for name, value in facts.items():
            found.setdefault(name, {})[str(value)] = None
    return [f"{name} ({', '.join(values)})" for name, values in found.items() if len(values) > 1]
