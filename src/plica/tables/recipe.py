"""What is fitted to a table, and how: the one place that has the rules.

>>> from plica.files.datasets import digits
>>> choose(digits()).structure, choose(digits(), units=8).units
('quad-tree-2', 8)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from plica.errors import InputError
from plica.files.datasets import Dataset

HIDDEN_TREE = "hidden-tree"
"""The structure that `plica.templates.hclt` takes from the training rows."""
STARTS = ("draws", "data", "clusters")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The structure, its size, and how it is fitted.

    Args:
        structure: The name of a region graph, or `hidden-tree` for one that follows from the rows; empty for that of
            the kind of data.
        layer: The kind of sum-product layers; not of hidden trees.
        units: Units of each layer.
        trees: The number of hidden trees; other structures have none.
        start: How hidden trees start (`plica.templates.hclt`): from "draws", from "data", or each from one of as many
            "clusters" of rows.
        input: The input distribution of rows of one kind; typed columns have those of their kinds.
        epochs: The most passes over the training rows.
        batch: Rows in one step.
        learner: How it learns, `NAME` or `NAME:SETTING=VALUE,...` (`plica.learn.learners.parse_learner`).
        learning_rate: The learner's step size at the start; None for its own.
        pseudocount: Imaginary rows for each distribution; None for the learner's own.
        patience: After how many epochs without a better validation score training ends; None for never.
        min_delta: By how much a score must be better to count.
    """

    structure: str = ""
    layer: str = "cp"
    units: int = 32
    trees: int = 1
    start: str = "draws"
    input: str = "categorical"
    epochs: int = 40
    batch: int = 100
    learner: str = "adam"
    learning_rate: float | None = None
    pseudocount: float | None = None
    patience: int | None = None
    min_delta: float = 0.0

    def __str__(self) -> str:
        """What it is, in the words of the command line."""
        of_trees = {"trees": self.trees, "start": self.start}
        chosen: Mapping[str, Any] = {
            "units": self.units,
            **(of_trees if self.structure == HIDDEN_TREE else {"layer": self.layer}),
            "learner": self.learner,
            "lr": self.learning_rate,
            "pseudocount": self.pseudocount,
            "epochs": self.epochs,
            "batch": self.batch,
            "patience": self.patience,
        }
        return ", ".join(f"{name} {value}" for name, value in chosen.items() if value is not None)


def candidates(data: Dataset, **chosen: Any) -> tuple[Recipe, ...]:
    """The recipes for a data set; where there are several, validation rows choose (`plica.tables.fitting.decide`).

    The rule: images get a quad tree, and other rows a random binary tree, both with the settings of `Recipe`; but rows
    whose columns all have states, such as bits, get hidden trees (`_hidden_trees`).

    Args:
        data: The data set, with the kinds of its columns; a rule looks at its training rows alone.
        chosen: What the user has chosen, by the names of `Recipe`; None leaves the choice to the rule.

    Raises:
        InputError: There is no such setting.
    """
    for name in chosen:
        if name not in Recipe.__dataclass_fields__:
            raise InputError(f"a recipe has no {name!r}; it has {', '.join(Recipe.__dataclass_fields__)}")
    given = {name: value for name, value in chosen.items() if value is not None}
    rules: tuple[Recipe, ...] = (Recipe(structure="random-binary-tree" if data.shape is None else "quad-tree-2"),)
    if _has_states(data, given) and given.get("structure", HIDDEN_TREE) == HIDDEN_TREE:
        rules = _hidden_trees(len(data.train), data.num_variables)
    if "learner" in given:  # the rates of the rule are those of its learner
        rules = tuple(replace(rule, learning_rate=None, pseudocount=None) for rule in rules)
    return tuple(dict.fromkeys(replace(rule, **given) for rule in rules))


def choose(data: Dataset, **chosen: Any) -> Recipe:
    """The first of the `candidates`."""
    return candidates(data, **chosen)[0]


def _has_states(data: Dataset, given: Mapping[str, Any]) -> bool:
    """Whether the data is no image, and each column has a number of states."""
    if data.shape is not None:
        return False
    if data.encoding is not None:
        return all(column.categories for column in data.encoding.modelled)
    return data.num_values is not None and given.get("input", "categorical") == "categorical"


def _hidden_trees(rows: int, columns: int) -> tuple[Recipe, ...]:
    """The rule for columns of states: rows for each column say how much can be learned.

    | rows for each column | trees                             | states | rate | batch | epochs | pseudocount |
    | below 2              | 1, or 2 of clusters               | 8      | 0.1  | 50    | 8      | 1           |
    | below 50             | 4 of clusters, or 4 of drawn rows | 16     | 0.1  | 50    | 15     | 0.3         |
    | 50 and more          | 1                                 | 64     | 0.2  | 100   | 25     | 1           |

    All start from data. Measured on 13 binary sets, by their validation rows: `docs/training.md`.
    """
    rule = Recipe(structure=HIDDEN_TREE, start="data")
    if rows < 2 * columns:
        rule = replace(rule, units=8, learning_rate=0.1, batch=50, epochs=8, pseudocount=1.0)
        return rule, replace(rule, trees=2, start="clusters")
    if rows < 50 * columns:
        rule = replace(rule, units=16, trees=4, learning_rate=0.1, batch=50, epochs=15, pseudocount=0.3)
        return replace(rule, start="clusters"), rule
    return (replace(rule, units=64, learning_rate=0.2, batch=100, epochs=25, pseudocount=1.0),)
