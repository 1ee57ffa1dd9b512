"""What `TorchCircuit.explain` tells: of a circuit sizes, rules, groups and memory; of one layer what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from plica.ir.program import print_equation
from plica.lower.fold.explain import explain_folds
from plica.lower.optimize.report import program_rules_text
from plica.lower.queries.bottom_up import equations_of
from plica.passes.memory import plan_memory

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit
    from plica.lower.layer_map import CompiledLayer
    from plica.symbolic.layers import Layer

_ROWS = 128
_NAMED = 4  # other layers that a line names


def explain(circuit: TorchCircuit) -> str:
    """The text for one circuit."""
    tensors = [tensor for _, tensor in circuit.leaves.items()]
    numbers = sum(tensor.numel() for tensor in tensors)
    head = (
        f"{circuit.symbolic!r}\n"
        f"semiring {circuit.semiring.name}, {circuit.dtype}, {len(circuit.layers)} groups of "
        f"{len(circuit.symbolic.layers)} layers, {numbers:,} numbers in {len(tensors)} tensors, "
        f"{len(circuit.program.equations)} equations"
    )
    report = circuit.compiled.report
    rules = "not optimized" if report is None else report.text()
    on_program = program_rules_text(circuit.lowered(circuit.usual_input()).fired)
    plan = plan_memory(circuit.program, _ROWS)
    memory = (
        f"memory for {_ROWS} rows: {plan.peak:,} bytes at the peak without gradients, at most "
        f"{plan.total:,} with them; {plan.copied:,} bytes copied to bring folds together"
    )
    kept = circuit.constants.num_bytes
    constants = f"constants, in eval mode ({kept:,} bytes are kept now):\n{circuit.constant_report()}"
    return "\n".join([head, rules, explain_folds(circuit.folded), on_program, memory, constants])


def explain_layer(circuit: TorchCircuit, layer: Layer) -> str:
    """What became of one layer: as it was described, the rules applied to it, its groups and folds, and its equations.

    Args:
        circuit: The compiled circuit.
        layer: A layer of the circuit as it was described.

    Raises:
        GraphError: The circuit does not have the layer.
    """
    lines = [*_described(circuit, layer), *_rewritten(circuit, layer)]
    found = circuit.get_compiled_layers(layer)
    lines += [line for one in found for line in _folded(circuit, layer, one)]
    if not found:
        lines.append("folded: no output depends on it, so that nothing computes it")
    for group in dict.fromkeys(one.group for one in found):
        equations = list(equations_of(circuit.program, group))
        lines.append(f"equations of group {group}: {len(equations) or 'none, it is simplified away'}")
        lines += [f"  {print_equation(equation)}" for equation in equations]
    return "\n".join(lines)


def _described(circuit: TorchCircuit, layer: Layer) -> Iterator[str]:
    described = circuit.symbolic
    resolved = circuit.layer_map.resolved(layer)
    yield f"described: {_name(circuit, layer)}"
    for holder, held_as in circuit.layer_map.holders(layer):
        yield f"  {held_as!r} of {described.layer_name(holder)}, whose row computes it"
    if circuit.layer_map.is_node(layer):
        for what, others in (("reads", described.layer_inputs(layer)), ("read by", described.layer_outputs(layer))):
            names = list(dict.fromkeys(map(described.layer_name, others)))
            if names:
                more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                yield f"  {what} {', '.join(names[:_NAMED])}{more}"
    for name, parameter in layer.all_params.items():
        yield f"  {name}: {parameter!r}"
        if resolved.all_params[name] is not parameter:
            yield f"  {name} by its rules: {resolved.all_params[name]!r}"


def _rewritten(circuit: TorchCircuit, layer: Layer) -> Iterator[str]:
    numbers = {one: number for number, one in enumerate(circuit.folded.described.layers)}

    def name(one: Layer) -> str:
        return repr(one) if one not in numbers else circuit.symbolic.layer_name(circuit.symbolic.layers[numbers[one]])

    none = True
    for one, step in circuit.layer_map.history(layer):
        none = False
        rules = "; ".join(f"{rule}: {equation}" for rule, equation in step.rules)
        made = " and ".join(map(name, step.layers)) or f"nothing: {name(step.output)} is read instead"
        role = f" as {step.role}" if step.role else ""
        beside = [other for other in step.fused if other is not one]
        more = f" and {len(beside) - _NAMED} more" if len(beside) > _NAMED else ""
        others = f" with {', '.join(map(name, beside[:_NAMED]))}{more}" if beside else ""
        yield f"rewritten ({step.stage}): {name(one)}{role}{others}, by {rules}"
        yield f"  became {made}"
    if none:
        yield "rewritten: by no rule"


def _folded(circuit: TorchCircuit, layer: Layer, found: CompiledLayer) -> Iterator[str]:
    group = circuit.layers[found.group]
    yield f"folded: fold {found.fold} of {group.num_folds} in group {found.group}, {group!r}"
    others = [one for one in circuit.get_symbolic_layers(found.group, found.fold) if one is not layer]
    if others:
        yield f"  there together with {', '.join(_name(circuit, one) for one in others)}"


def _name(circuit: TorchCircuit, layer: Layer) -> str:
    """What a layer of the circuit as it was described is called; one that another holds has no number."""
    return circuit.symbolic.layer_name(layer) if circuit.layer_map.is_node(layer) else repr(layer)
