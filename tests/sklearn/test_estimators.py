"""The estimators keep scikit-learn's contract, and answer what the models below them answer."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from plica.errors import InputError
from plica.sklearn import CircuitClassifier, CircuitDensity, CircuitImputer, CircuitRegressor

ESTIMATORS: Any = (CircuitDensity, CircuitClassifier, CircuitRegressor, CircuitImputer)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_checks_of_scikit_learn_pass(estimator: Any) -> None:
    results = check_estimator(estimator(), on_fail=None)
    assert [check["check_name"] for check in results if check["status"] == "failed"] == []
    assert sum(check["status"] == "passed" for check in results) > 40


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_nothing_is_answered_before_a_fit(estimator: Any) -> None:
    methods = ("score_samples", "decision_function", "predict", "predict_proba", "transform", "sample")
    asked = [getattr(estimator(), name) for name in methods if hasattr(estimator(), name)]
    assert asked
    for method in asked:
        with pytest.raises(NotFittedError):
            method(2 if method.__name__ == "sample" else np.zeros((2, 3)))


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two groups of rows with holes, their groups, and a target that depends on them."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 150)
    X = rng.normal(size=(150, 3)) + 4.0 * groups[:, None]
    y = 10.0 * groups + rng.normal(size=150)
    X[rng.random(X.shape) < 0.3] = np.nan
    return X, groups, y


def test_a_classifier_takes_holes_anywhere(rows: Any) -> None:
    X, groups, _ = rows
    labels = np.where(groups == 1, "b", "a")
    classifier = CircuitClassifier(units=4, epochs=30).fit(X, labels)
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    is_known = ~np.isnan(X).all(axis=1)
    assert (classifier.predict(X) == labels)[is_known].mean() > 0.9
    nothing = classifier.predict_proba(np.full((1, 3), np.nan))
    assert 0.2 < nothing[0, 0] < 0.8


@pytest.mark.full
def test_a_classifier_predicts_by_mixtures_of_each_class(rows: Any) -> None:
    X, groups, _ = rows
    X = np.column_stack([X, np.full(150, 7.0), np.full(150, np.nan)])
    labels = np.where(groups == 1, "b", "a")
    labels[0] = "c"  # a class of a single row
    classifier = CircuitClassifier().fit(X, labels)
    assert classifier.model_.recipe.structure == "normal-mixtures"
    is_known = ~np.isnan(X[:, :3]).all(axis=1)
    is_known[0] = False
    assert (classifier.predict(X) == labels)[is_known].mean() > 0.9
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-9)
    X[:, 3] = -100.0  # another value of a column that was constant says nothing
    np.testing.assert_array_equal(classifier.predict_proba(X), probabilities)
    nothing = classifier.predict_proba(np.full((1, 5), np.nan))[0]
    shares = [(labels == label).mean() for label in "abc"]
    np.testing.assert_allclose(nothing, shares, atol=0.15)


@pytest.mark.parametrize("value", [pytest.param(np.nan, marks=pytest.mark.full), 5.0])
def test_features_that_say_nothing_leave_the_shares_of_classes(value: float) -> None:
    X, labels = np.full((20, 2), value), np.repeat([0, 1], [15, 5])
    probabilities = CircuitClassifier().fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(probabilities, [[0.75, 0.25]] * 20, atol=0.05)


@pytest.mark.full
def test_a_single_class_is_certain(rows: Any) -> None:
    X, _, _ = rows
    X = X[:30]
    classifier = CircuitClassifier().fit(X, ["only"] * 30)
    np.testing.assert_allclose(classifier.predict_proba(X), 1.0)
    assert set(classifier.predict(X)) == {"only"}


@pytest.mark.parametrize("estimator", [CircuitClassifier, CircuitRegressor])
def test_infinities_are_refused(estimator: Any, rows: Any) -> None:
    X, groups, _ = rows
    wrong = X.copy()
    wrong[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        estimator().fit(wrong, groups)
    fitted = estimator(units=2, epochs=1).fit(X, groups)
    with pytest.raises(ValueError, match="infinity"):
        fitted.predict(wrong)


def test_quantiles_of_a_regressor(rows: Any) -> None:
    X, _, y = rows
    regressor = CircuitRegressor(units=4, epochs=60).fit(X, y)
    assert regressor.score(X, y) > 0.6
    low, median, high = regressor.predict(X, quantiles=[0.05, 0.5, 0.95]).T
    assert (low <= median).all()
    assert (median <= high).all()
    assert 0.75 < ((low <= y) & (y <= high)).mean() < 1.0
    assert regressor.predict(X, quantiles=[0.5]).shape == (150, 1)


def test_imputers(rows: Any) -> None:
    X, _, _ = rows
    missing = np.isnan(X)
    for method in ("mean", "mpe", "sample"):
        full = CircuitImputer(units=2, epochs=2, method=method).fit_transform(X)
        assert not np.isnan(full).any()
        np.testing.assert_array_equal(full[~missing], X[~missing])
    imputer = CircuitImputer(units=2, epochs=2).fit(X)
    first, second, third = imputer.transform_many(X, 3)
    np.testing.assert_array_equal(first[~missing], X[~missing])
    assert not np.array_equal(first, second)
    assert not np.array_equal(second, third)
    np.testing.assert_array_equal(imputer.transform_many(X, 3)[2], third)


def test_a_density_goes_on_learning_and_names_outliers(rows: Any) -> None:
    X, _, _ = rows
    density = CircuitDensity(units=2, epochs=3, contamination=0.2).fit(X)
    assert (density.predict(X) == -1).mean() == pytest.approx(0.2, abs=0.01)
    assert density.predict(np.array([[500.0, 0.0, 0.0]])) == [-1]
    before = density.score(X)
    density.set_params(random_state=1).partial_fit(X)
    assert density.score(X) > before
    assert density.sample(4).shape == (4, 3)
    np.testing.assert_array_equal(density.sample(4, random_state=2), density.sample(4, random_state=2))
    with pytest.raises(InputError, match="expected a share above 0"):
        CircuitDensity(contamination=0.7).fit(X)


def test_pipelines_grids_and_clones(rows: Any) -> None:
    X, groups, _ = rows
    pipeline = make_pipeline(CircuitImputer(units=2, epochs=1), CircuitClassifier(units=2, epochs=1))
    assert clone(pipeline).fit(X, groups).predict(X).shape == (150,)
    grid = GridSearchCV(CircuitClassifier(epochs=1), {"units": [1, 2]}, cv=2).fit(X, groups)
    assert grid.best_params_["units"] in (1, 2)


def test_frames_of_text_and_numbers() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"pet": rng.choice(["cat", "dog"], 60), "x": rng.normal(size=60)}).mask(
        rng.random((60, 2)) < 0.2
    )
    full = CircuitImputer(units=2, epochs=1).fit(frame).transform(frame)
    assert list(full.columns) == ["pet", "x"]
    assert not full.isna().any().any()
    classifier = CircuitClassifier(units=2, epochs=1).fit(frame, rng.integers(0, 3, 60))
    assert classifier.predict_proba(frame).shape == (60, 3)
    assert CircuitDensity(units=2, epochs=1).fit(frame).score_samples(frame).shape == (60,)


def test_a_feature_may_have_the_name_of_the_target() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"pet": rng.choice(["cat", "dog"], 100), "target": 3.0 * rng.normal(size=100)}, index=[7] * 100
    )
    labels = np.where(frame["target"] > 0, "up", "down")
    classifier = CircuitClassifier(units=4, epochs=15, learning_rate=0.2).fit(frame, labels)
    assert list(classifier.model_.columns) == ["pet", "target", "target_"]
    assert classifier.score(frame, labels) > 0.9


@pytest.mark.parametrize("nothing", [None, np.nan])
def test_a_column_of_a_later_frame_may_have_no_cells(nothing: Any) -> None:
    """Its type says nothing then; the kinds are those of the fit."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "pet": rng.choice(["cat", "dog"], 60)})
    empty = frame.assign(pet=nothing)
    for estimator in (CircuitDensity, CircuitClassifier):
        fitted = estimator(units=2, epochs=1).fit(frame, rng.integers(0, 2, 60))
        answer = fitted.predict_proba if estimator is CircuitClassifier else fitted.score_samples
        cells = np.array([[x, None] for x in frame["x"]], dtype=object)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            expected = answer(cells)
        np.testing.assert_array_equal(answer(empty), expected)
    numbers = frame[["x"]].assign(y=rng.normal(size=60))
    density = CircuitDensity(units=2, epochs=1).fit(numbers)
    scores = density.score_samples(numbers.assign(y=np.full(60, np.nan)))
    np.testing.assert_array_equal(density.score_samples(numbers.assign(y=nothing)), scores)


