"""Vowels and consonants by a hidden Markov model
==============================================

What a hidden Markov model of two states learns from the letters of a text: vowels and consonants.

::

    python examples/hmm.py [picture.png]

The text is Plica's licence, cut into lines of 50 letters and spaces. One transition and one emission are shared by all
steps, so the circuit of 50 variables has three tensors; Adam fits them. Its log-likelihoods are those of the forward
procedure in plain numpy.

Source: Cave and Neuwirth, "Hidden Markov models for English", 1980.
"""

import string
import sys
from pathlib import Path

import numpy as np
import torch

import plica
from plica.templates.pgms import hmm

SYMBOLS = string.ascii_lowercase + " "
STEPS, STATES = 50, 2


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


def tables(model):
    """The probabilities that the model learned: emission (K, symbols), transition (K, K) and first state (1, K)."""
    return [torch.softmax(leaf, dim=-1).numpy() for leaf in model.state_dict().values()]


def forward_procedure(emission, transition, start, lines):
    """The log-likelihood of each line, one step after another, scaled so that nothing underflows."""
    state, total = start[0] * emission[:, lines[:, 0]].T, np.zeros(len(lines))
    for symbols in lines.T[1:]:
        scale = state.sum(axis=1, keepdims=True)
        total, state = total + np.log(scale[:, 0]), (state / scale) @ transition * emission[:, symbols].T
    return total + np.log(state.sum(axis=1))


def draw(emission, path):
    """How probable each letter is in each state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(SYMBOLS))
    for state, (probabilities, colour) in enumerate(zip(emission, ("#1f5673", "#c4572e"), strict=True)):
        axes.bar(places + 0.4 * state - 0.2, probabilities, width=0.4, color=colour, label=f"state {state}")
    axes.set_xticks(places, [*SYMBOLS[:-1], "_"])
    axes.set_ylabel("probability")
    axes.legend()
    figure.savefig(path)


def main(path=None):
    """Train, and say what was learned."""
    lines = read_lines(Path(__file__).parents[1] / "LICENSE")
    seen, held_out = lines[:-40], lines[-40:]
    circuit = hmm(
        range(STEPS), num_latent_states=STATES, input_layer_kwargs={"num_categories": len(SYMBOLS)}, homogeneous=True
    )
    model = plica.compile(circuit, dtype=torch.float64)
    model.reset_parameters(seed=0)
    print(f"{len(lines)} lines of {STEPS} symbols, {sum(one.numel() for one in model.parameters())} parameters")
    train(model, seen, epochs=120)

    emission, transition, start = tables(model)
    states = emission.argmax(axis=0)
    for state in range(STATES):
        chosen = "".join(
            symbol.replace(" ", "_") for symbol, best in zip(SYMBOLS, states, strict=True) if best == state
        )
        print(f"state {state}: {chosen:20} stays with probability {transition[state, state]:.2f}")

    with torch.no_grad():
        found = model(held_out)[:, 0, 0]
    by_hand = forward_procedure(emission, transition, start, held_out.numpy())
    frequency = np.bincount(seen.ravel(), minlength=len(SYMBOLS)) / seen.numel()
    alone = np.log(frequency[held_out]).sum(axis=1)
    for name, scores in (("hidden Markov model", found.numpy()), ("letters alone", alone)):
        print(f"held out, {name}: {-scores.mean() / STEPS / np.log(2):.3f} bits for each symbol")
    if path is not None:
        draw(emission, path)
    print("the forward procedure in numpy finds the same:", bool(np.allclose(found, by_hand, rtol=0, atol=1e-9)))


if __name__ == "__main__":
    main(*sys.argv[1:])
