"""The top-down walk: messages from the output to the inputs, each group of layers after all that read it.

The walk knows the order and who hears from whom. What a message is (a chosen unit, say, or an expected number for each
unit), how two for one layer become one and what each kind of layer does with it is the policy, an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple, Protocol

from plica.graph.fold import FoldIndex
from plica.lower.fold.groups import FoldedLayer
from plica.lower.fold.read import read_folds
from plica.lower.lowering import LoweringScope
from plica.lower.queries.bottom_up import describe
from plica.tracing.tracer import Tracer


class Message(NamedTuple):
    """What the folds of a group are told, `(F, B, ...)`.

    Args:
        content: What the policy makes of it.
        always: Whether it is meant for every row, so that nobody has to look where it is none.
    """

    content: Tracer
    always: bool


class Policy(Protocol):
    """What is done on the way down."""

    def start(self) -> Tracer:
        """What the output is told, `(1, B, ...)`."""

    def nothing(self, group: FoldedLayer) -> Tracer:
        """What a layer of `group` has heard where nobody told it anything, `(1, B, ...)`."""

    def merge(self, one: Tracer, other: Tracer) -> Tracer:
        """Two messages for one layer as one."""

    def visit(self, group: FoldedLayer, message: Message) -> Sequence[Message]:
        """What a group does with what it has heard; what it tells each of its H inputs."""


@dataclass(slots=True)
class _Mail:
    """What was sent, `(F, B, ...)` each, and for each fold of each group the arrays and folds of what it will hear."""

    scope: LoweringScope
    policy: Policy
    contents: list[Tracer] = field(default_factory=list)
    always: list[bool] = field(default_factory=list)
    letters: dict[FoldIndex, list[FoldIndex]] = field(default_factory=dict)

    def send(self, message: Message, receivers: Sequence[FoldIndex]) -> None:
        for fold, receiver in enumerate(receivers):
            self.letters.setdefault(receiver, []).append((len(self.contents), fold))
        self._keep(message)

    def receive(self, number: int, group: FoldedLayer) -> Message:
        """All that the folds of a group have been told, as one message."""
        heard = [self.letters.pop((number, fold), []) for fold in range(group.num_folds)]
        turns = max(1, *map(len, heard))
        always = all(len(letters) == 1 and self.always[letters[0][0]] for letters in heard)
        if any(len(letters) < turns for letters in heard):
            silence = (len(self.contents), 0)
            self._keep(Message(self.policy.nothing(group), always=False))
            heard = [letters + [silence] * (turns - len(letters)) for letters in heard]
        arrived = [read_folds(self.contents, places, self.scope.constant) for places in zip(*heard, strict=True)]
        return Message(reduce(self.policy.merge, arrived), always)

    def _keep(self, message: Message) -> None:
        self.contents.append(message.content)
        self.always.append(message.always)


def walk_down(scope: LoweringScope, policy: Policy) -> None:
    """Visit every group, from the outputs of the circuit down."""
    folded, mail = scope.folded, _Mail(scope, policy)
    mail.send(Message(policy.start(), always=True), folded.out_fold_idx)
    for number, group in reversed(list(enumerate(folded.groups))):
        with scope.builder.at(describe(folded.circuit, number, group)):
            told = policy.visit(group, mail.receive(number, group))
            for place, message in enumerate(told):
                mail.send(message, [inputs[place] for inputs in group.in_fold_idx])
