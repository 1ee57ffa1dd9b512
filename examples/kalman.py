"""A Kalman filter with missing values
===================================

A Kalman filter for time series with missing values, and the gradient of its log-likelihood.

::

    python examples/kalman.py [picture.png]

The filter is compiled once for series of any length; NaN stands for a value that was not observed. Its log-likelihood
is differentiable through torch: `fit` finds the standard deviations of both noises by gradient ascent.
"""

import math
import sys

import numpy as np
import torch

import plica
import plica.numpy as pnp

series = plica.spec(("n", 2), "float64")
number = plica.spec((), "float64")
STEP = 0.1  # seconds from one observation to the next
MOVE = np.array([[1, 0, STEP, 0], [0, 1, 0, STEP], [0, 0, 1, 0], [0, 0, 0, 1]])  # position and velocity in a plane
PUSH = np.array([[STEP**2 / 2, 0], [0, STEP**2 / 2], [STEP, 0], [0, STEP]])  # what an acceleration does to them
LOOK = np.eye(2, 4)  # positions are observed, velocities are not


@plica.jit
def kalman(observed: series, acceleration: number, blur: number):
    """Filter the path of a point in a plane that is accelerated at random.

    Args:
        observed: (n, 2) positions, NaN where there is none.
        acceleration: Standard deviation of the acceleration during a step.
        blur: Standard deviation of the error of an observed coordinate.

    Returns:
        The log-likelihood of what was observed, and the filtered means (n, 4) of position and velocity.
    """
    process = acceleration**2 * (PUSH @ PUSH.T)

    def step(carry, row):
        mean, covariance, total = carry
        mean, covariance = MOVE @ mean, MOVE @ covariance @ MOVE.T + process  # what is expected now
        seen = ~pnp.isnan(row)
        look = pnp.where(seen[:, None], LOOK, 0.0)  # what is missing has nothing to do with the position,
        spread = look @ covariance @ look.T + pnp.eye(2) * pnp.where(seen, blur**2, 1.0)  # a variance of 1,
        error = pnp.where(seen, row, 0.0) - look @ mean  # and is just what was expected
        gain = pnp.linalg.solve(spread, look @ covariance).T
        terms = error @ pnp.linalg.solve(spread, error), pnp.linalg.slogdet(spread)[1], pnp.sum(seen)
        total = total - 0.5 * (terms[0] + terms[1] + terms[2] * math.log(2 * math.pi))
        mean, covariance = mean + gain @ error, covariance - gain @ look @ covariance
        return (mean, covariance, total), mean

    nothing_known = (pnp.zeros(4), pnp.eye(4), 0.0)
    (_, _, log_likelihood), means = plica.scan(step, nothing_known, observed)
    return log_likelihood, means


def simulate(steps, acceleration, blur, missing, seed):
    """A path of positions (steps, 2), and what was observed of it: blurred, with NaN for what is missing."""
    generator = np.random.default_rng(seed)
    state, path = np.zeros(4), []
    for _ in range(steps):
        state = MOVE @ state + PUSH @ generator.normal(scale=acceleration, size=2)
        path.append(state[:2])
    observed = np.array(path) + generator.normal(scale=blur, size=(steps, 2))
    observed[generator.random((steps, 2)) < missing] = math.nan
    return np.array(path), observed


def fit(observed, epochs=40):
    """The standard deviations (acceleration, blur) under which the observations are most likely."""
    observed = torch.as_tensor(observed)
    logarithms = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logarithms], lr=0.1)
    for _ in range(epochs):
        optimizer.zero_grad()
        log_likelihood, _ = kalman(observed, *logarithms.exp())
        (-log_likelihood).backward()
        optimizer.step()
    return logarithms.exp().tolist()


def draw(path):
    """A path, what was observed of it, and what the filter makes of that."""
    from matplotlib.figure import Figure

    true, observed = simulate(150, acceleration=2.0, blur=0.3, missing=0.4, seed=3)
    _, means = kalman(observed, 2.0, 0.3)
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot(*true.T, color="#9aa5ad", linewidth=3, label="path")
    axes.plot(*observed.T, ".", color="#22272e", label="observed (both coordinates)")
    axes.plot(*means[:, :2].T, color="#c4572e", label="filtered")
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend()
    figure.savefig(path)


def main(picture=None):
    """Filter series of several lengths with one compilation, then find the noise of one of them."""
    for steps in (20, 100, 300):
        path, observed = simulate(steps, acceleration=2.0, blur=0.3, missing=0.4, seed=steps)
        log_likelihood, means = kalman(observed, 2.0, 0.3)
        error = np.sqrt(np.mean((means[:, :2] - path) ** 2))
        print(f"{steps:3} steps: log-likelihood {log_likelihood:8.2f}, error of filtered positions {error:.3f}")
    _, observed = simulate(100, acceleration=2.0, blur=0.3, missing=0.4, seed=0)
    print("found acceleration {:.2f} (2.0 is true), blur {:.2f} (0.3 is true)".format(*fit(observed)))
    if picture is not None:
        draw(picture)
    print("compilations:", kalman.num_compilations)


if __name__ == "__main__":
    main(*sys.argv[1:])
