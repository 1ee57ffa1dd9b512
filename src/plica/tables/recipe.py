"""What is fitted to a table, and how: the one place that chooses it.

>>> from plica.files.datasets import digits
>>> choose(digits()).structure, choose(digits(), units=8).units
('quad-tree-2', 8)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from plica.errors import InputError
from plica.files.datasets import Dataset
from plica.files.kinds import KINDS

NORMAL_MIXTURES = "normal-mixtures"
"""The structure of `plica.templates.normal_mixtures`."""
HIDDEN_TREE = "hidden-tree"
"""The structure that `plica.templates.hclt` takes from the training rows."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The structure, its size, and how it is fitted.

    Args:
        structure: The name of a region graph, or `hidden-tree` for one that follows from the rows; empty for that of
            the kind of data.
        layer: The kind of sum-product layers.
        units: Units of each layer.
        members: Of `normal-mixtures`, the number of components of each mixture; empty for one of `units`.
        input: The input distribution of rows of one kind; typed columns have those of their kinds.
        epochs: The most passes over the training rows.
        batch: Rows in one step.
        learner: How it learns, `NAME` or `NAME:SETTING=VALUE,...` (`plica.learn.learners.parse_learner`).
        learning_rate: The learner's step size at the start; None for its own.
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
    input: str = "categorical"
    epochs: int = 40
    batch: int = 100
    learner: str = "adam"
    learning_rate: float | None = None
    patience: int | None = None
    min_delta: float = 0.0
    holds_out: bool = True
    predicting_epochs: int = 0


# Rules look at the training and validation rows, and at the variable that is to be predicted if there is one. The first
# rule that gives a recipe is taken.


def _of_images(data: Dataset, target: int | None) -> Recipe | None:  # noqa: ARG001
    """Images have a quad tree."""
    return None if data.shape is None else Recipe(structure="quad-tree-2")


_MEMBERS = (2, 5, 5, 10, 10, 20)
_MEMBERS_OF_CLASS = (1, 2, 3, 5)  # numbers of components of each class
_PREDICTING_EPOCHS = 20
_ROWS_PER_COMPONENT = 6
_MOST_NUMBERS = 100


def _of_mixed_tables(data: Dataset, target: int | None) -> Recipe | None:
    """Tables with a column of numbers have the average of six mixtures of normal vectors, of 2 to 20 components.

    Each component has six rows or more. With more than a hundred columns of numbers, or fewer rows than twice their
    number, covariances say little: such tables have a hidden tree. To predict a column of categories, there are four
    mixtures, of 1 to 5 components for each class. A model that is to predict a column learns all columns for 25 epochs,
    then that column given the others for 20.
    """
    if data.encoding is None:
        return None
    numbers = sum(not KINDS[column.kind].closed for column in data.encoding.modelled)
    rows = len(data.train) + len(data.valid)
    if not numbers:
        return None
    mixtures = Recipe(
        structure=NORMAL_MIXTURES,
        learner="full-em:apart=true",
        epochs=25,
        batch=1024,
        patience=2,
        min_delta=1e-4,
        holds_out=False,
        predicting_epochs=_PREDICTING_EPOCHS,
    )
    if target is not None and KINDS[data.encoding.modelled[target].kind].closed:
        if numbers > _MOST_NUMBERS:
            return None
        return replace(mixtures, members=_MEMBERS_OF_CLASS)
    if numbers > min(_MOST_NUMBERS, rows / 2):
        return Recipe(structure=HIDDEN_TREE, units=16)
    most = max(1, rows // _ROWS_PER_COMPONENT)
    return replace(mixtures, members=tuple(members for members in _MEMBERS if members <= most) or (1,))


def _of_other_rows(data: Dataset, target: int | None) -> Recipe:  # noqa: ARG001
    """Other rows have a random binary tree."""
    return Recipe(structure="random-binary-tree")


_RULES: tuple[Callable[[Dataset, int | None], Recipe | None], ...] = (_of_images, _of_mixed_tables, _of_other_rows)
_ABOUT_TREES = ("layer", "units", "input", "batch", "learner", "learning_rate", "min_delta")


def choose(data: Dataset, *, target: int | None = None, **chosen: Any) -> Recipe:
    """The recipe for a data set: that of the first rule that has one.

    Images get a quad tree. Tables with columns of numbers get `normal-mixtures` (see `_of_mixed_tables`), unless the
    user chose a setting of trees, such as `units`. Other rows get a random binary tree.

    Args:
        data: The data set, with the kinds of its columns; rules look at its training and validation rows alone.
        target: The variable that the model is to predict; None to fit all alike.
        chosen: What the user has chosen, by the names of `Recipe`; None leaves the choice to the rule.

    Raises:
        InputError: There is no such setting.
    """
    for name in chosen:
        if name not in Recipe.__dataclass_fields__:
            raise InputError(f"a recipe has no {name!r}; it has {', '.join(Recipe.__dataclass_fields__)}")
    given = {name: value for name, value in chosen.items() if value is not None}
    structure = given.get("structure")
    wants_tree = any(name in given for name in _ABOUT_TREES)
    rules = [rule for rule in _RULES if not (rule is _of_mixed_tables and structure is None and wants_tree)]
    rule = next(recipe for recipe in (rule(data, target) for rule in rules) if recipe is not None)
    if structure not in (None, rule.structure):
        rule = Recipe(structure=structure)
        if structure == NORMAL_MIXTURES:
            rule = replace(rule, learner="full-em:apart=true", units=5, epochs=25, batch=1024, holds_out=False)
    if "units" in given:
        rule = replace(rule, members=())
    return replace(rule, **given)
