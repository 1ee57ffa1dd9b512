"""`python -m benchmarks.logic`: weighted model counts of ladder-shaped formulas, for 128 rows of weights of literals.

Ladders of 8 to 1,000 variables: time must grow linearly with their number. KLay (Maene et al., 2025) is beside it where
it is installed (`pip install klaycircuits`), called through its public interface: logarithms of weights, `torch.vmap`
over rows, no gradients for a forward pass. Both have the same diagram, of the same vtree, and must agree on the counts
before they are timed. Making is from clauses to the first result, in seconds of this process.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

import plica
from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings, compare, table
from benchmarks.machine import save, use_threads
from plica.symbolic.parameters import TensorParameter
from plica.templates.logic import LogicalCircuit, Vtree

VARIABLES = (8, 12, 16, 200, 1000)
ROWS = 128

Count = Callable[[Tensor, Tensor], Tensor]  # logarithms of weights (B, D), of false and of true: log counts (B,)


def ladder(variables: int) -> list[list[int]]:
    """The clauses of a ladder: each rung of two variables is joined with the next one alone."""
    clauses = []
    for first in range(1, variables, 2):
        clauses.append([first, first + 1])
        if first + 2 < variables:
            clauses += [[-first, first + 2, first + 3], [-first - 1, -first - 3]]
    return clauses


def of_plica(formula: LogicalCircuit) -> Count:
    """The circuit of a formula, whose weights each call gives."""
    weights = TensorParameter(formula.num_variables, 2, initializer=None, name="weights")
    circuit = plica.compile(formula.build_circuit(literal_weights=weights))
    nothing_known = torch.full((ROWS, formula.num_variables), float("nan"))

    def count(false: Tensor, true: Tensor) -> Tensor:
        given = {"weights": torch.stack([false, true], dim=2).exp()}
        return circuit(nothing_known, parameters=given).flatten()

    return count


def of_klay(clauses: Sequence[Sequence[int]], vtree: Vtree) -> Count:
    """The module of KLay for the diagram over a vtree."""
    sdd, klay = import_module("pysdd.sdd"), import_module("klay")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ladder.vtree"
        path.write_text(vtree.text())
        manager = sdd.SddManager(vtree=sdd.Vtree.from_file(str(path).encode()))
    nodes = []
    for clause in clauses:
        either = manager.false()
        for literal in clause:
            either = either | manager.literal(literal)
        nodes.append(either)
    while len(nodes) > 1:
        pairs = zip(nodes[::2], [*nodes[1::2], manager.true()][: (len(nodes) + 1) // 2], strict=True)
        nodes = [first & second for first, second in pairs]
    circuit = klay.Circuit()
    circuit.add_sdd(nodes[0])
    module = torch.vmap(circuit.to_torch_module(semiring="log", compile=False))

    def count(false: Tensor, true: Tensor) -> Tensor:
        return module(true, false).flatten()

    return count


def run(variables: int, settings: Settings) -> dict[str, Any]:
    """Comparisons for a ladder: making, forward, and forward and backward."""
    generator = torch.Generator().manual_seed(0)
    true = torch.rand(ROWS, variables, generator=generator)
    false, true = (1 - true).log().requires_grad_(), true.log().requires_grad_()
    clauses = ladder(variables)
    formula = LogicalCircuit.from_cnf(clauses)
    assert formula.vtree is not None, "diagrams have one"
    vtree: Vtree = formula.vtree
    makers: dict[str, Callable[[], Count]] = {"plica": lambda: of_plica(LogicalCircuit.from_cnf(clauses))}
    if find_spec("klay") is not None:
        makers["klay"] = lambda: of_klay(clauses, vtree)
    counts: dict[str, Count] = {}
    making: dict[str, float] = {}
    for name, make in makers.items():
        start = time.perf_counter()
        counts[name] = make()
        with torch.no_grad():
            counts[name](false, true)
        making[name] = time.perf_counter() - start
    for count in counts.values():
        torch.testing.assert_close(count(false, true), counts["plica"](false, true), rtol=1e-4, atol=1e-4)

    def forward(count: Count) -> Callable[[], object]:
        def task() -> Tensor:
            with torch.no_grad():
                return count(false, true)

        return task

    def backward(count: Count) -> Callable[[], object]:
        return lambda: torch.autograd.grad(count(false, true).sum(), (false, true))

    return {
        "nodes": len(formula.smooth().nodes),
        "seconds until the first result": making,
        "load": os.getloadavg()[0],
        "forward": compare({name: forward(count) for name, count in counts.items()}, settings),
        "forward and backward": compare({name: backward(count) for name, count in counts.items()}, settings),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser: argparse.ArgumentParser = benchmark_parser("logic", "Weighted model counts of ladders.", rounds=10)
    parser.add_argument("--variables", type=int, nargs="+", default=VARIABLES, help="sizes of ladders")
    options = parser.parse_args(arguments)
    use_threads(options.threads)
    settings = Settings(rounds=options.rounds)
    report: dict[str, Any] = {}
    for variables in options.variables:
        found = report[f"{variables} variables"] = run(variables, settings)
        making = ", ".join(
            f"{name} {seconds:.2f} s" for name, seconds in found["seconds until the first result"].items()
        )
        print(f"{variables} variables, {found['nodes']} nodes: {making} (load {found['load']:.1f})", flush=True)
        for title in ("forward", "forward and backward"):
            print(table(found[title], title), flush=True)
        save(options.out, report, settings, options.threads)


if __name__ == "__main__":
    main()
