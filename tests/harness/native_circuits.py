"""Circuits as native code: many in one file, so that the compiler starts once."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import plica
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.file import file_of
from plica.backend.native.targets import target_of
from plica.frontend.native import entry_programs_of
from plica.pipeline import PipelineContext
from plica.runtime.container import write
from plica.runtime.module import NativeModule, load
from plica.symbolic.circuit import Circuit


def compiled(circuit: Circuit, semiring: str = "lse-sum", dtype: torch.dtype = torch.float32, seed: int = 0) -> Any:
    """A circuit for torch, with tensors of its own, in eval mode."""
    torch.manual_seed(seed)
    with PipelineContext(semiring=semiring, dtype=dtype) as context:
        return context.compile(circuit).eval()


def native_file(path: Path, models: Mapping[str, Any], queries: Iterable[str] | None = None) -> NativeModule:
    """A file of the entry points of several models; those of `m` are called `m_log_likelihood`, ..."""
    wanted = None if queries is None else list(queries)
    entry_programs = [entry_program for name, model in models.items() for entry_program in _of(name, model, wanted)]
    parts, manifest = file_of(entry_programs, [target_of("host")], {"source": "tests"})
    write(path, parts, manifest)
    return load(path)


def _of(name: str, model: Any, queries: list[str] | None) -> Iterable[EntryProgram]:
    for entry_program in entry_programs_of(model, queries):
        fallback = entry_program.fallback
        if fallback is not None:
            fallback = replace(fallback, entry=f"{name}_{fallback.entry}")
        yield replace(entry_program, name=f"{name}_{entry_program.name}", fallback=fallback)


__all__ = ["compiled", "native_file", "plica"]
