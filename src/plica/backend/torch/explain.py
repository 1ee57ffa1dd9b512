"""The texts of `TorchCircuit.explain`: sizes, rules, groups and memory of a circuit, or the way of one layer."""

from collections.abc import Iterator
from math import prod

import torch

from plica.backend.torch.leaves import Leaves
from plica.constants.report import FoldReport
from plica.ir.program import Program, print_equation
from plica.lower.compiled import CompiledCircuit
from plica.lower.fold.explain import explain_folds
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.layer_map import CompiledLayer
from plica.lower.optimize.report import program_rules_text
from plica.lower.queries.bottom_up import equations_of
from plica.lower.queries.score import Lowered
from plica.passes.memory import plan_memory
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import BlockKroneckerParameter, KroneckerParameter

_ROWS = 128
_NAMED = 4  # other layers that a line names


def explain(
    compiled: CompiledCircuit, lowered: Lowered, leaves: Leaves, dtype: torch.dtype, cached: int, constants: FoldReport
) -> str:
    """The text for one circuit.

    Args:
        compiled: The circuit as it is computed.
        lowered: Its Program for the usual data.
        leaves: Its tensors.
        dtype: The dtype of those that are real.
        cached: The bytes that its fold cache takes now.
        constants: The report on the constants of the Program.
    """
    tensors = [tensor for _, tensor in leaves.items()]
    numbers = sum(tensor.numel() for tensor in tensors)
    head = (
        f"{compiled.symbolic!r}\n"
        f"semiring {compiled.semiring.name}, {dtype}, {len(compiled.folded.groups)} groups of "
        f"{len(compiled.symbolic.layers)} layers, {numbers:,} numbers in {len(tensors)} tensors, "
        f"{len(lowered.program.equations)} equations"
    )
    rules = "not optimized" if compiled.report is None else compiled.report.text()
    on_program = program_rules_text(lowered.fired)
    plan = plan_memory(lowered.program, _ROWS)
    memory = (
        f"memory for {_ROWS} rows: {plan.peak:,} bytes at the peak without gradients, at most "
        f"{plan.total:,} with them; {plan.copied:,} bytes copied to bring folds together"
    )
    folding = f"constants, in eval mode ({cached:,} bytes are kept now):\n{constants}"
    folds = explain_folds(compiled.folded)
    products = [*_kronecker_weights(compiled.folded), *_complete_rows(compiled)]
    return "\n".join([head, rules, folds, *products, on_program, memory, folding])


def _kronecker_weights(folded: FoldedCircuit) -> Iterator[str]:
    """How many Kronecker weights there are, and which of them are built."""
    described = list(map(_size_of_kronecker, folded.described.live_layers))
    if not any(described):
        return
    built = [layer for layer in folded.circuit.live_layers if _size_of_kronecker(layer)]
    saved = sum(described) - sum(map(_size_of_kronecker, built))
    count = sum(map(bool, described))
    yield f"Kronecker weights: {count - len(built)} of {count} are never built ({saved:,} numbers)"
    if built:
        yield f"  built: {_listed([folded.circuit.layer_name(layer) for layer in built])}"


def _size_of_kronecker(layer: Layer) -> int:
    """How many numbers the Kronecker products among the parameters of a layer have."""
    kinds = KroneckerParameter, BlockKroneckerParameter
    nodes = (node for parameter in layer.all_evaluated_params.values() for node in parameter.nodes)
    return sum(prod(node.shape) for node in nodes if isinstance(node, kinds))


def _complete_rows(compiled: CompiledCircuit) -> Iterator[str]:
    """How rows without missing variables are computed, where that is otherwise."""
    if compiled.folded.complete is not None:
        before, now = compiled.work, compiled.complete_work
        yield (
            "rows without missing variables: products of the values of the operands, "
            f"{now.total:,} numbers for a row in place of {before.total:,}"
        )
        yield explain_folds(compiled.folded.complete.get())


def explain_layer(compiled: CompiledCircuit, program: Program, layer: Layer) -> str:
    """The way of one layer: its description, the rules applied to it, its groups and folds, and its equations.

    Args:
        compiled: The circuit as it is computed.
        program: Its Program for the usual data.
        layer: A layer of the circuit as it was described.

    Raises:
        GraphError: The circuit does not have the layer.
    """
    lines = [*_described(compiled, layer), *_rewritten(compiled, layer)]
    compiled_layers = compiled.layer_map.get_compiled_layers(layer)
    lines += [line for compiled_layer in compiled_layers for line in _folded(compiled, layer, compiled_layer)]
    if not compiled_layers:
        lines.append("folded: no output depends on it, so that nothing computes it")
    for group in dict.fromkeys(compiled_layer.group for compiled_layer in compiled_layers):
        equations = list(equations_of(program, group))
        lines.append(f"equations of group {group}: {len(equations) or 'none, it is simplified away'}")
        lines += [f"  {print_equation(equation)}" for equation in equations]
    return "\n".join(lines)


def _described(compiled: CompiledCircuit, layer: Layer) -> Iterator[str]:
    described, layer_map = compiled.symbolic, compiled.layer_map
    resolved = layer_map.resolved(layer)
    yield f"described: {_name(compiled, layer)}"
    for holder, name in layer_map.holders(layer):
        yield f"  {name!r} of {described.layer_name(holder)}, whose row computes it"
    if layer_map.is_node(layer):
        for verb, layers in (("reads", described.layer_inputs(layer)), ("read by", described.layer_outputs(layer))):
            names = list(dict.fromkeys(map(described.layer_name, layers)))
            if names:
                yield f"  {verb} {_listed(names)}"
    for name, parameter in layer.all_params.items():
        yield f"  {name}: {parameter!r}"
        if resolved.all_params[name] is not parameter:
            yield f"  {name} by its rules: {resolved.all_params[name]!r}"


def _rewritten(compiled: CompiledCircuit, layer: Layer) -> Iterator[str]:
    numbers = {described: number for number, described in enumerate(compiled.folded.described.layers)}

    def name(layer: Layer) -> str:
        described = compiled.symbolic
        return repr(layer) if layer not in numbers else described.layer_name(described.layers[numbers[layer]])

    history = list(compiled.layer_map.history(layer))
    for rewritten, step in history:
        rules = "; ".join(f"{rule}: {equation}" for rule, equation in step.rules)
        results = " and ".join(map(name, step.layers)) or f"nothing: {name(step.output)} is read instead"
        role = f" as {step.role}" if step.role else ""
        fused = [name(layer) for layer in step.fused if layer is not rewritten]
        beside = f" with {_listed(fused)}" if fused else ""
        yield f"rewritten ({step.stage}): {name(rewritten)}{role}{beside}, by {rules}"
        yield f"  became {results}"
    if not history:
        yield "rewritten: by no rule"


def _folded(compiled: CompiledCircuit, layer: Layer, compiled_layer: CompiledLayer) -> Iterator[str]:
    group = compiled.folded.groups[compiled_layer.group]
    yield f"folded: fold {compiled_layer.fold} of {group.num_folds} in group {compiled_layer.group}, {group!r}"
    together = compiled.layer_map.get_symbolic_layers(compiled_layer.group, compiled_layer.fold)
    names = [_name(compiled, symbolic) for symbolic in together if symbolic is not layer]
    if names:
        yield f"  there together with {', '.join(names)}"


def _listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _name(compiled: CompiledCircuit, layer: Layer) -> str:
    """The name of a layer of the circuit as it was described; a layer that another one holds has no number."""
    return compiled.symbolic.layer_name(layer) if compiled.layer_map.is_node(layer) else repr(layer)
