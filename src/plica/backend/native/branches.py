"""No reference is handed on twice at a branch of IREE's virtual machine.

    vm.br ^bb1(%a, %a)    ->    %b = vm.assign.ref %a;  vm.br ^bb1(%a, %b)

Buffers, and the fences that say when they are written, are references there. At a branch, IREE 3.13 moves each to the
register of its argument, the last time that it stands there, and leaves it where it is if that is the register of
another argument already: which then is empty (adr/0026). Two arrays that one piece of work makes have one fence, and
often one buffer, whatever the module said; so it is changed here, where registers are given out next.
"""

from __future__ import annotations

from typing import Any

_BRANCHES = ("vm.br", "vm.br_table", "vm.cond_br")
_REFERENCES = ("!vm.ref", "!vm.buffer", "!vm.list")


def handed_on_once(module: str) -> str:
    """A module of the dialect `vm`, whose branches hand every reference on at most once.

    Args:
        module: Its text; not MLIR's bytecode, which is to lie at places in memory that Python does not choose.
    """
    from iree.compiler import ir

    def visit(operation: Any) -> Any:
        if operation.name in _BRANCHES:
            _rename(operation)
        return ir.WalkResult.ADVANCE

    with ir.Context(), ir.Location.unknown():
        found = ir.Module.parse(module)
        found.operation.walk(visit)
        text: str = found.operation.get_asm(enable_debug_info=True)
    return text


def _rename(branch: Any) -> None:
    """Give references that a branch hands on again names of their own."""
    from iree.compiler import ir
    from iree.compiler.dialects import vm

    last: dict[Any, Any] = {}
    for place, one in enumerate(branch.operands):
        if one in last:
            with ir.InsertionPoint(branch):
                # of the last name, and not of the first: equal operations would be made one again
                last[one] = vm.AssignRefOp(one.type, last[one]).result
            branch.operands[place] = last[one]
        elif str(one.type).startswith(_REFERENCES):
            last[one] = one
