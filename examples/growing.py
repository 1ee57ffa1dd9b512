"""Prime numbers by an array that grows
====================================

The first k prime numbers: a loop whose array grows until it is long enough.

::

    python examples/growing.py [picture.png]

The sieve knows all primes below `limit` and finds those from `limit` to twice as far by dividing by the known ones. How
many it finds is known only when the program runs; the array that the loop carries has another size in each iteration.
"""

import sys

import numpy as np

import plica
import plica.numpy as pnp


@plica.jit
def first_primes(k: int):
    """The first k primes, (k,) in int64."""

    @plica.while_loop(lambda primes, _: primes.shape[0] < k, preserve_dimensions=False)
    def grow(primes, limit):
        candidates = pnp.arange(limit, 2 * limit)
        is_prime = pnp.all(candidates[:, None] % primes != 0, axis=1)
        return pnp.concat([primes, candidates[is_prime]]), 2 * limit

    primes, _ = grow(pnp.asarray([2, 3]), 4)
    return primes[:k]


def draw(path, side=151):
    """The spiral of Ulam: numbers from the middle outwards, each prime a dot."""
    from matplotlib.figure import Figure

    turns = np.repeat(np.arange(1, side + 1), 2)[: 2 * side - 1]  # 1 step east, 1 north, 2 west, 2 south, 3 east ...
    steps = np.repeat(np.resize([[1, 0], [0, 1], [-1, 0], [0, -1]], (len(turns), 2)), turns, axis=0)
    places = np.concatenate([[[0, 0]], np.cumsum(steps, axis=0)])[: side * side]  # of 1, 2, 3 ...
    primes = np.asarray(first_primes(2700))
    x, y = places[primes[primes <= side * side] - 1].T
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot(x, y, "s", color="#1f5673", markersize=1.6)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(f"primes up to {side * side} on the spiral of Ulam")
    figure.savefig(path)


def main(path=None):
    """Primes of several counts with one compilation."""
    for k in (1, 10, 100, 1000):
        primes = first_primes(k)
        print(f"the first {k:4} primes end with {', '.join(map(str, primes[-3:].tolist()))}")
    if path is not None:
        draw(path)
    print("compilations:", first_primes.num_compilations)


if __name__ == "__main__":
    main(*sys.argv[1:])
