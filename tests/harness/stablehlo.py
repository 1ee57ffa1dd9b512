"""Runs StableHLO text with XLA, which shapes of arguments are put into where sizes are open, and with IREE.

What it needs of `jaxlib` has no public names but in JAX itself, of which nothing else is needed here.
"""

import importlib
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from plica.backend.native.stablehlo.types import tensor_type
from plica.ir.dtypes import DType

Array = Any
_jax: Any = importlib.import_module("jaxlib._jax")


@cache
def _context() -> Any:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    stablehlo.register_stablehlo_passes()
    return context


@cache
def _client() -> Any:
    return xla_client.make_cpu_client()


def _options() -> Any:
    options = xla_client.CompileOptions()
    options.env_option_overrides = [("xla_backend_optimization_level", 0), ("xla_llvm_disable_expensive_passes", True)]
    return options


class _Placed(_jax.SingleDeviceSharding):  # type: ignore[misc]
    """Where arrays lie: on the one device, in the ordinary memory."""

    memory_kind = None

    @property
    def _internal_device_list(self) -> Any:
        return _jax.DeviceList(tuple(_client().local_devices()[:1]))

    def _to_xla_hlo_sharding(self, rank: int) -> Any:  # noqa: ARG002 - every rank
        return xla_client.HloSharding.replicate()


def run_by_iree(text: str, arrays: Sequence[Array]) -> list[Array]:
    """The results of a module that leaves no size open, compiled by IREE as it is."""
    import iree.compiler
    import iree.runtime

    flags = ["--iree-input-demote-f64-to-f32=false", "--iree-llvmcpu-target-cpu=host"]
    code = iree.compiler.compile_str(text, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=flags)
    config = iree.runtime.Config("local-sync")
    module = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config)
    results = module["main"](*arrays)
    return [np.asarray(result) for result in (results if isinstance(results, tuple | list) else [results])]


def run(text: str, *arrays: Array) -> list[Array]:
    """The results of a module's `main`."""
    return run_module(refined(text, [(one.shape, one.dtype) for one in arrays]), arrays)


def refined(text: str, arguments: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    """The text with the shapes of arguments put in: no size is left open."""
    types = ",".join(tensor_type(shape, DType(np.dtype(dtype).name)) for shape, dtype in arguments)
    steps = [
        *([f"stablehlo-refine-arguments{{types={types}}}"] if types else []),
        "stablehlo-refine-shapes",
        "func.func(stablehlo-canonicalize-dynamism)",
    ]
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        PassManager.parse(f"builtin.module({','.join(steps)})").run(module.operation)
        return str(module)


def run_module(text: str, arrays: Sequence[Array]) -> list[Array]:
    """The results of a module that leaves no size open."""
    device = _client().local_devices()[0]
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        compiled = _client().compile_and_load(module, _jax.DeviceList((device,)), _options(), [])
    given = [
        _jax.batched_device_put(
            SimpleNamespace(shape=one.shape, dtype=one.dtype, weak_type=False, ndim=one.ndim),
            _Placed(device),
            [np.ascontiguousarray(one)],
            [device],
            enable_x64=True,
        )
        for one in map(np.asarray, arrays)
    ]
    found = compiled.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(one[0]) for one in found]
