"""What is fitted to a table, and how; `plica.tables.rules` chooses it.

>>> print(Recipe(structure="hidden-tree", units=64))
units 64, trees 1, start draws, learner adam, epochs 40, batch 100
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plica.files.encoding import Encoding
from plica.files.kinds import KINDS

NORMAL_MIXTURES = "normal-mixtures"
"""The structure of `plica.templates.normal_mixtures`."""
HIDDEN_TREE = "hidden-tree"
"""The structure that `plica.templates.hclt` takes from the training rows."""
STARTS = ("draws", "data", "clusters")
"""How hidden trees start, as of `plica.templates.hclt`."""
SMOOTH_CATEGORICAL = "smooth-categorical"
"""The input of states in order: `plica.templates.smooth_states` makes it from the training rows."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The structure, its size, and how it is fitted.

    Args:
        structure: The name of a region graph, or `hidden-tree` or `normal-mixtures` for one that follows from the rows.
        layer: The kind of sum-product layers of region graphs.
        units: Units of each layer.
        members: Of an average of several models, the size of each, which learns apart; empty for one model of `units`.
            Of `normal-mixtures` a size is the number of components, of `hidden-tree` the number of states.
        trees: The number of hidden trees; other structures have none.
        start: How hidden trees start (`plica.templates.hclt`): from "draws", from "data", or each from one of as many
            "clusters" of rows.
        input: The input distribution of rows of one kind; typed columns have those of their kinds.
        epochs: The most passes over the training rows.
        batch: Rows in one step.
        learner: How it learns, `NAME` or `NAME:SETTING=VALUE,...` (`plica.learn.learners.parse_learner`).
        learning_rate: The learner's step size at the start; None for its own.
        pseudocount: Imaginary rows for each distribution; None for the learner's own.
        widening: Of `normal-mixtures`, by what covariances are multiplied at the end; None for the factor that follows
            from the numbers of cells and columns (`plica.learn.widening`).
        logs: Of `normal-mixtures`, whether skewed columns of positive numbers are on a logarithmic scale
            (`plica.tables.scales`).
        softening: The share of their probability that inputs of states take evenly from all states
            (`plica.templates.softened`).
        patience: After how many epochs without a better validation score training ends; None for never.
        min_delta: By how much a score must be better to count.
        holds_out: Whether the validation rows choose the best epoch; else they are learned from as well.
        predicting_epochs: Of a model that is to predict a column, the passes after the others in which it learns that
            above all; 0 to learn it from the start.
    """

    structure: str = ""
    layer: str = "cp"
    units: int = 32
    members: tuple[int, ...] = ()
    trees: int = 1
    start: str = "draws"
    input: str = "categorical"
    epochs: int = 40
    batch: int = 100
    learner: str = "adam"
    learning_rate: float | None = None
    pseudocount: float | None = None
    widening: float | None = None
    logs: bool = True
    softening: float = 0.0
    patience: int | None = None
    min_delta: float = 0.0
    holds_out: bool = True
    predicting_epochs: int = 0

    @staticmethod
    def of_json(stored: Mapping[str, Any]) -> Recipe:
        """The recipe that a model file holds; settings of other versions of Plica are left out."""
        settings = {name: value for name, value in stored.items() if name in Recipe.__dataclass_fields__}
        return Recipe(**settings | {"members": tuple(settings.get("members", ()))})

    def __str__(self) -> str:
        """What it is, in the words of the command line."""
        size: Mapping[str, Any] = {"units": self.units, "layer": self.layer}
        if self.structure == HIDDEN_TREE:
            units = " + ".join(map(str, self.members or (self.units,)))
            size = {"units": units, "trees": self.trees, "start": self.start}
        elif self.structure == NORMAL_MIXTURES:
            size = {"components": " + ".join(map(str, self.members or (self.units,)))}
        chosen = {
            **size,
            "learner": self.learner,
            "lr": self.learning_rate,
            "pseudocount": self.pseudocount,
            "widening": self.widening,
            "logs": None if self.logs else "off",
            "softening": self.softening or None,
            "epochs": self.epochs,
            "batch": self.batch,
            "patience": self.patience,
        }
        return ", ".join(f"{name} {value}" for name, value in chosen.items() if value is not None)


def vector_columns(encoding: Encoding) -> list[int]:
    """The variables that `normal-mixtures` joins in a vector: numbers that have no input distribution of their own."""
    columns = encoding.modelled
    return [v for v, column in enumerate(columns) if not KINDS[column.kind].closed and not column.input]
