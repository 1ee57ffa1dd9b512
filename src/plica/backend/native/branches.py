"""What a branch of IREE's virtual machine hands on is handed on once, and read by nothing behind it.

    vm.br ^bb1(%a, %a)    ->    %b = vm.assign.ref %a;  vm.br ^bb1(%a, %b)

Buffers, and the fences that say when they are written, are references there. At a branch, IREE 3.13 moves each to the
register of its argument, the last time that it stands there, and leaves it where it is if that is the register of
another argument already: which then is empty (adr/0026). Two arrays that one piece of work makes have one fence, and
often one buffer, whatever the module said; so it is changed here, where registers are given out next.

Nor does it see that a block behind the branch hands the same reference on as well, which was moved away then.
"""

from __future__ import annotations

from typing import Any

_BRANCHES = ("vm.br", "vm.br_table", "vm.cond_br")
_REFERENCES = ("!vm.ref", "!vm.buffer", "!vm.list")


def handed_on_once(module: str) -> str:
    """A module of the dialect `vm`, whose branches hand every reference on at most once, which nothing else reads.

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
    """Give references that a branch hands on again, or that other blocks know as well, names of their own."""
    from iree.compiler import ir
    from iree.compiler.dialects import vm

    last: dict[Any, Any] = {}
    for place, one in enumerate(branch.operands):
        if not str(one.type).startswith(_REFERENCES):
            continue
        if one in last or not _is_of_one_block(one, branch.operation.block):
            with ir.InsertionPoint(branch):
                # of the last name, and not of the first: equal operations would be made one again
                last[one] = vm.AssignRefOp(one.type, last.get(one, one)).result
            branch.operands[place] = last[one]
        else:
            last[one] = one


def _is_of_one_block(reference: Any, block: Any) -> bool:
    """Whether a reference is made in a block, and read there alone."""
    from iree.compiler import ir

    made = reference.owner if isinstance(reference.owner, ir.Block) else reference.owner.operation.block
    return made == block and all(use.owner.operation.block == block for use in reference.uses)
