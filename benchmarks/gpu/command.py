"""The command: it starts one process for each stage, shares the time among them, and writes what they find.

It never imports torch: a device that fails, or a library that hangs, costs one stage and not the run.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.gpu import stages
from benchmarks.gpu.events import Begin, Checked, Event, Measured, Planned, Skipped, read
from benchmarks.gpu.report import Report
from benchmarks.harness import table

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 480.0
_SPARE = 10.0  # for the processes to end
_SHARES = {"checks": 16.0, "rates": 2.0}  # beside the circuits, which bring their own
FAILED, NO_DEVICE = 1, 2  # exit statuses


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run; the exit status.

    Returns:
        0 if every check passed, 1 if one failed or a stage died, 2 if there is no such device.
    """
    options = _parser().parse_args(arguments)
    if options.stage:
        return _child(options)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    processes = options.processes or (1 if options.device == "cpu" else max(1, (os.cpu_count() or 1) - 2))
    run = Run(options.device, start + options.seconds - _SPARE, Report(options.out), processes)
    try:
        missing = run.start()
        if missing:
            print(f"benchmarks.gpu: {missing}; nothing was run (--device cpu rehearses).", file=sys.stderr)
            return NO_DEVICE
        run.stages(options.only)
    finally:
        if run.report.machine:
            run.report.seconds["all"] = round(time.monotonic() - start, 1)
            run.report.write()
    print(run.summary())
    return FAILED if run.report.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.gpu", description="Check and measure Plica on a GPU, from a checkout."
    )
    parser.add_argument("--out", type=Path, help="a JSON file for what is found, written as it is found")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu rehearses with tiny sizes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"when it ends at the latest ({SECONDS:.0f})")
    parser.add_argument("--only", nargs="+", metavar="STAGE", help="of checks, rates and names of circuits")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, help="of the checks (all cores but two; one in a rehearsal)")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=int, default=1, help=argparse.SUPPRESS)
    return parser


def _child(options: argparse.Namespace) -> int:
    match options.stage:
        case "facts":
            return stages.tell_facts(options.device)
        case "checks":
            return stages.run_checks(options.device, options.first, options.every, options.seconds)
        case "rates":
            return stages.run_rates(options.device)
        case name:
            return stages.run_circuit(options.device, name, options.seconds)


