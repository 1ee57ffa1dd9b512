"""`python -m benchmarks.queries`: queries of rows with holes beside the forward pass of as many whole rows.

* forward: the circuit's values of whole rows; the baseline, and measured again as the control.
* log_likelihood: of rows of which half is missing.
* posterior of all: of all variables, nothing of which is known.
* posterior of half: of rows of which a random half is missing.
* sample: one completion of the lower halves of rows, which all differ.

In eval mode first, then in train mode, in which nothing is kept between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.circuits import IMAGES, TARGETS, CircuitSpec
from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.machine import save, use_threads

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 128
NAMES = tuple(name for name in TARGETS if name in IMAGES)


def run(spec: CircuitSpec, batch: int, settings: Settings) -> dict[str, Any]:
    """Comparisons of one circuit by mode."""
    import torch

    import plica

    torch.manual_seed(0)
    circuit = plica.compile(spec.build()).to(settings.device)
    with torch.no_grad():
        return {
            mode: compare(_contenders(circuit.train(mode == "train"), spec.data(batch, settings.device)), settings)
            for mode in ("eval", "train")
        }


def _contenders(circuit: Any, x: Tensor) -> dict[str, Callable[[], object]]:
    import torch

    from plica.queries import log_likelihood, posterior, sample

    numbers = x.float()
    nothing = torch.full_like(numbers, torch.nan)
    drawn = torch.rand(numbers.shape, generator=torch.Generator().manual_seed(1)).to(x.device)
    half = numbers.masked_fill(drawn < 0.5, torch.nan)
    upper = numbers.clone()
    upper[:, x.shape[1] // 2 :] = torch.nan
    return {
        "forward": lambda: circuit(x),
        "log_likelihood": lambda: log_likelihood(circuit, half),
        "posterior of all": lambda: posterior(circuit, nothing),
        "posterior of half": lambda: posterior(circuit, half),
        "sample": lambda: sample(circuit, given=upper, seed=0),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = benchmark_parser("queries", "Queries beside the forward pass.", device=True)
    parser.add_argument("--circuits", nargs="+", default=NAMES, choices=IMAGES, help=f"by default {', '.join(NAMES)}")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"rows ({BATCH})")
    options = parser.parse_args(arguments)
    use_threads(options.threads)
    settings = Settings(rounds=options.rounds, device=options.device)
    report: dict[str, Any] = {}
    for name in options.circuits:
        report[name] = run(IMAGES[name], options.batch, settings)
        for mode, part in report[name].items():
            print(table(part, f"{name}, {options.batch} rows, {mode}"), flush=True)
        save(options.out, report, settings, options.threads)


if __name__ == "__main__":
    main()
