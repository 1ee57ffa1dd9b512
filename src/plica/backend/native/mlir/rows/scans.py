"""Cumulative sums and products along one axis."""

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.entries import on_entries
from plica.backend.native.mlir.rows.reduce import PROD, SUM, Reduced, converted
from plica.backend.native.mlir.structured import apart
from plica.backend.native.mlir.types import Value
from plica.ops.rules import normal_axis


def _scan(how: Reduced) -> Row:
    def write(emitter: Emitter, call: Call) -> Value:
        (x,), (type_,) = call.inputs, call.types
        axis, dtype, code = normal_axis(call.params["axis"], len(x.shape)), type_.dtype, emitter.code
        x, out = converted(emitter, emitter.tensor(x), dtype), emitter.empty(type_.shape, dtype)
        if 0 in x.shape:
            return out
        x = apart(emitter, x)  # IREE would fuse a fill into the scan and put all of it on the stack
        start = emitter.full([*x.shape[:axis], *x.shape[axis + 1 :]], emitter.constant(how.start(dtype), dtype))
        name = code.name()
        code.put(
            f"{name}:2 = iree_linalg_ext.scan dimension({axis}) inclusive(true) ins({x.text} : {x.type}) "
            f"outs({out.text}, {start.text} : {out.type}, {start.type}) {{"
        )
        with code.block():
            entries = [code.name(), code.name()]
            code.put(f"^bb0({', '.join(f'{text}: {x.element}' for text in entries)}):")
            total = on_entries(emitter, [dtype] * 2, how.step)(entries)
            code.put(f"iree_linalg_ext.yield {total} : {x.element}")
        code.put(f"}} -> {out.type}, {start.type}")
        return Value(f"{name}#0", *out.array)

    return Row(write, reads_memory=True)


SCANS = {"cumulative_prod": _scan(PROD), "cumulative_sum": _scan(SUM)}
