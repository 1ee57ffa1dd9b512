"""`plica show`: prints the layers of a saved model, before or after the rules, its Program, or the code that runs."""

from collections.abc import Callable
from pathlib import Path

import click

from plica.cli.errors import one_line_errors
from plica.files.model import ModelFile, load_model
from plica.lower.optimize import optimize_circuit
from plica.symbolic.circuit import Circuit
from plica.symbolic.semirings import Semiring
from plica.tables.build import compile_circuit

_STAGES = ("symbolic", "optimized", "program", "code")
_HEADINGS = ("layer", "kind", "scope", "units", "inputs", "parameters")


@click.command(short_help="Show a saved model at one stage of the compiler.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--stage",
    type=click.Choice(_STAGES),
    default="symbolic",
    show_default=True,
    help="symbolic: a table of layers. optimized: the table after the rules, and what they did. program: the equations "
    "of the compiled circuit. code: the Python that runs.",
)
@one_line_errors
def show(model: Path, stage: str) -> None:
    """Show MODEL, a file that `plica train` wrote, at one stage of the compiler."""
    loaded = load_model(model)
    click.echo(_AT_STAGE[stage](loaded))


def layer_table(circuit: Circuit) -> str:
    """One line for each layer, in topological order.

    >>> from plica.symbolic.layers import CategoricalLayer, SumLayer
    >>> leaf, total = CategoricalLayer([0], 4, num_categories=2), SumLayer(4, 1)
    >>> print(layer_table(Circuit([leaf, total], {total: [leaf]}, [total])))
    layer  kind         scope  units   inputs  parameters
        0  Categorical  {0}    4               logits (4, 2)
        1  Sum          {0}    4 -> 1  0       weight (1, 4)
    """
    rows = []
    for index, layer in enumerate(circuit.layers):
        inputs = circuit.layer_inputs(layer)
        read = " and ".join(map(str, dict.fromkeys(layer.input_widths)))
        units = f"{read} -> {layer.num_output_units}" if inputs else str(layer.num_output_units)
        rows.append(
            (
                str(index),
                type(layer).__name__.removesuffix("Layer"),
                str(circuit.layer_scope(layer)),
                units,
                " ".join(str(circuit.layer_index(child)) for child in inputs),
                ", ".join(
                    f"{name} {' '.join(map(str, parameter.shapes))}" for name, parameter in layer.all_params.items()
                ),
            )
        )
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    return "\n".join(_line(row, widths) for row in (_HEADINGS, *rows))


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    """Cells padded to the widths of their columns; the first is aligned to the right."""
    first, *rest = cells
    padded = [first.rjust(widths[0]), *(cell.ljust(width) for cell, width in zip(rest, widths[1:], strict=True))]
    return "  ".join(padded).rstrip()


def _optimized(loaded: ModelFile) -> str:
    optimized = optimize_circuit(loaded.circuit, semiring=Semiring.from_name(loaded.options.get("semiring", "lse-sum")))
    return f"{layer_table(optimized.circuit)}\n\n{optimized.report.text()}"


def _program(loaded: ModelFile) -> str:
    return str(compile_circuit(loaded.circuit, loaded.options).program)


def _code(loaded: ModelFile) -> str:
    return str(compile_circuit(loaded.circuit, loaded.options).code)


_AT_STAGE: dict[str, Callable[[ModelFile], str]] = {
    "symbolic": lambda loaded: layer_table(loaded.circuit),
    "optimized": _optimized,
    "program": _program,
    "code": _code,
}
