"""What the processes do that the command starts: one function for each stage, which tells of its findings."""

from __future__ import annotations

import sys
import time
import traceback
from itertools import islice
from pathlib import Path

from benchmarks.gpu.events import Begin, Checked, Measured, Planned, Skipped, tell

LOST = 3  # exit status: the device computes nothing any more in this process


def tell_facts(device_name: str) -> int:
    """The machine with the versions of what is measured, and the circuits with their shares of the time; or why not."""
    try:
        import torch

        from benchmarks.gpu.devices import DEVICES
        from benchmarks.gpu.models import models
        from benchmarks.gpu.peers import installed
        from benchmarks.machine import facts
    except ImportError as error:
        tell(Skipped("everything", f"{sys.executable} has no package {error.name!r}"))
        return 0
    if device_name == "cuda" and not torch.cuda.is_available():
        tell(Skipped("everything", f"torch {torch.__version__} finds no CUDA device"))
        return 0
    found = facts(torch.get_num_threads(), device_name) | {"peers": installed()}
    if device_name == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {"cuda": torch.version.cuda, "GiB": round(properties.total_memory / 2**30, 1)}
    tell(Measured("machine", found))
    circuits = models(DEVICES[device_name].is_rehearsal)
    tell(Measured("circuits", {name: model.share for name, model in circuits.items()}))
    return 0


def run_checks(device_name: str, start: int, step: int, seconds: float) -> int:
    """Run each `step`-th check from number `start` on; the exit status."""
    from benchmarks.gpu.checks import all_checks
    from benchmarks.gpu.devices import DEVICES

    device, until = DEVICES[device_name], time.monotonic() + seconds
    for check in islice(all_checks(), start, None, step):
        if time.monotonic() > until:
            tell(Skipped(check.name, "no time left"))
            continue
        tell(Begin(check.name))
        error, note = "", None
        try:
            note = check.run(device)
        except Exception:  # whatever it is, it is what the check found
            error = _traceback()
        tell(Checked(check.name, error, note or ""))
        if error and device.is_lost():
            return LOST
    return 0


def run_rates(device_name: str) -> int:
    """Measure what the machine can do."""
    from benchmarks.gpu.devices import DEVICES
    from benchmarks.gpu.rates import RATES, measure_rate

    tell(Planned(tuple(RATES)))
    for name in RATES:
        try:
            tell(Measured(name, measure_rate(name, DEVICES[device_name])))
        except (RuntimeError, NotImplementedError) as error:
            tell(Skipped(name, f"{type(error).__name__}: {str(error)[:300]}"))
    return 0


def run_circuit(device_name: str, name: str, seconds: float) -> int:
    """Measure one circuit."""
    from benchmarks.gpu.devices import DEVICES
    from benchmarks.gpu.models import models
    from benchmarks.gpu.speed import Stage

    device = DEVICES[device_name]
    try:
        Stage(models(device.is_rehearsal)[name], device, time.monotonic() + seconds).run()
    except Exception:  # whatever it is, it is a finding
        tell(Checked(name, _traceback(), ""))
    return 0


def _traceback() -> str:
    """The end of the traceback of the exception that is handled, without the folders of this machine."""
    text = traceback.format_exc(limit=-4)[-4000:]
    for folder in (Path(__file__).resolve().parents[2], Path(sys.prefix), Path.home()):
        text = text.replace(f"{folder}/", "")
    return text
