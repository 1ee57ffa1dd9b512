"""Which recipe a data set gets."""

from typing import Any

import numpy as np
import pytest

from plica.files.datasets import Dataset
from plica.tables.recipe import choose


def images(side: int, num_values: int | None) -> Dataset:
    rows = np.zeros((3, side * side), dtype=np.int64)
    return Dataset("images", rows, rows, rows, (1, side, side), num_values)


@pytest.mark.parametrize(
    ("side", "num_values", "chosen", "structure", "input_name", "epochs"),
    [
        (8, 17, {}, "hidden-tree", "smooth-categorical", 20),
        (32, 32, {}, "hidden-tree", "smooth-categorical", 20),
        (28, 256, {}, "quad-tree-2", "smooth-categorical", 40),
        (33, 17, {}, "quad-tree-2", "smooth-categorical", 40),
        (8, 2, {}, "hidden-tree", "categorical", 20),
        (8, 65536, {}, "quad-tree-2", "categorical", 40),
        (8, None, {"input": "gaussian"}, "quad-tree-2", "gaussian", 40),
        (8, 17, {"layer": "cp-t"}, "quad-tree-2", "smooth-categorical", 40),
        (8, 17, {"structure": "quad-graph"}, "quad-graph", "smooth-categorical", 40),
        (8, 17, {"epochs": 7, "input": "categorical"}, "hidden-tree", "categorical", 7),
        (8, 17, {"learner": "full-em"}, "hidden-tree", "categorical", 20),
        (8, 17, {"learner": "adam:pseudocount=1"}, "hidden-tree", "categorical", 20),
        (8, 17, {"learner": "adam:rate=0.2"}, "hidden-tree", "smooth-categorical", 20),
    ],
)
def test_images(
    side: int, num_values: int | None, chosen: dict[str, Any], structure: str, input_name: str, epochs: int
) -> None:
    recipe = choose(images(side, num_values), **chosen)
    assert (recipe.structure, recipe.input, recipe.epochs) == (structure, input_name, epochs)
