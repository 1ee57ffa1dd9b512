"""Viterbi decoding of sequences of any length
===========================================

The most likely states of a hidden Markov model, for a batch of sequences of different lengths.

::

    python examples/viterbi.py [picture.png]

The function is compiled once, when it is decorated: the number of steps, of sequences, of states and of symbols have
names, and so may be anything. A `scan` runs forwards and keeps, for each step and state, the best state before it;
another one runs backwards along these pointers.
"""

import sys

import numpy as np

import plica
import plica.numpy as pnp

start = plica.spec(("k",), "float64")
transition = plica.spec(("k", "k"), "float64")
emission = plica.spec(("k", "symbols"), "float64")
sequences = plica.spec(("n", "b"), "int64")
lengths = plica.spec(("b",), "int64")


@plica.jit
def viterbi(log_start: start, log_transition: transition, log_emission: emission, seen: sequences, length: lengths):
    """Decode sequences of symbols.

    Args:
        log_start: (k,) log-probabilities of the first state.
        log_transition: (k, k) log-probabilities of the next state (columns) after each state (rows).
        log_emission: (k, symbols) log-probabilities of the symbols in each state.
        seen: (n, b) symbols, one column for each sequence; n is at least 1.
        length: (b,) how many of the n symbols belong to a sequence, at least 1; the others are not looked at.

    Returns:
        The states (n, b), -1 behind the end of a sequence, and their joint log-probabilities with the symbols (b,).
    """
    n, states = seen.shape[0], pnp.arange(log_start.shape[0])
    inside = pnp.arange(n)[:, None] < length  # (n, b)
    of_symbols = pnp.where(inside[:, :, None], log_emission.T[pnp.where(inside, seen, 0)], 0.0)  # (n, b, k)

    def forward(score, row):  # score: (b, k), of the best way into each state
        seen_now, is_inside = row
        ways = score[:, :, None] + log_transition  # (b, from, to)
        best = pnp.where(is_inside[:, None], pnp.argmax(ways, axis=1), states)
        return pnp.where(is_inside[:, None], pnp.max(ways, axis=1) + seen_now, score), best

    def backward(state, pointers):  # state: (b,), of the step behind this one
        before = pnp.take_along_axis(pointers, state[:, None], axis=1)[:, 0]
        return before, before

    score, pointers = plica.scan(forward, log_start + of_symbols[0], (of_symbols[1:n], inside[1:n]))
    last = pnp.argmax(score, axis=1)
    _, path = plica.scan(backward, last, pointers, reverse=True)
    path = pnp.concat([path, last[None, :]])
    return pnp.where(inside, path, -1), pnp.max(score, axis=1)


def random_model(num_states, num_symbols, seed):
    """Logarithms of the start, transition and emission probabilities of a random model."""
    draw = np.random.default_rng(seed).dirichlet
    shapes = (None, num_states), (num_states, num_states), (num_states, num_symbols)
    return [np.log(draw(np.ones(width), rows)) for rows, width in shapes]


def simulate(steps, seed):
    """A model whose states stay for a while, and states and symbols (steps,) drawn from it."""
    generator = np.random.default_rng(seed)
    transition = np.full((3, 3), 0.04) + 0.88 * np.eye(3)
    emission = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]])
    states = [0]
    for _ in range(steps - 1):
        states.append(generator.choice(3, p=transition[states[-1]]))
    symbols = np.array([generator.choice(4, p=emission[state]) for state in states])
    return [np.log(table) for table in (np.full(3, 1 / 3), transition, emission)], np.array(states), symbols


def draw(path):
    """Symbols, the states that they were drawn from, and the states that are most likely."""
    from matplotlib.figure import Figure

    model, states, symbols = simulate(160, seed=0)
    found, _ = viterbi(*model, symbols[:, None], np.array([len(symbols)]))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    rows = {"symbols": symbols, "states": states, "decoded": np.asarray(found)[:, 0]}
    for axes, (title, row) in zip(figure.subplots(3, sharex=True), rows.items(), strict=True):
        axes.imshow(row[None], aspect="auto", cmap="viridis", interpolation="nearest")
        axes.set_yticks([])
        axes.set_ylabel(title)
    axes.set_xlabel(f"step; {np.mean(rows['decoded'] == states):.0%} of the states are right")
    figure.savefig(path)


def main(picture=None):
    """Decode batches of several sizes with one compilation."""
    model, generator = random_model(3, 4, seed=0), np.random.default_rng(1)
    for steps, batch in ((5, 2), (12, 3), (200, 64)):
        seen = generator.integers(4, size=(steps, batch))
        length = generator.integers(1, steps + 1, size=batch)
        path, score = viterbi(*model, seen, length)
        shown = "".join(map(str, path[: min(length[0], 40), 0]))
        print(f"{steps:3} steps, {batch:2} sequences: the first has {length[0]:3} symbols, {score[0]:8.2f}, {shown}")
    if picture is not None:
        draw(picture)
    print("compilations:", viterbi.num_compilations)


if __name__ == "__main__":
    main(*sys.argv[1:])
