"""What is fitted to a table, and how: the one place that chooses it.

>>> from plica.files.datasets import digits
>>> choose(digits()).structure, choose(digits(), units=8).units
('quad-tree-2', 8)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from plica.errors import InputError
from plica.files.datasets import Dataset


@dataclass(frozen=True, slots=True)
class Recipe:
    """The structure, its size, and how it is fitted.

    Args:
        structure: The name of a region graph, or `hidden-tree` for one that follows from the rows; empty for that of
            the kind of data.
        layer: The kind of sum-product layers.
        units: Units of each layer.
        input: The input distribution of rows of one kind; typed columns have those of their kinds.
        epochs: The most passes over the training rows.
        batch: Rows in one step.
        learner: How it learns, `NAME` or `NAME:SETTING=VALUE,...` (`plica.learn.learners.parse_learner`).
        learning_rate: The learner's step size at the start; None for its own.
        patience: After how many epochs without a better validation score training ends; None for never.
        min_delta: By how much a score must be better to count.
    """

    structure: str = ""
    layer: str = "cp"
    units: int = 32
    input: str = "categorical"
    epochs: int = 40
    batch: int = 100
    learner: str = "adam"
    learning_rate: float | None = None
    patience: int | None = None
    min_delta: float = 0.0


def choose(data: Dataset, **chosen: Any) -> Recipe:
    """The recipe for a data set.

    The rule: images get a quad tree, other rows a random binary tree, both with the settings of `Recipe`.

    Args:
        data: The data set, with the kinds of its columns; a rule looks at its training rows alone.
        chosen: What the user has chosen, by the names of `Recipe`; None leaves the choice to the rule.

    Raises:
        InputError: There is no such setting.
    """
    for name in chosen:
        if name not in Recipe.__dataclass_fields__:
            raise InputError(f"a recipe has no {name!r}; it has {', '.join(Recipe.__dataclass_fields__)}")
    rule = Recipe(structure="random-binary-tree" if data.shape is None else "quad-tree-2")
    return replace(rule, **{name: value for name, value in chosen.items() if value is not None})
