"""What is fitted to a table, and how: the one place that chooses it.

>>> from plica.files.datasets import digits
>>> choose(digits()).structure, choose(digits(), units=8).units
('hidden-tree', 8)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from plica.errors import InputError
from plica.files.datasets import Dataset

HIDDEN_TREE = "hidden-tree"
"""The structure that `plica.templates.hclt` takes from the training rows."""
SMOOTH_CATEGORICAL = "smooth-categorical"
"""The input of states in order: `plica.templates.smooth_states` makes it from the training rows."""
_MOST_PIXELS = 1024  # of images whose pixels form a hidden tree
_MOST_TREE_STATES = 32  # of such pixels: with more, rows are too few to count each pair of values
_SMOOTH_STATES = range(3, 1025)  # numbers of states whose steps are worth a table of each pair


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

    The rule: images have one of their own (`of_images`), other rows a random binary tree with the settings of `Recipe`.

    Args:
        data: The data set, with the kinds of its columns; a rule looks at its training rows alone.
        chosen: What the user has chosen, by the names of `Recipe`; None leaves the choice to the rule.

    Raises:
        InputError: There is no such setting.
    """
    for name in chosen:
        if name not in Recipe.__dataclass_fields__:
            raise InputError(f"a recipe has no {name!r}; it has {', '.join(Recipe.__dataclass_fields__)}")
    said = {name: value for name, value in chosen.items() if value is not None}
    rule = Recipe(structure="random-binary-tree") if data.shape is None else of_images(data, said)
    return replace(rule, **said)


def of_images(data: Dataset, chosen: Mapping[str, Any]) -> Recipe:
    """The recipe for images.

    Pixels of up to 32 states get a hidden tree, in which those pixels are neighbours that say most of each other, and
    20 epochs. A hidden tree counts every pair of values of every pair of pixels, so other images get a quad tree:
    those of more states, of real numbers, or of more than 1,024 pixels times channels. A choice of the layer means a
    quad tree too, since hidden trees have layers of one kind.

    Pixels of 3 to 1,024 states are inputs whose values move together where they are near, if Adam learns them: such
    inputs have neither a closed form for expectation maximization nor a prior.

    Args:
        data: The images.
        chosen: What the user has chosen, as of `choose`.
    """
    is_small = data.num_values in range(1, _MOST_TREE_STATES + 1) and data.num_variables <= _MOST_PIXELS
    is_tree = is_small and "layer" not in chosen
    structure = chosen.get("structure", HIDDEN_TREE if is_tree else "quad-tree-2")
    name, _, settings = chosen.get("learner", "adam").partition(":")
    is_smooth = data.num_values in _SMOOTH_STATES and name == "adam" and "pseudocount" not in settings
    return Recipe(
        structure=structure,
        input=SMOOTH_CATEGORICAL if is_smooth else "categorical",
        epochs=20 if structure == HIDDEN_TREE else 40,
    )
