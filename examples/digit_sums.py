"""Digits learned from sums
========================

A network that learns digits from sums alone, and one whose answers always satisfy a constraint.

::

    python examples/digit_sums.py [picture.png]

An addition `a + b = c` of two digits is a formula: one variable for each value of a, b and c, of which exactly one is
true. `LogicalCircuit.from_cnf` compiles it to a circuit. Given the weights of its literals, which a network emits for
each row, the circuit's value is the probability of the formula, and gradients reach the network.

1. Learning from sums: the network sees two handwritten digits and is told their sum, never a digit. The circuit gives
   the probability of this sum: the total of all pairs of digits that have it.
2. A semantic layer: three digits a, b and c, where c = (a + b) mod 10 is a checksum. The layer divides the network's
   distribution by the probability of the constraint. Its best answer, the most probable model, always satisfies the
   constraint, and a digit that is hard to read follows from the other two.

Digits are the 8 x 8 images of scikit-learn; without it, they are drawn.

Source: Manhaeve et al., "DeepProbLog: neural probabilistic logic programming", 2018, for the first task; Ahmed et al.,
"Semantic probabilistic layers for neuro-symbolic learning", 2022, for the second.
"""

import sys
from itertools import combinations

import numpy as np
import torch
from torch import nn

import plica
from plica.symbolic.parameters import TensorParameter
from plica.templates.logic import LogicalCircuit

DIGITS = 10


def addition(results):
    """The formula `(a + b) mod results = c`: variables of a, b and c, one for each value, in this order."""
    a, b = range(1, 11), range(11, 21)
    c = range(21, 21 + results)
    clauses = [list(values) for values in (a, b, c)]  # at least one value of each, and at most one
    clauses += [[-first, -second] for values in (a, b, c) for first, second in combinations(values, 2)]
    clauses += [[-a[i], -b[j], c[(i + j) % results]] for i in range(DIGITS) for j in range(DIGITS)]
    return LogicalCircuit.from_cnf(clauses)


def compiled(formula, semiring):
    """A circuit that each call gives the weights of literals, `(B, D, 2)`: of not v, and of v."""
    weights = TensorParameter(formula.num_variables, 2, initializer=None, name="weights")
    return plica.compile(formula.build_circuit(literal_weights=weights), semiring=semiring)


def literal_weights(*values):
    """The weights of literals from the probabilities of values: those of true ones; 1 where a value is false."""
    true = torch.cat(values, dim=1)
    return torch.stack([torch.ones_like(true), true], dim=2)


def value_of(circuit, weights):
    """The circuit's value for each row of weights, all variables summed out."""
    nothing_known = torch.full(weights.shape[:2], float("nan"))
    return circuit(nothing_known, parameters={"weights": weights}).flatten()


def one_hot(values, count):
    """Each value as a row that is 1 there and 0 elsewhere."""
    return nn.functional.one_hot(values, count).float()


def network():
    """From an image to the logits of its digit."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, DIGITS))


def images():
    """Images `(N, 64)` with numbers from 0 to 1, and their digits; those for training, and those held out."""
    try:
        from sklearn.datasets import load_digits

        data = load_digits()
        pixels, labels = data.data / 16, data.target
    except ImportError:
        pixels, labels = drawn()
    order = np.random.default_rng(0).permutation(len(pixels))
    pixels, labels = (torch.tensor(array[order]) for array in (pixels.astype("float32"), labels.astype("int64")))
    return (pixels[:1400], labels[:1400]), (pixels[1400:], labels[1400:])


def drawn():
    """1,797 digits of seven segments, moved and with noise, for machines without the images."""
    rng = np.random.default_rng(0)
    segments = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
    strokes = {"a": np.s_[0, :4], "b": np.s_[:4, 3], "c": np.s_[3:, 3], "d": np.s_[6, :4], "e": np.s_[3:, 0]}
    strokes |= {"f": np.s_[:4, 0], "g": np.s_[3, :4]}
    labels = rng.integers(0, DIGITS, 1797)
    pixels = rng.normal(0, 0.15, (len(labels), 8, 8))
    for image, label in zip(pixels, labels, strict=True):
        row, column = rng.integers(0, 2), rng.integers(0, 3)
        for segment in segments[label]:
            image[row : row + 7, column : column + 4][strokes[segment]] += 1
    return pixels.clip(0, 1).reshape(-1, 64), labels


def learn_from_sums(formula, train, epochs):
    """A network trained to give sums of two images their probability; it sees no digit's label."""
    pixels, labels = train
    circuit, net = compiled(formula, "lse-sum"), network()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for rows in torch.randperm(len(pixels), generator=generator).split(140):
            first, second = rows.chunk(2)
            sums = one_hot(labels[first] + labels[second], 19)
            given = literal_weights(net(pixels[first]).softmax(1), net(pixels[second]).softmax(1), sums)
            loss = -value_of(circuit, given).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net


