"""Queries of squares: circuits with numbers of both signs, or complex ones, that are known never to be negative.

Sums of such circuits are no mixtures, so that no term is chosen: variables are drawn one after another
(`chain_rule.py`), each from its distribution given those before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.chain_rule import Mixture, Rows
from plica.backend.torch.queries.largest_sizes import largest_size
from plica.backend.torch.queries.layer_numbers import LayerGraph, Numbers
from plica.backend.torch.queries.program import BYTES_AT_ONCE, parts, query_dtype
from plica.backend.torch.queries.quantile import checked_levels, first_integer, first_number, layers_of, rounded_down
from plica.backend.torch.queries.rows import check_known, check_total, count, device_of, floating, integer
from plica.backend.torch.queries.values import cached, check_needs, log_values
from plica.errors import UnsupportedError
from plica.ir.dtypes import as_dtype
from plica.lower.data import input_width, samples_dtype
from plica.lower.queries.answers import Explanations, Posterior
from plica.lower.queries.likelihood import LOG_LIKELIHOOD
from plica.lower.queries.posterior import with_states
from plica.lower.queries.quantile import QUANTILE


@torch.no_grad()
def sample(circuit: TorchCircuit, n: int = 1, given: Tensor | None = None, seed: int | None = None) -> Tensor:
    """See `plica.queries.sample`."""
    number = count("n", n)
    device = device_of(circuit, "sampling")
    graph = _graph(circuit, "sampling")
    generator = None if seed is None else torch.Generator(device).manual_seed(integer("seed", seed) % 2**64)
    width = input_width(circuit.symbolic)
    x = None if given is None else circuit.checked(given, LOG_LIKELIHOOD.needs.carrier(circuit.semiring))
    size = number if x is None else len(x) * number
    with torch.inference_mode(False), torch.no_grad():
        numbers = graph.numbers(circuit)
    drawn = []
    for start, stop in parts(size, _rows_at_once(graph)):
        uniforms = torch.rand((stop - start, width), dtype=torch.float64, device=device, generator=generator)
        uniforms.clamp_(min=torch.finfo(torch.float64).eps / 4)
        if x is None:
            rows = torch.full((stop - start, width), math.nan, dtype=torch.float64, device=device)
        else:
            rows = x[torch.arange(start, stop, device=x.device) // max(number, 1)].to(device).double().clone()
        drawn.append(_completed(circuit, numbers, rows, uniforms, None if x is None else (start, number)))
    return torch.cat(drawn).to(_dtype(circuit, x))


def _completed(
    circuit: TorchCircuit, numbers: Numbers, x: Tensor, uniforms: Tensor, known: tuple[int, int] | None
) -> Tensor:
    """Rows with all variables drawn; `known` is the number of the first row, and how many rows a row of data has."""
    with torch.inference_mode(False), torch.no_grad():
        rows = Rows(numbers, x)
        log_value = rows.log_value()
        if known is None:
            check_total(log_value[:1])
        else:
            start, times = known
            check_known(torch.cat([log_value.new_zeros(start), log_value]), times)
        missing = x.isnan().any(0).tolist()
        for variable in rows.graph.order:
            if missing[variable]:
                rows.set(variable, _drawn(circuit, rows.mixture(variable), uniforms[:, variable : variable + 1]))
    rest = sorted({*range(x.shape[1])}.difference(rows.graph.order))
    rows.x[:, rest] = 0.0
    return rows.x


def _drawn(circuit: TorchCircuit, mixture: Mixture, uniforms: Tensor) -> Tensor:
    """A value for each row `(B,)`: the first up to which the distribution has the share of a uniform number."""
    if mixture.domain.num_states is not None:
        cumulative = mixture.masses().cumsum(1)
        return (cumulative <= uniforms * cumulative[:, -1:]).sum(1).clamp_(max=_last_state(cumulative)).double()
    return _quantile(circuit, mixture, uniforms)[:, 0]


def _last_state(cumulative: Tensor) -> Tensor:
    """The last state of positive probability, `(B,)`: roundings of a total never draw one of probability 0."""
    return (cumulative < cumulative[:, -1:]).sum(1)


def _quantile(circuit: TorchCircuit, mixture: Mixture, levels: Tensor) -> Tensor:
    """The first values up to which each row's distribution has the shares `levels (B, P)`: `(B, P)`, float64.

    For variables without states.
    """
    domain = mixture.domain
    needed = levels * mixture.up_to(torch.full_like(levels[:, :1], domain.most))

    def suffices(values: Tensor) -> Tensor:
        return mixture.up_to(values.double()) >= needed

    if domain.whole:
        return first_integer(domain, suffices, needed).double()
    dtype = getattr(torch, query_dtype(circuit).value)
    return first_number(domain, dtype, suffices, needed.to(dtype)).double()


@torch.no_grad()
def posterior(circuit: TorchCircuit, x: Tensor) -> Posterior:
    """See `plica.queries.posterior`."""
    states = with_states(circuit.symbolic)
    dtype = getattr(torch, query_dtype(circuit).value)

    def of_rows(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        probabilities = rows.x.new_zeros((*rows.x.shape, max(states.values(), default=0)))
        mean, stddev = torch.full_like(rows.x, math.nan), torch.full_like(rows.x, math.nan)
        for variable in rows.graph.order:
            mixture = rows.mixture(variable)
            if variable in states:
                masses = mixture.masses()
                probabilities[:, variable, : masses.shape[1]] = masses / masses.sum(1, keepdim=True)
            else:
                mean[:, variable], variance = mixture.moments()
                stddev[:, variable] = variance.sqrt()
        known = rows.x.isnan().logical_not()
        for variable, number in states.items():
            at = torch.arange(probabilities.shape[2], device=rows.x.device) == rows.x[:, variable, None]
            where = known[:, variable, None]
            probabilities[:, variable] = torch.where(where, at.double(), probabilities[:, variable])
            assert number <= probabilities.shape[2], "the table is as wide as the widest variable"
        return probabilities, torch.where(known, rows.x, mean), torch.where(known, 0.0, stddev)

    return Posterior(*(part.to(dtype) for part in _of_all(circuit, "the posterior", x, of_rows)))


@torch.no_grad()
def mean(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """See `plica.queries.mean`."""
    return _moments(circuit, "the mean", x)[0]


@torch.no_grad()
def variance(circuit: TorchCircuit, x: Tensor) -> Tensor:
    """See `plica.queries.variance`."""
    return _moments(circuit, "the variance", x)[1]


def _moments(circuit: TorchCircuit, name: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each variable, `(B, D)`."""

    def of_rows(rows: Rows) -> tuple[Tensor, Tensor]:
        means, variances = torch.full_like(rows.x, math.nan), torch.full_like(rows.x, math.nan)
        for variable in rows.graph.order:
            means[:, variable], variances[:, variable] = rows.mixture(variable).moments()
        known = rows.x.isnan().logical_not()
        return torch.where(known, rows.x, means), torch.where(known, 0.0, variances)

    dtype = getattr(torch, query_dtype(circuit).value)
    means, variances = _of_all(circuit, name, x, of_rows)
    return means.to(dtype), variances.to(dtype)


