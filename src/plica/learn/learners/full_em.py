"""Expectation maximization that sees all rows before it changes the model.

>>> FullEM()
FullEM(pseudocount=1.0, apart=False)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, final

from torch import Tensor, nn

from plica.arguments import flag
from plica.distributed.ranks import Ranks
from plica.learn.conditional import conditional_statistics, within_reach
from plica.learn.expectation import Statistics
from plica.learn.learners.base import Learner, Plan, Training
from plica.learn.learners.maximization import Maximization, check_number
from plica.learn.predicting import Predicting


@final
@dataclass(frozen=True, slots=True)
class FullEM(Learner):
    """Expectation maximization: one update in each epoch, of the expected counts of all rows.

    An update with `pseudocount=0` never lowers the likelihood of the rows, and there is no rate to choose. It suits
    models of few units, such as mixtures; hidden trees learn faster by `StepwiseEM`. Leaves without a closed form take
    a step of Adam for each batch. A model that is `Predicting` a variable learns by `plica.learn.conditional`, whose
    updates may lower its objective.

    Args:
        pseudocount: Imaginary rows for each distribution: spread evenly over states and over terms of sums; of numbers,
            with the variance of the whole layer. They keep probabilities above 0 and covariances invertible. Vectors
            of V normal variables get V / 2 to 2 V times as many for their covariances, like those within the units of
            the layer. Their variances are at least a thousandth of the layer's.
        apart: Whether each term of the output's sum learns all rows by itself, so that the sum is the average of an
            ensemble. Else terms share the rows, as those of a mixture do.

    Raises:
        InputError: The pseudocount is below 0.
        DTypeError: `apart` is no truth value.

    Source: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977; for
        circuits Poon and Domingos, "Sum-product networks: a new deep architecture", 2011.
    """

    name: ClassVar[str] = "full-em"
    pseudocount: float = 1.0
    apart: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "pseudocount", check_number("FullEM", "pseudocount", self.pseudocount))
        flag("FullEM", "apart", self.apart)

    def training(self, model: nn.Module, plan: Plan) -> Training:
        """The training of a model."""
        predicting = model if isinstance(model, Predicting) else None
        circuit = model if predicting is None else predicting.model
        return _Training(Maximization(circuit, plan, apart=self.apart), self.pseudocount, predicting, plan.ranks)


@final
class _Training(Training):
    """Counts rows until the epoch ends, each process its own."""

    def __init__(
        self, maximization: Maximization, pseudocount: float, predicting: Predicting | None, ranks: Ranks
    ) -> None:
        self._maximization, self._pseudocount, self._predicting = maximization, pseudocount, predicting
        self._ranks = ranks

    def step(self, batch: Tensor, num_rows: int | None = None) -> Tensor:
        maximization = self._maximization
        if self._predicting is None:
            statistics = maximization.expectation.of(batch)
        else:
            statistics = conditional_statistics(maximization.expectation, self._predicting, batch)
        statistics = statistics.among(num_rows)
        maximization.step_rest(statistics)
        before = maximization.statistics
        maximization.statistics = statistics if before is None else before + statistics
        return statistics.log_likelihood / statistics.num_rows

    def end_epoch(self) -> None:
        expectation, statistics = self._maximization.expectation, self._maximization.statistics
        if statistics is not None:
            statistics = statistics.summed(self._ranks)
            if self._predicting is not None:
                statistics = within_reach(expectation, statistics)
            expectation.maximize(statistics, self._pseudocount)
        self._maximization.statistics = None

    def state_dict(self) -> dict[str, Any]:
        state = self._maximization.state_dict()
        counted = state["statistics"]
        return {**state, "statistics": [] if counted is None else self._ranks.gather(counted)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        maximization = self._maximization
        maximization.load_state_dict({**state, "statistics": None})
        device = maximization.expectation.model.leaves.device
        parts = [Statistics.of_state(part, device) for part in state["statistics"]]
        if len(parts) == self._ranks.size:  # the same sums in the same order, to the bit
            maximization.statistics = parts[self._ranks.rank]
        elif parts:
            total = reduce(lambda sum_of_some, part: sum_of_some + part, parts)
            maximization.statistics = total if self._ranks.is_first else total.scaled(0.0)