def test_types_of_categories_are_kept_beside_a_target() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    for words, estimator in ((["1", "2"], CircuitClassifier), ([1, 2], CircuitDensity)):
        frame = pd.DataFrame({"code": pd.Categorical(rng.choice(words, 60)), "x": rng.normal(size=60)})
        fitted = estimator(units=2, epochs=1).fit(frame, rng.integers(0, 2, 60))
        assert fitted.model_.columns["code"] == "categorical"


@pytest.mark.parametrize("label", [None, float("nan")])
def test_rows_without_a_label_are_refused(label: Any, rows: Any) -> None:
    X, _, _ = rows
    with pytest.raises(ValueError, match="Input y contains NaN or None in 1 of 150 rows"):
        CircuitClassifier().fit(X, np.array([*["a", "b"] * 74, "a", label], dtype=object))


def test_levels_and_seeds_of_numpy(rows: Any) -> None:
    X, _, y = rows
    regressor = CircuitRegressor(units=2, epochs=1).fit(X, y)
    levels = [0.1, 0.9]
    np.testing.assert_array_equal(regressor.predict(X, np.array(levels)), regressor.predict(X, levels))
    density = CircuitDensity(units=2, epochs=1).fit(X)
    drawn = [density.sample(3, random_state=seed) for seed in (4, np.random.RandomState(4))]
    np.testing.assert_array_equal(*drawn)