class SemanticLayer:
    """Distributions over the models of a formula, from the probabilities that a network gives to its variables."""

    def __init__(self, formula):
        self.log_total = compiled(formula, "lse-sum")
        self.log_largest = compiled(formula, "max-sum")

    def log_likelihood(self, weights, model):
        """Of a model `(B, D)` for each row: its own weight, divided by that of all models."""
        own = torch.where(model == 1, weights[:, :, 1], weights[:, :, 0]).log().sum(1)
        return own - value_of(self.log_total, weights)

    def best(self, weights):
        """The most probable model of each row: the literals whose weights have a derivative in the largest product."""
        weights = weights.detach().requires_grad_()
        value_of(self.log_largest, weights).sum().backward()
        return (weights.grad[:, :, 1] > 0).long()


def learn_checksums(train, layer, epochs):
    """Two networks from a few labelled triples: with the semantic layer, and of independent answers."""
    pixels, labels = train
    triples = torch.stack(triples_of(labels, 200))
    model = torch.cat([one_hot(labels[rows], DIGITS) for rows in triples], dim=1)
    nets = [network(), network()]
    nets[1].load_state_dict(nets[0].state_dict())
    for net, is_semantic in zip(nets, (True, False), strict=True):
        optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
        for _ in range(epochs):
            logits = [net(pixels[rows]) for rows in triples]
            if is_semantic:
                weights = literal_weights(*(each.softmax(1) for each in logits))
                loss = -layer.log_likelihood(weights, model).mean()
            else:
                loss = nn.functional.cross_entropy(torch.cat(logits), labels[triples.flatten()])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return nets


def triples_of(labels, count):
    """Rows of images a, b and c, where c is the image of a digit (a + b) mod 10."""
    rng = np.random.default_rng(1)
    by_digit = [np.flatnonzero(labels.numpy() == digit) for digit in range(DIGITS)]
    a, b = rng.integers(0, len(labels), (2, count))
    c = [rng.choice(by_digit[digit]) for digit in (labels[a] + labels[b]).remainder(DIGITS)]
    return torch.tensor(a), torch.tensor(b), torch.tensor(np.array(c))


def answers(probabilities):
    """The digits of each row, from three blocks of numbers for their values: `(B, 3)`."""
    return probabilities.reshape(len(probabilities), 3, DIGITS).argmax(2)


def draw(pixels, rows, found, path):
    """Triples of images, and what both networks answer, where the independent answers are wrong."""
    from matplotlib.figure import Figure

    semantic, independent = found
    shown = ((independent[:, 0] + independent[:, 1]) % DIGITS != independent[:, 2]).nonzero().flatten()[:5].tolist()
    figure = Figure(figsize=(7, 8.4), layout="constrained")
    for axes, row in zip(figure.subplots(len(shown), 3, squeeze=False), shown, strict=True):
        for place, name in enumerate(("a", "b", "c = a + b mod 10")):
            axes[place].imshow(pixels[rows[place][row]].reshape(8, 8), cmap="Greys")
            axes[place].set_axis_off()
            axes[place].set_title(f"{name}: {semantic[row, place]}, alone {independent[row, place]}", fontsize=9)
    figure.savefig(path)


def main(path=None, epochs=(30, 40)):
    """Train all networks, and print how often they are right on digits that are held out."""
    torch.manual_seed(0)
    formula = addition(19)
    print(f"an addition: {formula.model_count()} models of {formula.num_variables} variables")
    train, (pixels, labels) = images()
    net = learn_from_sums(formula, train, epochs[0])
    with torch.no_grad():
        read = net(pixels).argmax(1)
    digit_accuracy = (read == labels).float().mean().item()
    print(f"digits, learned from sums alone: {digit_accuracy:.1%} right")

    layer = SemanticLayer(addition(DIGITS))
    nets = learn_checksums(train, layer, epochs[1])
    rows = triples_of(labels, 400)
    truth = torch.stack([labels[each] for each in rows], dim=1)
    accuracy, valid, found = [], [], []
    for net, is_semantic in zip(nets, (True, False), strict=True):
        with torch.no_grad():
            given = literal_weights(*(net(pixels[each]).softmax(1) for each in rows))
        answer = answers((layer.best(given) if is_semantic else given[:, :, 1]).float())
        found.append(answer)
        accuracy.append((answer == truth).all(1).float().mean().item())
        valid.append(((answer[:, 0] + answer[:, 1]) % DIGITS == answer[:, 2]).float().mean().item())
        name = "with the semantic layer" if is_semantic else "independent answers"
        print(f"checksums, {name}: {accuracy[-1]:.1%} of triples right, {valid[-1]:.1%} satisfy the constraint")
    if path is not None:
        draw(pixels, rows, found, path)
    print(f"answers of the semantic layer that break the constraint: {round((1 - valid[0]) * len(truth))}")
    return digit_accuracy, accuracy, valid


if __name__ == "__main__":
    main(*sys.argv[1:])
