"""Four programs of statistics and machine learning, each written once in the words that libraries of arrays share.

* sinkhorn: entropic optimal transport between two histograms, in logarithms. Source: Peyré and Cuturi, *Computational
  Optimal Transport*, 2019, remark 4.23.
* forward_backward: the probabilities of the states of a hidden Markov model. Source: Rabiner, 1989, section III.
* mixture: expectation maximization of a mixture of Gaussians with diagonal covariances.
* lstm: a recurrent layer over a batch of sequences. Source: Hochreiter and Schmidhuber, 1997, with forget gates.

`WORDS` has a row for each library; numpy's, in float64, gives the values that all others are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

Function = Callable[..., Any]
REGULARIZATION = 0.1


@dataclass(frozen=True, slots=True)
class Words:
    """What a library calls its functions.

    Args:
        arrays: Its namespace.
        logsumexp: `logsumexp(x, axis)`.
        sigmoid: Of entries.
        loop: `loop(count, body, init)`: `body` takes and gives the carry.
        scan: `scan(step, init, rows, reverse)`, as JAX has it.
    """

    arrays: Any
    logsumexp: Function
    sigmoid: Function
    loop: Function
    scan: Function


# The programs


def sinkhorn(words: Words) -> Function:
    """`sinkhorn(cost (N, M), a (N,), b (M,), turns)` gives the transport plan `(N, M)`."""
    arrays, logsumexp = words.arrays, words.logsumexp

    def program(cost: Any, a: Any, b: Any, turns: Any) -> Any:
        scaled, log_a, log_b = cost * (-1.0 / REGULARIZATION), arrays.log(a), arrays.log(b)

        def turn(carry: Any) -> Any:
            _, g = carry
            f = log_a - logsumexp(scaled + g[None, :], 1)
            return f, log_b - logsumexp(scaled + f[:, None], 0)

        f, g = words.loop(turns, turn, (log_a, log_b))
        return arrays.exp(scaled + f[:, None] + g[None, :])

    return program


def forward_backward(words: Words) -> Function:
    """`forward_backward(start (K,), transition (K, K), scores (T, K))`, logarithms all, gives `(T, K)` and a number.

    They are the logarithms of the probability of each state at each step, and of the observations.
    """
    arrays, logsumexp = words.arrays, words.logsumexp

    def program(start: Any, transition: Any, scores: Any) -> Any:
        def forward(state: Any, score: Any) -> Any:
            following = logsumexp(state[:, None] + transition, 0) + score
            return following, following

        def backward(state: Any, score: Any) -> Any:
            return logsumexp(transition + (score + state)[None, :], 1), state

        first = start + scores[0]
        last, alphas = words.scan(forward, first, scores[1:], False)
        begin, betas = words.scan(backward, arrays.zeros_like(first), scores[1:], True)
        joint = arrays.concatenate([(first + begin)[None], alphas + betas])
        total = logsumexp(last, 0)
        return joint - total, total

    return program


def mixture(words: Words) -> Function:
    """`mixture(x (N, D), means (K, D), turns)` gives weights `(K,)`, means `(K, D)` and variances `(K, D)`."""
    arrays = words.arrays

    def program(x: Any, means: Any, turns: Any) -> Any:
        def turn(carry: Any) -> Any:
            weights, means, variances = carry
            distance = arrays.sum((x[:, None, :] - means) ** 2 / variances + arrays.log(variances), axis=2)
            scores = arrays.log(weights) - 0.5 * distance
            shares = arrays.exp(scores - words.logsumexp(scores, 1)[:, None])
            counts = arrays.sum(shares, axis=0)
            means = shares.T @ x / counts[:, None]
            variances = shares.T @ (x * x) / counts[:, None] - means**2 + 1e-6
            return counts / x.shape[0], means, variances

        ones = arrays.ones_like(means)
        return words.loop(turns, turn, (ones[:, 0] / means.shape[0], means, ones))

    return program


def lstm(words: Words) -> Function:
    """`lstm(x (T, B, I), input (I, 4H), state (H, 4H), bias (4H,))` gives what it says at all steps, `(T, B, H)`."""
    arrays, sigmoid = words.arrays, words.sigmoid

    def program(x: Any, from_input: Any, from_state: Any, bias: Any) -> Any:
        hidden = from_state.shape[0]

        def step(carry: Any, row: Any) -> Any:
            said, cell = carry
            gates = row @ from_input + said @ from_state + bias
            entered, forgotten, shown = (sigmoid(gates[:, k * hidden : (k + 1) * hidden]) for k in range(3))
            cell = forgotten * cell + entered * arrays.tanh(gates[:, 3 * hidden :])
            said = shown * arrays.tanh(cell)
            return (said, cell), said

        nothing = x[0] @ from_input[:, :hidden] * 0.0
        return words.scan(step, (nothing, nothing), x, False)[1]

    return program


# The words of libraries


def _turned(count: int, body: Function, carry: Any) -> Any:
    for _ in range(int(count)):
        carry = body(carry)
    return carry


def _scanned(stack: Function) -> Function:
    def scan(step: Function, carry: Any, rows: Any, reverse: bool) -> Any:
        results = []
        for row in reversed(list(rows)) if reverse else rows:
            carry, result = step(carry, row)
            results.append(result)
        return carry, stack(results[::-1] if reverse else results)

    return scan


def _numpy_logsumexp(x: Any, axis: int) -> Any:
    largest = x.max(axis=axis, keepdims=True)
    return np.log(np.exp(x - largest).sum(axis=axis)) + np.squeeze(largest, axis)


def _numpy() -> Words:
    return Words(np, _numpy_logsumexp, lambda x: 1 / (1 + np.exp(-x)), _turned, _scanned(np.stack))


def _torch() -> Words:
    torch: Any = import_module("torch")
    return Words(torch, torch.logsumexp, torch.sigmoid, _turned, _scanned(torch.stack))


def _jax() -> Words:
    jax: Any = import_module("jax")
    return Words(
        jax.numpy,
        lambda x, axis: jax.nn.logsumexp(x, axis=axis),
        jax.nn.sigmoid,
        lambda count, body, init: jax.lax.fori_loop(0, count, lambda _, carry: body(carry), init),
        lambda step, init, rows, reverse: jax.lax.scan(step, init, rows, reverse=reverse),
    )


def _plica() -> Words:
    plica: Any = import_module("plica")
    arrays: Any = import_module("plica.numpy")
    return Words(
        _Renamed(arrays),
        lambda x, axis: arrays.logsumexp(x, axis=axis),
        arrays.sigmoid,
        lambda count, body, init: plica.for_loop(0, count, 1, lambda _, *carry: body(carry), *init),
        lambda step, init, rows, reverse: plica.scan(step, init, rows, reverse=reverse),
    )


class _Renamed:
    """The namespace of the array standard, with numpy's name for `concat`."""

    def __init__(self, arrays: Any) -> None:
        self._arrays, self.concatenate = arrays, arrays.concat

    def __getattr__(self, name: str) -> Any:
        return getattr(self._arrays, name)


