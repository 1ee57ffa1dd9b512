"""What a figure depends on beside the code: versions, cores, threads. No names of hosts or of people."""

import datetime
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import Settings

SCHEMA = 1  # of result files


def facts(threads: int, device: str) -> dict[str, Any]:
    """Versions and the machine, for the head of a result file."""
    import torch

    import plica

    gpu = {"gpu": torch.cuda.get_device_name(device)} if device.startswith("cuda") else {}
    return {
        "plica": plica.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": threads,
        "device": device,
        **gpu,
    }


def use_threads(threads: int) -> None:
    """Let torch compute with so many threads; call it before anything else uses torch."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)


def peak_memory_mib(device: str) -> float:
    """The most memory held so far: of this process, or on the GPU."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(device)
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    status = Path("/proc/self/status")
    if status.exists():  # what `getrusage` says includes the process that started this one
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return round(int(fields["VmHWM"].split()[0]) / 2**10, 1)
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, KiB elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def save(
    path: Path | None,
    report: dict[str, Any],
    settings: Settings,
    threads: int,
    libraries: Mapping[str, str] | None = None,
) -> None:
    """Write comparisons with what they depend on, versions of `libraries` too, if there is a path."""
    if path is None:
        return
    head = {"schema": SCHEMA, "date": datetime.date.today().isoformat(), "settings": {"rounds": settings.rounds}}
    machine = facts(threads, settings.device) | ({"libraries": dict(libraries)} if libraries else {})
    result = {**head, "machine": machine, "comparisons": report}
    path.write_text(json.dumps(result, indent=1) + "\n")
