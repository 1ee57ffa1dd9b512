"""The report of a training run: its settings, the versions of packages, and the results."""

import importlib.metadata
import math
import platform
from dataclasses import asdict, dataclass
from typing import Any

from plica.cli.settings import Settings
from plica.cli.version import plica_version
from plica.files.datasets import Dataset
from plica.files.encoding import Encoding
from plica.files.kinds import KINDS, TableColumn
from plica.learn.history import Epoch, FitResult
from plica.learn.metrics import bits_per_dimension
from plica.lower.leaves import leaf_keys
from plica.symbolic.circuit import Circuit
from plica.tables.build import rows_of
from plica.tables.recipe import NORMAL_MIXTURES, Recipe, vector_columns

_PACKAGES = ("numpy", "torch", "safetensors", "matplotlib", "scikit-learn")


@dataclass(frozen=True, slots=True)
class Figures:
    """Mean log-likelihoods of the best model, and how long training took; `valid` is None without such rows."""

    train: float
    valid: float | None
    test: float
    seconds: float


def make_report(
    settings: Settings, data: Dataset, circuit: Circuit, recipe: Recipe, result: FitResult, figures: Figures
) -> dict[str, Any]:
    """The report as JSON values; figures that are not finite become null."""
    learned = len(rows_of(recipe, data))
    rows = learned * result.epochs_run
    return {
        "interrupted": result.interrupted,
        "stopped_early": result.stopped_early,
        "bits_per_dimension": {
            part: _bits(getattr(figures, part), data.num_variables) for part in ("train", "valid", "test")
        },
        "epochs_run": result.epochs_run,
        "best_epoch": result.best_epoch,
        "seconds": round(figures.seconds, 3),
        "rows_per_second": round(rows / figures.seconds, 1) if figures.seconds > 0 else None,
        "model": {
            "region_graph": recipe.structure,
            "layers": len(circuit.layers),
            "variables": circuit.num_variables,
            "parameters": count_parameters(circuit),
        },
        "data": {
            "name": data.name,
            "train": learned,
            "valid": len(data.valid) if recipe.holds_out else 0,
            "test": len(data.test),
            "image_shape": data.shape,
            "num_values": data.num_values,
            **({} if data.encoding is None else {"columns": columns_of(data, data.encoding, recipe.structure)}),
        },
        "seed": settings.seed,
        "settings": settings.as_json(),
        "versions": versions(),
        "history": [_epoch(entry, recipe, data.num_variables) for entry in result.history],
        "recipe": asdict(recipe),
    }


def columns_of(data: Dataset, encoding: Encoding, structure: str) -> list[dict[str, Any]]:
    """The description of each column of a table, with the number of training rows in which it is missing."""
    vectors = vector_columns(encoding) if structure == NORMAL_MIXTURES else ()
    variables = {column.name: variable for variable, column in enumerate(encoding.modelled)}
    missing = data.num_missing
    records = []
    for column in encoding.columns:
        variable = variables.get(column.name)
        records.append(
            {
                "name": column.name,
                "kind": column.kind,
                "categories": list(column.categories),
                **({"format": column.format} if column.format else {}),
                **({"why": column.why} if column.why else {}),
                "input": None if variable is None else _input_of(column, is_vector=variable in vectors),
                "missing": None if variable is None else int(missing[variable]),
            }
        )
    return records


def _input_of(column: TableColumn, *, is_vector: bool) -> str:
    """The name of the input layers of a column."""
    return "multivariate-gaussian" if is_vector else column.input or KINDS[column.kind].input_layer


def count_parameters(circuit: Circuit) -> int:
    """The number of parameters that training changes; shared ones count once."""
    return sum(math.prod(leaf.shape) for leaf in leaf_keys(circuit) if leaf.learnable)


def versions() -> dict[str, str | None]:
    """The versions of Python and of the packages that figures depend on; None if a package is not installed."""
    installed: dict[str, str | None] = {"plica": plica_version(), "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = None
    return installed


def _epoch(epoch: Epoch, recipe: Recipe, num_variables: int) -> dict[str, Any]:
    """An epoch; what chose the best one is the figure of validation rows, or a score of the rows that it learned."""
    return {
        "epoch": epoch.number,
        "train": _bits(epoch.train, num_variables),
        "valid" if recipe.holds_out else "score": _bits(epoch.valid, num_variables),
        "seconds": round(epoch.seconds, 4),
    }


def _bits(mean_log_likelihood: float | None, num_variables: int) -> float | None:
    if mean_log_likelihood is None:
        return None
    bits = bits_per_dimension(mean_log_likelihood, num_variables)
    return round(bits, 6) if math.isfinite(bits) else None