def _of_all(
    circuit: TorchCircuit, name: str, x: Tensor, of_rows: Callable[[Rows], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """The results of a function of rows, in parts.

    Raises:
        InputError: A row does not fit, or is impossible.
    """
    device_of(circuit, name)
    graph = _graph(circuit, name)
    data = floating(circuit.checked(x, LOG_LIKELIHOOD.needs.carrier(circuit.semiring))).double()
    results = []
    with torch.inference_mode(False), torch.no_grad():
        numbers = graph.numbers(circuit)
        for start, stop in parts(len(data), _rows_at_once(graph)):
            rows = Rows(numbers, data[start:stop].clone())
            check_known(torch.cat([data.new_zeros(start), rows.log_value()]), 1, "nothing to be expected of the rest")
            results.append(of_rows(rows))
    return tuple(torch.cat(column) for column in zip(*results, strict=True))


def _graph(circuit: TorchCircuit, name: str) -> LayerGraph:
    check_needs(circuit, LOG_LIKELIHOOD.needs)
    graph: LayerGraph = cached(circuit, ("layer graph",), lambda: LayerGraph(circuit, name))
    return graph


def _rows_at_once(graph: LayerGraph) -> int:
    """How many rows the memory budget is enough for: values and derivatives, mantissas and what makes them."""
    return max(1, BYTES_AT_ONCE // (32 * graph.num_units))


def _dtype(circuit: TorchCircuit, x: Tensor | None) -> torch.dtype:
    """The dtype of drawn rows."""
    real = query_dtype(circuit) if x is None or not x.is_floating_point() else as_dtype(x.dtype)
    dtype: torch.dtype = getattr(torch, samples_dtype(circuit.symbolic, real).value)
    return dtype


@torch.no_grad()
def quantile(circuit: TorchCircuit, variable: int, p: Any, given: Tensor | None) -> Tensor:
    """See `plica.queries.quantile`."""
    layers_of(circuit, variable)
    device, dtype = device_of(circuit, QUANTILE.name), getattr(torch, query_dtype(circuit).value)
    levels = checked_levels(p, device)
    width = input_width(circuit.symbolic)
    rows = torch.full((1, width), math.nan, dtype=dtype, device=device) if given is None else circuit.converted(given)
    x = floating(rows).clone()
    x[:, variable] = math.nan

    def of_rows(rows: Rows) -> tuple[Tensor]:
        mixture = rows.mixture(variable)
        wanted = levels.reshape(1, -1).expand(mixture.count, -1)
        wanted = rounded_down(wanted, torch.finfo(dtype).eps)
        if mixture.domain.num_states is None:
            return (_quantile(circuit, mixture, wanted),)
        cumulative = mixture.masses().cumsum(1)
        reached = cumulative[:, None] >= wanted[:, :, None] * cumulative[:, -1:, None]
        return (reached.to(torch.int64).argmax(2).double(),)

    (answer,) = _of_all(circuit, QUANTILE.name, x, of_rows)
    whole = circuit.symbolic.domains[variable].whole
    shape = (*(() if given is None else (len(x),)), *levels.shape)
    return answer.to(torch.int64 if whole else dtype).reshape(shape)


@torch.no_grad()
def mpe_bounds(circuit: TorchCircuit, x: Tensor) -> Explanations:
    """See `plica.queries.mpe_bounds`."""

    def of_rows(rows: Rows) -> tuple[Tensor, Tensor]:
        missing, upper = rows.x.isnan(), largest_size(circuit, rows.numbers, rows.x)
        for variable in rows.graph.order:
            if bool(missing[:, variable].any()):
                rows.set(variable, _likely(circuit, rows.mixture(variable)))
        return rows.x, upper

    data = circuit.checked(x, LOG_LIKELIHOOD.needs.carrier(circuit.semiring))
    completed, upper = _of_all(circuit, "the most probable explanation", data, of_rows)
    unread = sorted({*range(completed.shape[1])}.difference(circuit.scope))
    completed[:, unread] = floating(data).double().nan_to_num(0.0)[:, unread]
    completed = completed.to(_dtype(circuit, data))
    found = log_values(circuit, completed)
    return Explanations(completed, found, found, torch.maximum(found, upper.to(found.dtype)), False)


def _likely(circuit: TorchCircuit, mixture: Mixture) -> Tensor:
    """A value of large probability for each row, `(B,)`: the most probable state, or the median."""
    if mixture.domain.num_states is not None:
        return mixture.masses().argmax(1).double()
    return _quantile(circuit, mixture, torch.full((mixture.count, 1), 0.5, dtype=torch.float64))[:, 0]


def _refused(query: str) -> Callable[..., NoReturn]:
    """The function of a query that squares do not answer.

    Raises:
        UnsupportedError: Always.
    """

    def refuse(circuit: TorchCircuit, *arguments: Any) -> NoReturn:
        del arguments
        raise UnsupportedError(
            f"{circuit.compiled.query(query).name}: the circuit is made of squares, whose sums have terms of both "
            "signs, so that no term has a probability of its own; ask for samples, log_likelihood, mpe_bounds, "
            "posterior, mean or variance, or keep weights positive in place of squaring (softmax, for example)."
        )

    return refuse


SQUARES: Mapping[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (sample, posterior, mean, variance, quantile, mpe_bounds)},
    **{query: _refused(query) for query in ("mpe", "latent_posterior", "covariance")},
}
"""The functions that answer queries of squares, by the names of the queries; others work as for all circuits."""
