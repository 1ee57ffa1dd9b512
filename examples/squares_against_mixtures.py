"""A ring and spirals: squares against mixtures
============================================

A ring and two spirals, learned by a mixture and by squares of one size: what weights of both signs add.

::

    python examples/squares_against_mixtures.py [picture.png]

Points in two dimensions are counted on a grid of 24 x 24 cells. Each model is made of tables with a number for each row
and each column of the grid, and learns 294 real numbers. The mixture has positive weights. The others are made of
circuits whose numbers may be negative: the square of one, a square with complex numbers, and the sum of two squares.

One square is the worst of them. It is zero wherever its circuit changes its sign, and so it may be less expressive than
a mixture of its size (Loconte et al., "Sum of squares circuits", 2025). On the spirals a complex square, which is the
sum of the squares of a real and an imaginary part, is ahead of the mixture, and two squares with numbers of their own
are best. On the ring these three are alike.
"""

import sys

import numpy as np
import torch

import plica
from plica.queries import log_likelihood, sample
from plica.symbolic.dtypes import DataType
from plica.symbolic.functional import normalize
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import CategoricalLayer, EmbeddingLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter, TensorParameter
from plica.templates import squared, sum_of_squares

SIDE = 24  # cells


def ring(count, seed=0):
    """Points around a circle `(count, 2)`."""
    generator = np.random.default_rng(seed)
    angle, radius = generator.uniform(0, 2 * np.pi, count), generator.normal(1.0, 0.1, count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


def spirals(count, seed=0):
    """Points along two arms that wind around each other `(count, 2)`."""
    generator = np.random.default_rng(seed)
    turn = np.sqrt(generator.uniform(0, 1, count)) * 3 * np.pi
    arm = np.where(generator.uniform(0, 1, count) < 0.5, 1, -1) * turn / (3 * np.pi) * 1.3
    points = np.stack([arm * np.cos(turn), arm * np.sin(turn)], 1)
    return points + generator.normal(0, 0.05, points.shape)


def cells(points):
    """The cells of points, `(N, 2)` integers, and the share of the points that each of them has."""
    place = np.clip(((points + 1.6) / 3.2 * SIDE).astype(int), 0, SIDE - 1)
    rows, counts = np.unique(place, axis=0, return_counts=True)
    return torch.from_numpy(rows), torch.from_numpy(counts / len(points)).float()


def circuit(units, kind):
    """`sum over k of w[k] f[k, x] g[k, y]`, with positive numbers, numbers of any sign, or complex ones."""

    def numbers(shape):
        dtype = DataType.COMPLEX if kind == "complex" else DataType.REAL
        return Parameter.from_input(TensorParameter(*shape, initializer=NormalInitializer(), dtype=dtype))

    if kind == "positive":
        tables = [CategoricalLayer([v], units, num_categories=SIDE) for v in range(2)]
        total = SumLayer(units, 1)
    else:
        tables = [EmbeddingLayer([v], units, num_states=SIDE, weight_factory=numbers) for v in range(2)]
        total = SumLayer(units, 1, weight_factory=numbers)
    product = HadamardLayer(units)
    return plica.Circuit([*tables, product, total], {product: tables, total: [product]}, [total])


MODELS = {
    "square": lambda: squared(circuit(6, "signed")),
    "mixture": lambda: circuit(6, "positive"),
    "complex square": lambda: squared(circuit(3, "complex")),
    "sum of squares": lambda: sum_of_squares([circuit(3, "signed"), circuit(3, "signed")]),
}


def train(name, points, steps):
    """The density of a model, trained on points."""
    torch.manual_seed(0)
    rows, shares = cells(points)
    density = plica.compile(normalize(MODELS[name]()), semiring="complex-lse-sum")
    optimizer = torch.optim.Adam(density.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -(shares * density(rows)[:, 0, 0].real).sum()
        loss.backward()
        optimizer.step()
    return density


def size(density):
    """How many real numbers a model learns."""
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in density.parameters())


def score(density, points):
    """The mean logarithm of the probability of the cells of points."""
    rows, shares = cells(points)
    with torch.no_grad():
        return float((shares * log_likelihood(density, rows)).sum())


def compare(make, steps=400, count=50_000):
    """The trained models of a set of points, and the likelihood of new points under each, by name."""
    models = {name: train(name, make(count), steps) for name in MODELS}
    return models, {name: score(model, make(count, seed=1)) for name, model in models.items()}


def draw(trained, path):
    """Points, and the densities of all models, a row for each set of points."""
    from matplotlib.figure import Figure

    grid = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
    figure = Figure(figsize=(3 * (len(MODELS) + 1), 3 * len(trained)))
    for row, (make, models) in zip(figure.subplots(len(trained), len(MODELS) + 1), trained.items(), strict=True):
        row[0].plot(*make(2000).T, ".", color="#22272e", markersize=1)
        row[0].set_aspect("equal")
        row[0].set_title(make.__name__)
        for axes, (name, model) in zip(row[1:], models.items(), strict=True):
            with torch.no_grad():
                density = log_likelihood(model, grid).exp().reshape(SIDE, SIDE)
            axes.imshow(density.T, origin="lower", cmap="Blues")
            axes.set_title(name)
        for axes in row:
            axes.set_axis_off()
    figure.savefig(path)


def main(path=None, steps=400):
    """Train all models on both sets of points, and show how likely new points are."""
    trained = {}
    for make in (ring, spirals):
        trained[make], scores = compare(make, steps)
        for name, value in scores.items():
            print(f"{make.__name__}, {name} of {size(trained[make][name])} numbers: {value:.3f}")
    best = trained[spirals]["sum of squares"]
    rows = sample(best, 1000, seed=0)
    share = float((log_likelihood(best, rows) > -8).float().mean())
    print(f"samples of the sum of squares in cells of more than {np.exp(-8):.4f}: {share:.0%}")
    if path is not None:
        draw(trained, path)
    print("numbers of each model:", *{size(model) for models in trained.values() for model in models.values()})


if __name__ == "__main__":
    main(*sys.argv[1:])
