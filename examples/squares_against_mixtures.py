"""A ring and two spirals, learned by a mixture and by squares of one size: what weights of both signs add.

    python examples/squares_against_mixtures.py [picture.png]

Each circuit learns 96 real numbers: Gaussians of each coordinate, and weights of all pairs of them. The mixture has
weights that are positive. The others are squares of circuits whose weights may be negative, sums of such squares, and a
square whose weights are complex. Which of them fits best depends on the points, the starts and the number of steps.
With a path, data and densities are drawn.
"""

import sys

import numpy as np
import torch

import plica
from plica.queries import log_likelihood, sample
from plica.symbolic.dtypes import DataType
from plica.symbolic.functional import integrate
from plica.symbolic.initializers import ConstantTensorInitializer, NormalInitializer
from plica.symbolic.layers import GaussianLayer, KroneckerLayer, SumLayer
from plica.symbolic.parameters import ExpParameter, Parameter, SoftmaxParameter, TensorParameter
from plica.templates import squared, sum_of_squares


def ring(count, seed=0):
    """Points around a circle `(count, 2)`."""
    generator = np.random.default_rng(seed)
    angle, radius = generator.uniform(0, 2 * np.pi, count), generator.normal(1.5, 0.12, count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


def spirals(count, seed=0):
    """Points along two arms that wind around each other `(count, 2)`."""
    generator = np.random.default_rng(seed)
    turn = np.sqrt(generator.uniform(0.03, 1, count)) * 3 * np.pi
    arm = np.sign(generator.uniform(-1, 1, count)) * turn / (3 * np.pi) * 2.2
    points = np.stack([arm * np.cos(turn), arm * np.sin(turn)], 1)
    return points + generator.normal(0, 0.1, points.shape)


def weight(kind):
    """The factory of the weights of pairs: positive and of total 1, of any sign, or complex."""

    def factory(shape):
        if kind == "positive":
            draws = TensorParameter(*shape, initializer=NormalInitializer(0.0, 1.0))
            return Parameter.from_unary(SoftmaxParameter(shape), draws)
        dtype = DataType.COMPLEX if kind == "complex" else DataType.REAL
        return Parameter.from_input(TensorParameter(*shape, initializer=NormalInitializer(1.0, 0.3), dtype=dtype))

    return factory


def circuit(units, kind):
    """`sum over i, j of w[i, j] N(x | m_i, s_i) N(y | n_j, t_j)`, whose Gaussians start on a grid."""

    def means(shape):
        return Parameter.from_input(TensorParameter(*shape, initializer=ConstantTensorInitializer(grid)))

    def spreads(shape):
        logs = TensorParameter(*shape, initializer=NormalInitializer(np.log(4 / units), 0.1))
        return Parameter.from_unary(ExpParameter(shape), logs)

    grid = np.linspace(-2, 2, units)
    inputs = [GaussianLayer([v], units, mean_factory=means, stddev_factory=spreads) for v in range(2)]
    product, total = KroneckerLayer(units, 2), SumLayer(units**2, 1, weight_factory=weight(kind))
    return plica.Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


MODELS = {  # the circuits, of 96 numbers together, and what is made of them
    "mixture": ([(8, "positive")], lambda parts: parts[0]),
    "square": ([(8, "signed")], lambda parts: squared(parts[0])),
    "sum of squares": ([(4, "signed")] * 3, sum_of_squares),
    "complex square": ([(6, "complex")], lambda parts: squared(parts[0])),
}


class Model:
    """A density, compiled with the circuits that it is made of and with its integral: all share their tensors."""

    def __init__(self, name):
        parts, make = MODELS[name]
        described = [circuit(*part) for part in parts]
        self.is_square = name != "mixture"
        with plica.PipelineContext(semiring="complex-lse-sum") as context:
            self.density = context.compile(make(described))
            self.parts = [context.compile(part) for part in described]
            self.integral = context.compile(integrate(self.density.symbolic))

    @property
    def size(self):
        """How many real numbers it learns."""
        return sum(p.numel() * (2 if p.is_complex() else 1) for p in self.density.parameters())

    def score(self, points):
        """`log sum_i |c_i(x)|^2 - log Z`, which needs no product of circuits where nothing is missing."""
        logs = torch.stack([part(points)[:, 0, 0].real for part in self.parts])
        return torch.logsumexp(2 * logs if self.is_square else logs, 0) - self.integral().real.flatten()


def train(name, points, steps=150, starts=1):
    """The best of some starts, by the likelihood of the points that it learns from."""
    best = None
    for seed in range(starts):
        torch.manual_seed(seed)
        model = Model(name)
        optimizer = torch.optim.Adam(model.density.parameters(), lr=0.06)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            optimizer.zero_grad()
            loss = -model.score(points).mean()
            loss.backward()
            optimizer.step()
            schedule.step()
        if best is None or loss < best[0]:
            best = loss, model
    return best[1]


def draw(models, path, size=120):
    """Points, and the densities of all models, a row for each set of points."""
    from matplotlib.figure import Figure

    side = torch.linspace(-2.8, 2.8, size)
    cells = torch.cartesian_prod(side, side).flip(1)
    figure = Figure(figsize=(3 * (len(MODELS) + 1), 3 * len(models)))
    for row, (points, own) in zip(figure.subplots(len(models), len(MODELS) + 1), models.values(), strict=True):
        row[0].plot(*points.T, ".", color="#22272e", markersize=1)
        for axes, (name, model) in zip(row[1:], own.items(), strict=True):
            with torch.no_grad():
                density = model.score(cells).exp().reshape(size, size)
            axes.imshow(density, origin="lower", extent=(-2.8, 2.8, -2.8, 2.8), cmap="Blues")
            axes.set_title(name)
        for axes in row:
            axes.set_xlim(-2.8, 2.8)
            axes.set_ylim(-2.8, 2.8)
            axes.set_aspect("equal")
            axes.set_axis_off()
    figure.savefig(path)


def likelihoods(points, steps=150, starts=1):
    """The trained models of some points, by name."""
    learned = torch.as_tensor(points, dtype=torch.float32)
    return {name: train(name, learned, steps, starts) for name in MODELS}


def main(path=None):
    """Train all models on both sets of points, and show how likely new points are."""
    trained = {}
    for make in (ring, spirals):
        points, new = make(500), torch.as_tensor(make(2000, seed=1), dtype=torch.float32)
        models = likelihoods(points)
        trained[make.__name__] = points, models
        for name, model in models.items():
            with torch.no_grad():
                print(f"{make.__name__}, {name} of {model.size} numbers: {model.score(new).mean():.3f}")
    square = trained["ring"][1]["square"].density
    rows = sample(square, 200, seed=0)
    print(f"200 samples of the square have distances of {rows.norm(dim=1).mean():.2f} from the middle")
    lacking = torch.tensor([[1.5, torch.nan], [0.0, torch.nan]])
    with torch.no_grad():
        print("densities at x = 1.5 and x = 0 alone:", *(f"{p:.2f}" for p in log_likelihood(square, lacking).exp()))
    if path is not None:
        draw(trained, path)
    print("numbers of each circuit: 96")


if __name__ == "__main__":
    main(*sys.argv[1:])
