"""The result file: what was found so far, written whole after each finding."""

from __future__ import annotations

import datetime
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1
_SECONDS_BETWEEN_CHECKS = 1.0  # hundreds of checks end within a second


@dataclass(slots=True)
class Report:
    """What a run has found.

    Args:
        path: Where it is written, if anywhere.
    """

    path: Path | None
    machine: dict[str, Any] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    rates: dict[str, Any] = field(default_factory=dict)
    circuits: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _written: float = 0.0

    def write(self, *, soon: bool = False) -> None:
        """Put the whole report in the place of the file; `soon` may leave it to a later call."""
        if self.path is None or (soon and time.monotonic() < self._written + _SECONDS_BETWEEN_CHECKS):
            return
        text = json.dumps(self.document(), indent=1) + "\n"
        beside = self.path.with_name(f".{self.path.name}.new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path)
        self._written = time.monotonic()

    def document(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return {
            "schema": SCHEMA,
            "date": datetime.date.today().isoformat(),
            "machine": self.machine,
            "checks": {"passed": len(self.passed), "failed": self.failed, "notes": self.notes},
            "rates": self.rates,
            "circuits": self.circuits,
            "skipped": self.skipped,
            "seconds": self.seconds,
        }
