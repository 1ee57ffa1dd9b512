"""The rule that chooses what is fitted to a table."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from plica.errors import InputError
from plica.files.datasets import Dataset, digits
from plica.tables import fitting, trials
from plica.tables.recipe import Recipe
from plica.tables.rules import candidates, choose
from tests.harness.messages import messages


def bits(rows: int, columns: int, **changed: Any) -> Dataset:
    values = np.zeros((rows, columns), dtype=np.int64)
    return replace(Dataset("bits", values, values[:1], values[:1], None, 2), **changed)


def test_wide_tables_have_one_recipe_and_no_trial() -> None:
    assert len(candidates(bits(10, 2048))) == 2
    assert candidates(bits(10, 2049)) == candidates(bits(10, 2048))[:1]


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


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (19, 10, [(8, 1, "data"), (8, 2, "clusters")]),
        (20, 10, [(8, 4, "clusters"), (8, 4, "data")]),
        (119, 10, [(8, 4, "clusters"), (8, 4, "data")]),
        (120, 10, [(16, 8, "clusters"), (16, 8, "data")]),
        (499, 10, [(16, 8, "clusters"), (16, 8, "data")]),
        (500, 10, [(32, 2, "clusters"), (64, 1, "data")]),
    ],
)
def test_rows_for_each_column_choose_hidden_trees(rows, columns, expected) -> None:
    recipes = candidates(bits(rows, columns))
    assert [(recipe.units, recipe.trees, recipe.start) for recipe in recipes] == expected
    assert {recipe.structure for recipe in recipes} == {"hidden-tree"}


def test_other_data_has_other_structures() -> None:
    assert choose(bits(600, 4, num_values=None)) == Recipe(structure="random-binary-tree")
    assert choose(bits(600, 4), input="gaussian") == Recipe(structure="random-binary-tree", input="gaussian")
    assert choose(bits(600, 4), structure="linear-tree") == Recipe(structure="linear-tree")


def test_what_is_chosen_is_no_longer_tried() -> None:
    (recipe,) = candidates(bits(30, 10), trees=3, start="clusters", units=None)
    assert (recipe.trees, recipe.members) == (3, (8, 8, 8))
    assert str(recipe) == (
        "units 8 + 8 + 8, trees 3, start clusters, learner adam:apart=true, lr 0.1, pseudocount 0.3, epochs 12, "
        "batch 50"
    )


@pytest.mark.parametrize("rows", [19, 30, 120, 600])
def test_who_chooses_states_or_the_learner_or_predicts_gets_one_model(rows: int) -> None:
    for chosen in ({"units": 5}, {"learner": "full-em"}, {"target": 0}):
        for recipe in candidates(bits(rows, 10), **chosen):
            assert not recipe.members
            assert "apart" not in recipe.learner
    for members, learner in {(3, 4): "adam:apart=true", (): "adam"}.items():
        for recipe in candidates(bits(rows, 10), members=members):
            assert (recipe.members, recipe.learner) == (members, learner)


def test_rates_of_the_rule_are_not_those_of_another_learner() -> None:
    recipe = choose(bits(600, 4), learner="adam:rate=0.5")
    assert fitting.learner_of(recipe).rate == 0.5  # type: ignore[attr-defined]
    assert fitting.learner_of(choose(bits(600, 4))).rate == 0.2  # type: ignore[attr-defined]


def test_there_is_no_such_setting() -> None:
    with pytest.raises(InputError, match="members gives each model its size, and units gives one size"):
        candidates(bits(30, 10), members=(2, 3), units=4)
    with pytest.raises(InputError, match="a recipe has no 'tree'; it has structure, layer, units, members, trees"):
        candidates(bits(4, 2), tree=1)


def _scored(monkeypatch: pytest.MonkeyPatch, *scores: float, interrupted: bool = False) -> list[Recipe]:
    """Trials that end with scores; the recipes that are tried."""
    tried: list[Recipe] = []

    def train(_model: Any, _data: Any, recipe: Recipe, **_: Any) -> Any:
        tried.append(recipe)
        epochs = [SimpleNamespace(valid=-9.0), SimpleNamespace(valid=scores[len(tried) - 1])]
        return SimpleNamespace(history=epochs, best_epoch=1, interrupted=interrupted)

    monkeypatch.setattr(trials, "train", train)
    monkeypatch.setattr(trials, "untrained", lambda *_, **__: None)
    return tried


@pytest.mark.parametrize(("scores", "best"), [((-2.0, -1.0), 1), ((-1.0, -2.0), 0), ((-1.0, -1.0), 0)])
def test_validation_rows_choose(monkeypatch, scores, best) -> None:
    tried = _scored(monkeypatch, *scores)
    with messages() as told:
        recipe = trials.decide(bits(30, 10), seed=0, dtype="float32", patience=2)
    recipes = candidates(bits(30, 10), patience=2)
    assert recipe == recipes[best]
    assert [line.split(": ")[0] for line in told] == [f"tried {recipe}" for recipe in recipes]
    assert [float(line.split(": ")[1].split()[0]) for line in told] == list(scores)
    assert [(trial.epochs, trial.patience) for trial in tried] == [(2, None)] * 2


def test_a_single_recipe_is_not_tried_and_an_interrupt_ends_trials(monkeypatch) -> None:
    tried = _scored(monkeypatch, -1.0, interrupted=True)
    assert trials.decide(bits(600, 4), seed=0, dtype="float32", structure="linear-tree").trees == 1
    assert not tried
    with pytest.raises(KeyboardInterrupt):
        trials.decide(bits(30, 10), seed=0, dtype="float32")


@pytest.mark.parametrize(
    ("chosen", "structure"),
    [
        ({"structure": "hidden-tree", "layer": "cp"}, "hidden-tree"),
        ({"structure": "linear-tree", "trees": 2}, "linear-tree"),
        ({"layer": "cp", "start": "data"}, "hidden-tree"),
    ],
)
def test_settings_that_a_structure_does_not_have_are_refused(chosen: dict[str, Any], structure: str) -> None:
    with pytest.raises(InputError, match=f"the structure {structure} has no setting"):
        candidates(bits(30, 10), **chosen)


@pytest.mark.parametrize("prior", [{"pseudocount": 1.0}, {"learner": "adam:pseudocount=1"}])
def test_smooth_inputs_have_no_prior(prior: dict[str, Any]) -> None:
    assert choose(digits(), **prior).input == "categorical"
    with pytest.raises(InputError, match="the input smooth-categorical has no prior; leave the pseudocount out"):
        choose(digits(), input="smooth-categorical", **prior)


def test_large_tables_get_one_model_of_few_epochs() -> None:
    rows = np.zeros((110_000, 16), dtype=np.uint8)
    large, smaller = (Dataset("bits", part, part[:9], part[:9], None, num_values=2) for part in (rows, rows[:100_000]))
    assert {(recipe.members, recipe.epochs) for recipe in candidates(large)} == {((), 5)}
    assert {recipe.members for recipe in candidates(smaller)} == {(32, 32), (64, 64)}