@dataclass(slots=True)
class Run:
    """One run of the command.

    Args:
        device: Where.
        until: When everything ends, by `time.monotonic`.
        report: What is found.
        processes: How many run checks at once.
    """

    device: str
    until: float
    report: Report
    processes: int = 1
    _running: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> str:
        """Ask for the machine; why nothing can be run, or nothing."""
        found: dict[str, object] = {}

        def note(event: Event) -> None:
            match event:
                case Measured(title, value):
                    found[title] = value
                case Skipped(_, why):
                    found["missing"] = why

        died = self._process("facts", self.left(), note)
        if died or "missing" in found:
            return str(found.get("missing", f"the first process {died}"))
        self.report.machine = dict(found["machine"])  # type: ignore[call-overload]
        self.report.circuits = {name: {} for name in found["circuits"]}  # type: ignore[attr-defined]
        _SHARES.update(found["circuits"])  # type: ignore[call-overload]
        self.report.write()
        print(", ".join(f"{key} {value}" for key, value in self.report.machine.items()), flush=True)
        return ""

    def left(self) -> float:
        """Seconds until the end."""
        return self.until - time.monotonic()

    def stages(self, only: Sequence[str] | None = None) -> None:
        """Every stage in turn; each has its share of the time that those before it left."""
        names = [name for name in _SHARES if only is None or name in only]
        for place, name in enumerate(names):
            share = _SHARES[name] / sum(_SHARES[one] for one in names[place:])
            start = time.monotonic()
            {"checks": self._checks, "rates": self._rates}.get(name, self._circuit)(name, share * self.left())
            self.report.seconds[name] = round(time.monotonic() - start, 1)
            self.report.write()

    def summary(self) -> str:
        """The last line."""
        report = self.report
        return (
            f"{len(report.passed)} checks passed, {len(report.failed)} failed, {len(report.skipped)} things skipped, "
            f"{report.seconds['all']:.0f} seconds"
        )

    # Stages

    def _checks(self, name: str, seconds: float) -> None:
        """The checks, dealt out to processes that run at once."""
        until, lock = time.monotonic() + seconds, threading.Lock()
        with ThreadPoolExecutor(self.processes) as pool:
            parts = [pool.submit(self._part_of_checks, name, until, place, lock) for place in range(self.processes)]
            try:
                for part in parts:
                    part.result()
            except BaseException:
                self.until = 0.0
                for process in self._running:
                    _kill(process)
                raise

    def _part_of_checks(self, name: str, until: float, first: int, lock: threading.Lock) -> None:
        """Each so-many-th check; where a process dies, the next one goes on behind the check that killed it."""
        begun, running = 0, ""

        def note(event: Event) -> None:
            nonlocal begun, running
            with lock:
                match event:
                    case Begin(check):
                        begun, running = begun + 1, check
                    case Checked(check, error, said):
                        running = ""
                        self._checked(check, error, said)
                    case Skipped(title, why):
                        self._skipped(title, why)

        every = self.processes
        while (left := min(until, self.until) - time.monotonic()) > 0:
            place = ("--first", str(first + begun * every), "--every", str(every))
            died = self._process(name, left + _SPARE / 2, note, *place, "--seconds", f"{left:.1f}")
            if not died:
                return
            with lock:
                if running:
                    self._checked(running, f"the process {died}", "")
                elif not died.endswith(f"status {stages.LOST}"):
                    self._checked("checks", f"the process {died} between two checks", "")
                    return
            running = ""
        with lock:
            self._skipped("the other checks", "no time left")

    def _checked(self, check: str, error: str, note: str) -> None:
        if error:
            self.report.failed[check] = error
            print(f"FAILED {check}\n{error}", flush=True)
        else:
            self.report.passed.append(check)
        if note:
            self.report.notes[check] = note
        self.report.write(soon=True)

    def _rates(self, name: str, seconds: float) -> None:
        def keep(title: str, value: object) -> None:
            self.report.rates[title] = value
            print(f"{title}: {value}", flush=True)

        self._measured(name, seconds, keep)

    def _circuit(self, name: str, seconds: float) -> None:
        def keep(title: str, value: object) -> None:
            self.report.circuits[name][title] = value
            timed = isinstance(value, dict) and "milliseconds" in value
            print(table(value, title) if timed else f"{title}: {value}", flush=True)  # type: ignore[arg-type]

        print(f"\n{name}", flush=True)
        self._measured(name, seconds, keep)

    def _measured(self, name: str, seconds: float, keep: Callable[[str, object], None]) -> None:
        """A stage that measures what it planned; what is missing at the end is skipped."""
        open_: dict[str, None] = {}

        def note(event: Event) -> None:
            match event:
                case Planned(titles):
                    open_.update(dict.fromkeys(titles))
                case Measured(title, value):
                    open_.pop(title, None)
                    keep(title, value)
                    self.report.write()
                case Skipped(title, why):
                    open_.pop(title, None)
                    self._skipped(f"{name}, {title}", why)
                case Checked(check, error, said):
                    self._checked(check, error, said)

        died = self._process(name, seconds, note, "--seconds", f"{seconds - _SPARE / 2:.1f}")
        if died and not died.startswith("was ended"):
            self.report.failed[name] = f"the process {died}"
        for title in open_:
            self._skipped(f"{name}, {title}", f"the process {died}" if died else "it was not reached")

    def _skipped(self, title: str, why: str) -> None:
        self.report.skipped[title] = why
        print(f"skipped {title}: {why}", flush=True)
        self.report.write(soon=True)

    # Processes

    def _process(self, stage: str, seconds: float, note: Callable[[Event], None], *arguments: str) -> str:
        """Run a stage, noting its events; how it died, or nothing."""
        command = [sys.executable, "-m", "benchmarks.gpu", "--stage", stage, "--device", self.device, *arguments]
        ended = threading.Event()
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"} | _threads_of(arguments),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # compilers start processes of their own, which must end with it
        ) as process:
            self._running.append(process)

            def end() -> None:
                ended.set()
                _kill(process)

            timer = threading.Timer(max(seconds, 0.0), end)
            timer.start()
            try:
                assert process.stdout is not None, "it is a pipe"
                for text in process.stdout:
                    event = read(text)
                    if event is None:
                        print(text, end="", flush=True)
                    else:
                        note(event)
                status = process.wait()
            except BaseException:
                _kill(process)
                raise
            finally:
                timer.cancel()
                self._running.remove(process)
        if ended.is_set():
            return f"was ended after {seconds:.0f} seconds"
        return f"died with exit status {status}" if status else ""


def _threads_of(arguments: Sequence[str]) -> dict[str, str]:
    """One thread for each of several processes."""
    return {"OMP_NUM_THREADS": "1"} if "--every" in arguments else {}


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
