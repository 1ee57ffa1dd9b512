"""The rules that choose a recipe by the kinds of the columns and the numbers of rows and columns.

A further rule is one function in `RULES`: the first that has a recipe for the data is taken.

>>> from plica.files.datasets import digits
>>> choose(digits()).structure, choose(digits(), units=8).units
('hidden-tree', 8)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from plica.arguments import elements, flag, integer
from plica.errors import InputError
from plica.files.datasets import Dataset
from plica.files.kinds import KINDS
from plica.tables.recipe import HIDDEN_TREE, NORMAL_MIXTURES, SMOOTH_CATEGORICAL, Recipe, vector_columns


@dataclass(frozen=True, slots=True)
class Question:
    """What a rule looks at.

    Args:
        data: The data set; rules look at its training and validation rows alone.
        target: The variable that the model is to predict; None to fit all alike.
        given: What the user has chosen, by the names of `Recipe`.
    """

    data: Dataset
    target: int | None
    given: Mapping[str, Any]

    def may_be(self, structure: str) -> bool:
        """Whether the user chose this structure, or none."""
        chosen: str = self.given.get("structure", structure)
        return chosen == structure

    def gives(self, *names: str) -> bool:
        """Whether the user chose one of these settings."""
        return any(name in self.given for name in names)


def candidates(data: Dataset, *, target: int | None = None, **chosen: Any) -> tuple[Recipe, ...]:
    """The recipes for a data set; where there are several, validation rows choose (`plica.tables.trials.decide`).

    Tables of more than 2,048 columns have one, the first of their rule: each trial would compile a circuit of its own.

    Args:
        data: The data set, with the kinds of its columns.
        target: The variable that the model is to predict; None to fit all alike.
        chosen: What the user has chosen, by the names of `Recipe`; None leaves the choice to the rules.

    Raises:
        InputError: There is no such setting, or the structure or the input does not have it.
        DTypeError, ShapeError: `members` are no sizes, or `logs` is no truth value.
    """
    for name in chosen:
        if name not in Recipe.__dataclass_fields__:
            raise InputError(f"a recipe has no {name!r}; it has {', '.join(Recipe.__dataclass_fields__)}")
    given = {name: value for name, value in chosen.items() if value is not None}
    if "members" in given:
        if "units" in given:
            raise InputError("members gives each model its size, and units gives one size; leave one of both out")
        members = elements("fit", "members", given["members"])
        given["members"] = tuple(integer("fit", "an entry of members", size, least=1) for size in members)
    question = Question(data, target, given)
    widening = given.get("widening", 1.0)
    if not isinstance(widening, Real) or not 0.0 < float(widening) < float("inf"):
        raise InputError(f"widening: expected a finite factor of more than 0, found {widening!r}")
    if "widening" in given:
        given["widening"] = float(widening)
    if "logs" in given:
        given["logs"] = flag("fit", "logs", given["logs"])
    recipes = next(recipes for recipes in (rule(question) for rule in RULES) if recipes)
    if data.num_variables > _MOST_TRIED:
        recipes = recipes[:1]
    if "learner" in given:  # rates of a rule are those of its learner
        recipes = tuple(replace(recipe, learning_rate=None, pseudocount=None) for recipe in recipes)
    if "units" in given:
        recipes = tuple(replace(recipe, members=()) for recipe in recipes)
    recipes = tuple(dict.fromkeys(replace(recipe, **given) for recipe in recipes))
    if target is None and "learner" not in given:
        recipes = tuple(
            replace(recipe, learner=_APART) if recipe.structure == HIDDEN_TREE and recipe.members else recipe
            for recipe in recipes
        )
    _check_is_read(recipes[0].structure, given)
    if recipes[0].input == SMOOTH_CATEGORICAL and _has_prior(given):
        raise InputError(
            f"the input {SMOOTH_CATEGORICAL} has no prior; leave the pseudocount out, or choose the input categorical"
        )
    return recipes


def _has_prior(given: Mapping[str, Any]) -> bool:
    """Whether the user chose a pseudocount above 0."""
    return given.get("pseudocount", 0) > 0 or "pseudocount" in given.get("learner", "")


def _check_is_read(structure: str, given: Mapping[str, Any]) -> None:
    """Refuse a setting that a structure does not have."""
    read = {NORMAL_MIXTURES: _OF_MIXTURES, HIDDEN_TREE: _OF_HIDDEN_TREES}.get(structure, _OF_REGION_GRAPHS)
    for name in (*_OF_MIXTURES, *_OF_HIDDEN_TREES, *_OF_REGION_GRAPHS):
        if name in given and name not in read:
            raise InputError(
                f"the structure {structure} has no setting {name!r}; leave it out, or choose another structure"
            )


_MOST_TRIED = 2048  # columns
_OF_MIXTURES, _OF_REGION_GRAPHS = ("members", "widening", "logs"), ("layer",)
_OF_HIDDEN_TREES = ("trees", "start", "members")
_APART = "adam:apart=true"


def choose(data: Dataset, *, target: int | None = None, **chosen: Any) -> Recipe:
    """The first of the `candidates`."""
    return candidates(data, target=target, **chosen)[0]


_MOST_PIXELS, _MOST_TREE_STATES = 1024, 32
_SMOOTH_STATES = range(3, 1025)


def images(question: Question) -> tuple[Recipe, ...]:
    """Pixels of up to 32 states get a hidden tree, in which pixels are neighbours that say most of each other.

    A hidden tree counts every pair of values of every pair of pixels, so other images get a quad tree: those of more
    states, of real numbers, or of more than 1,024 pixels times channels. A choice of the layer means a quad tree too,
    since hidden trees have layers of one kind.

    Pixels of 3 to 1,024 states are inputs whose values move together where they are near, if Adam learns them: such
    inputs have neither a closed form for expectation maximization nor a prior.
    """
    data = question.data
    if data.shape is None:
        return ()
    is_small = data.num_values in range(1, _MOST_TREE_STATES + 1) and data.num_variables <= _MOST_PIXELS
    is_tree = is_small and not question.gives("layer")
    structure = question.given.get("structure", HIDDEN_TREE if is_tree else "quad-tree-2")
    learner = question.given.get("learner", "adam").partition(":")[0]
    is_smooth = data.num_values in _SMOOTH_STATES and learner == "adam" and not _has_prior(question.given)
    return (
        Recipe(
            structure=structure,
            input=SMOOTH_CATEGORICAL if is_smooth else "categorical",
            epochs=20 if structure == HIDDEN_TREE else 40,
        ),
    )


_MEMBERS = (2, 5, 5, 10, 10, 20)
_MEMBERS_OF_CLASS = (1, 2, 3, 5)  # numbers of components of each class
_PREDICTING_EPOCHS = 20
_ROWS_PER_COMPONENT = 6
_WEAK_PRIORS = (0.25,)  # pseudocounts beside that of the learner
_LEAST_TO_CHOOSE_BY = 20  # validation rows
_MOST_NUMBERS = 100
_MOST_CELLS_OF_AVERAGES, _EPOCHS_OF_LARGE_TABLES = 1_750_000, 5
_ABOUT_TREES = (
    *("layer", "units", "trees", "start", "input"),
    *("batch", "learner", "learning_rate", "pseudocount", "softening", "min_delta"),
)


def tables_of_numbers(question: Question) -> tuple[Recipe, ...]:
    """Tables with a column of numbers have the average of six mixtures of normal vectors, of 2 to 20 components.

    Each component has six rows or more. With more than a hundred columns of numbers, or fewer rows than twice their
    number, covariances say little: such tables have a hidden tree. To predict a column of categories, there are four
    mixtures, of 1 to 5 components for each class. Mixtures that are to predict a column learn it given the others in
    20 epochs after 25 of all columns.

    There are two recipes: with the prior of the learner, and with a quarter of it, for tables whose numbers depend on
    each other in many ways. One alone is left to predict a column, or where there are fewer than 20 validation rows.

    Who chooses a setting of trees, such as `units`, gets the rules below.
    """
    data, target = question.data, question.target
    is_asked_for = question.given.get("structure") == NORMAL_MIXTURES
    if data.encoding is None or not question.may_be(NORMAL_MIXTURES):
        return ()
    numbers = len(vector_columns(data.encoding))
    rows = data.num_train + len(data.valid)
    if not is_asked_for and (not numbers or question.gives(*_ABOUT_TREES)):
        return ()
    mixtures = Recipe(
        structure=NORMAL_MIXTURES,
        learner="full-em:apart=true",
        epochs=25,
        batch=1024,
        patience=2,
        min_delta=1e-4,
        holds_out=False,
        predicting_epochs=0 if target is None else _PREDICTING_EPOCHS,
    )
    if target is not None and KINDS[data.encoding.modelled[target].kind].closed:
        recipe = replace(mixtures, members=_MEMBERS_OF_CLASS)
        return (recipe,) if is_asked_for or numbers <= _MOST_NUMBERS else ()
    if not is_asked_for and numbers > min(_MOST_NUMBERS, rows / 2):
        return () if target is not None else (Recipe(structure=HIDDEN_TREE, units=16),)
    most = max(1, rows // _ROWS_PER_COMPONENT)
    mixtures = replace(mixtures, members=tuple(members for members in _MEMBERS if members <= most) or (1,))
    weak = () if target is not None or len(data.valid) < _LEAST_TO_CHOOSE_BY else _WEAK_PRIORS
    return (mixtures, *(replace(mixtures, pseudocount=pseudocount) for pseudocount in weak))


def columns_of_states(question: Question) -> tuple[Recipe, ...]:
    """Rows whose columns all have states, such as bits, get hidden trees: rows for each column say how much they learn.

    | rows for each column | models | trees of each                     | states | rate | batch | epochs | pseudocount |
    | below 2              | 1      | 1, or 2 of clusters               | 8      | 0.1  | 50    | 8      | 1           |
    | below 12             | 3      | 4 of clusters, or 4 of drawn rows | 8      | 0.1  | 50    | 12     | 0.3         |
    | below 50             | 1      | 8 of clusters, or 8 of drawn rows | 16     | 0.1  | 50    | 15     | 0.1         |
    | 50 and more          | 2      | 2 of clusters                     | 32     | 0.2  | 100   | 8      | 0.3         |
    |                      | 2      | or 1                              | 64     | 0.2  | 100   | 8      | 1           |

    All start from data. Several models are averaged, and Adam trains each apart. Who chooses the states, the learner or
    a column to predict gets one. Tables of more than 1.75 million cells get one too, in 5 epochs, so that fits take
    minutes. Measured on 13 binary sets, by their validation rows: `docs/results.md`.
    """
    data = question.data
    has_states = data.num_values is not None and question.given.get("input", "categorical") == "categorical"
    if data.encoding is not None:
        has_states = all(column.categories for column in data.encoding.modelled)
    if not has_states or not question.may_be(HIDDEN_TREE) or question.gives("layer"):
        return ()
    rows, columns = data.num_train, data.num_variables
    rule = Recipe(structure=HIDDEN_TREE, start="data", units=8, learning_rate=0.1, batch=50)
    if rows < 2 * columns:
        rule = replace(rule, epochs=8, pseudocount=1.0)
        return rule, replace(rule, trees=2, start="clusters")
    if rows < 12 * columns:
        rule = _averaged(question, replace(rule, trees=4, epochs=12, pseudocount=0.3), 3)
        return replace(rule, start="clusters"), rule
    if rows < 50 * columns:
        rule = replace(rule, units=16, trees=8, epochs=15, pseudocount=0.1)
        return replace(rule, start="clusters"), rule
    rule = replace(rule, learning_rate=0.2, batch=100, epochs=8)
    two_trees = replace(rule, units=32, trees=2, start="clusters", pseudocount=0.3)
    one_tree = replace(rule, units=64, pseudocount=1.0)
    return _averaged(question, two_trees, 2), _averaged(question, one_tree, 2)


def _averaged(question: Question, recipe: Recipe, count: int) -> Recipe:
    """The average of several models of a recipe.

    It is one model where a column is to be predicted, where the user chose the states or the learner, and of large
    tables.
    """
    is_large = question.data.num_train * question.data.num_variables > _MOST_CELLS_OF_AVERAGES
    if is_large:
        recipe = replace(recipe, epochs=min(recipe.epochs, _EPOCHS_OF_LARGE_TABLES))
    if is_large or question.target is not None or question.gives("units", "learner"):
        return recipe
    return replace(recipe, members=(recipe.units,) * count)


def other_rows(question: Question) -> tuple[Recipe, ...]:
    """Other rows have a random binary tree, or a hidden tree if a setting of such trees is chosen."""
    return (Recipe(structure=HIDDEN_TREE if question.gives(*_OF_HIDDEN_TREES) else "random-binary-tree"),)


RULES: tuple[Callable[[Question], tuple[Recipe, ...]], ...] = (
    images,
    tables_of_numbers,
    columns_of_states,
    other_rows,
)