WORDS: Mapping[str, Callable[[], Words]] = {"numpy": _numpy, "torch": _torch, "jax": _jax, "plica": _plica}


# Arguments


def sinkhorn_arguments(size: int) -> tuple[Any, ...]:
    """Histograms of `size` bins and of a few more, and 50 turns."""
    generator = np.random.default_rng(size)
    shape = (size, size + 5)
    a, b = (generator.uniform(0.5, 1.5, count) for count in shape)
    return generator.uniform(0.0, 1.0, shape), a / a.sum(), b / b.sum(), 50


def forward_backward_arguments(steps: int) -> tuple[Any, ...]:
    """16 states."""
    generator = np.random.default_rng(steps)
    rows = [np.log(generator.dirichlet(np.ones(16), count)) for count in (1, 16)]
    return rows[0][0], rows[1], np.log(generator.uniform(0.0, 1.0, (steps, 16)))


def mixture_arguments(points: int) -> tuple[Any, ...]:
    """Points in three dimensions, 5 components, and 20 turns."""
    generator = np.random.default_rng(points)
    centers = generator.normal(0.0, 3.0, (5, 3))
    x = centers[generator.integers(5, size=points)] + generator.normal(0.0, 1.0, (points, 3))
    return x, centers + generator.normal(0.0, 0.5, (5, 3)), 20


def lstm_arguments(hidden: int) -> tuple[Any, ...]:
    """100 steps of 8 sequences of 16 numbers."""
    generator = np.random.default_rng(hidden)
    scale = 1 / math.sqrt(hidden)
    weights = [generator.uniform(-scale, scale, (rows, 4 * hidden)) for rows in (16, hidden)]
    return generator.normal(0.0, 1.0, (100, 8, 16)), *weights, generator.uniform(-scale, scale, 4 * hidden)
