"""A Gaussian mixture on two moons
===============================

A Gaussian mixture on points of the plane, learned as a circuit, and asked what it knows.

::

    python examples/gaussian_mixture.py [picture.png]

Two moons of points are learned by a mixture of products of Gaussians: two input layers, a Hadamard product, a sum. The
density adds up to 1 over the plane, a point that lacks a coordinate has a density too, and what completes it is exact:
the conditional mean, and draws. With a path, the density, the points and the completions are drawn.
"""

import sys

import numpy as np
import torch
from sklearn.datasets import make_moons

import plica
from plica.learn import Adam, fit
from plica.queries import mean, sample
from plica.symbolic.layers import GaussianLayer, HadamardLayer, SumLayer

COMPONENTS = 24


def mixture(components=COMPONENTS):
    """A circuit: `sum_k w_k N(x | m_k, s_k) N(y | n_k, t_k)`."""
    inputs = [GaussianLayer([variable], components) for variable in range(2)]
    product, total = HadamardLayer(components, 2), SumLayer(components, 1)
    return plica.Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


def train(points, epochs=150):
    """The mixture, fitted to points (N, 2)."""
    torch.manual_seed(0)
    circuit = plica.compile(mixture())
    fit(circuit, points[::2], points[1::2], learner=Adam(0.05), epochs=epochs, batch=250)
    return circuit.eval()


def grid(circuit, size=160, low=(-2.0, -1.5), high=(3.0, 2.0)):
    """The density at the middles of cells `(size, size)`, and the area of a cell."""
    sides = [np.linspace(one, other, size, endpoint=False) for one, other in zip(low, high, strict=True)]
    steps = [side[1] - side[0] for side in sides]
    x, y = np.meshgrid(*(side + step / 2 for side, step in zip(sides, steps, strict=True)))
    cells = torch.as_tensor(np.stack([x.ravel(), y.ravel()], 1), dtype=torch.float32)
    with torch.no_grad():
        return circuit(cells).exp().reshape(size, size).numpy(), steps[0] * steps[1]


def draw(circuit, points, path):
    """The density, the points, and what completes points of which the first coordinate is known."""
    from matplotlib.figure import Figure

    density, _ = grid(circuit)
    known = np.linspace(-1.4, 2.4, 60)
    lacking = torch.tensor(np.stack([known, np.full(60, np.nan)], 1), dtype=torch.float32)
    figure = Figure(figsize=(7, 5))
    axes = figure.subplots()
    axes.imshow(density, origin="lower", extent=(-2.0, 3.0, -1.5, 2.0), cmap="Blues", aspect="auto")
    axes.plot(*points.T, ".", color="#22272e", markersize=2, label="points")
    drawn = sample(circuit, 20, given=lacking, seed=0)
    axes.plot(*drawn.T, ".", color="#c4572e", markersize=2, label="draws of y given x")
    axes.plot(known, mean(circuit, lacking)[:, 1], color="#5b8c3a", label="mean of y given x")
    axes.legend(loc="upper right")
    figure.savefig(path)


def main(path=None):
    """Train, and show what the mixture knows."""
    points = make_moons(1000, noise=0.08, random_state=0)[0].astype(np.float32)
    circuit = train(points)
    density, area = grid(circuit)
    print(f"the density adds up to {density.sum() * area:.3f}")
    with torch.no_grad():
        print(f"mean log-likelihood of the points {circuit(torch.as_tensor(points)).mean():.3f}")
    lacking = torch.tensor([[0.0, np.nan], [1.0, np.nan], [np.nan, 0.25]])
    with torch.no_grad():
        alone = circuit(lacking).exp().flatten()
    for row, log_density, completed in zip(lacking, alone, mean(circuit, lacking), strict=True):
        known = f"x = {row[0]:.2f}" if row[1].isnan() else f"y = {row[1]:.2f}"
        print(f"given {known}, of density {log_density:.3f}: on average at ({completed[0]:.2f}, {completed[1]:.2f})")
    if path is not None:
        draw(circuit, points, path)
    print(f"components: {COMPONENTS}")


if __name__ == "__main__":
    main(*sys.argv[1:])
