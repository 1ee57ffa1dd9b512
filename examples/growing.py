"""The first k prime numbers: a loop whose array grows until it is long enough.

    python examples/growing.py

The sieve knows all primes below `limit` and finds those from `limit` to twice as far by dividing by the known ones. How
many it finds is known only when the program runs; the array that the loop carries has another size in each iteration.
"""

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


def main():
    """Primes of several counts with one compilation."""
    for k in (1, 10, 100, 1000):
        primes = first_primes(k)
        print(f"the first {k:4} primes end with {', '.join(map(str, primes[-3:].tolist()))}")
    print("compilations:", first_primes.num_compilations)


if __name__ == "__main__":
    main()
