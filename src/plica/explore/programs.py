"""Programs as records: each equation is a node, and each nested body a stage of its own.

>>> import plica
>>> record = program_record(plica.trace(lambda x: (x + 1.0) * x, plica.spec("n")))
>>> record["stages"][0]["inputs"], [record["texts"][number] for number in record["stages"][0]["equation"]]
([[], [0]], ['a:f32[n] = add x 1.0:f32[]', 'b:f32[n] = multiply a x'])
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plica.explore.tables import Texts
from plica.ir.program import Equation, Operand, Program, Var, nested, print_equation


def program_record(program: Program, kept: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The record of a Program and of all Programs within it.

    Args:
        program: The Program.
        kept: The fate of each constant value, by the name of its variable in `program`.
    """
    texts = Texts()
    stages: list[dict[str, Any]] = []
    todo = deque([("the Program", program)])
    count = 1
    while todo:
        name, current = todo.popleft()
        stage = _stage(name, current, texts, kept or {} if not stages else {})
        for number, equation in enumerate(current.equations):
            bodies = list(nested(equation.params))
            stage["nested"].append(list(range(count, count + len(bodies))))
            count += len(bodies)
            todo.extend((f"{name}, {number}: {body_name}", body) for body_name, body in _named(equation, bodies))
        stages.append(stage)
    return {"subject": "program", "text": str(program), "texts": texts.values(), "stages": stages}


def _named(equation: Equation, bodies: Sequence[Program]) -> Iterator[tuple[str, Program]]:
    """The bodies of an equation under the name of its operation, with numbers where there are several."""
    for number, body in enumerate(bodies):
        yield f"{equation.op.name}{f' {number}' if len(bodies) > 1 else ''}", body


def _stage(name: str, program: Program, texts: Texts, kept: Mapping[str, str]) -> dict[str, Any]:
    kinds = {equation.op.name: None for equation in program.equations}
    index = {kind: number for number, kind in enumerate(kinds)}
    defined = {var: number for number, equation in enumerate(program.equations) for var in equation.outputs}
    fates = [[kept[var.name] for var in equation.outputs if var.name in kept] for equation in program.equations]
    return {
        "name": name,
        "kinds": [[kind, "equation"] for kind in kinds],
        "kind": [index[equation.op.name] for equation in program.equations],
        "inputs": [_read(equation, defined) for equation in program.equations],
        "outputs": list(dict.fromkeys(defined[var] for var in _variables(program.outputs) if var in defined)),
        "equation": [texts.number(print_equation(equation)) for equation in program.equations],
        "source": [texts.number(equation.source) for equation in program.equations],
        "arguments": [f"{var.name}:{var.type}" for var in (*program.consts, *program.inputs)],
        "kept": [None if not fate else texts.number("; ".join(fate)) for fate in fates],
        "nested": [],
    }


def _read(equation: Equation, defined: Mapping[Var, int]) -> list[int]:
    """The equations that define the operands of an equation."""
    return list(dict.fromkeys(defined[var] for var in _variables(equation.inputs) if var in defined))


def _variables(operands: tuple[Operand, ...]) -> list[Var]:
    return [operand for operand in operands if isinstance(operand, Var)]
