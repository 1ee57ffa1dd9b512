"""Statistical tests of samples."""

import numpy as np
from scipy import stats


def frequencies(states: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """How often each of some states was drawn."""
    place = {tuple(state): number for number, state in enumerate(states.tolist())}
    return np.bincount([place[tuple(row)] for row in samples.tolist()], minlength=len(states))


def assert_distribution(counts: np.ndarray, weights: np.ndarray, level: float = 1e-3) -> None:
    """A chi-squared test of counts against weights; the smallest cells are joined until 5 counts are expected.

    Args:
        counts: How often each state was drawn.
        weights: What their probabilities are proportional to.
        level: The probability of a false alarm; small where one test makes many comparisons.
    """
    assert np.isfinite(weights).all()
    assert not counts[weights == 0].any(), "a state of probability zero was drawn"
    expected = counts.sum() * weights / weights.sum()
    order = np.argsort(expected, kind="stable")
    joined = max(int(np.searchsorted(np.cumsum(expected[order]), 5)) + 1, int((expected < 5).sum()))
    parts = [np.append(array[order[joined:]], array[order[:joined]].sum()) for array in (counts, expected)]
    counts, expected = (array[parts[1] > 0] for array in parts)
    if len(counts) > 1:
        assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > level
