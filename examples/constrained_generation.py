"""Text that must contain words
============================

A language model that must say some words: a hidden Markov model times an automaton, both circuits.

::

    python examples/constrained_generation.py [picture.png]

A hidden Markov model learns the letters of Plica's licence, in lines of 24. An automaton accepts the lines that contain
some words in order. The product of both is a circuit, so three questions have exact answers: how probable a line is
that keeps the constraint; which lines do, drawn from the model; and by how much each next letter should be weighted
when a language model writes a line from left to right.

Source: Zhang, Kung, Yoshida, Van den Broeck and Peng, "Adaptable logical control for large language models", 2024
(Ctrl-G), equations 3 and 4.
"""

import string
import sys
from pathlib import Path

import numpy as np
import torch

from plica.pipeline import PipelineContext
from plica.queries import sample
from plica.symbolic.functional import multiply
from plica.templates.automata import DFA
from plica.templates.pgms import hmm

SYMBOLS = string.ascii_lowercase + " "
STEPS, STATES = 24, 8
WORDS, PREFIX = (" or ", "the "), "any notice o"


def read_lines(path):
    """The letters of a text as numbers, in lines of `STEPS`; what is no letter is a space, and spaces are single."""
    letters = "".join(letter if letter.isalpha() else " " for letter in path.read_text(encoding="utf-8").lower())
    codes = [SYMBOLS.index(letter) for letter in " ".join(letters.split())]
    return torch.tensor(codes[: len(codes) // STEPS * STEPS]).reshape(-1, STEPS)


def train(model, lines, epochs):
    """Maximize the likelihood of all lines at once."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(epochs):
        optimizer.zero_grad()
        (-model(lines).mean()).backward()
        optimizer.step()


def forward_procedure(model, automaton):
    """The probability that the automaton accepts a line, in plain numpy: over letters, states and states."""
    emission, transition, start = (torch.softmax(leaf, dim=-1).numpy() for leaf in model.state_dict().values())
    weight = np.zeros((automaton.num_states, STATES))  # of what was written so far
    weight[automaton.start] = start[0]
    for step in range(STEPS):
        written = np.zeros_like(weight)
        for state, following in enumerate(automaton.transitions):
            for symbol, target in enumerate(following):
                written[target] += weight[state] * emission[:, symbol]
        weight = written @ transition if step < STEPS - 1 else written
    return weight[list(automaton.accepting)].sum()


@torch.no_grad()
def next_letters(model, product, prefix):
    """p(constraint | prefix, next letter) for each next letter; the letters after it are missing, and summed out."""
    rows = torch.full((len(SYMBOLS), STEPS), torch.nan, dtype=torch.float64)
    rows[:, : len(prefix)] = torch.tensor([SYMBOLS.index(letter) for letter in prefix])
    rows[:, len(prefix)] = torch.arange(len(SYMBOLS))
    return (product(rows) - model(rows)).exp()[:, 0, 0]


def text(row):
    """A line as text."""
    return "".join(SYMBOLS[symbol] for symbol in row.long().tolist())


def build():
    """The model, trained; the automaton; and their product, whose value is the probability of a line or 0."""
    described = hmm(
        range(STEPS), num_latent_states=STATES, input_layer_kwargs={"num_categories": len(SYMBOLS)}, homogeneous=True
    )
    automaton = DFA.contains_in_order(WORDS, SYMBOLS)
    with PipelineContext(dtype=torch.float64) as context:
        model = context.compile(described)  # the product shares its tensors
        product = context.compile(multiply(described, automaton.build_circuit(range(STEPS))))
    model.reset_parameters(seed=0)
    train(model, read_lines(Path(__file__).parents[1] / "LICENSE"), epochs=30)
    return model.eval(), automaton, product.eval()


def draw(model, product, line, path):
    """How probable each letter is at each step of a line, before and after it must keep the constraint."""
    from matplotlib.figure import Figure

    rows = torch.full((len(SYMBOLS), STEPS), torch.nan, dtype=torch.float64)
    tables = []
    for step in range(STEPS):
        rows[:, step] = torch.arange(len(SYMBOLS))
        with torch.no_grad():
            tables.append([circuit(rows).flatten().softmax(0) for circuit in (model, product)])
        rows[:, step] = SYMBOLS.index(line[step])
    figure = Figure(figsize=(9, 8), layout="constrained")
    for axes, which, title in zip(figure.subplots(2), (0, 1), ("the model", "with the constraint"), strict=True):
        axes.imshow(torch.stack([table[which] for table in tables], dim=1), cmap="Blues", aspect="auto")
        axes.set_xticks(range(STEPS), ["_" if letter == " " else letter for letter in line])
        axes.set_yticks(range(len(SYMBOLS)), [*SYMBOLS[:-1], "_"], fontsize=7)
        axes.set_title(f"probability of the next letter: {title}")
    figure.savefig(path)


def main(path=None):
    """Train, and ask."""
    model, automaton, product = build()
    with torch.no_grad():
        probability = product(torch.full((1, STEPS), torch.nan)).exp().item()
    print(f"{automaton} of lines with {' and then '.join(map(repr, WORDS))}")
    print(f"a line of {STEPS} letters keeps the constraint with probability {probability:.3e}")

    lines = [text(row) for row in sample(product, 2000, seed=0)]
    kept = sum(map(automaton.accepts, lines))
    print(f"{kept} of {len(lines)} lines drawn from the product keep it, for example", *lines[:3], sep="\n    ")
    assert kept == len(lines)

    weights = next_letters(model, product, PREFIX)
    best = sorted(range(len(SYMBOLS)), key=lambda symbol: -weights[symbol])[:4]
    shown = ", ".join(f"{SYMBOLS[symbol]!r} {weights[symbol]:.1e}" for symbol in best)
    print(f"after {PREFIX!r} the constraint is most likely with {shown}")
    exact = np.isclose(probability, forward_procedure(model, automaton), rtol=1e-9, atol=0)
    if path is not None:
        draw(model, product, lines[0], path)
    print("the forward procedure in numpy finds the same probability:", bool(exact))


if __name__ == "__main__":
    main(*sys.argv[1:])
