"""A network that emits a circuit's parameters
===========================================

A neural network that emits the parameters of a circuit, for each row anew: a conditional density.

::

    python examples/neural_parameters.py [picture.png]

Length and width of the petals of an iris, given those of its sepals (150 flowers, in units of their spread). The
circuit is a mixture of products of normal densities. A small network gives it the weights, means and standard
deviations for each flower: `circuit(y, parameters={name: (B, *shape)})`. The softmax of the weights and the softplus of
the deviations are the circuit's own, so the network's outputs may be any numbers, and gradients reach the network.
Beside it the same circuit is trained with parameters of its own, which are alike for all flowers.
"""

import sys

import torch
from sklearn.datasets import load_iris
from torch import nn

import plica
from plica import Circuit
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import (
    ConstantParameter,
    Parameter,
    SoftmaxParameter,
    SoftplusParameter,
    SumParameter,
    TensorParameter,
)


def load():
    """Rows of sepals and of petals, in units of their spread: two thirds for training, one third held out."""
    table = torch.tensor(load_iris().data, dtype=torch.float32)
    table = (table - table.mean(0)) / table.std(0)
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))
    return [(table[rows, :2], table[rows, 2:]) for rows in order.split([100, 50])]


def mixture(num_variables, units, initializer):
    """A mixture of products of densities; `initializer` None leaves its leaves without values of their own."""

    def leaf(name, *shape):
        return TensorParameter(*shape, initializer=initializer, name=name)

    def positive(name):
        spread = Parameter.from_unary(SoftplusParameter((units,)), leaf(name, units))
        least = ConstantParameter(units, value=0.1)
        return Parameter.from_binary(SumParameter((units,), (units,)), spread, least)

    inputs = [
        GaussianLayer([v], units, mean=leaf(f"mean {v}", units), stddev=positive(f"spread {v}"))
        for v in range(num_variables)
    ]
    product = HadamardLayer(units, num_variables)
    weight = Parameter.from_unary(SoftmaxParameter((1, units)), leaf("weight", 1, units))
    total = SumLayer(units, 1, weight=weight)
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


class Conditional(nn.Module):
    """log p(y | x): a network from x to the parameters of a circuit over y.

    Args:
        circuit: A compiled circuit whose leaves are given at each call.
        shapes: The shape of each leaf, by its name.
        num_given: The number of columns of x.
        width: The number of hidden units.
    """

    def __init__(self, circuit, shapes, num_given, width=16):
        super().__init__()
        self.circuit, self.shapes = circuit, shapes
        self.sizes = [shape.numel() for shape in shapes.values()]
        self.network = nn.Sequential(nn.Linear(num_given, width), nn.Tanh(), nn.Linear(width, sum(self.sizes)))

    def parameters_of(self, x):
        """The circuit's parameters for each row, `(B, *shape)` by name."""
        emitted = self.network(x).split(self.sizes, dim=1)
        return {name: one.reshape(-1, *shape) for (name, shape), one in zip(self.shapes.items(), emitted, strict=True)}

    def forward(self, x, y):
        """The logarithms of the densities of rows y given rows x, `(B,)`."""
        return self.circuit(y, parameters=self.parameters_of(x)).flatten()


def train(log_likelihood, parameters, epochs, learning_rate=0.03):
    """Losses (negative mean log-likelihoods) while parameters are fitted to all rows at once."""
    optimizer, losses = torch.optim.Adam(parameters, lr=learning_rate), []
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = -log_likelihood().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(units=3, epochs=60):
    """Both models, trained: the losses of the conditional one, and mean log-likelihoods of held-out rows."""
    torch.manual_seed(0)
    (x, y), (held_x, held_y) = load()
    alone = plica.compile(mixture(y.shape[1], units, NormalInitializer()))
    train(lambda: alone(y), alone.parameters(), epochs)
    shapes = {name: leaf.shape for name, leaf in alone.state_dict().items()}
    conditional = Conditional(plica.compile(mixture(y.shape[1], units, None)), shapes, x.shape[1])
    losses = train(lambda: conditional(x, y), conditional.parameters(), epochs)
    with torch.no_grad():
        return losses, conditional(held_x, held_y).mean().item(), alone(held_y).mean().item(), conditional


def draw(conditional, path, size=120):
    """The density of petals for three flowers of the held-out rows, whose petals are crosses."""
    from matplotlib.figure import Figure

    _, (x, y) = load()
    side = torch.linspace(-2.2, 2.2, size)
    cells = torch.cartesian_prod(side, side)  # (size * size, 2)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for axes, flower in zip(figure.subplots(1, 3), x[:, 0].argsort()[[5, 25, 45]].tolist(), strict=True):
        with torch.no_grad():
            density = conditional(x[flower].expand(len(cells), -1), cells).exp().reshape(size, size)
        axes.imshow(density.T, origin="lower", extent=(-2.2, 2.2, -2.2, 2.2), cmap="Blues")
        axes.plot(*y[flower], "x", color="#c4572e", markersize=10)
        axes.set_xlabel("length of the petals")
        axes.set_title(f"sepals {x[flower, 0]:.1f} long, {x[flower, 1]:.1f} wide", fontsize=10)
    figure.savefig(path)


def main(path=None):
    """Train, and compare."""
    losses, of_rows, of_all, conditional = run()
    for epoch in (0, len(losses) // 2, len(losses) - 1):
        print(f"epoch {epoch:2}: negative log-likelihood {losses[epoch]:.3f}")
    print(f"held-out rows, parameters from a network: {of_rows:.3f} nats")
    print(f"held-out rows, parameters for all alike:  {of_all:.3f} nats")
    if path is not None:
        draw(conditional, path)
    print(f"leaves that the network gives: {', '.join(conditional.shapes)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
