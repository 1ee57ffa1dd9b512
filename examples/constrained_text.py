"""Invented words that match a pattern
===================================

Words drawn from a model of letters, all of which match a regular expression: a hidden Markov model times an automaton.

::

    python examples/constrained_text.py [picture.png]

A hidden Markov model learns the words of Plica's licence, letter by letter, padded with spaces to twelve. An automaton
of a regular expression accepts words that begin with `con`, `pro` or `re` and end with `ing`, `ed` or `ion`. The
product of both is a circuit. Its value with everything missing is the probability that a word of the model matches, and
draws from it match always.
"""

import re
import string
import sys
from pathlib import Path

import torch

from plica.learn import Adam, fit
from plica.pipeline import PipelineContext
from plica.queries import sample
from plica.symbolic.functional import multiply
from plica.templates.automata import DFA
from plica.templates.pgms import hmm

SYMBOLS = string.ascii_lowercase + " "
STEPS, STATES = 12, 12
PATTERN = "(con|pro|re)[a-z]+(ing|ed|ion) *"


def read_words(path):
    """The words of a text as numbers `(N, STEPS)`, padded with spaces; longer ones are left out."""
    words = sorted(set(re.findall(r"[a-z]+", path.read_text(encoding="utf-8").lower())))
    padded = [word.ljust(STEPS) for word in words if 2 < len(word) <= STEPS]
    return torch.tensor([[SYMBOLS.index(letter) for letter in word] for word in padded])


def build(words, epochs):
    """The model, trained; the automaton; and their product."""
    described = hmm(range(STEPS), num_latent_states=STATES, input_layer_kwargs={"num_categories": len(SYMBOLS)})
    automaton = DFA.from_regex(PATTERN, SYMBOLS)
    with PipelineContext(dtype=torch.float64) as context:
        model = context.compile(described)  # the product shares its tensors
        product = context.compile(multiply(described, automaton.build_circuit(range(STEPS))))
    model.reset_parameters(seed=0)
    fit(model, words, learner=Adam(0.1), epochs=epochs, batch=len(words) // 4)
    return model.eval(), automaton, product.eval()


def spelled(rows):
    """Rows of numbers as words."""
    return ["".join(SYMBOLS[symbol] for symbol in row.long().tolist()).rstrip() for row in rows]


def draw(free, constrained, path):
    """Words of the model, and words of the product, in which the pattern's ends are coloured."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(0, 34), ylim=(len(free) + 1, -1))
    axes.text(1, -0.3, "the model", weight="bold")
    axes.text(17, -0.3, "the model, constrained", weight="bold")
    for line, (word, matched) in enumerate(zip(free, constrained, strict=True)):
        found = re.fullmatch(PATTERN, matched)
        for place, letter in enumerate(word):
            axes.text(1 + place, line + 1, letter, family="monospace", size=14, color="#6b757d")
        for place, letter in enumerate(matched):
            is_end = place < found.end(1) or place >= found.start(2)
            axes.text(
                17 + place, line + 1, letter, family="monospace", size=14, color="#c4572e" if is_end else "#1f5673"
            )
    figure.savefig(path)


def main(path=None, epochs=60):
    """Train, draw words, and check each of them by Python's own `re`."""
    words = read_words(Path(__file__).parents[1] / "LICENSE")
    model, automaton, product = build(words, epochs)
    with torch.no_grad():
        probability = product(torch.full((1, STEPS), torch.nan)).exp().item()
    print(f"{len(words)} words; {automaton}")
    print(f"a word of the model matches with probability {probability:.2e}")
    drawn = spelled(sample(product, 1000, seed=0))
    unlike = [word for word in dict.fromkeys(drawn) if word not in set(spelled(words))]
    print(f"{len(unlike)} invented words, for example {', '.join(unlike[:6])}")
    if path is not None:
        draw(spelled(sample(model, 10, seed=0)), unlike[:10], path)
    print("draws that do not match:", sum(re.fullmatch(PATTERN, word) is None for word in drawn))


if __name__ == "__main__":
    main(*sys.argv[1:])
