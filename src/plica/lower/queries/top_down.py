"""The downward pass: messages from the output to the inputs, each group of layers after all groups that read it.

The pass fixes the order, and who sends messages to whom. The policy, an argument, defines the rest: the contents of a
message (for example a chosen unit), how two messages for one layer merge, and what each kind of layer sends on.
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
    """A message to the folds of a group, `(F, B, ...)`.

    Args:
        content: An array, which the policy interprets.
        always: Whether every row has a content, so that no check is needed.
    """

    content: Tracer
    always: bool


class Policy(Protocol):
    """The contents of messages, and how layers pass them on."""

    def start(self) -> Tracer:
        """The content of the message to the output, `(1, B, ...)`."""

    def nothing(self, group: FoldedLayer) -> Tracer:
        """The content for a layer of `group` without a message, `(1, B, ...)`."""

    def merge(self, first: Tracer, second: Tracer) -> Tracer:
        """The contents of two messages for one layer as one."""

    def visit(self, group: FoldedLayer, message: Message) -> Sequence[Message]:
        """Process the message to a group; returns the messages to each of its H inputs."""


@dataclass(slots=True)
class _PendingMessages:
    """Messages that were sent, and for each fold of each group the (array, fold) of those that wait for it.

    Args:
        scope: The Program under construction.
        policy: Merges messages.
        contents: The contents of all messages, `(F, B, ...)` each.
        always: `Message.always` of each.
        waiting: The messages of each receiver.
    """

    scope: LoweringScope
    policy: Policy
    contents: list[Tracer] = field(default_factory=list)
    always: list[bool] = field(default_factory=list)
    waiting: dict[FoldIndex, list[FoldIndex]] = field(default_factory=dict)

    def send(self, message: Message, receivers: Sequence[FoldIndex]) -> None:
        for fold, receiver in enumerate(receivers):
            self.waiting.setdefault(receiver, []).append((len(self.contents), fold))
        self._add(message)

    def receive(self, number: int, group: FoldedLayer) -> Message:
        """Merge all messages to the folds of a group into one."""
        waiting = [self.waiting.pop((number, fold), []) for fold in range(group.num_folds)]
        num_messages = max(1, *map(len, waiting))
        always = all(len(of_fold) == 1 and self.always[of_fold[0][0]] for of_fold in waiting)
        if any(len(of_fold) < num_messages for of_fold in waiting):
            nothing = (len(self.contents), 0)
            self._add(Message(self.policy.nothing(group), always=False))
            waiting = [of_fold + [nothing] * (num_messages - len(of_fold)) for of_fold in waiting]
        contents = [read_folds(self.contents, indices, self.scope.constant) for indices in zip(*waiting, strict=True)]
        return Message(reduce(self.policy.merge, contents), always)

    def _add(self, message: Message) -> None:
        self.contents.append(message.content)
        self.always.append(message.always)


def walk_down(scope: LoweringScope, policy: Policy) -> None:
    """Visit every group, from the outputs of the circuit down."""
    folded, messages = scope.folded, _PendingMessages(scope, policy)
    messages.send(Message(policy.start(), always=True), folded.out_fold_idx)
    for number, group in reversed(list(enumerate(folded.groups))):
        with scope.builder.at(describe(folded.circuit, number, group)):
            sent = policy.visit(group, messages.receive(number, group))
            for index, message in enumerate(sent):
                messages.send(message, [inputs[index] for inputs in group.in_fold_idx])
