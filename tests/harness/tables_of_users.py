"""Tables of random columns, and models of independent columns that nobody trained."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from plica.cli.main import main
from plica.files.encoding import Encoding
from plica.files.infer import infer_columns
from plica.files.kinds import KINDS
from plica.files.model import save_model
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import DISTRIBUTIONS, HadamardLayer
from plica.symbolic.scope import Scope
from plica.tables.files import open_table


def write(path: str | Path, rows: list[list[str]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def read(path: str | Path) -> list[list[str]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def untrained(
    path: Path, table: Path, *, words: tuple[str, ...] = (), distributions: Mapping[str, str] | None = None
) -> Encoding:
    """Writes a model of independent columns as `auto` takes them.

    Args:
        path: The file that is written.
        table: The table.
        words: Text that means that a cell is missing.
        distributions: Those of columns, by name, in place of those of `auto`.
    """
    with open_table(table, named=True) as rows:
        (batch,) = rows.batches(10**6)
        assert rows.names is not None
        encoding = Encoding(infer_columns(rows.names, batch.cells, words=words), words)
    layers: list[Any] = []
    for place, column in enumerate(encoding.modelled):
        distribution = DISTRIBUTIONS[(distributions or {}).get(column.name, KINDS[column.kind].input_layer)]
        settings = distribution.settings_for(len(column.categories) or None)
        layers.append(distribution.layer(Scope([place]), 1, **settings))
    product = HadamardLayer(1, len(layers)) if len(layers) > 1 else None
    inputs: dict[Any, Any] = {} if product is None else {product: layers}
    circuit = Circuit([*layers, *inputs], inputs, [layers[0] if product is None else product])
    save_untrained(path, circuit, {"semiring": "lse-sum", "dtype": "float64", "encoding": encoding.as_json()})
    return encoding


def save_untrained(path: Path, circuit: Circuit, options: dict[str, Any]) -> None:
    from plica.tables.build import compile_circuit

    state = compile_circuit(circuit, options).state_dict()
    save_model(path, circuit, {name: value.numpy() for name, value in state.items()}, options)


def run(*words: Any) -> Any:
    return CliRunner().invoke(main, [str(word) for word in words])
