"""Statistics whose maximization makes one variable more likely given the others: the extended Baum-Welch algorithm.

The gradient of log p(target, others) - share * log p(others) is that of expected counts of whole rows, less a share of
those of rows without their target. Such differences may be negative. So each distribution also counts imaginary rows
that it draws itself: they change nothing where the gradient is 0, and make steps shorter.

Source: Gopalakrishnan et al., "An inequality for rational functions with applications to some statistical estimation
    problems", 1991; for normal densities Normandin, "Hidden Markov models, maximum mutual information estimation, and
    the speech recognition problem", 1991; the number of imaginary rows is that of Woodland and Povey, "Large scale
    discriminative training of hidden Markov models for speech recognition", 2002, with E = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import plica.eager.namespace as eager
from plica.errors import UnsupportedError
from plica.learn.expectation import Expectation, Group, Statistics, closed_form_of
from plica.learn.predicting import Predicting
from plica.learn.sites import Kind

_LEAST_SHARE = 0.1  # of a variance, which one update leaves
_OWN_ROWS = 1.0  # imaginary rows of a distribution, in rows that choose it when the target is missing


def conditional_statistics(expectation: Expectation, predicting: Predicting, x: Tensor) -> Statistics:
    """The statistics of rows `(B, D)`; their log-likelihood is the sum of the objective of `predicting`.

    Raises:
        UnsupportedError: A layer's closed form does not say what it draws.
    """
    share = predicting.share(x)
    whole, others = expectation.of(x), expectation.of(predicting.without_target(x))
    contrast = whole.combined(others, lambda a, b: a - share * b)
    groups = tuple(
        {name: contrasted[name] + _OWN_ROWS * own[name] for name in contrasted}
        for contrasted, own in zip(contrast.groups, map(_own, expectation.groups, others.groups), strict=True)
    )
    return replace(contrast, groups=groups, num_rows=whole.num_rows)


def within_reach(expectation: Expectation, statistics: Statistics) -> Statistics:
    """The statistics of all rows, changed where they are none of any rows or lead too far.

    Counts of states and terms are at least 0. A variance, or a covariance matrix in any direction, is at least a tenth
    of what the distribution has now. So is a sum of values of a distribution without variances.
    """
    groups = tuple(
        {name: counts.clamp(min=0.0) for name, counts in numbers.items()}
        if group.kind is not Kind.ROWS
        else _bounded(numbers, group)
        for group, numbers in zip(expectation.groups, statistics.groups, strict=True)
    )
    return replace(statistics, groups=groups)


def _bounded(numbers: Mapping[str, Tensor], group: Group) -> dict[str, Tensor]:
    """Statistics of rows `(F, K, ...)`, bounded by what the units draw now."""
    count, params = numbers["count"], group.params()
    number = count.where(count > 0, 1.0)
    own: Mapping[str, Tensor] = closed_form_of(group.layer).own(eager, params)
    if "products" in numbers:
        mean = numbers["sum"] / number[..., None]
        covariance = numbers["products"] / number[..., None, None] - mean[..., :, None] * mean[..., None, :]
        factor = params["scale_tril"].tril()
        half = torch.linalg.solve_triangular(factor, covariance, upper=False)
        in_own = torch.linalg.solve_triangular(factor, half.mT, upper=False)  # the covariance where the own is 1
        values, vectors = torch.linalg.eigh((in_own + in_own.mT) / 2)
        missing = (_LEAST_SHARE - values).clamp(min=0.0)
        root = factor @ vectors
        widened = number[..., None, None] * ((root * missing[..., None, :]) @ root.mT)
        return {**numbers, "products": numbers["products"] + widened}
    mean = numbers["sum"] / number
    if "squares" in numbers:
        least = _LEAST_SHARE * (own["squares"] - own["sum"] ** 2)
        return {**numbers, "squares": torch.maximum(numbers["squares"], number * (mean**2 + least))}
    return {**numbers, "sum": torch.maximum(numbers["sum"], _LEAST_SHARE * number * own["sum"])}


def _own(group: Group, statistics: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The expected statistics of as many rows of each distribution as have chosen it, drawn by itself."""
    if group.kind is not Kind.ROWS:
        ((name, counts),) = statistics.items()
        return {name: counts.sum(-1, keepdim=True) * group.logarithms().to(counts.dtype).softmax(-1)}
    own: Any = closed_form_of(group.layer).own
    if own is None:
        raise UnsupportedError(
            f"expectation maximization cannot predict a variable with {type(group.layer).__name__}: its closed form "
            "does not say what it draws; learn it by Adam"
        )
    count = statistics["count"]
    return {
        name: count.reshape(*count.shape, *(1,) * (drawn.ndim - count.ndim)) * drawn
        for name, drawn in own(eager, group.params()).items()
    }
