"""A ring from two Gaussians that may be subtracted
================================================

The square of a sum of Gaussians with weights of both signs fits a ring where a mixture of as many Gaussians cannot.

::

    python examples/squares_fit_a_ring.py [picture.png]

Points lie around a circle. A mixture of two Gaussians covers it with two clouds. A square of two Gaussians subtracts a
narrow one from a wide one before it squares, and has a hole in the middle. Both are circuits over two real variables,
start from Gaussians in the middle, and have densities that add up to 1.

Source: Loconte et al., "Subtractive mixture models via squaring", 2024.
"""

import sys

import numpy as np
import torch

import plica
from plica.queries import log_likelihood
from plica.symbolic.functional import normalize
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter, TensorParameter
from plica.templates import squared

UNITS = 2


def ring(count, seed=0):
    """Points around a circle `(count, 2)`."""
    generator = np.random.default_rng(seed)
    angle, radius = generator.uniform(0, 2 * np.pi, count), generator.normal(1.5, 0.15, count)
    return torch.as_tensor(np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), dtype=torch.float32)


def gaussians(weight_factory=None):
    """`sum over k of w[k] N(x | m[k], s[k]) N(y | n[k], t[k])`; without a factory its weights are positive."""
    middle = NormalInitializer(0.0, 0.2)
    inputs = [
        GaussianLayer([variable], UNITS, mean=TensorParameter(UNITS, initializer=middle)) for variable in range(2)
    ]
    product = HadamardLayer(UNITS, 2)
    settings = {} if weight_factory is None else {"weight_factory": weight_factory}
    total = SumLayer(UNITS, 1, **settings)
    return plica.Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


def signed(shape):
    """Weights of any sign."""
    return Parameter.from_input(TensorParameter(*shape, initializer=NormalInitializer()))


MODELS = {
    "mixture": lambda: (gaussians(), "lse-sum"),
    "square": lambda: (normalize(squared(gaussians(signed))), "signed-lse-sum"),
}


def train(name, points, steps=400):
    """The density of a model, fitted to points."""
    torch.manual_seed(0)
    circuit, semiring = MODELS[name]()
    density = plica.compile(circuit, semiring=semiring)
    optimizer = torch.optim.Adam(density.parameters(), lr=0.03)
    for _ in range(steps):
        optimizer.zero_grad()
        (-log_likelihood(density, points).mean()).backward()
        optimizer.step()
    return density.eval()


def densities(density, side=100, reach=2.6):
    """The density at the middles of cells `(side, side)`, and the area of a cell."""
    edges = torch.linspace(-reach, reach, side + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    with torch.no_grad():
        values = log_likelihood(density, torch.cartesian_prod(middles, middles)).exp().reshape(side, side)
    return values, float((edges[1] - edges[0]) ** 2)


def draw(points, models, path):
    """The points and both densities."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    first, *others = figure.subplots(1, 3)
    first.plot(*points[:1500].T, ".", color="#22272e", markersize=2)
    first.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), title="points", aspect="equal")
    for axes, (name, model) in zip(others, models.items(), strict=True):
        axes.imshow(densities(model)[0].T, origin="lower", extent=(-2.6, 2.6, -2.6, 2.6), cmap="Blues")
        axes.set_title(f"{name} of {UNITS} Gaussians")
    figure.savefig(path)


def main(path=None, steps=400):
    """Train both, and show how likely new points are."""
    points, fresh = ring(2000), ring(2000, seed=1)
    models = {name: train(name, points, int(steps)) for name in MODELS}
    for name, model in models.items():
        with torch.no_grad():
            score = log_likelihood(model, fresh).mean().item()
        values, area = densities(model, reach=5.0)
        middle = densities(model, side=1, reach=0.01)[0].item()
        print(f"{name}: new points {score:.3f} nats, adds up to {values.sum().item() * area:.3f}, middle {middle:.4f}")
    if path is not None:
        draw(points, models, path)
    print("Gaussians of each model:", UNITS)


if __name__ == "__main__":
    main(*sys.argv[1:])
