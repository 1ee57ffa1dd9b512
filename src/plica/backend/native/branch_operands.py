"""Gives each reference that a branch of IREE's virtual machine passes on a name of its own.

    vm.br ^bb1(%a, %a)    ->    %b = vm.assign.ref %a;  vm.br ^bb1(%a, %b)

References are buffers, and fences, which say when buffers are written. At its last mention in a branch, IREE 3.13 moves
a reference to the register of the block's argument. It skips the move if another argument already has that register:
then that argument is empty (adr/0026). Two arrays that one dispatch writes share a fence, and often a buffer, whatever
the MLIR said. So this pass runs on the code that IREE is about to assign registers to.

IREE also overlooks that a later block may pass on the same reference, which the branch has moved away.
"""

from __future__ import annotations

from typing import Any

_BRANCHES = ("vm.br", "vm.br_table", "vm.cond_br")
_REFERENCES = ("!vm.ref", "!vm.buffer", "!vm.list")


def with_distinct_references(module: str) -> str:
    """The module, in which every branch passes each reference once, and no other block reads that reference.

    Args:
        module: The text of a module of the dialect `vm`. MLIR's bytecode would need an alignment in memory that Python
            does not control.
    """
    from iree.compiler import ir

    def visit(operation: Any) -> Any:
        if operation.name in _BRANCHES:
            _copy_references(operation)
        return ir.WalkResult.ADVANCE

    with ir.Context(), ir.Location.unknown():
        parsed = ir.Module.parse(module)
        parsed.operation.walk(visit)
        text: str = parsed.operation.get_asm(enable_debug_info=True)
    return text


def _copy_references(branch: Any) -> None:
    """Copy each reference that a branch passes on a second time, or that other blocks read too."""
    from iree.compiler import ir
    from iree.compiler.dialects import vm

    last: dict[Any, Any] = {}
    for index, operand in enumerate(branch.operands):
        if not str(operand.type).startswith(_REFERENCES):
            continue
        if operand in last or not _is_local(operand, branch.operation.block):
            with ir.InsertionPoint(branch):
                # copies the last copy: equal operations, as two copies of the first would be, are merged again
                last[operand] = vm.AssignRefOp(operand.type, last.get(operand, operand)).result
            branch.operands[index] = last[operand]
        else:
            last[operand] = operand


def _is_local(reference: Any, block: Any) -> bool:
    """Whether a block defines a reference and is the only one that reads it."""
    from iree.compiler import ir

    owner = reference.owner
    defined_in = owner if isinstance(owner, ir.Block) else owner.operation.block
    return defined_in == block and all(use.owner.operation.block == block for use in reference.uses)
