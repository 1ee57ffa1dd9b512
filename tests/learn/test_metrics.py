import math

import pytest

from plica.learn.metrics import bits_per_dimension


@pytest.mark.parametrize(("values", "variables"), [(2, 64), (17, 64), (256, 784), (3, 1)])
def test_uniform_rows_cost_the_logarithm_of_the_number_of_values(values: int, variables: int) -> None:
    log_likelihood = -variables * math.log(values)
    assert bits_per_dimension(log_likelihood, variables) == pytest.approx(math.log2(values))


def test_zero_probability_costs_infinitely_many_bits() -> None:
    assert bits_per_dimension(-math.inf, 3) == math.inf
