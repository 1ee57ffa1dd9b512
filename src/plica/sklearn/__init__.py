"""Estimators of scikit-learn over `plica.tables`: density, classifier, regressor, imputer; NaN is missing anywhere.

>>> import numpy as np
>>> X = np.random.default_rng(0).normal(size=(60, 2))
>>> X[::7, 0] = np.nan
>>> CircuitImputer(units=2, epochs=1).fit_transform(X).shape
(60, 2)
"""

from plica.public import listing
from plica.sklearn.classifier import CircuitClassifier
from plica.sklearn.density import CircuitDensity
from plica.sklearn.imputer import CircuitImputer
from plica.sklearn.regressor import CircuitRegressor

__all__ = ["CircuitClassifier", "CircuitDensity", "CircuitImputer", "CircuitRegressor"]

__dir__ = listing(__name__)
